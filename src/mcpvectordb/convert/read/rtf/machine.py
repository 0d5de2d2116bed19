"""The mechanics of RTF: its tokens, its groups, and letters by byte or by number.

What the words mean is left to the reader built on this. Groups are kept on a stack of our own, so no depth is
too deep, and every byte is looked at once.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from mcpvectordb.convert.read.office.prose import PLAIN, Format

from .field import Field
from .letters import Letters
from .story import Paragraph, Story

_TOKEN = re.compile(
    rb"\\(?:([a-zA-Z]{1,40})(-?\d{1,10})? ?|'([0-9a-fA-F]{2})|([^a-zA-Z]))"
    rb"|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)|.",
    re.S,
)
_IN_SKIPPED = re.compile(rb"[{}]|\\(?:bin(\d{1,10}) ?|.)", re.S)
_SAMPLES = 1000

Sink = Callable[[str, Format], None]


@dataclass(slots=True)
class Group:
    """What holds until the group ends. A group within begins with all of it, but for `at_end`."""

    sink: Sink | None  # where letters go; None is nowhere
    story: Story
    form: Format = PLAIN
    is_hidden: bool = False
    is_deleted: bool = False
    font: int = 0
    fallbacks: int = 1  # how many letters stand after a number in place of it
    paragraph: Paragraph = Paragraph()  # noqa: RUF009 - frozen
    field: Field | None = None
    aside: Sink | None = None  # where letters go once the group turns to the better of two versions
    row_depth: int = 1
    at_end: Callable[[], None] | None = None

    def inner(self) -> Group:
        # Not by replace(), which asks for each field by name: a text may be all groups.
        return Group(
            self.sink,
            self.story,
            self.form,
            self.is_hidden,
            self.is_deleted,
            self.font,
            self.fallbacks,
            self.paragraph,
            self.field,
            self.aside,
            self.row_depth,
        )


class Machine(ABC):
    def __init__(self, data: bytes, body: Story) -> None:
        self._data = data
        self._letters = Letters()
        self._group = Group(body.add, body)
        self._groups: list[Group] = []
        self._pending = bytearray()
        self._left_out = 0  # letters still to be left out after a number
        self._high = 0  # the first half of a letter beyond 16 bits
        self._is_optional = False  # after \\*
        self._has_raw_utf8 = not data.isascii() and _is_utf8(data)
        # A group closed too often ends the text only if no more text follows.
        self._last_break = max(data.rfind(b"\\par"), data.rfind(b"\\cell"))
        self.sample: list[str] = []  # of the letters, as they came
        self.is_cut_off = False

    @abstractmethod
    def _word(self, word: str, number: int | None, at: int) -> int:
        """Do what a control word says; where to go on reading."""

    @abstractmethod
    def _break(self, word: str) -> None:
        """End a paragraph, a cell or a row."""

    def run(self, at: int) -> None:
        data, match = self._data, _TOKEN.match
        while found := match(data, at):
            at = found.end()
            word, number, code, sign, brace, raw = found.groups()
            if raw is not None:
                self._raw(raw)
            elif word is not None:
                at = self._word(word.decode("ascii"), int(number) if number else None, at)
            elif code is not None:
                self._letter(bytes((int(code, 16),)))
            elif sign is not None:
                self._sign(sign)
            elif brace == b"{":
                self._begin()
            elif brace == b"}":
                self._end()
                if not self._groups and at > self._last_break:
                    break
        else:
            self.is_cut_off = bool(self._groups)
        while self._groups:
            self._end()
        self._flush()

    # Letters: gathered as bytes, because one may take two of them, and decoded when anything else comes.

    def _raw(self, raw: bytes) -> None:
        if self._group.sink is None:
            return
        if self._left_out:
            left_out, self._left_out = self._left_out, max(0, self._left_out - len(raw))
            raw = raw[left_out:]
        if self._has_raw_utf8 and not raw.isascii():
            self._flush()
            self._put(raw.decode("utf-8", "replace"))
        else:
            self._pending += raw

    def _letter(self, letter: bytes) -> None:
        if self._left_out:
            self._left_out -= 1
        else:
            self._pending += letter

    def _flush(self) -> None:
        if self._pending:
            data = bytes(self._pending)
            self._pending.clear()
            if self._group.sink is not None:
                self._put(self._letters.decoded(data, self._group.font))

    def _put(self, text: str) -> None:
        group = self._group
        self._high = 0
        if text and group.sink is not None and not (group.is_hidden or group.is_deleted):
            group.sink(text, group.form)
            if len(self.sample) < _SAMPLES:
                self.sample.append(text)

    def _number(self, code: int) -> None:
        """A letter by its number in UTF-16, signed."""
        self._flush()
        code &= 0xFFFF
        self._left_out = self._group.fallbacks
        if 0xD800 <= code < 0xDC00:
            self._high = code
        elif 0xDC00 <= code < 0xE000:
            if self._high:
                self._put(chr(0x10000 + (self._high - 0xD800) * 0x400 + code - 0xDC00))
        elif code:
            self._put(self._letters.character(code, self._group.font))

    def _sign(self, sign: bytes) -> None:
        if sign in (b"\\", b"{", b"}"):
            self._letter(sign)
            return
        if sign == b"*":
            self._is_optional = True
            return
        if sign in (b"\r", b"\n"):
            self._flush()
            self._break("par")
            return
        # An optional hyphen and what is not known show nothing.
        self._letter({b"~": b" ", b"_": b"-", b"\t": b"\t"}.get(sign, b""))

    # Groups

    def _begin(self) -> None:
        self._flush()
        self._left_out = 0
        self._groups.append(self._group)
        self._group = self._group.inner()
        self._is_optional = False

    def _end(self) -> None:
        self._flush()
        self._left_out = 0
        if self._group.at_end is not None:
            self._group.at_end()
        if self._groups:
            self._group = self._groups.pop()

    def _skip(self, at: int) -> int:
        """Past the end of the group, reading nothing: pictures and the like are megabytes of digits."""
        depth = 1
        while found := _IN_SKIPPED.search(self._data, at):
            at = found.end() + min(int(found[1] or 0), len(self._data))
            depth += {b"{": 1, b"}": -1}.get(found[0], 0)
            if depth == 0:
                break
        else:
            self.is_cut_off = True
            return len(self._data)
        if not self._groups:
            return len(self._data)
        self._end()
        return at


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
