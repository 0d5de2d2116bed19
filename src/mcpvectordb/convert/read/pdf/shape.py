"""What only the whole PDF tells of a page's blocks: its headings, its running headers, its words. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from .layout import Block
from .page import PageRead

# Larger than the text around it by this factor is a heading.
_LARGER = 1.12
_LONGEST_HEADING = 200
_MOST_HEADING_LINES = 4
_MOST_LEVELS = 4
# More of the text than this in bold, and bold says nothing.
_MOST_BOLD = 0.25
# The parts of a page, from its edges, where headers and footers run.
_MARGIN = 0.13
_LONGEST_RUNNING = 150
_LEAST_REPEATED = 3
_LEAST_SHARE = 0.3
_REPEATED_FOR_SURE = 8

_LEAST_NUMBERED = 2
_ANY_NUMBER = "#"
_Place = tuple[str, int]  # what stands there, and how high

_LETTERS = re.compile(r"[^\W\d_]{2}|[\u2e80-\u9fff]")
_PAGE_NUMBER = re.compile(
    r"(?:page |seite |p\. ?|página |стр\. ?|第 ?)?[-–—|\[( ]*(?:\d{1,4}|[ivxlc]{1,7})[-–—|\]) ]*"
    r"|\d{1,4} ?(?:of|von|de|/|из|sur) ?\d{1,4}|第? ?\d{1,4} ?(?:页|頁|ページ)",
    re.I,
)
_BLANKS = re.compile(r"[\W_]+")


def without_running(pages: Sequence[PageRead]) -> list[list[Block]]:
    """The pages' blocks; page numbers gone, headers and footers only on the page where they first stand."""
    on_pages: Counter[_Place] = Counter()
    largest = _LARGER * _body_size([page.blocks for page in pages])
    for page in pages:
        on_pages.update({_place(block) for block in page.blocks if _is_in_margin(block, page, largest)})
    least = min(max(_LEAST_REPEATED, _LEAST_SHARE * len(pages)), _REPEATED_FOR_SURE)
    met: set[_Place] = set()
    kept: list[list[Block]] = []
    for page in pages:
        blocks: list[Block] = []
        here: set[_Place] = set()
        for block in page.blocks:
            if _is_in_margin(block, page, largest):
                place = _place(block)
                is_number = place[0] == _ANY_NUMBER
                if is_number and on_pages[place] >= _LEAST_NUMBERED and len(page.blocks) > 1:
                    continue
                if not is_number and on_pages[place] >= least:
                    if place in met:
                        continue
                    here.add(place)
            blocks.append(block)
        met |= here
        kept.append(blocks)
    return kept


def _is_in_margin(block: Block, page: PageRead, largest: float) -> bool:
    """Whether it may be a header or footer. What is as large as a heading is one: the title of a slide."""
    margin = _MARGIN * (page.top - page.bottom)
    return (
        0 < block.size < largest
        and block.lines <= 2
        and len(block.text) <= _LONGEST_RUNNING
        and (block.base > page.top - margin or block.base < page.bottom + margin)
    )


def _place(block: Block) -> _Place:
    text = _ANY_NUMBER if _PAGE_NUMBER.fullmatch(block.text) else block.text
    return text, round(block.base / 2)


def plain_key(text: str) -> str:
    """A heading as it is compared with the entries of the outline."""
    return _BLANKS.sub("", text).casefold()


class Headings:
    """Which blocks are headings, and of which level: by the outline, by their size, by their weight."""

    def __init__(self, pages: Sequence[Sequence[Block]], outline: Mapping[tuple[int, str], int]) -> None:
        self._outline = outline
        self._body = _body_size(pages)
        bold = sum(len(block.text) for blocks in pages for block in blocks if block.is_bold)
        total = sum(len(block.text) for blocks in pages for block in blocks)
        self._is_bold_rare = bold <= _MOST_BOLD * total
        sizes = {_rounded(block.size) for blocks in pages for block in blocks if self._is_large(block)}
        steps: list[float] = []
        self._levels: dict[float, int] = {}
        for size in sorted(sizes, reverse=True):
            if not steps or size < 0.93 * steps[-1]:
                steps.append(size)
            self._levels[size] = min(len(steps), _MOST_LEVELS)
        self._deepest = max(self._levels.values(), default=0)

    def level(self, page: int, block: Block) -> int:
        """0 for what is none. The page is counted from 1."""
        if block.kind not in ("text", "item") or len(block.text) > _LONGEST_HEADING:
            return 0
        if self._outline and (named := self._outline.get((page, plain_key(block.text)))):
            return named
        if block.text.startswith("- "):
            return 0
        if self._is_large(block):
            return self._levels[_rounded(block.size)]
        is_bold = block.is_bold and self._is_bold_rare and _LETTERS.search(block.text) is not None
        if is_bold and "\n" not in block.text and _rounded(block.size) >= 0.95 * self._body:
            return min(self._deepest + 1, _MOST_LEVELS + 1)
        return 0

    def _is_large(self, block: Block) -> bool:
        return (
            block.kind in ("text", "item")
            and not block.text.startswith("- ")
            and block.lines <= _MOST_HEADING_LINES
            and len(block.text) <= _LONGEST_HEADING
            and 0 < _LARGER * self._body <= _rounded(block.size)
            and _LETTERS.search(block.text) is not None
        )


def _body_size(pages: Sequence[Sequence[Block]]) -> float:
    """The size of most letters."""
    weight: Counter[float] = Counter()
    for blocks in pages:
        for block in blocks:
            if block.size:  # tables have none, nor has text that runs down the page
                weight[_rounded(block.size)] += len(block.text)
    return weight.most_common(1)[0][0] if weight else 0.0


def _rounded(size: float) -> float:
    return round(size * 2) / 2
