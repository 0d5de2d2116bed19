"""Rows to a Markdown table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# A table this much emptier than full is none: written out, a diagonal of 16,000 cells would be 250 million.
_MOST_PADDING = 30
_SMALL_CELLS = 100_000


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """The rows as a table, the first one as its header; "" if no cell holds anything.

    Empty rows and empty columns go: sheets carry thousands of them.
    """
    return sparse_table(
        [{i: cell for i, cell in enumerate(row) if cell and not cell.isspace()} for row in rows]
    )


def sparse_table(rows: Iterable[Mapping[int, str]]) -> str:
    """Like markdown_table, for rows that name only the cells that hold something, by their column.

    Goes through the rows twice, so that no row need be kept.
    """
    used: set[int] = set()
    height = cells = 0
    for row in rows:
        used.update(row)
        height += bool(row)
        cells += len(row)
    size = len(used) * height
    if size > _SMALL_CELLS and size > _MOST_PADDING * cells:
        return "\n".join(_line([row[column] for column in sorted(row)]) for row in rows if row)
    columns = sorted(used)
    lines = [_line([row.get(column, "") for column in columns]) for row in rows if row]
    if lines:
        lines.insert(1, _line(["---"] * len(columns)))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in cells)} |"
