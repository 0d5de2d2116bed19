"""The sheets of an OpenDocument spreadsheet, row by row.

A cell or row that says it repeats a million times is read once: only those that hold something are repeated,
and no more often than a reader could use. What is left out is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .flow import Flow
from .grid import Grid, cell_text, column_name
from .names import OFFICE, STYLE, TABLE, TEXT
from .odf_styles import Styles
from .odf_text import Writer, is_shape
from .prose import one_line
from .tree import Damaged, Element, local, rows
from .values import plain_number

# Of one row or cell, and of all cells together: what says the same again is not found any better.
_MOST_REPEATS = 100
_MOST_REPEATED = 100_000
_MOST_ROWS = 1 << 21
_MOST_COLUMNS = 16_384
_PLAIN_DIGITS = re.compile(r"[-+]?[\d.,'\s\u2009\u202f]*")
_CLOCK = re.compile(r"-?PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,]\d+)?S)?")


@dataclass(slots=True)
class OdfSheet:
    name: str
    is_hidden: bool
    grid: Grid = field(default_factory=Grid)
    shapes: Flow = field(default_factory=Flow)
    next_row: int = 0
    repeated: int = 0  # cells that say what another said
    cut: list[str] = field(default_factory=list[str])  # what is repeated more often than here

    def times(self, repeats: int, cells: int) -> int:
        """How often so many cells are written that stand there so often."""
        left = max(0, _MOST_REPEATED - self.repeated) // cells
        times = 1 + min(repeats - 1, _MOST_REPEATS - 1, left)
        self.repeated += (times - 1) * cells
        return times


def each_sheet(data: bytes, styles: Styles, writer: Writer) -> Iterator[OdfSheet]:
    """The sheets in order; one that breaks off is given as far as it goes, before Damaged is raised."""
    tags = (f"{OFFICE}automatic-styles", f"{TABLE}shapes", f"{TABLE}table-row")
    now: OdfSheet | None = None
    of: Element | None = None
    try:
        for element in rows(data, *tags):
            if local(element) == "automatic-styles":
                styles.read(element)
                continue
            table = _table(element)
            if table is None:
                continue
            if now is None or table is not of:
                if now is not None:
                    yield now
                now, of = _sheet(table, styles), table
            if local(element) == "shapes":
                _read_shapes(element, now, writer)
            else:
                _read_row(element, now, writer)
    except Damaged:
        if now is not None:
            yield now
        raise
    if now is not None:
        yield now


def _table(element: Element) -> Element | None:
    """The sheet an element belongs to; None inside a table in a cell."""
    parent = element.getparent()
    while parent is not None and local(parent) != "table":
        if local(parent) in ("table-cell", "covered-table-cell"):
            return None
        parent = parent.getparent()
    return parent


def _sheet(table: Element, styles: Styles) -> OdfSheet:
    style = table.get(f"{TABLE}style-name") or ""
    shown = styles.setting("table", style, f"{STYLE}table-properties", f"{TABLE}display")
    return OdfSheet(name=one_line(table.get(f"{TABLE}name") or ""), is_hidden=shown == "false")


def _read_shapes(element: Element, sheet: OdfSheet, writer: Writer) -> None:
    for shape in element:
        if is_shape(shape):
            writer.shape(shape, sheet.shapes)


def _read_row(element: Element, sheet: OdfSheet, writer: Writer) -> None:
    columns: list[int] = []
    texts: list[str] = []
    column = 0
    for cell in element:
        if local(cell) not in ("table-cell", "covered-table-cell"):
            continue
        repeats = _repeats(cell.get(f"{TABLE}number-columns-repeated"))
        text = cell_text(_value(cell, writer)) if len(cell) or cell.get(f"{TABLE}formula") else ""
        if text and column < _MOST_COLUMNS:
            most = min(repeats, _MOST_COLUMNS - column)
            times = sheet.times(most, 1)
            if times < most:
                sheet.cut.append(f"cell {column_name(column)}{sheet.next_row + 1} ({most:,} times)")
            columns += range(column, column + times)
            texts += [text] * times
        _read_beside(cell, sheet, column, writer)
        height = _repeats(cell.get(f"{TABLE}number-rows-spanned"))
        if height > 1:
            sheet.grid.merge(sheet.next_row, column, sheet.next_row + height - 1, column)
        column += repeats
    repeats = _repeats(element.get(f"{TABLE}number-rows-repeated"))
    if columns:
        times = sheet.times(repeats, len(columns))
        if times < repeats:
            sheet.cut.append(f"row {sheet.next_row + 1} ({repeats:,} times)")
        for row in range(sheet.next_row, sheet.next_row + times):
            sheet.grid.add(row, columns, texts)
    sheet.next_row = min(sheet.next_row + repeats, _MOST_ROWS)


def _read_beside(cell: Element, sheet: OdfSheet, column: int, writer: Writer) -> None:
    for child in cell:
        if local(child) == "annotation":
            sheet.grid.comment(sheet.next_row, column, *writer.comment(child))
        elif is_shape(child):
            writer.shape(child, sheet.shapes)


def _value(cell: Element, writer: Writer) -> str:
    shown = "\n".join(writer.line(child) for child in cell if child.tag == f"{TEXT}p")
    kind = cell.get(f"{OFFICE}value-type") or ""
    value = cell.get(f"{OFFICE}value") or ""
    if kind == "date":
        return (
            (cell.get(f"{OFFICE}date-value") or shown)
            .replace("T", " ")
            .removesuffix(":00")
            .replace(" 00:00", "")
        )
    if kind == "time":
        return _clock(cell.get(f"{OFFICE}time-value") or "") or shown
    if kind == "boolean":
        return (cell.get(f"{OFFICE}boolean-value") or shown).upper()
    if kind in ("float", "percentage", "currency"):
        return _number(kind, value, shown)
    if not shown and not kind and (formula := cell.get(f"{TABLE}formula")):
        return "=" + formula.partition("=")[2]
    return shown


def _number(kind: str, value: str, shown: str) -> str:
    """All the digits there are; as shown where the sheet adds a unit or a currency."""
    try:
        number = float(value)
    except ValueError:
        return shown
    if kind == "percentage":
        return f"{plain_number(float(f'{number * 100:.12g}'))}%"
    return plain_number(number) if _PLAIN_DIGITS.fullmatch(shown) else shown


def _clock(value: str) -> str:
    found = _CLOCK.fullmatch(value)
    if found is None:
        return ""
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return f"{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")


def _repeats(text: str | None) -> int:
    return max(1, int(text)) if text and text.isdecimal() and len(text) < 9 else 1
