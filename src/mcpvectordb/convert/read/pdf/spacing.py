"""Blanks that pdfium sees between letters set far apart, and that are none: S P A C E D titles, some OCR."""

from __future__ import annotations

import ctypes
import re
from statistics import median
from typing import Any

from .raw import raw
from .text import NOTHING

_LINE = re.compile(r"[^\r\n]+")
_LONE_LETTER = re.compile(r"(?<!\S)[^\W\d_](?!\S)")
# More blanks per character than any language has.
_MOST_BLANKS = 0.22
_LEAST_LONE_LETTERS = 2
# Lines on a page from which all of its lines are looked at.
_IS_HABIT = 3
# Of the letters' size: letters further apart stand alone.
_WIDEST = 0.6
_WIDER = 1.35


def without_false_blanks(handle: Any, units: str) -> str:
    """The page's characters, such a blank replaced by NOTHING, so that their numbers stay."""
    found = [
        blanks
        for line in _LINE.finditer(units)
        if line[0].count(" ") >= _MOST_BLANKS * len(line[0])
        and len(_LONE_LETTER.findall(line[0])) >= _LEAST_LONE_LETTERS
        and (blanks := _false_blanks(handle, line[0], line.start()))
    ]
    if not found:
        return units
    if len(found) >= _IS_HABIT:
        found = [_false_blanks(handle, line[0], line.start()) for line in _LINE.finditer(units)]
    false = [index for blanks in found for index in blanks]
    characters = list(units)
    for index in false:
        characters[index] = NOTHING
    return "".join(characters)


def _false_blanks(handle: Any, text: str, start: int) -> list[int]:
    """The blanks of a line that are not in the file and no wider than the space between its letters."""
    rect = raw.FS_RECTF()
    gaps: list[tuple[float, int]] = []  # between two letters, and the number of the blank between them
    before: float | None = None
    blank = -1
    size = 1.0
    for index, character in enumerate(text, start):
        if character.isspace():
            is_seen = bool(raw.FPDFText_IsGenerated(handle, index)) and blank < 0
            blank, before = (index, before) if is_seen else (-1, None)
            continue
        raw.FPDFText_GetLooseCharBox(handle, index, ctypes.byref(rect))
        size = max(size, rect.top - rect.bottom)
        if before is not None:
            gaps.append((rect.left - before, blank))
        before, blank = rect.right, -1
    if not gaps:
        return []
    widest = min(_WIDER * median(gap for gap, _ in gaps) + 0.02 * size, _WIDEST * size)
    return [index for gap, index in gaps if index >= 0 and 0 < gap <= widest]
