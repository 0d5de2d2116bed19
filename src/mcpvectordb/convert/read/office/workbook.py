"""The parts of an Excel workbook: sheets, shared strings, number formats, comments, drawings.

Sheets are read row by row and never as a whole tree, so what a sheet claims to hold costs nothing, only what
it does hold. Values are those the program last computed; a formula without one is shown itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .flow import Flow
from .grid import Grid, cell_text
from .names import SHEET, R
from .package import Package
from .prose import link, one_line
from .slide_places import Sheet as NoLayout
from .slide_shapes import Shapes
from .tree import Damaged, Element, local, rows
from .values import BUILT_IN, GENERAL, Form, form_of, shown

_MOST_COLUMNS = 16_384
_MOST_ROWS = 1_048_576
_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7})")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_HYPERLINK = re.compile(r'\s*HYPERLINK\(\s*"([^"]+)"\s*[,)]', re.I)
_WHOLE = re.compile(r"-?\d+")
# What Excel writes where an older version would look for a comment.
_THREAD_NOTE = "[Threaded comment]"
# Codes in the headers of printed pages: sections, page numbers, fonts, sizes, colours.
_PRINT_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-F]{6}|\d+|[LCR]|[A-Z])|&(&)', re.I)
_PAGE_CODES = re.compile(r"&[PN]")


@dataclass(frozen=True, kw_only=True, slots=True)
class SheetPart:
    name: str
    part: str
    is_hidden: bool


class Workbook:
    def __init__(self, package: Package, main: str, root: Element) -> None:
        self._package = package
        self._main = main
        properties = root.find(f"{SHEET}workbookPr")
        self._is_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        self.sheets = list(self._each_sheet(root))
        self._strings = self._read_strings()
        self._forms = self._read_forms()
        self._people = self._read_people()
        self._printed: set[str] = set()

    def write(self, sheet: SheetPart, flow: Flow) -> None:
        """All there is on a sheet: cells, comments, drawings, and the margins of its printed pages."""
        data = self._package.read(sheet.part)
        if data is None:
            self._package.damaged.append(sheet.part)
            return
        grid = Grid()
        margins: list[str] = []
        try:
            self._read_sheet(sheet.part, data, grid, margins)
        except Damaged:
            self._package.damaged.append(sheet.part)
        self._read_comments(sheet.part, grid)
        grid.write(flow)
        flow.gap()
        for part in self._package.related(sheet.part, "drawing"):
            self._write_drawing(part, flow)
        for margin in margins:
            if margin and margin not in self._printed:
                self._printed.add(margin)
                flow.paragraph(margin)

    def _each_sheet(self, root: Element) -> Iterator[SheetPart]:
        relations = self._package.relations(self._main)
        for number, sheet in enumerate(root.iter(f"{SHEET}sheet"), 1):
            relation = relations.get(sheet.get(f"{R}id") or "")
            yield SheetPart(
                name=one_line(sheet.get("name") or "") or f"Sheet{number}",
                part=relation.target if relation else f"xl/worksheets/sheet{number}.xml",
                is_hidden=sheet.get("state") in ("hidden", "veryHidden"),
            )

    def _read_strings(self) -> list[str]:
        strings: list[str] = []
        for part in self._package.related(self._main, "sharedStrings")[:1]:
            try:
                strings += [_string(item) for item in rows(self._package.read(part) or b"", f"{SHEET}si")]
            except Damaged:
                self._package.damaged.append(part)
        return strings

    def _read_forms(self) -> list[Form]:
        names = self._package.related(self._main, "styles")
        root = self._package.tree(names[0]) if names else None
        if root is None:
            return []
        codes = {
            one.get("numFmtId") or "": one.get("formatCode") or ""
            for one in root.findall(f"{SHEET}numFmts/{SHEET}numFmt")
        }
        forms: list[Form] = []
        for style in root.findall(f"{SHEET}cellXfs/{SHEET}xf"):
            number = style.get("numFmtId") or "0"
            built_in = BUILT_IN.get(int(number), "") if number.isdecimal() else ""
            code = codes.get(number, built_in)
            forms.append(form_of(code) if code else GENERAL)
        return forms

    def _read_people(self) -> dict[str, str]:
        people: dict[str, str] = {}
        for part in self._package.related(self._main, "person"):
            root = self._package.tree(part)
            for person in root if root is not None else ():
                people[person.get("id") or ""] = one_line(person.get("displayName") or "")
        return people

    def _read_sheet(self, part: str, data: bytes, grid: Grid, margins: list[str]) -> None:
        names = ("row", "mergeCell", "hyperlink", "oddHeader", "oddFooter")
        last = -1
        for element in rows(data, *(f"{SHEET}{name}" for name in names)):
            name = local(element)
            if name == "row":
                last = self._read_row(element, last, grid)
            elif name == "mergeCell":
                corners = list(_corners(element.get("ref")))
                if len(corners) == 2:
                    grid.merge(*corners[0], *corners[1])
            elif name == "hyperlink":
                relation = self._package.relations(part).get(element.get(f"{R}id") or "")
                corner = next(iter(_corners(element.get("ref"))), None)
                if relation and relation.is_external and corner:
                    grid.link(*corner, relation.target)
            else:
                margins.append(_margin(name.removeprefix("odd"), element.text or ""))

    def _read_row(self, element: Element, last: int, grid: Grid) -> int:
        number = element.get("r") or ""
        row = int(number) - 1 if number.isdecimal() and len(number) < 8 else last + 1
        columns: list[int] = []
        texts: list[str] = []
        column = -1
        for cell in element:
            reference = cell.get("r")
            column = _column(reference) if reference else column + 1
            text = cell_text(self._value(cell))
            if text and 0 <= column < _MOST_COLUMNS:
                columns.append(column)
                texts.append(text)
        if 0 <= row < _MOST_ROWS:
            grid.add(row, columns, texts)
        return row

    def _value(self, cell: Element) -> str:
        kind, value, formula = cell.get("t"), "", ""
        for child in cell:
            name = local(child)
            if name == "v":
                value = child.text or ""
            elif name == "f":
                formula = child.text or ""
            elif name == "is":
                return _string(child)
        if not value:
            return f"={formula}" if formula and kind != "str" else ""
        if kind == "s":
            return self._strings[int(value)] if value.isdecimal() and int(value) < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind in ("str", "e", "d"):
            text = _unescaped(value)
            target = _HYPERLINK.match(formula) if formula else None
            return link(text, target[1]) if target else text
        return self._number(value, cell.get("s"))

    def _number(self, value: str, style: str | None) -> str:
        index = int(style) if style and style.isdecimal() else 0
        form = self._forms[index] if index < len(self._forms) else GENERAL
        if form == GENERAL and _WHOLE.fullmatch(value):
            return value
        try:
            number = float(value)
        except ValueError:
            return value
        return shown(number, form, is_1904=self._is_1904) if math.isfinite(number) else value

    def _read_comments(self, part: str, grid: Grid) -> None:
        threaded: set[str] = set()
        for name in self._package.related(part, "threadedComment"):
            root = self._package.tree(name)
            for comment in root if root is not None else ():
                text = next((child.text or "" for child in comment if local(child) == "text"), "")
                threaded.add(comment.get("ref") or "")
                _comment(grid, comment.get("ref"), self._people.get(comment.get("personId") or "", ""), text)
        for name in self._package.related(part, "comments"):
            root = self._package.tree(name)
            if root is None:
                continue
            authors = [one.text or "" for one in root.iter(f"{SHEET}author")]
            for comment in root.iter(f"{SHEET}comment"):
                number = comment.get("authorId") or ""
                author = authors[int(number)] if number.isdecimal() and int(number) < len(authors) else ""
                body = comment.find(f"{SHEET}text")
                text = _string(body) if body is not None else ""
                if comment.get("ref") not in threaded or not text.startswith(_THREAD_NOTE):
                    _comment(grid, comment.get("ref"), author, text)

    def _write_drawing(self, part: str, flow: Flow) -> None:
        root = self._package.tree(part)
        if root is None:
            return
        shapes = Shapes(self._package, part, (NoLayout(), NoLayout()), rtl=False, seen=set())
        for anchor in sorted(root, key=_anchored_at):
            if local(anchor) == "AlternateContent":
                anchor = next((one for choice in anchor for one in choice), anchor)
            shapes.write(anchor, flow)


def _anchored_at(anchor: Element) -> tuple[int, int]:
    """The row and column of a drawing's upper left corner."""
    place = {"row": 0, "col": 0}
    for corner in anchor:
        if local(corner) == "from":
            place |= {local(one): int(text) for one in corner if (text := one.text or "").isdecimal()}
    return place["row"], place["col"]


def _string(item: Element) -> str:
    """A string, plain or in runs; the reading aids of East Asian text are left out."""
    parts = [child.text or "" for child in item if local(child) == "t"]
    parts += [t.text or "" for child in item if local(child) == "r" for t in child if local(t) == "t"]
    return _unescaped("".join(parts))


def _unescaped(text: str) -> str:
    if "_x" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _comment(grid: Grid, reference: str | None, author: str, text: str) -> None:
    corner = next(iter(_corners(reference)), None)
    author, text = one_line(author), one_line(text)
    # Excel begins a note with its author's name, in a line of its own.
    text = text.removeprefix(f"{author}:").strip() if author else text
    grid.comment(*(corner or (0, 0)), author.removeprefix("tc={").strip(), text)


def _corners(reference: str | None) -> Iterator[tuple[int, int]]:
    """The row and column of a cell, or of the two corners of a range."""
    for corner in (reference or "").split(":")[:2]:
        found = _REFERENCE.fullmatch(corner)
        if found:
            yield int(found[2]) - 1, _column(found[1])


def _column(reference: str) -> int:
    number = 0
    for character in reference:
        if "A" <= character <= "Z":
            number = number * 26 + ord(character) - 64
        elif "a" <= character <= "z":
            number = number * 26 + ord(character) - 96
        else:
            break
    return number - 1


def _margin(name: str, text: str) -> str:
    """A header or footer of the printed pages, if it says more than a page number."""
    shown_text = one_line(_PRINT_CODES.sub(r" \1", text))
    if _PAGE_CODES.search(text) and len(shown_text.split()) <= 2:
        return ""
    return f"{name}: {shown_text}" if shown_text else ""
