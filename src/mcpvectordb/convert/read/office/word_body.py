"""The blocks of a Word document: headings, paragraphs, lists, code, tables; text boxes after their line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from .cells import Cell, write_table
from .charts import is_chart, write_chart, write_diagram
from .flow import Flow
from .names import WORD, R
from .package import Package
from .prose import Format, Span, clean_code, inline
from .tree import Element, local
from .word_numbers import Label, Numbers
from .word_runs import Line, Runs
from .word_styles import ParagraphStyle, Styles, number, value

# Containers around blocks, rows and cells alike.
_CONTAINERS = frozenset(
    {"sdtContent", "customXml", "ins", "moveTo", "smartTag", "Choice"}
    | {"sect", "sub-section", "annotation", "content"}  # of 2003
)
_ORDERED = re.compile(r"\d{1,9}[.)]")
# Signs that prose set in a typewriter font does not have.
_LOOKS_LIKE_CODE = re.compile(r"[{}\[\];=<>\\|$_]|\w\(|--|::|^\s*[#/]|^ {2,}\S", re.M)
_LEAST_CODE = 0.3
_WIDEST_SPAN = 63


class Body:
    """Writes the blocks of one part into a flow; cells and text boxes get a flow of their own first."""

    def __init__(
        self,
        package: Package,
        runs: Runs,
        styles: Styles,
        numbers: Numbers,
        *,
        take_in: Callable[[str], str],
        has_headings: bool = True,
    ) -> None:
        self._package = package
        self._runs = runs
        self._styles = styles
        self._numbers = numbers
        self._take_in = take_in  # the Markdown of another file that the document takes in, by relation
        self._has_headings = has_headings
        self._carried: list[Span] = []
        self._typed: list[tuple[str, str]] = []  # lines in a typewriter font: as code, and as prose

    def write(self, holder: Element, flow: Flow) -> None:
        for block in _unwrapped(holder):
            name = local(block)
            if name == "p":
                self._paragraph(block, flow)
            elif name == "tbl":
                self._end_open(flow)
                self._table(block, flow)
            elif name == "altChunk":
                self._end_open(flow)
                flow.raw(self._take_in(block.get(f"{R}id") or ""))
        self._end_open(flow)

    def _end_open(self, flow: Flow) -> None:
        """What waited for the next paragraph and will not get it."""
        self._end_typed(flow)
        carried, self._carried = self._carried, []
        flow.paragraph(inline(carried))

    def _inner(self, holder: Element) -> Flow:
        """The blocks of a cell or a text box, apart from what is open around it."""
        carried, self._carried = self._carried, []
        flow = Flow()
        self.write(holder, flow)
        self._carried = carried
        return flow

    def _paragraph(self, block: Element, flow: Flow) -> None:
        properties = block.find(f"{WORD}pPr")
        style = self._styles.paragraph(value(properties, f"{WORD}pStyle") or "")
        line = self._runs.line(block, is_monospaced=style.is_monospaced)
        line.spans = [*self._carried, *line.spans]
        self._carried = []
        if _joins_next(properties):
            self._carried = line.spans
        elif not _is_page_number(line):
            self._write_line(line, style, properties, flow)
        if line.boxes or line.drawings:
            self._end_typed(flow)
        for box in line.boxes:
            flow.extend(self._inner(box))
        for part in line.drawings:
            self._write_drawing(part, flow)

    def _write_line(self, line: Line, style: ParagraphStyle, properties: Element | None, flow: Flow) -> None:
        is_blank = not any(span.text.strip() for span in line.spans)
        if is_blank:
            if self._typed:
                self._typed.append(("", ""))
            elif style.is_code:
                flow.code("")
            return
        heading = self._heading(style, properties)
        label, level = self._label(style, properties)
        if line.is_monospaced and not (heading or label or style.is_code or self._styles.is_monospaced):
            self._typed.append((_as_code(line.spans), inline(_without_code(line.spans))))
            return
        self._end_typed(flow)
        if heading:
            text = inline([Span(span.text, Format(link=span.format.link)) for span in line.spans])
            number_shown = f"{label.text} " if label and not label.is_bullet else ""
            flow.heading(heading, number_shown + text)
        elif style.is_code and not label:
            flow.code(_as_code(line.spans))
        elif label:
            flow.item(level, *_item(label, inline(line.spans)))
        elif line.spans[0].text in ("[x]", "[ ]"):
            flow.item(0, "-", inline(line.spans))
        elif style.is_quote:
            flow.quote(inline(line.spans))
        else:
            flow.paragraph(inline(line.spans))

    def _heading(self, style: ParagraphStyle, properties: Element | None) -> int:
        if not self._has_headings:
            return 0
        outline = number(value(properties, f"{WORD}outlineLvl"))
        if outline is None:
            return style.heading
        return outline + 1 if 0 <= outline <= 8 else 0

    def _label(self, style: ParagraphStyle, properties: Element | None) -> tuple[Label | None, int]:
        list_id = value(properties, f"{WORD}numPr/{WORD}numId")
        level = number(value(properties, f"{WORD}numPr/{WORD}ilvl"))
        list_id = style.list_id if list_id is None else list_id
        level = style.list_level if level is None else level
        return self._numbers.next(list_id, level), level

    def _end_typed(self, flow: Flow) -> None:
        """Lines in a typewriter font are code if enough of them look it."""
        typed, self._typed = self._typed, []
        lines = [code for code, _ in typed if code]
        looks = sum(_LOOKS_LIKE_CODE.search(code) is not None for code in lines)
        if lines and looks >= _LEAST_CODE * len(lines):
            for code, _ in typed:
                flow.code(code)
        else:
            for _, prose in typed:
                flow.paragraph(prose)

    def _write_drawing(self, part: str, flow: Flow) -> None:
        root = self._package.tree(part) if part else None
        if root is not None:
            (write_chart if is_chart(root) else write_diagram)(root, flow)

    def _table(self, table: Element, flow: Flow) -> None:
        write_table([self._row(one) for one in _unwrapped(table) if local(one) == "tr"], flow)

    def _row(self, row: Element) -> list[Cell]:
        properties = row.find(f"{WORD}trPr")
        if properties is not None and properties.find(f"{WORD}del") is not None:
            return []
        column = _span(value(properties, f"{WORD}gridBefore"), least=0)
        cells: list[Cell] = []
        for element in _unwrapped(row):
            if local(element) != "tc":
                continue
            settings = element.find(f"{WORD}tcPr")
            merged = settings.find(f"{WORD}vMerge") if settings is not None else None
            is_continued = merged is not None and merged.get(f"{WORD}val") in (None, "continue")
            inner = self._inner(element)
            cells.append(Cell(column=column, flow=inner, is_continued=is_continued and not inner))
            column += _span(value(settings, f"{WORD}gridSpan"), least=1)
        return cells


def _unwrapped(holder: Element) -> Iterator[Element]:
    """The blocks, rows or cells in a holder, out of their containers."""
    for element in holder:
        name = local(element)
        if name == "sdt":
            content = element.find(f"{WORD}sdtContent")
            if content is not None:
                yield from _unwrapped(content)
        elif name == "AlternateContent":
            yield from _unwrapped(element[0]) if len(element) else ()
        elif name in _CONTAINERS:
            yield from _unwrapped(element)
        else:
            yield element


def _joins_next(properties: Element | None) -> bool:
    """A big first letter, or a paragraph whose end was deleted, goes on in the next paragraph."""
    if properties is None:
        return False
    frame = properties.find(f"{WORD}framePr")
    if frame is not None and frame.get(f"{WORD}dropCap") in ("drop", "margin"):
        return True
    return properties.find(f"{WORD}rPr/{WORD}del") is not None


def _is_page_number(line: Line) -> bool:
    """ "Page of" and a dash or two are what is left of a page number without its digits."""
    return line.has_page_number and len("".join(span.text for span in line.spans).split()) <= 2


def _as_code(spans: list[Span]) -> str:
    return clean_code("".join(span.text for span in spans)).rstrip()


def _without_code(spans: list[Span]) -> list[Span]:
    return [Span(span.text, replace(span.format, is_code=False)) for span in spans]


def _item(label: Label, text: str) -> tuple[str, str]:
    if label.is_bullet:
        return "-", text
    return (label.text, text) if _ORDERED.fullmatch(label.text) else ("-", f"{label.text} {text}")


def _span(text: str | None, *, least: int) -> int:
    return min(_WIDEST_SPAN, max(least, number(text) or 0))
