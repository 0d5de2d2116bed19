"""The lines of a PDF page to paragraphs, list items and tables, in the order of reading. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from mcpvectordb.convert.read.tables import markdown_table

from .columns import Row, aligned_tables, has_aligned_gap, in_columns
from .grid import Table, Words
from .lines import WIDE_GAP, Line
from .text import HYPHEN, clean, joined

Kind = Literal["text", "item", "row", "table"]
Bold = Callable[[int], bool]  # whether the character of this number is set in bold

# The row number of a table that stands among the lines.
_TABLE = -1
# In multiples of the page's usual distance between lines: more begins a paragraph.
_PARAGRAPH_GAP = 1.22
_USUAL_PITCH = 1.2
_INDENT = 0.8  # ems
_LONGEST_HEADING = 120

_BULLET = re.compile(r"[•◦▪‣●○■□▸►➢✓✔∙·◆❖⁃]\s*")
_DASH = re.compile(r"[-–—*]\s+(?=\S)")
_NUMBER = re.compile(
    r"(?:\(?(?:\d{1,3}|[A-Za-z]|[ivx]{2,5})[.)]|\d{1,2}(?:\.\d{1,2}){1,4}\.?|\[\d{1,3}\])\s+\S"
)
_LONE_NUMBER = re.compile(r"\(?(?:\d{1,3}|[A-Za-z]|[ivx]{2,5})[.)]|\d{1,2}(?:\.\d{1,2}){1,4}\.?|\[\d{1,3}\]")
_ENDS_SENTENCE = re.compile(r"[.!?:;。！？：；…][\"'”’»)\]]*$")
_ENTRY = re.compile(r" … \S+$")  # of a table of contents
_DECORATION = re.compile(r"[-=_*~.\s]{4,}")


class Block(NamedTuple):
    text: str
    kind: Kind
    size: float = 0.0
    lines: int = 1
    is_bold: bool = False
    base: float = 0.0  # of its first line


def blocks_of(lines: Sequence[Line], tables: Sequence[Table], words: Words, is_bold: Bold) -> list[Block]:
    """The page's blocks. Tables are those found by their rules; others are found here."""
    rows = _rows(lines, tables)
    if any(len(row) > 1 for row in rows):
        rows = _without_lone_gaps(in_columns(_with_tables(rows, words)))
    flow = _Flow(is_bold, _pitch(rows))
    for at, row in enumerate(rows):
        if row[0].row == _TABLE:
            flow.table(row[0].text)
        elif len(row) > 1:
            flow.row(row)
        else:
            flow.line(row[0], rows, at)
    flow.close()
    return flow.blocks


def _rows(lines: Sequence[Line], tables: Sequence[Table]) -> list[Row]:
    """Lines on one baseline put side by side; a table stands where its first line stood."""
    table_of = {index: number for number, table in enumerate(tables) for index in table.taken}
    placed: set[int] = set()
    rows: list[Row] = []
    for index, line in enumerate(lines):
        number = table_of.get(index)
        if number is not None:
            if number not in placed:
                placed.add(number)
                rows.append([_as_line(tables[number])])
            continue
        text = clean(line.text)
        if not text or _DECORATION.fullmatch(text):
            continue
        if text != line.text:
            line = line._replace(text=text)
        if rows and _is_beside(rows[-1][-1], line):
            _put_beside(rows[-1], line)
        else:
            rows.append([line])
    return [_labelled(row) if len(row) == 2 else row for row in rows]


def _as_line(table: Table) -> Line:
    return Line(markdown_table(table.cells), table.x0, table.x1, table.top, 0.0, 0, 0, _TABLE)


def _is_beside(before: Line, line: Line) -> bool:
    if before.row == _TABLE:
        return False
    size = max(before.size, line.size)
    # A raised number stands up to half a size above.
    return abs(before.base - line.base) < 0.5 * size and line.x0 > before.x1 - 0.35 * size


def _put_beside(row: Row, line: Line) -> None:
    before = row[-1]
    size = max(before.size, line.size)
    gap = line.x0 - before.x1
    if gap > WIDE_GAP * size and not _BULLET.fullmatch(before.text):
        row.append(line)
        return
    longer = before if len(before.text) >= len(line.text) else line
    text = before.text + line.text if gap < 0.12 * size else joined(before.text, line.text)
    row[-1] = Line(text, before.x0, line.x1, longer.base, longer.size, before.first, line.last, line.row)


def _labelled(row: Row) -> Row:
    """A number and the text it counts are one line, however far apart they stand."""
    number, text = row
    if _LONE_NUMBER.fullmatch(number.text) and len(text.text) > 12 and number.row != _TABLE:
        return [text._replace(text=f"{number.text} {text.text}", x0=number.x0, first=number.first)]
    return row


def _with_tables(rows: list[Row], words: Words) -> list[Row]:
    out: list[Row] = []
    done = 0
    for start, end, table in aligned_tables(rows, words):
        out += [*rows[done:start], [_as_line(table)]]
        done = end
    return [*out, *rows[done:]]


def _without_lone_gaps(rows: list[Row]) -> list[Row]:
    """A gap that no neighbour shares is only a wide blank."""
    out: list[Row] = []
    for at, row in enumerate(rows):
        if len(row) > 1:
            near = [rows[n] for n in (at - 1, at + 1) if 0 <= n < len(rows)]
            if not any(has_aligned_gap(row, other) for other in near):
                text = " ".join(line.text for line in row)
                row = [row[0]._replace(text=text, x1=row[-1].x1, last=row[-1].last)]
        out.append(row)
    return out


def _pitch(rows: Sequence[Row]) -> float:
    """The usual distance between two lines, in multiples of their size."""
    steps: Counter[float] = Counter()
    for (above, *_), (line, *_) in pairwise(rows):
        if line.size and abs(above.size - line.size) < 0.05 * line.size:
            step = (above.base - line.base) / line.size
            if 0.8 < step < 3.5:
                steps[round(step * 20) / 20] += 1
    if not steps:
        return _USUAL_PITCH
    most = max(steps.values())
    return max(min(step for step, count in steps.items() if count == most), 1.0)


class _Flow:
    """Lines in, blocks out: where a paragraph ends is decided line by line."""

    def __init__(self, is_bold: Bold, pitch: float) -> None:
        self.blocks: list[Block] = []
        self._is_bold = is_bold
        self._pitch = pitch
        self._text = ""
        self._kind: Kind = "text"
        self._lines: list[Line] = []

    def table(self, text: str) -> None:
        self.close()
        self.blocks.append(Block(text, "table"))

    def row(self, row: Row) -> None:
        self.close()
        text = " ".join(line.text for line in row)
        self.blocks.append(Block(text, "row", row[0].size, base=row[0].base))

    def line(self, line: Line, rows: Sequence[Row], at: int) -> None:
        kind, text = self._item(line)
        if not self._lines:
            self._open(line, text, kind)
            return
        before = self._lines[-1]
        if kind == "item" or self._is_apart(before, line):
            self._open(line, text, kind)
        elif self._is_elsewhere(before, line):
            # The next column: a sentence goes on there, a paragraph does not.
            if self._goes_on(before, line):
                self._append(line, joined(self._text, text))
            else:
                self._open(line, text, kind)
        elif _ENTRY.search(before.text) or self._ends_early(before, line, rows, at):
            if self._is_last_of_paragraph(before, line):
                self._open(line, text, kind)
            else:
                self._append(line, f"{self._text}\n{text}")
        else:
            self._append(line, joined(self._text, text))

    def close(self) -> None:
        if not self._lines:
            return
        first, last = self._lines[0], self._lines[-1]
        text = self._text
        is_bold = (
            self._kind != "row"
            and len(text) <= _LONGEST_HEADING
            and len(self._lines) <= 2
            and not _ENDS_SENTENCE.search(text)
            and self._is_bold(first.first)
            and self._is_bold(last.last)
        )
        size = max(self._lines, key=lambda line: len(line.text)).size
        self.blocks.append(Block(text, self._kind, size, len(self._lines), is_bold, first.base))
        self._lines = []

    def _open(self, line: Line, text: str, kind: Kind) -> None:
        self.close()
        self._text, self._kind, self._lines = text, kind, [line]

    def _append(self, line: Line, text: str) -> None:
        self._text = text
        self._lines.append(line)

    def _item(self, line: Line) -> tuple[Kind, str]:
        text = line.text
        bullet = _BULLET.match(text)
        if bullet is not None:
            rest = text[bullet.end() :]
            return ("item", f"- {rest}") if rest else ("text", text)
        if not self._lines:
            is_free = True
        else:
            before = self._lines[-1]
            is_free = (
                self._kind == "item"
                or _ENDS_SENTENCE.search(before.text) is not None
                or self._is_apart(before, line)
            )
        if is_free and (dash := _DASH.match(text)):
            return "item", f"- {text[dash.end() :]}"
        if is_free and _NUMBER.match(text):
            return "item", text
        return "text", text

    def _is_apart(self, before: Line, line: Line) -> bool:
        """Other letters, a wider space, or an indent: the line begins something else."""
        size = line.size
        if abs(before.size - size) > 0.12 * size:
            return True
        fall = before.base - line.base
        if fall > _PARAGRAPH_GAP * self._pitch * size:
            return True
        if fall <= 0 or line.x0 > before.x1 or line.x1 < before.x0:
            return False  # elsewhere on the page: see there
        first, count = self._lines[0], len(self._lines)
        indent = line.x0 - before.x0
        if abs(indent) < _INDENT * size or abs((line.x0 + line.x1) - (before.x0 + before.x1)) < size:
            return False
        if count == 1:
            # An item hangs, and so does an entry of a bibliography; a first line is indented.
            is_hanging = self._kind == "item" or not _ENDS_SENTENCE.search(before.text)
            return indent > 0 and not is_hanging
        hangs = self._lines[1].x0 > first.x0 + _INDENT * size
        return indent > 0 or hangs

    @staticmethod
    def _is_elsewhere(before: Line, line: Line) -> bool:
        return line.base > before.base - 0.3 * line.size or line.x0 > before.x1 or line.x1 < before.x0

    @staticmethod
    def _goes_on(before: Line, line: Line) -> bool:
        return before.text.endswith(HYPHEN) or (
            line.text[:1].islower() and len(before.text) > 20 and not _ENDS_SENTENCE.search(before.text)
        )

    @staticmethod
    def _ends_early(before: Line, line: Line, rows: Sequence[Row], at: int) -> bool:
        """Whether the line's first word would have fitted on the line before: then the break is meant."""
        if before.text.endswith(HYPHEN):
            return False
        word = line.text.find(" ")
        length = len(line.text)
        width = (word if word > 0 else length) * (line.x1 - line.x0) / length
        room = before.x1 + width + 0.8 * line.size
        if line.x1 > room:
            return True
        for near in range(max(at - 5, 0), min(at + 5, len(rows))):
            other = rows[near][0]
            if other.x1 > room and abs(other.x0 - before.x0) < 2.5 * line.size and len(rows[near]) == 1:
                return other.row != _TABLE
        return False

    def _is_last_of_paragraph(self, before: Line, line: Line) -> bool:
        if _ENTRY.search(before.text):
            return False
        if line.text[:1].islower() and not _ENDS_SENTENCE.search(before.text):
            return False
        if len(self._lines) > 1 and "\n" not in self._text:
            return True
        if _ENDS_SENTENCE.search(before.text) and not before.text.endswith((":", ";")):
            return True
        # A heading over its text, in one size.
        return len(self._lines) == 1 and self._is_bold(before.first) and not self._is_bold(line.first)
