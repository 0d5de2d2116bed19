"""Excel workbooks, new (xlsx, xlsm, xltx) and old (xls), to Markdown: a page for each sheet.

A sheet's name is its heading, and says so if the sheet is hidden; an empty sheet leaves nothing. Owns xlrd,
whose exceptions stop here.
"""

from __future__ import annotations

import io
import struct
from typing import Any, Protocol, cast

import xlrd
from xlrd.biffh import XLRDError

from mcpvectordb.errors import ConversionError

from . import Read
from .office.flow import Flow, Pages, tidy
from .office.grid import Grid, cell_text
from .office.package import Package
from .office.prose import one_line
from .office.values import GENERAL, Form, form_of, shown
from .office.workbook import Workbook
from .summary import title_of

_KIND = "an Excel workbook"
_DATE = form_of("yyyy-mm-dd hh:mm")
# xlrd meets damage with whatever its own code runs into.
_DAMAGE = (
    XLRDError,
    struct.error,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    NotImplementedError,
)


def read_xlsx(data: bytes, file_name: str) -> Read:
    package = Package(data, file_name, _KIND)
    main = package.main("xl/workbook.xml")
    if main.endswith(".bin"):
        raise ConversionError(
            f"{file_name} is a binary Excel workbook (xlsb), which is not supported: "
            "save it as xlsx in Excel or LibreOffice and add that."
        )
    root = package.tree(main)
    if root is None:
        raise package.unreadable("its main part is missing or damaged")
    workbook = Workbook(package, main, root)
    pages = Pages()
    for number, sheet in enumerate(workbook.sheets, 1):
        flow = Flow()
        workbook.write(sheet, flow)
        pages.add(number, sheet_text(sheet.name, flow, is_hidden=sheet.is_hidden))
    if not pages.text:
        if package.damaged:
            raise package.unreadable(f"{package.damaged[0]} is missing or damaged")
        raise no_text(file_name)
    return Read(text=pages.text, title=package.title(), pages=pages.marks, notice=package.notice())


def sheet_text(name: str, content: Flow, *, is_hidden: bool) -> str:
    """A sheet under its name; "" if nothing is on it."""
    if not content:
        return ""
    flow = Flow()
    flow.heading(2, f"{one_line(name)} (hidden sheet)" if is_hidden else name)
    flow.extend(content)
    return tidy(flow.text())


def no_text(file_name: str) -> ConversionError:
    return ConversionError(
        f"{file_name} holds no text (all its sheets are empty): there is nothing to index."
    )


class _Cell(Protocol):
    ctype: int
    value: Any
    xf_index: int | None


def read_xls(data: bytes, file_name: str) -> Read:
    book = _opened(data, file_name)
    pages = Pages()
    damaged: list[str] = []
    for number, name in enumerate(book.sheet_names(), 1):
        flow = Flow()
        is_hidden = False
        try:
            sheet = book.sheet_by_index(number - 1)
            is_hidden = sheet.visibility != 0
            _write_sheet(book, sheet, flow)
            book.unload_sheet(number - 1)
        # The other sheets may be whole.
        except _DAMAGE:
            damaged.append(name)
        pages.add(number, sheet_text(name, flow, is_hidden=is_hidden))
    if not pages.text:
        raise _unreadable(file_name, f"its sheet {damaged[0]} is damaged") if damaged else no_text(file_name)
    notice = (
        f"The sheets {', '.join(damaged)} of {file_name} are damaged and were left out." if damaged else ""
    )
    return Read(text=pages.text, title=title_of(data), pages=pages.marks, notice=notice)


def _opened(data: bytes, file_name: str) -> Any:
    # Its warnings would go to stdout, which is the protocol's.
    settings = {"file_contents": data, "logfile": io.StringIO(), "on_demand": True, "ragged_rows": True}
    try:
        try:
            return cast(Any, xlrd).open_workbook(**settings, formatting_info=True)
        except (NotImplementedError, AssertionError, IndexError, KeyError):
            # Formats it cannot read cost the formats, not the values.
            return cast(Any, xlrd).open_workbook(**settings)
    # Damage shows in any exception a parser of binary records can meet.
    except Exception as exc:
        if "encrypt" in str(exc).lower():
            raise ConversionError(
                f"{file_name} is protected by a password: save a copy without one and add that."
            ) from exc
        is_cut_off = isinstance(exc, (struct.error, IndexError))
        raise _unreadable(
            file_name, "it breaks off" if is_cut_off else str(exc) or type(exc).__name__
        ) from exc


def _unreadable(file_name: str, why: str) -> ConversionError:
    return ConversionError(
        f"{file_name} could not be read as an old Excel workbook ({why}): "
        "open it in Excel or LibreOffice, save it as xlsx, and add that."
    )


def _write_sheet(book: Any, sheet: Any, flow: Flow) -> None:
    grid = Grid()
    for row in range(sheet.nrows):
        columns: list[int] = []
        texts: list[str] = []
        for column, cell in enumerate(sheet.row(row)):
            text = cell_text(_value(book, cell))
            if text:
                columns.append(column)
                texts.append(text)
        grid.add(row, columns, texts)
    for top, bottom, left, right in sheet.merged_cells:
        grid.merge(top, left, bottom - 1, right - 1)
    for one in sheet.hyperlink_list:
        if one.url_or_path and one.frowx is not None:
            target = one.url_or_path
            grid.link(
                one.frowx, one.fcolx, target if isinstance(target, str) else target.decode("utf-8", "replace")
            )
    for (row, column), note in sheet.cell_note_map.items():
        author = one_line(note.author or "")
        grid.comment(row, column, author, one_line(note.text or "").removeprefix(f"{author}:").strip())
    grid.write(flow)


def _value(book: Any, cell: _Cell) -> str:
    kind = cell.ctype
    if kind == xlrd.XL_CELL_TEXT:
        return str(cell.value)
    if kind in (xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE):
        form = _form(book, cell)
        if kind == xlrd.XL_CELL_DATE and form == GENERAL:
            form = _DATE
        return shown(float(cell.value), form, is_1904=bool(book.datemode))
    if kind == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if kind == xlrd.XL_CELL_ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, ""))
    return ""


def _form(book: Any, cell: _Cell) -> Form:
    if not book.formatting_info or cell.xf_index is None:
        return GENERAL
    style = book.xf_list[cell.xf_index] if cell.xf_index < len(book.xf_list) else None
    known = book.format_map.get(style.format_key) if style is not None else None
    return form_of(known.format_str) if known is not None else GENERAL
