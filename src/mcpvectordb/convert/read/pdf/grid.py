"""Tables with rules on a PDF page: the grid its rules make, and the text in its cells. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .lines import Line
from .rules import Drawn
from .text import clean, joined

Words = Callable[[Line], Iterable[tuple[str, float, float]]]
Rule = tuple[float, float, float]  # position, start, end

# In points: how far two rules may be apart and still meet.
_NEAR = 3.0
_SHORTEST = 8.0
_MOST_CROSSINGS = 20_000
_MOST_CELLS = 4_000
# A cell longer than this is a frame around part of the page.
_LONGEST_CELL = 1_500
_LEAST_FILLED = 0.2


class Table(NamedTuple):
    cells: list[list[str]]
    x0: float
    x1: float
    top: float
    bottom: float
    taken: frozenset[int]  # which of the lines given stand in it


def ruled_tables(lines: Sequence[Line], drawn: Drawn, words: Words) -> list[Table]:
    level, upright = _merged(drawn.level), _merged(drawn.upright)
    if len(level) < 2 or not upright or len(level) * len(upright) > _MOST_CROSSINGS:
        return []
    tables: list[Table] = []
    taken: set[int] = set()
    for part_level, part_upright in _connected(level, upright):
        grid = _Grid.of(part_level, part_upright)
        if grid is None:
            continue
        inside = [index for index, line in enumerate(lines) if index not in taken and grid.holds(line)]
        cells = _tidied(grid.filled([lines[index] for index in inside], words)) if inside else []
        if _is_table(cells):
            tables.append(Table(cells, grid.xs[0], grid.xs[-1], grid.ys[0], grid.ys[-1], frozenset(inside)))
            taken.update(inside)
    return tables


def _merged(rules: Iterable[Rule]) -> list[Rule]:
    """Rules in one place that touch are one; what is then still short is no rule."""
    merged: list[Rule] = []
    for position, start, end in sorted(rules):
        # A cell's border is often drawn with its neighbour's: twice, a hair apart.
        for at in range(len(merged) - 1, max(len(merged) - 40, -1), -1):
            other, first, last = merged[at]
            if position - other > _NEAR:
                continue
            if start <= last + _NEAR and end >= first - _NEAR:
                merged[at] = (other, min(first, start), max(last, end))
                break
        else:
            merged.append((position, start, end))
    return [rule for rule in merged if rule[2] - rule[1] >= _SHORTEST]


def _connected(level: list[Rule], upright: list[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """The rules in groups that cross each other."""
    group = list(range(len(level) + len(upright)))

    def root(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    places = [x for x, _, _ in upright]  # in order: _merged has sorted them
    for i, (y, x0, x1) in enumerate(level):
        for j in range(bisect_left(places, x0 - _NEAR), bisect_right(places, x1 + _NEAR)):
            _, y0, y1 = upright[j]
            if y0 - _NEAR <= y <= y1 + _NEAR:
                group[root(len(level) + j)] = root(i)
    parts: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for i, rule in enumerate(level):
        parts.setdefault(root(i), ([], []))[0].append(rule)
    for j, rule in enumerate(upright, len(level)):
        parts.setdefault(root(j), ([], []))[1].append(rule)
    return [part for part in parts.values() if len(part[0]) >= 2 and part[1]]


class _Grid(NamedTuple):
    xs: list[float]  # from left to right
    ys: list[float]  # from top to bottom
    walls: list[list[bool]]  # [row][x]: a rule stands at xs[x] beside this row
    floors: list[list[bool]]  # [y][column]: a rule lies at ys[y] above or below this column

    @staticmethod
    def of(level: list[Rule], upright: list[Rule]) -> _Grid | None:
        xs = _places([rule[0] for rule in upright], [end for rule in level for end in rule[1:]])
        ys = _places([rule[0] for rule in level], [end for rule in upright for end in rule[1:]])[::-1]
        columns, rows = len(xs) - 1, len(ys) - 1
        if columns < 2 or rows < 2 or columns * rows > _MOST_CELLS:
            return None
        walls = [[x in (0, columns) for x in range(columns + 1)] for _ in range(rows)]
        floors = [[y in (0, rows)] * columns for y in range(rows + 1)]
        for x, y0, y1 in upright:
            at = _nearest(xs, x)
            for row in range(rows):
                if y0 <= (ys[row] + ys[row + 1]) / 2 <= y1:
                    walls[row][at] = True
        upwards = ys[::-1]
        for y, x0, x1 in level:
            at = rows - _nearest(upwards, y)
            for column in range(columns):
                if x0 <= (xs[column] + xs[column + 1]) / 2 <= x1:
                    floors[at][column] = True
        return _Grid(xs, ys, walls, floors)

    def holds(self, line: Line) -> bool:
        middle = line.base + 0.3 * line.size
        return (
            self.ys[-1] <= middle <= self.ys[0]
            and line.x0 >= self.xs[0] - line.size
            and line.x1 <= self.xs[-1] + line.size
        )

    def column_at(self, x: float) -> int:
        return min(max(bisect_right(self.xs, x) - 1, 0), len(self.xs) - 2)

    def row_at(self, line: Line) -> int:
        middle = line.base + 0.3 * line.size
        return next(row for row, floor in enumerate(self.ys[1:]) if middle >= floor or floor == self.ys[-1])

    def filled(self, lines: Sequence[Line], words: Words) -> list[list[str]]:
        """The text of each cell in the file's order; that of a merged one in its first row and column."""
        home = self._homes()
        held: dict[tuple[int, int], list[tuple[Line, str]]] = {}
        for line in lines:
            row = self.row_at(line)
            first, last = self.column_at(line.x0 + 1), self.column_at(line.x1 - 1)
            if home[row][first] == home[row][last]:
                held.setdefault(home[row][first], []).append((line, line.text))
                continue
            for word, x0, x1 in words(line):
                at = home[row][self.column_at((x0 + x1) / 2)]
                before = held.setdefault(at, [])
                if before and before[-1][0] is line:
                    before[-1] = (line, f"{before[-1][1]} {word}")
                else:
                    before.append((line, word))
        rows: list[list[str]] = []
        for row in range(len(self.ys) - 1):
            cells = [held.get((row, column), []) for column in range(len(self.xs) - 1)]
            rows += self._unstacked(cells)
        return rows

    def _homes(self) -> list[list[tuple[int, int]]]:
        """For each place of the grid, the first place of the cell it is part of."""
        rows, columns = len(self.ys) - 1, len(self.xs) - 1
        home = [[(row, column) for column in range(columns)] for row in range(rows)]
        for row in range(rows):
            for column in range(columns):
                if column and not self.walls[row][column]:
                    home[row][column] = home[row][column - 1]
                elif row and not self.floors[row][column]:
                    home[row][column] = home[row - 1][column]
        return home

    def _unstacked(self, cells: list[list[tuple[Line, str]]]) -> list[list[str]]:
        """A row of cells; several, if no rule parts the rows and each cell is a stack of short lines."""
        heights = sorted({round(line.base) for cell in cells for line, _ in cell}, reverse=True)
        used = [(column, cell) for column, cell in enumerate(cells) if cell]
        is_stack = (
            len(heights) >= 4
            and len(used) >= 2
            and all(len(cell) >= 0.7 * len(heights) for _, cell in used)
            and all(
                line.x1 - line.x0 < 0.6 * (self.xs[column + 1] - self.xs[column])
                for column, cell in used
                for line, _ in cell
            )
        )
        if not is_stack:
            return [[_text(text for _, text in cell) for cell in cells]]
        return [
            [_text(text for line, text in cell if round(line.base) == height) for cell in cells]
            for height in heights
        ]


def _places(rules: list[float], ends: list[float]) -> list[float]:
    """Where the rules stand, near ones as one; with an outer one where the rules across reach further."""
    places: list[float] = []
    for position in sorted(rules):
        if not places or position - places[-1] > _NEAR:
            places.append(position)
    if min(ends) < places[0] - _SHORTEST:
        places.insert(0, min(ends))
    if max(ends) > places[-1] + _SHORTEST:
        places.append(max(ends))
    return places


def _nearest(places: list[float], position: float) -> int:
    after = min(max(bisect_left(places, position), 1), len(places) - 1)
    return after if places[after] - position < position - places[after - 1] else after - 1


def _text(parts: Iterable[str]) -> str:
    text = ""
    for part in parts:
        part = clean(part)
        text = joined(text, part) if text and part else text or part
    return text


def _tidied(cells: list[list[str]]) -> list[list[str]]:
    """Without the rows and columns that hold nothing."""
    cells = [row for row in cells if any(row)]
    kept = [column for column in range(len(cells[0])) if any(row[column] for row in cells)] if cells else []
    return [[row[column] for column in kept] for row in cells]


def _is_table(cells: list[list[str]]) -> bool:
    if len(cells) < 2 or len(cells[0]) < 2:
        return False
    texts = [cell for row in cells for cell in row if cell]
    if max(map(len, texts)) > _LONGEST_CELL or len(texts) < 3:
        return False
    # The lines of a chart's grid hold a number or two.
    return len(texts) >= _LEAST_FILLED * len(cells) * len(cells[0])
