"""The text of OpenDocument files: lines with their notes and links, and the blocks they stand in.

Deleted text of tracked changes stands apart in such a file and is passed over. Objects within the document
(formulas, charts) are parts of the same package; nothing outside it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from .cells import Cell, write_table
from .flow import Flow
from .names import DC, DRAWING, SVG, TABLE, TEXT, XLINK
from .odf_styles import ListLevel, Styles, label
from .prose import PLAIN, Format, Span, clean_code, code_span, image, inline, one_line, plain
from .tree import Element, local

_PAGE_FIELDS = frozenset({"page-number", "page-count", "page-continuation", "sheet-name"})
# Elements whose letters are no text of the document.
_NO_TEXT = frozenset(
    {"tracked-changes", "sequence-decls", "variable-decls", "user-field-decls", "forms", "event-listeners"}
    | {"script", "scripts", "ruby-text", "desc", "title", "table-columns", "table-column", "note-citation"}
    | {"page-thumbnail", "glue-point", "binary-data", "image-map", "contour-polygon", "contour-path"}
)
_ROW_HOLDERS = frozenset({"table-header-rows", "table-rows", "table-row-group"})
_SHAPES = frozenset({"frame", "custom-shape", "rect", "ellipse", "line", "polyline", "polygon", "path", "g"})
_ORDERED = re.compile(r"\d{1,9}[.)]")
_MOST_BLANKS = 100
_MOST_REPEATS = 1_000


class Writer:
    """Writes blocks into a flow. Notes and comments are gathered for the end of the document."""

    def __init__(self, styles: Styles, embedded: Callable[[str], Element | None]) -> None:
        self._styles = styles
        self._embedded = embedded  # the root of an object in the package, by its reference
        self.notes: list[str] = []
        self.comments: list[str] = []
        self.has_page_number = False
        self._outline: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}

    def write(self, holder: Element, flow: Flow) -> None:
        for block in holder:
            self._block(block, flow)

    def _block(self, block: Element, flow: Flow) -> None:
        name = local(block)
        if name in _NO_TEXT:
            return
        if name == "p":
            self._paragraph(block, flow)
        elif name == "h":
            self._heading(block, flow)
        elif name == "list":
            self._list(block, flow, 1, "", {})
        elif name == "numbered-paragraph":
            self._list_item(block, flow, _number(block.get(f"{TEXT}level"), 1), "", {})
        elif name == "table":
            write_table(list(self._rows(block)), flow)
        elif name in _SHAPES:
            self.shape(block, flow)
        elif name == "annotation":
            self._comment(block)
        else:
            self.write(block, flow)

    def _paragraph(self, block: Element, flow: Flow) -> None:
        style = self._styles.paragraph(block.get(f"{TEXT}style-name") or "")
        spans, shapes = self._line(block)
        if style.heading:
            flow.heading(style.heading, _unformatted(spans))
        elif style.is_code:
            flow.code(clean_code("".join(span.text for span in spans)).rstrip())
        elif style.is_quote:
            flow.quote(inline(spans))
        else:
            flow.paragraph(inline(spans))
        for shape in shapes:
            self.shape(shape, flow)

    def _heading(self, block: Element, flow: Flow) -> None:
        level = _number(block.get(f"{TEXT}outline-level"), 1)
        spans, shapes = self._line(block)
        text = _unformatted(spans)
        if text and block.get(f"{TEXT}is-list-header") != "true":
            start = self._styles.outline.get(level, ListLevel(is_bullet=False)).start
            _count(self._outline, level, start)
            number = label(self._styles.outline, self._outline, level)
            text = f"{number} {text}" if number else text
        flow.heading(level, text)
        for shape in shapes:
            self.shape(shape, flow)

    def _list(self, block: Element, flow: Flow, level: int, style: str, counts: dict[int, int]) -> None:
        own = block.get(f"{TEXT}style-name") or style
        if level == 1:
            goes_on = block.get(f"{TEXT}continue-numbering") == "true" or block.get(f"{TEXT}continue-list")
            counts = self._counts.get(own, {}) if goes_on else {}
            self._counts[own] = counts
        elif own != style:
            counts = {}
        for item in block:
            if local(item) == "list-item":
                self._list_item(item, flow, level, own, counts)
            elif local(item) == "list-header":
                self.write(item, flow)

    def _list_item(self, item: Element, flow: Flow, level: int, style: str, counts: dict[int, int]) -> None:
        lines: list[str] = []
        shapes: list[Element] = []
        marker, shown = "-", ""
        for child in item:
            name = local(child)
            if name == "p":
                own = self._styles.paragraph(child.get(f"{TEXT}style-name") or "")
                spans, more = self._line(child)
                shapes += more
                text = inline(spans)
                if not own.is_numbered:
                    flow.paragraph(text)
                    continue
                if text and not lines:
                    levels = self._styles.list_levels(style or own.list_style)
                    start = levels.get(level, ListLevel(is_bullet=True)).start
                    _count(counts, level, _number(item.get(f"{TEXT}start-value"), start))
                    shown = label(levels, counts, level)
                    marker = shown if _ORDERED.fullmatch(shown) else "-"
                    text = f"{shown} {text}" if shown and marker == "-" else text
                lines += [text] if text else []
                continue
            flow.item(level - 1, marker, "\n".join(lines))
            lines = []
            if name == "list":
                self._list(child, flow, level + 1, style, counts)
            else:
                self._block(child, flow)
        flow.item(level - 1, marker, "\n".join(lines))
        for shape in shapes:
            self.shape(shape, flow)

    def _rows(self, table: Element) -> Iterator[list[Cell]]:
        hanging: dict[int, int] = {}  # for how many rows more a cell above goes on, by column
        for row in each_row(table):
            column = 0
            cells: list[Cell] = []
            for element in row:
                if local(element) not in ("table-cell", "covered-table-cell"):
                    continue
                flow = Flow()
                self.write(element, flow)
                is_continued = local(element) == "covered-table-cell" and hanging.get(column, 0) > 0
                hanging[column] = hanging.get(column, 0) - 1
                if local(element) == "table-cell":
                    hanging[column] = _number(element.get(f"{TABLE}number-rows-spanned"), 1) - 1
                repeats = _number(element.get(f"{TABLE}number-columns-repeated"), 1)
                for _ in range(min(repeats, _MOST_REPEATS) if flow else 1):
                    cells.append(Cell(column=column, flow=flow, is_continued=is_continued and not flow))
                    column += 1
                column += repeats - 1 if not flow else 0
            yield [cell for cell in cells if cell.flow or cell.is_continued] or cells[:1]

    def shape(self, shape: Element, flow: Flow) -> None:
        """A frame, a drawn shape or a group of them: its text, its object, or its description."""
        inner = Flow()
        for child in shape:
            name = local(child)
            if name == "object":
                self._object(child, inner)
            elif name not in ("image", "object-ole", "plugin"):
                self._block(child, inner)
        if not inner:
            described = [shape.findtext(f"{SVG}title") or "", shape.findtext(f"{SVG}desc") or ""]
            inner.paragraph(image(" ".join(described)))
        flow.extend(inner)

    def _object(self, element: Element, flow: Flow) -> None:
        root = self._embedded(element.get(f"{XLINK}href") or "")
        for one in [root, element]:
            for annotation in (
                one.iter("{http://www.w3.org/1998/Math/MathML}annotation") if one is not None else ()
            ):
                flow.paragraph(code_span(one_line(annotation.text or "")))
        for title in (
            root.iter("{urn:oasis:names:tc:opendocument:xmlns:chart:1.0}title") if root is not None else ()
        ):
            flow.paragraph(f"**{text}**" if (text := one_line(_letters(title))) else "")
        for table in root.iter(f"{TABLE}table") if root is not None else ():
            write_table(list(self._rows(table)), flow)

    def line(self, block: Element) -> str:
        """A paragraph's text and links on their own, without emphasis."""
        spans, _ = self._line(block)
        return inline([Span(span.text, Format(link=span.format.link)) for span in spans])

    def _line(self, block: Element) -> tuple[list[Span], list[Element]]:
        spans: list[Span] = []
        shapes: list[Element] = []
        self._inline(block, PLAIN, spans, shapes)
        return spans, shapes

    def _inline(self, holder: Element, form: Format, spans: list[Span], shapes: list[Element]) -> None:
        spans.append(Span(_collapsed(holder.text), form))
        for element in holder:
            name = local(element)
            if name == "span":
                own = self._styles.format(element.get(f"{TEXT}style-name") or "")
                self._inline(element, _both(form, own), spans, shapes)
            elif name == "a":
                target = element.get(f"{XLINK}href") or ""
                self._inline(element, replace(form, link=target if target[:1] != "#" else ""), spans, shapes)
            elif name == "s":
                spans.append(Span(" " * min(_number(element.get(f"{TEXT}c"), 1), _MOST_BLANKS), form))
            elif name == "tab":
                spans.append(Span("\t", form))
            elif name == "line-break":
                spans.append(Span("\n", form))
            elif name == "note":
                spans.append(Span(self._note(element)))
            elif name == "annotation":
                self._comment(element)
            elif name in _PAGE_FIELDS:
                self.has_page_number = True
            elif name in _SHAPES:
                shapes.append(element)
            elif name not in _NO_TEXT:
                self._inline(element, form, spans, shapes)
            spans.append(Span(_collapsed(element.tail), form))

    def _note(self, element: Element) -> str:
        self.notes.append("")
        number = len(self.notes)
        flow = Flow()
        body = element.find(f"{TEXT}note-body")
        if body is not None:
            self.write(body, flow)
        self.notes[number - 1] = flow.in_cell()
        return f"[^{number}]"

    def _comment(self, element: Element) -> None:
        author, text = self.comment(element)
        if text:
            self.comments.append(f"{author}: {text}" if author else text)

    def comment(self, element: Element) -> tuple[str, str]:
        flow = Flow()
        self.write_only_text(element, flow)
        return one_line(element.findtext(f"{DC}creator") or ""), flow.in_cell()

    def write_only_text(self, element: Element, flow: Flow) -> None:
        for child in element:
            if child.tag.startswith(TEXT):
                self._block(child, flow)


def each_row(table: Element) -> Iterator[Element]:
    for child in table:
        if local(child) == "table-row":
            yield child
        elif local(child) in _ROW_HOLDERS:
            yield from each_row(child)


def is_shape(element: Element) -> bool:
    return element.tag.startswith(DRAWING) and local(element) in _SHAPES


def _collapsed(text: str | None) -> str:
    """Line ends and runs of blanks in the XML are one blank each; those meant have elements of their own."""
    return re.sub(r"[ \t\r\n]+", " ", text) if text else ""


def _both(outer: Format, inner: Format) -> Format:
    return Format(
        is_bold=outer.is_bold or inner.is_bold,
        is_italic=outer.is_italic or inner.is_italic,
        is_struck=outer.is_struck or inner.is_struck,
        is_code=(outer.is_code or inner.is_code) and not outer.link,
        link=outer.link,
    )


def _unformatted(spans: list[Span]) -> str:
    return inline([Span(span.text, Format(link=span.format.link)) for span in spans])


def _letters(element: Element) -> str:
    return plain(Span(part.text or "") for part in element.iter())


def _count(counts: dict[int, int], level: int, start: int) -> None:
    counts[level] = counts[level] + 1 if level in counts else start
    for deeper in [each for each in counts if each > level]:
        del counts[deeper]


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 9 else default
