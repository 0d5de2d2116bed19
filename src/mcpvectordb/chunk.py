"""Split a document into chunks that a model can embed whole.

Pure: no files, no model, no settings. Sizes are counted in tokens by a function handed in, because the
tokenizer belongs to the embedder, which this module must not import.

The text is read into blocks, blocks are packed into groups that fit the slice budget, and each group becomes
a chunk. Slices cover the text without a gap: white space belongs to the block before it.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import NamedTuple

from .blocks import BLANK_LINE, MAX_HEADING_CHARS, OPENING, PROSE, Block, Kind, markdown_blocks, plain_blocks
from .models import Chunk, Converted

_Piece = tuple[int, int, int]  # start, end and tokens

_CONTEXT_PERCENT = 15
_MIN_SLICE_TOKENS = 8  # a shorter slice says nothing that could be found again
# WordPiece reads a word of more than 100 characters as one unknown token, so tokens alone would let megabytes
# of base64 into one chunk. No real prose comes near so many characters in a token.
_MAX_CHARS_PER_TOKEN = 16
_MAX_CLUSTER_CHARS = 32  # a longer sequence of combining characters is no letter and may be cut
_SAMPLE_CHARS = 2000
# Where in this last part of itself a chunk ends is decided by the text there, not by how much fits: so the
# cuts of two versions of a text fall on the same places again soon after an edit.
_CHOICE = 0.5
# Only in a text of so many chunks. It leaves chunks less full, which costs search quality (Cranfield by
# keywords: .369 nDCG@10 against .378), and a short text is embedded anew in a moment.
_MANY_CHUNKS = 32
_SEEN_CHARS = 24
_RARE = 2**32 // 16
# A piece this full is accepted; looking for a fuller one costs more counts than it is worth.
_FULL_ENOUGH = 0.85

# A cut falls at the end of a match. Quantifiers are bounded or possessive: a page of full stops stays linear.
# A single letter or digit before the stop is an initial or a number, not the end of a sentence.
_SENTENCE = re.compile(
    r"""(?<!\s[A-Z\d])[.!?…؟۔]["'”’»)\]*_]{0,4}\s++(?![a-z])|[。！？｡؟۔]["”’」』）】]{0,4}\s*+"""
)
_LINE = re.compile(r"\n(?:\s*\n)?+")
_NESTED_ITEM = re.compile(r"\n(?=[ \t]*+(?:[-*+]|\d{1,9}[.)])[ \t])")
_CELL = re.compile(r"\|\s*+")
_CLAUSE = re.compile(r"[,;:—–]\s++|[，、；：،؛]\s*+")
_WORD = re.compile(r"\s++")
# Where a block of each kind is cut, best first, with how full the piece must be for the cut to be worth it.
_PROSE_CUTS = ((_SENTENCE, 0.5), (_LINE, 0.5), (_CLAUSE, 0.5), (_WORD, 0.0))
_CUTS: dict[Kind, tuple[tuple[re.Pattern[str], float], ...]] = {
    "item": ((_NESTED_ITEM, 0.3), (BLANK_LINE, 0.5), *_PROSE_CUTS),
    "table": ((_LINE, 0.0), (_CELL, 0.0), (_WORD, 0.0)),
    "code": ((BLANK_LINE, 0.5), (_LINE, 0.0), (_WORD, 0.0)),
}
# Emoji held together by a joiner, coloured by a skin tone, or two letters that make a flag.
_JOINED = re.compile(r"\u200d|.[\u200d\U0001f3fb-\U0001f3ff]|[\U0001f1e6-\U0001f1ff]{2}", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    tokens: int  # most tokens of the whole embedded text: prefix, context, slice and special tokens
    reserved: int  # tokens that the model's prefix and special tokens take

    @property
    def context(self) -> int:
        return self.tokens * _CONTEXT_PERCENT // 100

    @property
    def slice(self) -> int:
        """Fixed, whatever the context turns out to be, so that an edited heading moves no cut."""
        return self.tokens - self.reserved - self.context


def split(converted: Converted, limits: Limits, count: Callable[[str], int]) -> list[Chunk]:
    """All chunks of a document at once; see cut."""
    return list(cut(converted, limits, count))


def cut(converted: Converted, limits: Limits, count: Callable[[str], int]) -> Iterator[Chunk]:
    """Cut a document into chunks whose embedded text keeps within limits, each as it is asked for.

    count gives the model's tokens of a text, without special tokens. The one thing let through over the limit
    is a single character, with the white space around it, that alone is over it.
    """
    if limits.slice < _MIN_SLICE_TOKENS:
        raise ValueError(f"{limits} leaves fewer than {_MIN_SLICE_TOKENS} tokens for the text itself.")
    text = converted.text
    if not text or text.isspace():
        return
    blocks = markdown_blocks(text) if converted.is_markdown else plain_blocks(text)
    finisher = _Finisher(converted, limits, count)
    cutter = _Cutter(text, count)
    if cutter.is_longer_than(_MANY_CHUNKS * limits.slice):
        cutter.choice = _CHOICE
    for group in _pack(blocks, cutter, limits.slice):
        yield from finisher.add(group)


@dataclass(slots=True)
class _Cutter:
    text: str
    count: Callable[[str], int]
    choice: float = 0.0
    _guess: float = 0.0

    def is_longer_than(self, tokens: int) -> bool:
        """Whether the text has more tokens, by a guess."""
        return len(self.text) > tokens and len(self.text) > tokens * self._chars_per_token()

    def line(self, start: int) -> str:
        return self.text[start : self.text.find("\n", start)].strip()

    def weigh(self, start: int, end: int, limit: int) -> int:
        """Tokens of a slice, and at least one; far over the limit an estimate will do."""
        part = self.text[start:end]
        bulk = 1
        if not self._is_short(start, end, limit):
            bulk = -(-sum(map(len, part.split())) // _MAX_CHARS_PER_TOKEN)
        return bulk if bulk > limit else max(1, bulk, self.count(part))

    def pieces(self, block: _Piece, kind: Kind, first: int, limit: int) -> Iterator[_Piece]:
        """Cut a block into pieces of at most limit tokens, the first one of at most first."""
        start, end, tokens = block
        body_end = start + len(self.text[start:end].rstrip())
        rest = tokens if self._is_short(start, end, limit) else None  # the tokens of what is long are a guess
        while start < end:
            if rest is None and self._is_short(start, end, limit):
                rest = self.weigh(start, end, limit)
            # No scrap at the end. Only the last two are balanced, or an edit would move every cut before it.
            is_near_end = rest is not None and first < rest < 2 * first
            goal = min(first, rest * 3 // 5) if rest is not None and is_near_end else first
            piece = self._piece(start, end, body_end, kind, max(goal, 1), 0.0 if is_near_end else self.choice)
            yield piece
            start, first = piece[1], limit
            rest = None if rest is None else max(rest - piece[2], 1)

    def _is_short(self, start: int, end: int, limit: int) -> bool:
        """Whether its tokens are counted, and not estimated."""
        return (end - start) * 2 <= limit * _MAX_CHARS_PER_TOKEN

    def _piece(self, start: int, end: int, body_end: int, kind: Kind, limit: int, choice: float) -> _Piece:
        gap = _WORD.match(self.text, start)
        head = gap.end() if gap else start
        stop = end
        while True:
            reach, tokens = self._reach(start, stop, limit)
            if reach == end:
                return start, end, tokens
            # Both sides of the cut must hold more than white space.
            cut = self._best_cut(start, head, min(reach, body_end - 1), kind, choice)
            if cut <= head:  # the first character is too much with all that belongs to it
                cut = min(max(reach, head + 1), body_end - 1) if head + 1 < body_end else end
            # Less text may be more tokens, where a cut turns an unknown word into known parts.
            tokens = self.weigh(start, cut, limit)
            if tokens <= limit or cut in (head + 1, end):
                return start, cut, tokens
            stop = cut - 1

    def _reach(self, start: int, stop: int, limit: int) -> tuple[int, int]:
        """An offset up to which the text fits, not far from the furthest, and its tokens."""
        low, tokens, high = start, 0, stop + 1
        size = int(limit * self._chars_per_token())
        middle = start + size if stop - start > size * 1.3 else stop  # a rest that fits is not cut
        attempt = 0
        while high - low > 1:
            middle = min(max(middle, low + 1), high - 1)
            weight = self.weigh(start, middle, limit)
            if weight > limit:
                high = middle
            else:
                low, tokens = middle, weight
                if low == stop or weight >= _FULL_ENOUGH * limit or attempt > 5:
                    break
            attempt += 1
            guess = start + int((middle - start) * limit * 0.97 / weight)
            middle = guess if attempt < 4 else (low + high) // 2
        return low, tokens

    def _chars_per_token(self) -> float:
        """A good first guess saves counts. Of the whole text and rounded: one that was learnt from the text
        before would move cuts far from an edit."""
        if not self._guess:
            last = max(len(self.text) - _SAMPLE_CHARS, 0)
            samples = [self.text[place : place + _SAMPLE_CHARS] for place in (0, last // 2, last)]
            tokens = sum(max(self.count(sample), 1) for sample in samples)
            self._guess = 2 ** (round(2 * math.log2(sum(map(len, samples)) / tokens)) / 2)
        return self._guess

    def _best_cut(self, start: int, head: int, reach: int, kind: Kind, choice: float) -> int:
        for pattern, fullness in _CUTS.get(kind, _PROSE_CUTS):
            least = max(head + 1, start + int((reach - start) * fullness))
            # One character further than may be used, to see that white space does not go on past the cut.
            ends = [match.end() for match in pattern.finditer(self.text, start, reach + 1)]
            if usable := [end for end in ends if least <= end <= reach]:
                late, early = (int(start + (1 - n * choice) * (reach - start)) for n in (1, 1.5))
                at_will = [end for end in usable if end >= late]
                if_rare = [end for end in ends if max(head + 1, early) <= end < late] if choice else []
                return self.chosen(at_will, if_rare) or usable[-1]
        last = cut = head + len(self.text[head : reach + 1].rstrip()) - 1
        while cut > head and not self._is_boundary(cut):
            cut -= 1
            if last - cut > _MAX_CLUSTER_CHARS:
                return last
        return cut

    def chosen(self, cuts: Sequence[int], early: Sequence[int] = ()) -> int:
        """One of these places, by what stands there alone; of the early ones only one in many may be."""
        marks = {cut: self._mark(cut) for cut in (*cuts, *early)}
        allowed = [*cuts, *(cut for cut in early if marks[cut] < _RARE)]
        return min(allowed, key=marks.__getitem__, default=0)

    def _mark(self, cut: int) -> int:
        around = self.text[max(cut - _SEEN_CHARS, 0) : cut + _SEEN_CHARS]
        return zlib.crc32(around.encode("utf-8", "replace"))

    def _is_boundary(self, offset: int) -> bool:
        is_mark = unicodedata.category(self.text[offset])[0] == "M"
        return not (is_mark or self.text[offset].isspace() or _JOINED.match(self.text, offset - 1))


class _Unit(NamedTuple):
    start: int
    end: int
    tokens: int
    kind: Kind
    path: tuple[str, ...]  # the headings it stands under, its own included
    header: str = ""  # the first line of the table that it goes on with


def _pack(blocks: Iterable[Block], cutter: _Cutter, limit: int) -> Iterator[list[_Unit]]:
    """Fill groups of at most limit tokens in order, a new one at each heading that has text above it."""
    group: list[_Unit] = []
    free, has_body = limit, False
    trail: list[Block] = []  # the headings in force
    path: tuple[str, ...] = ()
    for block, following in pairwise(chain(blocks, [Block("rule", len(cutter.text))])):
        end = following.start
        kind = block.kind
        if kind == "heading":
            free = 0 if has_body else free
            while trail and trail[-1].level >= block.level:
                trail.pop()
            trail.append(block)
            path = tuple(heading.title for heading in trail if heading.title)
        tokens = cutter.weigh(block.start, end, limit)
        pieces: Iterable[_Piece] = ((block.start, end, tokens),)
        if tokens > free:
            # Prose is cut rather than leave its heading alone; a table or a code block that fits stays whole.
            is_bare = bool(group) and not has_body
            goes_on = free * 4 >= limit if is_bare else free * 2 >= limit and kind in PROSE
            first = free if goes_on else limit
            if tokens > limit or (tokens > first and is_bare and kind in PROSE):
                pieces = cutter.pieces((block.start, end, tokens), kind, first, limit)
        for piece in pieces:
            if piece[2] > free and group:
                kept, group = _parted(group, cutter, piece[2] if free else limit, limit)
                yield kept
                free, has_body = limit - sum(unit.tokens for unit in group), bool(group)
            is_later = kind == "table" and piece[0] > block.start
            header = cutter.line(block.start) if is_later else ""
            group.append(_Unit(*piece, kind, path, header))
            free -= piece[2]
            has_body = has_body or kind not in OPENING
    yield group


def _parted(group: list[_Unit], cutter: _Cutter, tokens: int, limit: int) -> tuple[list[_Unit], list[_Unit]]:
    """A full group, parted from its last units that go with the next one, which has so many tokens."""
    places: dict[int, int] = {group[-1].end: len(group)}
    early: dict[int, int] = {}
    rest = 0
    for index in range(len(group) - 1, 0, -1):
        rest += group[index].tokens
        if rest + tokens > limit or rest > cutter.choice * 1.5 * limit or group[index - 1].kind in OPENING:
            break
        (places if rest <= cutter.choice * limit else early)[group[index].start] = index
    index = (places | early)[cutter.chosen(list(places), list(early))]
    return group[:index], group[index:]


@dataclass(slots=True)
class _Finisher:
    """Turns groups into chunks, and counts each as it will be embedded."""

    converted: Converted
    limits: Limits
    count: Callable[[str], int]
    _before: Chunk | None = None
    _section: tuple[str, ...] = ()  # the headings over the end of the last chunk

    def add(self, group: list[_Unit]) -> Iterator[Chunk]:
        start = group[0].start
        content = self.converted.text[start : group[-1].end]
        bare = Chunk(
            index=self._before.index + 1 if self._before else 0,
            content=content,
            start=start,
            headings=next((unit.path for unit in group if unit.kind not in OPENING), group[-1].path),
            page=self._page(start + len(content) - len(content.lstrip())),
            page_end=self._page(start + len(content.rstrip()) - 1),
        )
        candidates = (replace(bare, context=context) for context in self._contexts(group[0], bare.headings))
        most, half = self.limits.tokens - self.limits.reserved, len(group) // 2
        chunk = next((chunk for chunk in candidates if self.count(chunk.embedded) <= most), None)
        if chunk is None and half:
            # The parts were within the limit, the whole is not: tokens do not always add up.
            yield from self.add(group[:half])
            yield from self.add(group[half:])
        else:
            self._before, self._section = chunk or bare, group[-1].path
            yield self._before

    def _page(self, offset: int) -> int:
        index = bisect_right(self.converted.pages, offset, key=lambda mark: mark.offset)
        return self.converted.pages[index - 1].page if index else 0

    def _contexts(self, first: _Unit, headings: tuple[str, ...]) -> Iterator[str]:
        """What may stand in front of a chunk, the best first."""
        opens_section = first.kind == "heading"
        above = first.path[:-1] if opens_section else headings
        title = " ".join(self.converted.title[:MAX_HEADING_CHARS].split())
        is_title_needed = self.converted.is_markdown and title and title not in headings[:1]
        shared = [a for a, b in zip(above, headings, strict=False) if a == b]
        trail = self._trail([title, *shared] if is_title_needed else shared)
        if first.header:
            # What the columns are says more about a row than the row before it.
            yield self._with_header(trail, first.header)
        elif self._before and not opens_section and first.path == self._section:
            yield self._with_tail(trail, self._before.content.rstrip())
        yield trail
        yield ""

    def _trail(self, parts: list[str]) -> str:
        """Title and headings; the nearest ones if not all fit, and the first words of a long one."""
        budget = self.limits.context
        while len(parts) > 1 and self.count(" > ".join(parts)) > budget:
            del parts[0]
        words = " > ".join(parts).split()
        fitting = bisect_right(range(len(words) + 1), budget, key=lambda n: self.count(" ".join(words[:n])))
        return " ".join(words[: fitting - 1])

    def _with_header(self, trail: str, header: str) -> str:
        """The table's first line, with the trail above it if there is room for both."""
        both = f"{trail}\n{header}" if trail else header
        return next((text for text in (both, header) if self.count(text) <= self.limits.context), trail)

    def _with_tail(self, trail: str, before: str) -> str:
        """The trail and as many last words of the sentence before as there is room for."""
        budget = self.limits.context
        window = before[-budget * 8 :] if budget else ""
        ends = [match.end() for match in _SENTENCE.finditer(window) if match.end() < len(window)]
        # Without a sentence's start in it, the window may begin in the middle of a word.
        words = window[ends[-1] :].split() if ends else window.split()[len(window) < len(before) :]

        def joined(skipped: int) -> str:
            tail = " ".join(words[skipped:])
            return f"{trail}\n{tail}" if trail and tail else trail or tail

        return joined(bisect_left(range(len(words)), True, key=lambda n: self.count(joined(n)) <= budget))
