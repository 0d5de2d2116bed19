"""The cells of one sheet to Markdown: a table wherever cells stand together, with blank rows between tables.

Only cells that hold something are kept, so a sheet may claim a million rows. Shared by all kinds of
spreadsheets; it knows none of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from mcpvectordb.convert.read.tables import sparse_table

from .flow import Flow
from .prose import clean, link

# Rows are kept as one string each: as lists, a million of them would take gigabytes. Cells do not have it.
_BETWEEN = "\x1f"
_LINE_CHARS = 80
# What merged cells may repeat, over all: a hostile sheet can merge every cell with every other.
_MOST_REPEATED = 200_000
_TALLEST_MERGE = 1_000

_Row = tuple[int, tuple[int, ...], str]


class Grid:
    """Rows and columns count from 0."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._patterns: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._merged: list[tuple[int, int, int, int]] = []
        self._links: list[tuple[int, int, str]] = []
        self._comments: list[tuple[int, int, str]] = []

    def add(self, row: int, columns: Sequence[int], texts: Sequence[str]) -> None:
        """A row's cells that hold something."""
        if columns:
            pattern = tuple(columns)
            pattern = self._patterns.setdefault(pattern, pattern)
            self._rows.append((row, pattern, _BETWEEN.join(texts)))

    def merge(self, top: int, left: int, bottom: int, right: int) -> None:
        self._merged.append((top, left, bottom, right))

    def link(self, row: int, column: int, target: str) -> None:
        self._links.append((row, column, target))

    def comment(self, row: int, column: int, author: str, text: str) -> None:
        if text:
            place = f"{column_name(column)}{row + 1}"
            self._comments.append(
                (row, column, f"{place} ({author}): {text}" if author else f"{place}: {text}")
            )

    def write(self, flow: Flow) -> None:
        self._rows.sort(key=lambda row: row[0])
        self._set_links()
        self._repeat_merged()
        start = 0
        for index in range(1, len(self._rows) + 1):
            if index == len(self._rows) or _stand_apart(self._rows[index - 1], self._rows[index]):
                _write_block(_Block(self._rows, start, index), flow)
                start = index
        for _, _, comment in sorted(self._comments):
            flow.item(0, "-", comment)

    def _set_links(self) -> None:
        for row, column, target in self._links:
            for index in self._found(row):
                cells = _cells(self._rows[index])
                if column in cells:
                    self._replace(index, cells | {column: link(cells[column], target)})

    def _repeat_merged(self) -> None:
        """Text over several rows belongs to each of them."""
        left = _MOST_REPEATED
        numbers = [row[0] for row in self._rows]
        for top, column, bottom, _ in self._merged:
            first = bisect_left(numbers, top)
            if (
                bottom == top
                or bottom - top > _TALLEST_MERGE
                or first == len(numbers)
                or numbers[first] != top
            ):
                continue
            text = _cells(self._rows[first]).get(column)
            index = first + 1
            while text and left and index < len(numbers) and numbers[index] <= bottom:
                cells = _cells(self._rows[index])
                if column not in cells:
                    self._replace(index, cells | {column: text})
                left -= 1
                index += 1

    def _found(self, row: int) -> Iterator[int]:
        index = bisect_left(self._rows, row, key=lambda each: each[0])
        if index < len(self._rows) and self._rows[index][0] == row:
            yield index

    def _replace(self, index: int, cells: dict[int, str]) -> None:
        columns = tuple(sorted(cells))
        self._rows[index] = (self._rows[index][0], columns, _BETWEEN.join(cells[each] for each in columns))


def _stand_apart(row: _Row, following: _Row) -> bool:
    """A blank row between them, or two tables that meet at a corner."""
    if following[0] > row[0] + 1:
        return True
    above, below = row[1], following[1]
    return len(above) > 1 and len(below) > 1 and (above[-1] < below[0] or below[-1] < above[0])


def column_name(column: int) -> str:
    name = ""
    column += 1
    while column > 0:
        column, rest = divmod(column - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def cell_text(text: str) -> str:
    """Text of a cell, with nothing in it that the grid, or Markdown, would stumble over."""
    return clean(text).strip()


def _cells(row: _Row) -> dict[int, str]:
    return dict(zip(row[1], row[2].split(_BETWEEN), strict=True))


class _Block:
    """Rows that belong together. They are unpacked anew each time: all at once they would fill the memory."""

    def __init__(self, rows: list[_Row], start: int, end: int) -> None:
        self._rows = rows
        self._start = start
        self._end = end

    def __iter__(self) -> Iterator[dict[int, str]]:
        for index in range(self._start, self._end):
            yield _cells(self._rows[index])

    @property
    def is_one_column(self) -> bool:
        return len({column for i in range(self._start, self._end) for column in self._rows[i][1]}) < 2

    def titles(self) -> Iterator[str]:
        """The first rows as long as they hold one cell each; the block is without them then."""
        while self._start < self._end and len(self._rows[self._start][1]) == 1:
            yield self._rows[self._start][2]
            self._start += 1


def _write_block(block: _Block, flow: Flow) -> None:
    if not block.is_one_column:
        for title in block.titles():
            flow.paragraph(title)
        flow.raw(sparse_table(block))
        return
    lines = [text for row in block for text in row.values()]
    between = "\n" if all(len(line) <= _LINE_CHARS for line in lines) else "\n\n"
    for part in between.join(lines).split("\n\n"):
        flow.paragraph(part)
