"""Comma-, semicolon-, tab- or bar-separated values to one Markdown table.

Rows are written as they are read, so that a file of 50 MB is never held as lists of cells. The first row is
the header, as it is for everybody else. A file of one column is no table and stays lines of text.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from mcpvectordb.convert.text import decode
from mcpvectordb.errors import ConversionError, UnsupportedType

from . import Read
from .lines import tidied

# Best last among equals: "1,5;2,5" reads evenly by commas too, but nobody ends every row so by chance.
_DELIMITERS = (",", "|", ";", "\t")
_NAMED = re.compile(r'\ufeff?"?sep=(.)"?[ \t]*(?:\n|\Z)', re.I)
_SAMPLE_ROWS = 200
_SAMPLE_CHARS = 200_000
# A delimiter that fewer rows agree on is punctuation.
_LEAST_AGREEMENT = 0.5
# A first row of another width is a title line, or the delimiter is wrong.
_ODD_HEADER = 0.7
_NEARLY = 0.9
# Short rows are filled up to the header's width, but a header of thousands must not blow up each of them.
_FREE_PADDING = 10_000
# Each quote that is never closed has the rest of the file read once more.
_MOST_STRAYS = 20
_LONGEST_FIELD = 2**31 - 1
# An apostrophe as the quoting character: 'a, b','c'.
_APOSTROPHES = re.compile(r"(?:^|[,;|\t])'[^'\n]*'(?=[,;|\t]|$)", re.M)
_BACKSLASHED = re.compile(r'[^\\\n]\\"[^,;|\t\n]')


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shape:
    delimiter: str
    quote: str


def read(data: bytes, file_name: str) -> Read:
    text = decode(data)
    if text is None:
        raise UnsupportedType(f"{file_name} is not text, so it is no table of values: check what it is.")
    if not text.strip():
        raise ConversionError(f"{file_name} holds no text: there is nothing to index.")
    named = _NAMED.match(text)
    text = text[named.end() :] if named else text
    sample = text[:_SAMPLE_CHARS]
    if _BACKSLASHED.search(sample) and '""' not in sample:
        text = text.replace('\\"', '""')
        sample = text[:_SAMPLE_CHARS]
    quote = "'" if '"' not in sample and len(_APOSTROPHES.findall(sample)) > 1 else '"'
    delimiter = named[1] if named else _delimiter(sample, quote, file_name)
    table = _table(text, _Shape(delimiter=delimiter, quote=quote)) if delimiter else ""
    if table:
        return Read(text=table)
    lines = _single_column(text, quote, delimiter)
    if not lines.strip(f"\n {''.join(_DELIMITERS)}"):
        raise ConversionError(f"{file_name} holds only empty cells: there is nothing to index.")
    return Read(text=lines, is_markdown=False)


def _delimiter(sample: str, quote: str, file_name: str) -> str:
    """The character that most rows agree on; "" if there is none."""
    scores = {delimiter: _agreement(sample, delimiter, quote) for delimiter in _DELIMITERS}
    best = max(scores.values())
    if not best:
        return ""
    if file_name.lower().endswith((".tsv", ".tab")) and scores["\t"]:
        return "\t"
    return [delimiter for delimiter, score in scores.items() if score >= _NEARLY * best][-1]


def _agreement(sample: str, delimiter: str, quote: str) -> float:
    """The share of the rows that have the commonest width; 0 if that is a single column."""
    if delimiter not in sample:
        return 0.0
    rows = islice(_rows(sample, _Shape(delimiter=delimiter, quote=quote)), _SAMPLE_ROWS)
    widths = [len(row) for row in rows if any(row)]
    wide = Counter(width for width in widths if width > 1)
    if not wide:
        return 0.0
    width, count = wide.most_common(1)[0]
    share = count / len(widths)
    if share < _LEAST_AGREEMENT:
        # Rows of all widths are rows all the same, if next to all of them are cut by it.
        is_ragged = wide.total() >= _NEARLY * len(widths)
        share = share * _ODD_HEADER if is_ragged else 0.0
    return share * (1.0 if widths[0] == width else _ODD_HEADER)


def _table(text: str, shape: _Shape) -> str:
    header: list[str] = []
    lines: list[str] = ["", ""]
    widest = 0
    padding = _FREE_PADDING
    for row in _rows(text, shape):
        cells = [" ".join(cell.split()) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            continue
        widest = max(widest, len(cells))
        if not header:
            header = cells
        else:
            missing = min(max(len(header) - len(cells), 0), padding)
            padding += len(cells) - missing
            lines.append(_line(cells + [""] * missing))
    if widest < 2:
        return ""
    lines[0] = _line(header + [""] * (widest - len(header)))
    lines[1] = _line(["---"] * widest)
    return tidied("\n".join(lines))


def _line(cells: list[str]) -> str:
    joined = " | ".join([cell.replace("|", "\\|") if "|" in cell else cell for cell in cells])
    return f"| {joined} |"


def _single_column(text: str, quote: str, delimiter: str) -> str:
    """Each cell as lines of its own, without its quotes."""
    # A delimiter no text has: the quotes are then the only thing left to read.
    rows = _rows(text, _Shape(delimiter="\x1f", quote=quote))
    return tidied("\n".join("".join(row).rstrip(f"{delimiter} ") for row in rows))


def _rows(text: str, shape: _Shape) -> Iterator[list[str]]:
    """The rows; where a quote is never closed, its line is read as if the quote were a letter."""
    csv.field_size_limit(_LONGEST_FIELD)
    start = strays = 0
    while start < len(text):
        lines = _Lines(text, start)
        begin, start = start, len(text)
        if strays > _MOST_STRAYS:
            yield from csv.reader(lines, delimiter=shape.delimiter, quoting=csv.QUOTE_NONE)
            return
        for row in csv.reader(
            lines, delimiter=shape.delimiter, quotechar=shape.quote, skipinitialspace=shape.delimiter != " "
        ):
            if lines.at >= len(text) and _is_unclosed(text[begin:], shape):
                start = text.find("\n", begin) + 1 or len(text)
                strays += 1
                line = text[begin:start]
                yield from csv.reader([line], delimiter=shape.delimiter, quoting=csv.QUOTE_NONE)
                break
            yield row
            begin = lines.at


def _is_unclosed(record: str, shape: _Shape) -> bool:
    if "\n" not in record.rstrip("\n"):
        return False
    try:
        for _ in csv.reader([record], delimiter=shape.delimiter, quotechar=shape.quote, strict=True):
            pass
    except csv.Error as exc:
        return "end of data" in str(exc)
    return False


class _Lines:
    """The lines of a text, and how far they have been read; no copy of the whole is made."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.at >= len(self._text):
            raise StopIteration
        end = self._text.find("\n", self.at) + 1 or len(self._text)
        line = self._text[self.at : end]
        self.at = end
        return line
