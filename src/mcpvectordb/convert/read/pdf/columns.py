"""Text set in columns without rules: tables of aligned cells, and columns that are drawn across. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, median

from .grid import Table, Words
from .lines import Line
from .text import clean

Row = list[Line]  # what stands on one baseline, left to right, a wide gap between each two

# Rows of a table stand closer than this, in multiples of the size of their letters.
_FARTHEST_ROW = 3.2
_MOST_COLUMNS = 30
_MOST_GAPS = 500
_WIDEST = 20_000  # points; one letter can be as large as its file says
# A row between two of a table that is one piece: the wrapped end of a cell, or a heading within.
_MOST_SINGLE_ROWS = 2
_LONGEST_SINGLE_ROW = 60
# Mean characters: a column of cells has fewer, a column of prose has more.
_CELL = 24
_PROSE = 16
_MARKER = re.compile(r"\W{1,2}|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)]")


def aligned_tables(rows: Sequence[Row], words: Words) -> list[tuple[int, int, Table]]:
    """The tables among the rows, each with its first row and the one after its last."""
    tables: list[tuple[int, int, Table]] = []
    at = 0
    while at < len(rows):
        end = _run(rows, at) if len(rows[at]) > 1 else at + 1
        if end - at > 1 and (table := _table(rows[at:end], words)) is not None:
            tables.append((at, end, table))
        at = end
    return tables


def in_columns(rows: list[Row]) -> list[Row]:
    """Rows that run across columns of prose, put column after column; other rows as they are."""
    gutter = _gutter(rows)
    if gutter is None:
        return rows
    ordered: list[Row] = []
    left: list[Row] = []
    right: list[Row] = []
    for row in sorted(rows, key=lambda row: -row[0].base):
        on_left = [line for line in row if line.x1 <= gutter]
        on_right = [line for line in row if line.x0 >= gutter]
        if len(on_left) + len(on_right) == len(row):
            left += [on_left] if on_left else []
            right += [on_right] if on_right else []
        else:
            # What spans the columns ends them: a heading, a wide figure's caption.
            ordered += [*in_columns(left), *in_columns(right), row]
            left, right = [], []
    return [*ordered, *in_columns(left), *in_columns(right)]


def has_aligned_gap(row: Row, other: Row) -> bool:
    """Whether a gap of one row stands above or below one of the other's."""
    if abs(row[0].base - other[0].base) > _FARTHEST_ROW * row[0].size:
        return False
    return any(min(b.x0, d.x0) - max(a.x1, c.x1) > 0 for a, b in pairwise(row) for c, d in pairwise(other))


def _gutter(rows: Sequence[Row]) -> float | None:
    """Where the most rows have a gap, if what stands on both sides of it is prose."""
    gaps = sorted((a.x1, b.x0, len(a.text), len(b.text)) for row in rows for a, b in pairwise(row))
    if not 3 <= len(gaps) <= _MOST_GAPS:
        return None
    best: list[tuple[float, float, int, int]] = []
    for start, *_ in gaps:
        through = [gap for gap in gaps if gap[0] <= start < gap[1]]
        if len(through) > len(best):
            best = through
    if len(best) < 3:
        return None
    if median(gap[2] for gap in best) < _PROSE or median(gap[3] for gap in best) < _PROSE:
        return None
    return (max(gap[0] for gap in best) + min(gap[1] for gap in best)) / 2


def _run(rows: Sequence[Row], start: int) -> int:
    """The row after the last one that may belong to a table which starts here."""
    last = start
    for at in range(start + 1, len(rows)):
        above, row = rows[at - 1], rows[at]
        fall = above[0].base - row[0].base
        if not 0.2 * row[0].size < fall < _FARTHEST_ROW * row[0].size:
            break
        if len(row) > 1:
            last = at
        elif at - last > _MOST_SINGLE_ROWS or len(row[0].text) > _LONGEST_SINGLE_ROW:
            break
    return last + 1


def _table(rows: Sequence[Row], words: Words) -> Table | None:
    columns = _columns([row for row in rows if len(row) > 1])
    if not 2 <= len(columns) <= _MOST_COLUMNS:
        return None
    cells: list[list[str]] = []
    for number, row in enumerate(rows):
        filled = _cells(row, columns, words)
        is_wrapped = (
            bool(cells)
            and not filled[0]
            and sum(map(bool, filled)) <= max(1, (len(columns) - 1) // 2)
            and rows[number - 1][0].base - row[0].base < 1.5 * row[0].size
        )
        if is_wrapped:
            cells[-1] = [f"{above} {cell}".strip() for above, cell in zip(cells[-1], filled, strict=True)]
        else:
            cells.append(filled)
    if not _is_table(cells):
        return None
    lines = [line for row in rows for line in row]
    return Table(
        cells,
        min(line.x0 for line in lines),
        max(line.x1 for line in lines),
        lines[0].base + lines[0].size,
        lines[-1].base,
        frozenset(),
    )


def _columns(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Left and right edge of each column: where the rows with the most pieces have text."""
    most = max(map(len, rows))
    model = [row for row in rows if len(row) >= max(2, 0.6 * most)]
    left = min(line.x0 for row in model for line in row)
    width = int(max(line.x1 for row in model for line in row) - left) + 2
    if width > _WIDEST:
        return []
    change = [0] * (width + 2)
    for row in model:
        for line in row:
            change[max(int(line.x0 - left), 0)] += 1
            change[int(line.x1 - left) + 1] -= 1
    # One cell that reaches into its neighbour does not make one column of two.
    few = max(len(model) // 8, 1 if len(model) >= 4 else 0)
    columns: list[tuple[float, float]] = []
    covered, start, peak = 0, 0, 0
    dip = -1
    for x in range(width + 1):
        covered += change[x]
        if covered == 0:
            if peak:
                columns.append((left + start, left + x))
            start, peak, dip = x + 1, 0, -1
            continue
        if covered > few and dip >= 0 and peak > few:
            columns.append((left + start, left + dip))
            start, peak = x, 0
        dip = (x if dip < 0 else dip) if covered <= few else -1
        peak = max(peak, covered)
    if peak:
        columns.append((left + start, left + width))
    return columns


def _cells(row: Row, columns: Sequence[tuple[float, float]], words: Words) -> list[str]:
    cells = [""] * len(columns)
    for line in row:
        spanned = [n for n, (left, right) in enumerate(columns) if line.x0 < right - 1 and line.x1 > left + 1]
        if len(spanned) == 1:
            parts = [(line.text, spanned[0])]
        else:
            parts = [(word, _column_at((x0 + x1) / 2, columns)) for word, x0, x1 in words(line)]
        for text, column in parts:
            cells[column] = f"{cells[column]} {clean(text)}".strip()
    return cells


def _column_at(x: float, columns: Sequence[tuple[float, float]]) -> int:
    return min(range(len(columns)), key=lambda n: max(columns[n][0] - x, x - columns[n][1], 0.0))


def _is_table(cells: list[list[str]]) -> bool:
    """Whether these are cells, and not columns of prose, a list, or words that happen to align."""
    full = [row for row in cells if sum(map(bool, row)) >= 2]
    if len(full) < 2 or len(full) < 0.6 * len(cells):
        return False
    by_column = [[cell for cell in column if cell] for column in zip(*cells, strict=True)]
    lengths = [mean(map(len, column)) for column in by_column if column]
    if len(lengths) >= 3:
        is_whole = all(all(row) for row in cells)
        short = sum(length <= _CELL for length in lengths)
        return (len(full) >= 3 or is_whole) and 2 * short >= len(lengths) and mean(lengths) <= 40
    if len(lengths) < 2 or len(full) < 3 or len(full) < 0.8 * len(cells):
        return False
    is_list = sum(_MARKER.fullmatch(cell) is not None for cell in by_column[0]) > 0.5 * len(by_column[0])
    return not is_list and lengths[0] <= 30 and lengths[1] <= 45
