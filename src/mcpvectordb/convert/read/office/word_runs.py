"""What stands in a line of a Word document: runs, links, fields, notes, formulas, pictures.

Gives spans of text for the line itself, and hands back what stands beside it (text boxes, charts) for the
blocks that follow. Deleted text of tracked changes is left out, inserted text is kept, hidden text too: what
is in the file can be found. A field shows its result, as on paper, but for page numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .formula import latex
from .names import CHART, CHART_2014, DIAGRAM, DRAW, MATH, WORD, WORD_2010, R
from .package import Package
from .prose import PLAIN, Format, Span, image
from .symbols import symbol
from .tree import Element, local
from .word_styles import RunStyle, Styles, is_on, monospaced, value

# Containers that a reader does not see; what is in them counts.
_CONTAINERS = frozenset(
    {"ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "fldSimple", "rubyBase"}
    | {"annotation", "content"}  # changes, as Word wrote them in 2003
)
_GONE = frozenset({"del", "moveFrom", "delText", "delInstrText", "rt", "rubyPr", "rPr", "pPr", "sdtPr"})
_PAGE_FIELDS = frozenset({"PAGE", "NUMPAGES", "SECTIONPAGES", "SECTION"})
_HYPERLINK = re.compile(r"""\s*HYPERLINK\s+(?:(?:\\[a-z]\s+)*)(?:"([^"]*)"|([^\s"\\]\S*))""", re.I)
_MACRO_BUTTON = re.compile(r"\s*MACROBUTTON\s+\S+\s*(.*)", re.I | re.S)
_ANCHOR_CHARS = 120
# An instruction longer than this many paragraphs has lost its end.
_LONGEST_INSTRUCTION = 20


@dataclass(slots=True)
class _Field:
    instruction: str = ""
    is_result: bool = False
    is_page: bool = False
    link: str = ""
    shown: str = ""  # of a form field, whose state stands in its properties
    paragraphs: int = 0


@dataclass(slots=True)
class Line:
    spans: list[Span] = field(default_factory=list[Span])
    boxes: list[Element] = field(default_factory=list[Element])  # the contents of text boxes
    drawings: list[str] = field(default_factory=list[str])  # the parts of charts and diagrams
    has_page_number: bool = False
    is_monospaced: bool = False


class Notes:
    """Footnotes, endnotes and comments in the order the text refers to them, over all parts."""

    def __init__(self) -> None:
        self.order: dict[tuple[str, str], int] = {}
        self.anchors: dict[str, str] = {}
        self._open: set[str] = set()

    def mark(self, kind: str, note_id: str) -> str:
        return f"[^{self.order.setdefault((kind, note_id), len(self.order) + 1)}]"

    def begin(self, comment_id: str) -> None:
        self.anchors.setdefault(comment_id, "")
        self._open.add(comment_id)

    def end(self, comment_id: str) -> None:
        self._open.discard(comment_id)

    def read(self, text: str) -> None:
        """Text of the document, part of what the open comments are on."""
        for comment_id in self._open:
            known = self.anchors[comment_id]
            if len(known) < _ANCHOR_CHARS:
                self.anchors[comment_id] = known + text


class Runs:
    """The lines of one part; fields may go on from line to line."""

    def __init__(self, package: Package, part: str, styles: Styles, notes: Notes) -> None:
        self._package = package
        self._part = part
        self._styles = styles
        self._notes = notes
        self._fields: list[_Field] = []
        self._line = Line()

    def line(self, paragraph: Element, *, is_monospaced: bool) -> Line:
        """The line a paragraph holds; is_monospaced is what its style says."""
        self._line = Line()
        self._mono = _Mono(default=is_monospaced)
        for one in self._fields:
            one.paragraphs += 1
        self._fields = [f for f in self._fields if f.is_result or f.paragraphs < _LONGEST_INSTRUCTION]
        self._all(paragraph, PLAIN)
        self._line.is_monospaced = self._mono.is_all
        return self._line

    def _all(self, elements: Iterable[Element], form: Format) -> None:
        for element in elements:
            self._one(element, form)

    def _one(self, element: Element, form: Format) -> None:
        name = local(element)
        if name in _GONE:
            return
        if name == "r" and not element.tag.startswith(MATH):
            self._run(element, form)
        elif name == "hyperlink":
            self._hyperlink(element, form)
        elif name == "sdt":
            self._control(element, form)
        elif name == "oMath":
            self._add(f"${formula}$" if (formula := latex(element)) else "", form)
        elif name == "oMathPara":
            formulas = [latex(each) for each in element.iter(f"{MATH}oMath")]
            self._add(" ".join(f"$${formula}$$" for formula in formulas if formula), form)
        elif name == "AlternateContent":
            self._alternative(element, form)
        elif name == "commentRangeStart":
            self._notes.begin(element.get(f"{WORD}id") or "")
        elif name == "commentRangeEnd":
            self._notes.end(element.get(f"{WORD}id") or "")
        elif name in _CONTAINERS:
            self._container(element, name, form)

    def _container(self, element: Element, name: str, form: Format) -> None:
        instruction = element.get(f"{WORD}instr") or "" if name == "fldSimple" else ""
        if not instruction:
            self._all(element, form)
            return
        self._fields.append(_Field(instruction=instruction))
        self._separate()
        self._all(element, form)
        self._fields.pop()

    def _hyperlink(self, element: Element, form: Format) -> None:
        relation = self._package.relations(self._part).get(element.get(f"{R}id") or "")
        target = relation.target if relation and relation.is_external else ""
        self._all(element, _linked(form, target))

    def _control(self, element: Element, form: Format) -> None:
        box = element.find(f"{WORD}sdtPr/{WORD_2010}checkbox")
        if box is not None:
            checked = box.find(f"{WORD_2010}checked")
            is_checked = checked is not None and checked.get(f"{WORD_2010}val") in ("1", "true", "on")
            self._add("[x]" if is_checked else "[ ]", form)
            return
        content = element.find(f"{WORD}sdtContent")
        if content is not None:
            self._all(content, form)

    def _alternative(self, element: Element, form: Format) -> None:
        """The first alternative that says anything: the newer ones stand first."""
        for choice in element:
            before = len(self._line.spans), len(self._line.boxes), len(self._line.drawings)
            self._content(choice, form)
            if before != (len(self._line.spans), len(self._line.boxes), len(self._line.drawings)):
                return

    def _run(self, run: Element, form: Format) -> None:
        properties = run.find(f"{WORD}rPr")
        self._content(run, self._format(properties, form) if properties is not None else form, properties)

    def _content(self, holder: Element, form: Format, properties: Element | None = None) -> None:
        for element in holder:
            name = local(element)
            if name == "t":
                self._mono.see(element.text or "", self._font(properties))
                self._add(element.text or "", form)
            elif name in ("tab", "ptab"):
                self._add("\t", form)
            elif name in ("br", "cr"):
                if element.get(f"{WORD}type") not in ("page", "column"):
                    self._add("\n", form)
            elif name == "noBreakHyphen":
                self._add("-", form)
            elif name == "sym":
                self._add(symbol(element.get(f"{WORD}font") or "", element.get(f"{WORD}char") or ""), form)
            elif name == "fldChar":
                self._field_mark(element, form)
            elif name == "instrText":
                if self._fields and not self._fields[-1].is_result:
                    self._fields[-1].instruction += element.text or ""
            elif name in ("footnoteReference", "endnoteReference"):
                kind = name.removesuffix("Reference")
                self._add(self._notes.mark(kind, element.get(f"{WORD}id") or ""), PLAIN)
            elif name == "commentReference":
                self._notes.anchors.setdefault(element.get(f"{WORD}id") or "", "")
            elif name in ("footnote", "endnote"):
                # In files of 2003 the note itself stands in the line.
                self._line.boxes.append(element)
            elif name in ("drawing", "pict", "object"):
                self._drawing(element, form)
            elif name == "AlternateContent":
                self._alternative(element, form)
            elif name == "ruby":
                self._all(element, form)
            else:
                self._one(element, form)

    def _format(self, properties: Element, form: Format) -> Format:
        style_id = value(properties, f"{WORD}rStyle")
        style = self._styles.run(style_id) if style_id else RunStyle()

        def on(default: bool, *names: str) -> bool:
            found = is_on(properties, *names)
            return default if found is None else found

        font = monospaced(properties)
        is_code = style.is_code or bool(style.is_monospaced if font is None else font)
        return Format(
            is_bold=on(style.is_bold, "b"),
            is_italic=on(style.is_italic, "i"),
            is_struck=on(style.is_struck, "strike", "dstrike"),
            is_code=is_code and not self._styles.is_monospaced and not form.link,
            link=form.link,
        )

    def _font(self, properties: Element | None) -> bool | None:
        font = monospaced(properties)
        style_id = value(properties, f"{WORD}rStyle") if font is None else None
        return self._styles.run(style_id).is_monospaced if style_id else font

    def _field_mark(self, element: Element, form: Format) -> None:
        kind = element.get(f"{WORD}fldCharType")
        if kind == "begin":
            self._fields.append(_Field(shown=_form_field(element)))
        elif kind == "separate" and self._fields:
            self._separate()
        elif kind == "end" and self._fields:
            ended = self._fields.pop()
            if not ended.is_result and (button := _MACRO_BUTTON.match(ended.instruction)):
                ended.shown = button[1]
            self._add(ended.shown, form)

    def _separate(self) -> None:
        """The instruction is complete, and its result follows."""
        now = self._fields[-1]
        now.is_result = True
        words = now.instruction.split()
        now.is_page = bool(words) and words[0].upper() in _PAGE_FIELDS
        self._line.has_page_number |= now.is_page
        if found := _HYPERLINK.match(now.instruction):
            # Without an address it leads to a place in this document.
            is_anchor = re.match(r"\s*HYPERLINK\s+\\l\s", now.instruction, re.I)
            now.link = "" if is_anchor else (found[1] or found[2] or "")

    def _add(self, text: str, form: Format) -> None:
        if not text or any(not f.is_result or f.is_page or f.shown for f in self._fields):
            return
        target = next((f.link for f in reversed(self._fields) if f.link), "")
        self._line.spans.append(Span(text, _linked(form, target) if target else form))
        self._notes.read(text)

    def _drawing(self, element: Element, form: Format) -> None:
        """A picture's description; the text boxes, charts and diagrams beside it are kept for later."""
        described: dict[str, None] = {}
        pending = [element]
        while pending:
            one = pending.pop()
            name = local(one)
            if name == "AlternateContent":
                pending += list(one)[:1] or []
                continue
            if name == "txbxContent":
                self._line.boxes.append(one)
                continue
            if name in ("docPr", "cNvPr"):
                described[one.get("descr") or one.get("title") or ""] = None
            elif name == "shape":
                described[one.get("alt") or ""] = None
            elif name == "textpath":
                self._add(one.get("string") or "", form)
            elif name == "txBody":
                texts = ["".join(t.text or "" for t in p.iter(f"{DRAW}t")) for p in one.iter(f"{DRAW}p")]
                self._add("\n".join(text for text in texts if text), form)
                continue
            elif one.tag in (f"{CHART}chart", f"{CHART_2014}chart"):
                self._line.drawings.append(self._package.target(self._part, one.get(f"{R}id")))
            elif one.tag == f"{DIAGRAM}relIds":
                self._line.drawings.append(self._package.target(self._part, one.get(f"{R}dm")))
            pending += reversed(list(one))
        for alt in described:
            self._add(image(alt), PLAIN)


class _Mono:
    """Whether every letter of a line is set in a typewriter font."""

    def __init__(self, *, default: bool) -> None:
        self._default = default
        self._fonts: set[bool] = set()

    def see(self, text: str, font: bool | None) -> None:
        if text.strip():
            self._fonts.add(self._default if font is None else font)

    @property
    def is_all(self) -> bool:
        return self._fonts == {True}


def _linked(form: Format, target: str) -> Format:
    if not target:
        return form
    return Format(is_bold=form.is_bold, is_italic=form.is_italic, is_struck=form.is_struck, link=target)


def _form_field(mark: Element) -> str:
    """The state of a check box or a choice, which stands in the field's properties."""
    data = mark.find(f"{WORD}ffData")
    if data is None:
        return ""
    box = data.find(f"{WORD}checkBox")
    if box is not None:
        checked = is_on(box, "checked")
        return "[x]" if (is_on(box, "default") if checked is None else checked) else "[ ]"
    choices = [entry.get(f"{WORD}val") or "" for entry in data.findall(f"{WORD}ddList/{WORD}listEntry")]
    chosen = value(data, f"{WORD}ddList/{WORD}result") or "0"
    return choices[int(chosen)] if chosen.isdecimal() and int(chosen) < len(choices) else ""
