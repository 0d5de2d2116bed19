"""One PDF page to blocks of text: lines, rules and layout brought together. Keeps nothing of pdfium's."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from .grid import ruled_tables
from .layout import Block, blocks_of
from .lines import Box, Line, PageText, read_lines, turned, words_of
from .notes import written_on
from .raw import raw
from .rules import drawn_on, is_pictured, page_box
from .stamps import stamps_on
from .text import clean

_EVERYWHERE: Box = (-1e9, -1e9, 1e9, 1e9)
# A page with no more than this may be a picture with a stamp on it.
_FEW_CHARACTERS = 80
# A header has a row of pieces, too.
_LEAST_ROWS = 2
# Steps up a page, out of all from line to line: columns make one or two, tables some.
_LEAST_UPS = 3
_MOST_UPS = 0.3
_BOLD_WEIGHT = 600
_BOLD_NAME = re.compile(rb"bold|black|heavy|demi|cmbx|-medi\b", re.I)


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRead:
    blocks: list[Block]
    written: list[str]  # notes and the values of fields, one line each
    stamped: list[str]  # what signatures and stamps show
    bottom: float  # of the page, text upright
    top: float
    is_pictured: bool  # it has little text or none, and shows something


def read_page(document: Any, index: int, page: Any, text_page: Any, form: Any) -> PageRead:
    box = page_box(page)
    found = read_lines(text_page, box)
    if not found.lines and not found.aside and found.units.strip():
        found = read_lines(text_page, _EVERYWHERE)
    blocks = _blocks(page, found)
    length = sum(len(block.text) for block in blocks)
    has_notes = raw.FPDFPage_GetAnnotCount(page) > 0
    page_text = "\n".join(block.text for block in blocks) if has_notes else ""
    _, bottom, _, top = turned(box, found.quarter)
    return PageRead(
        blocks=blocks,
        written=written_on(page, form, page_text) if has_notes else [],
        bottom=bottom,
        top=top,
        # Characters that mean nothing outside their font are pictures, too.
        is_pictured=length <= _FEW_CHARACTERS
        and (is_pictured(page) or (not blocks and bool(found.units.strip()))),
        stamped=stamps_on(document, index, page, form, page_text, len(found.units)) if has_notes else [],
    )


def _blocks(page: Any, found: PageText) -> list[Block]:
    blocks: list[Block] = []
    if found.lines:
        lines = _from_top_to_bottom(found.lines) if _is_shuffled(found.lines) else found.lines
        words = partial(words_of, found)
        # Looking for rules takes as long as reading, and a table has pieces of text side by side.
        tables = (
            ruled_tables(lines, drawn_on(page, found.quarter, len(found.units)), words)
            if _has_rows(lines)
            else []
        )
        blocks = blocks_of(lines, tables, words, partial(_is_bold, found.handle))
    aside = [text for line in found.aside if (text := clean(line))]
    if aside:
        # Columns of Japanese go on from one to the next; stamps along the margin do not.
        blocks.append(Block(("" if found.is_vertical else "\n").join(aside), "text"))
    return blocks


def _is_shuffled(lines: Sequence[Line]) -> bool:
    """Whether the file's order is no reader's: from the bottom up, or all that is bold and then the rest."""
    ups = sum(
        line.base > before.base + 0.8 * before.size and line.x0 < before.x1 and line.x1 > before.x0
        for before, line in pairwise(lines)
    )
    return ups >= _LEAST_UPS and ups > _MOST_UPS * len(lines)


def _from_top_to_bottom(lines: Sequence[Line]) -> list[Line]:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: -line.base):
        if rows and rows[-1][0].base - line.base < 0.4 * line.size:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line.x0)]


def _has_rows(lines: Sequence[Line]) -> bool:
    pieces = Counter(round(line.base / 2) for line in lines)
    return sum(count > 1 for count in pieces.values()) >= _LEAST_ROWS


_name = ctypes.create_string_buffer(256)
_flags = ctypes.c_int()
_flags_reference = ctypes.byref(_flags)


def _is_bold(handle: Any, index: int) -> bool:
    if raw.FPDFText_GetFontWeight(handle, index) >= _BOLD_WEIGHT:
        return True
    length = int(raw.FPDFText_GetFontInfo(handle, index, _name, len(_name), _flags_reference))
    return 0 < length <= len(_name) and _BOLD_NAME.search(_name.raw[:length]) is not None
