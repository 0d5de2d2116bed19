"""The lines of a PDF page and where they stand: pdfium's text, with a handful of its measures per line.

A call into pdfium costs under a microsecond, but a page has thousands of characters and reading it takes one
millisecond: so the text is taken in one piece, five measures per line, and single words are measured only
where a line has a wide gap. Knows nothing of paragraphs or tables; closes nothing.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .raw import raw
from .spacing import without_false_blanks
from .text import HYPHEN

_SPAN = re.compile(f"[^\\s{HYPHEN}](?:[^\\r\\n{HYPHEN}]*[^\\s{HYPHEN}])?{HYPHEN}?")
_BLANKS = re.compile(r"\s+")
# The dots between an entry of a table of contents and its page are no cells.
_LEADERS = re.compile(r"(?:\.\s?){5}|_{5}|(?:…\s?){3}")
_SURROGATE = re.compile("[\ud800-\udfff]")

# In ems. Words of justified text stand up to one apart; columns and cells further.
WIDE_GAP = 1.0
# What a rectangle's gap must have, in points, to be looked at: that is WIDE_GAP of the smallest print.
_SUSPECT_GAP = 4.0
# Ems per character from which a line must have gaps that its rectangles do not show.
_SPARSE = 0.8
# Pages with more rectangles than this are drawn glyph by glyph: their gaps mean nothing one by one.
_MOST_RECTANGLES = 4_000

Box = tuple[float, float, float, float]  # left, bottom, right, top


class Line(NamedTuple):
    """Characters on one baseline, in either direction; a line with wide gaps is several of these."""

    text: str  # ends in HYPHEN where a word is broken
    x0: float
    x1: float
    base: float
    size: float
    first: int  # pdfium's numbers of its first and last character
    last: int
    row: int  # the same for pieces of what pdfium calls one line


@dataclass(frozen=True, kw_only=True, slots=True)
class PageText:
    handle: Any
    units: str  # the page's text, one character per pdfium character
    quarter: int  # quarter turns that the page's text is turned by; the lines' coordinates are turned back
    lines: list[Line]
    aside: list[str]  # text that stands askew to the rest: stamps along the margin, watermarks
    is_vertical: bool  # the text aside runs from top to bottom, as Japanese may
    has_gaps: bool  # a line was cut into pieces


def read_lines(handle: Any, page_box: Box) -> PageText:
    """The lines of a text page in the order of the file, which is mostly the order of reading."""
    units = without_false_blanks(handle, _units(handle))
    lines, aside, quarter, is_vertical = _measured(handle, units, page_box)
    suspects = _suspects(handle, lines, quarter) if lines else set[int]()
    pieces: list[Line] = []
    for index, line in enumerate(lines):
        if index in suspects:
            pieces += _cut(handle, units, line, quarter)
        else:
            pieces.append(line)
    return PageText(
        handle=handle,
        units=units,
        quarter=quarter,
        lines=pieces,
        aside=aside,
        is_vertical=is_vertical,
        has_gaps=len(pieces) > len(lines),
    )


def words_of(page: PageText, line: Line) -> Iterator[tuple[str, float, float]]:
    """The words of a line with their left and right edges."""
    start = line.first
    text = page.units[line.first : line.last + 1]
    ends = [*(blank.span() for blank in _BLANKS.finditer(text)), (len(text), len(text))]
    for end, after in ends:
        last = line.first + end - 1
        left, _, right, _ = char_box(page.handle, start, page.quarter)
        left_of_last, _, right_of_last, _ = char_box(page.handle, last, page.quarter)
        word = _whole(page.units[start : last + 1])
        yield word, min(left, left_of_last), max(right, right_of_last)
        start = line.first + after


_rect = raw.FS_RECTF()
_rect_reference = ctypes.byref(_rect)


def char_box(handle: Any, index: int, quarter: int) -> Box:
    """The box of a character, as wide as its advance and as high as its font, text upright."""
    raw.FPDFText_GetLooseCharBox(handle, index, _rect_reference)
    return turned((_rect.left, _rect.bottom, _rect.right, _rect.top), quarter)


def turned(box: Box, quarter: int) -> Box:
    """The box on a page turned so that text which runs up (1), upside down (2) or down (3) is upright."""
    left, bottom, right, top = box
    match quarter:
        case 1:
            return bottom, -right, top, -left
        case 2:
            return -right, -top, -left, -bottom
        case 3:
            return -top, left, -bottom, right
        case _:
            return box


def _units(handle: Any) -> str:
    count: int = raw.FPDFText_CountChars(handle)
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    written: int = raw.FPDFText_GetText(handle, 0, count, buffer)
    text = bytes(buffer).decode("utf-16-le", "surrogatepass")
    if written == count + 1 and len(text) == written:
        return text[:-1]
    # Characters that pdfium left out, or pairs of surrogates: one by one, so that numbers stay in step.
    codes = (raw.FPDFText_GetUnicode(handle, index) for index in range(count))
    return "".join([HYPHEN if code == 2 else chr(code & 0xFFFF) for code in codes])


def _whole(text: str) -> str:
    """Pairs of surrogates made one character, lone ones dropped."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _measured(handle: Any, units: str, page_box: Box) -> tuple[list[Line], list[str], int, bool]:
    loose, get_size, get_matrix, get_origin = (
        raw.FPDFText_GetLooseCharBox,
        raw.FPDFText_GetFontSize,
        raw.FPDFText_GetMatrix,
        raw.FPDFText_GetCharOrigin,
    )
    rect, matrix, x, y = raw.FS_RECTF(), raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    rect_at, matrix_at, x_at, y_at = (ctypes.byref(thing) for thing in (rect, matrix, x, y))
    page_left, page_bottom, page_right, page_top = page_box
    found: list[tuple[Line, int]] = []
    is_vertical = False
    for span in _SPAN.finditer(units):
        first, end = span.span()
        last = end - 1
        if units[last] == HYPHEN and last > first:
            last -= 1
        # The middle is the line's own font more often than its ends: numbers of notes, initials.
        middle = (first + last + 1) // 2
        if units[middle] == " " and middle < last:
            middle += 1
        loose(handle, first, rect_at)
        left, bottom, right, top = rect.left, rect.bottom, rect.right, rect.top
        loose(handle, last, rect_at)
        get_matrix(handle, middle, matrix_at)
        get_origin(handle, middle, x_at, y_at)
        height = abs(top - bottom)
        a, b = matrix.a, matrix.b
        quarter = 0
        if abs(b) > 0.1 * abs(a):
            quarter = -1 if abs(a) > 0.1 * abs(b) else 1 if b > 0 else 3
            height = abs(right - left)
        elif a < 0:
            quarter = 2
        size: float = get_size(handle, middle) * (matrix.c**2 + matrix.d**2) ** 0.5
        # Fonts drawn as pictures of letters give sizes of their own making.
        if not 0.4 * height < size < 4 * height:
            size = height / 1.15 or 10.0
        if quarter == 0 and abs(rect.bottom - bottom) > 1.5 * size and last > first:
            quarter, is_vertical = -1, True
        box: Box = (
            min(left, rect.left),
            min(bottom, rect.bottom),
            max(right, rect.right),
            max(top, rect.top),
        )
        if box[2] < page_left or box[0] > page_right or box[3] < page_bottom or box[1] > page_top:
            continue
        origin = y.value
        if quarter > 0:
            box = turned(box, quarter)
            origin = -x.value if quarter == 1 else -y.value if quarter == 2 else x.value
        line = Line(_whole(units[first:end]), box[0], box[2], origin, size, first, last, first)
        found.append((line, quarter))
    return _of_one_direction(found, is_vertical)


def _of_one_direction(
    found: list[tuple[Line, int]], is_vertical: bool
) -> tuple[list[Line], list[str], int, bool]:
    lines = [line for line, quarter in found if quarter == 0]
    if len(lines) == len(found):
        return lines, [], 0, False
    weight: Counter[int] = Counter()
    for line, quarter in found:
        weight[quarter] += len(line.text) if quarter >= 0 else 0
    main = weight.most_common(1)[0][0]
    if main < 0:  # nothing but text askew
        main = 0
    lines = [line for line, quarter in found if quarter == main]
    aside = [line.text for line, quarter in found if quarter != main]
    return lines, aside, main, is_vertical


def _suspects(handle: Any, lines: list[Line], quarter: int) -> set[int]:
    """The lines that may have a wide gap in them: by the rectangles of their text, or by their length."""
    suspects = {
        index
        for index, line in enumerate(lines)
        if "   " in line.text or line.x1 - line.x0 > _SPARSE * line.size * len(line.text) + line.size
    }
    count: int = raw.FPDFText_CountRects(handle, 0, -1)
    if not 1 < count <= _MOST_RECTANGLES:
        return suspects
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    edges = [ctypes.byref(edge) for edge in (left, top, right, bottom)]
    get = raw.FPDFText_GetRect
    by_base = sorted((line.base, index) for index, line in enumerate(lines))
    before_left, before_bottom, before_right, before_top = -1e9, 0.0, 1e9, 0.0
    for index in range(count):
        get(handle, index, *edges)
        x0, y0, x1, y1 = left.value, bottom.value, right.value, top.value
        if quarter:
            x0, y0, x1, y1 = turned((x0, y0, x1, y1), quarter)
        gap = x0 - before_right
        if gap < 0:
            gap = before_left - x1
        if gap > _SUSPECT_GAP and min(y1, before_top) > max(y0, before_bottom):
            # Letters reach below their baseline by a quarter of their size, and some stand above it.
            at = bisect_left(by_base, (y0 - 4.0, -1))
            while at < len(by_base) and by_base[at][0] < y1 + 1.0:
                line = lines[by_base[at][1]]
                if gap >= WIDE_GAP * line.size and " " in line.text:
                    left_end, right_end = line.x0 - 1, line.x1 + 1
                    if left_end <= x0 <= right_end or left_end <= before_left <= right_end:
                        suspects.add(by_base[at][1])
                at += 1
        before_left, before_bottom, before_right, before_top = x0, y0, x1, y1
    return suspects


def _cut(handle: Any, units: str, line: Line, quarter: int) -> list[Line]:
    """The line in pieces, cut at its wide gaps."""
    text = units[line.first : line.last + 1]
    if _LEADERS.search(text):
        return [line]
    gaps: list[tuple[int, int, Box, Box]] = []
    for blank in _BLANKS.finditer(text):
        before = char_box(handle, line.first + blank.start() - 1, quarter)
        after = char_box(handle, line.first + blank.end(), quarter)
        if after[0] - before[2] > WIDE_GAP * line.size or before[0] - after[2] > WIDE_GAP * line.size:
            gaps.append((blank.start(), blank.end(), before, after))
    if not gaps:
        return [line]
    pieces: list[Line] = []
    start, opening = 0, char_box(handle, line.first, quarter)
    for end, following, before, after in gaps:
        pieces.append(_piece(units, line, start, end, opening, before))
        start, opening = following, after
    piece = _piece(units, line, start, len(text), opening, char_box(handle, line.last, quarter))
    pieces.append(piece._replace(text=piece.text + HYPHEN) if line.text.endswith(HYPHEN) else piece)
    return pieces


def _piece(units: str, line: Line, start: int, end: int, opening: Box, closing: Box) -> Line:
    return Line(
        _whole(units[line.first + start : line.first + end]),
        min(opening[0], closing[0]),
        max(opening[2], closing[2]),
        line.base,
        line.size,
        line.first + start,
        line.first + end - 1,
        line.row,
    )
