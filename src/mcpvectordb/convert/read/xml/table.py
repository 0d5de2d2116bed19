"""Tables in XML, whatever their rows and cells are called, to Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator

from mcpvectordb.convert.read.tables import markdown_table

from . import names
from .inline import inline
from .tree import Node, name_of

# No real table is wider, and a file may claim any number.
_WIDEST_SPAN = 50


def table(node: Node) -> str:
    """The table; "" if it has no rows of cells."""
    rows: list[list[str]] = []
    # Text over several rows belongs to each of them, and keeps the columns in line.
    carried: dict[int, tuple[str, int]] = {}
    for row in _rows(node):
        cells: list[str] = []
        for cell in row:
            if name_of(cell) not in names.CELLS:
                continue
            _carry(cells, carried)
            text, width, height = inline(cell), _span(cell, "colspan", "cols"), _height(cell)
            first = len(cells)
            for column in range(first, first + width):
                cells.append(text if column == first else "")
                if height > 1:
                    carried[column] = (cells[-1], height - 1)
        _carry(cells, carried)
        rows.append(cells)
    return markdown_table(rows)


def _rows(table: Node) -> Iterator[Node]:
    """The rows, but not those of a table within a cell."""
    pending = [table]
    while pending:
        node = pending.pop()
        if name_of(node) in names.ROWS:
            yield node
        else:
            pending += [child for child in reversed(list(node)) if name_of(child) not in names.CELLS]


def _carry(cells: list[str], carried: dict[int, tuple[str, int]]) -> None:
    """Fill the next columns from the rows above, where cells reach down into this one."""
    while (column := len(cells)) in carried:
        text, left = carried.pop(column)
        cells.append(text)
        if left > 1:
            carried[column] = (text, left - 1)


def _height(cell: Node) -> int:
    more = cell.get("morerows", "")
    return _number(more) + 1 if more else _span(cell, "rowspan", "rows")


def _span(cell: Node, *attributes: str) -> int:
    return max(1, *(_number(cell.get(name, "")) for name in attributes))


def _number(value: str) -> int:
    return min(_WIDEST_SPAN, int(value)) if value.isascii() and value.isdigit() and len(value) < 9 else 0
