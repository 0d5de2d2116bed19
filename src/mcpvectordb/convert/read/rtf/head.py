"""The tables at the head of an RTF text, filled in word by word: fonts, and styles by their numbers."""

from __future__ import annotations

from mcpvectordb.convert.read.office.prose import Format
from mcpvectordb.convert.read.office.word_styles import code_name, heading_name, quote_name

from .letters import Font, Letters
from .story import Style

_DEEPEST = 10


class FontTable:
    def __init__(self, letters: Letters) -> None:
        self._letters = letters
        self._font = Font()

    def add(self, text: str, _: Format) -> None:
        if not self._font.name.endswith(";"):
            self._font.name = (self._font.name + text)[:100]
        if self._font.name.endswith(";"):
            self._font.name = self._font.name[:-1].strip()

    def set(self, word: str, number: int | None) -> bool:
        if word == "f":
            self._font = self._letters.font(number or 0)
        elif word == "fcharset":
            self._font.charset = number or 0
        elif word == "cpg":
            self._font.page = number or 0
        else:
            return False
        return True


class StyleSheet:
    """Styles of paragraphs, by their numbers; a style may take after another that is yet to come."""

    def __init__(self) -> None:
        self._number = 0
        self._names: dict[int, str] = {}
        self._outlines: dict[int, int] = {}
        self._bases: dict[int, int] = {}
        self._styles: dict[int, Style] = {}

    def style(self, number: int) -> Style:
        if number not in self._styles:
            self._styles[number] = self._style(number)
        return self._styles[number]

    def add(self, text: str, _: Format) -> None:
        self._styles.clear()
        name, end, _rest = text.partition(";")
        self._names[self._number] = (self._names.get(self._number, "") + name)[:100]
        if end:
            self._number = 0

    def set(self, word: str, number: int | None) -> bool:
        if word == "s":
            self._number = number or 0
        elif word in ("cs", "ts", "ds"):  # of letters, tables and sections
            self._number = -1
        elif word == "outlinelevel":
            self._outlines[self._number] = number or 0
        elif word == "sbasedon":
            self._bases[self._number] = number or 0
        else:
            return False
        return True

    def _style(self, number: int) -> Style:
        heading = 0
        names: list[str] = []
        for _ in range(_DEEPEST):
            if number not in self._names:
                break
            names.append(self._names[number].strip())
            outline = self._outlines.get(number)
            heading = heading or (heading_name(names[-1]) if outline is None else (outline + 1) % 10)
            base = self._bases.get(number, number)
            if base == number:
                break
            number = base
        return Style(
            heading=heading,
            is_code=any(code_name(name) for name in names),
            is_quote=any(quote_name(name) for name in names),
        )
