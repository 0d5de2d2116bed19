"""A table whose cells hold blocks, as text documents have: a table, or its blocks if it is only for looks."""

from __future__ import annotations

from dataclasses import dataclass

from .flow import Flow
from .prose import paragraph


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    column: int
    flow: Flow
    is_continued: bool = False  # part of the cell above it


def write_table(rows: list[list[Cell]], flow: Flow) -> None:
    rows = [row for row in rows if row]
    if not rows:
        return
    if _is_layout(rows):
        for row in rows:
            _write_row(row, flow)
        return
    above: dict[int, str] = {}
    texts: list[list[str]] = []
    for row in rows:
        line: dict[int, str] = {}
        for cell in row:
            # Text over several rows belongs to each of them.
            line[cell.column] = above.get(cell.column, "") if cell.is_continued else cell.flow.in_cell()
        above = line
        texts.append([line.get(column, "") for column in range(max(line) + 1)])
    flow.table(texts)


def _is_layout(rows: list[list[Cell]]) -> bool:
    """Whether a table only places blocks on the page, rather than relating values."""
    cells = [cell for row in rows for cell in row]
    if len(cells) == 1 or any(cell.flow.holds("heading") for cell in cells):
        return True
    if len(rows) == 1 or all(len(row) == 1 for row in rows):
        return not all(cell.flow.is_simple for cell in cells)
    nesting = sum(any(cell.flow.holds("table") for cell in row) for row in rows)
    return 2 * nesting >= len(rows)


def _write_row(row: list[Cell], flow: Flow) -> None:
    cells = [cell.flow for cell in row if cell.flow]
    if len(cells) > 1 and all(cell.is_simple for cell in cells):
        flow.raw(paragraph(" | ".join(cell.in_cell() for cell in cells)))
        return
    for cell in cells:
        flow.extend(cell)
