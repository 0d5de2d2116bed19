"""Which letters the bytes of an RTF text stand for: its code page, and the charset of each font. Pure."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from mcpvectordb.convert.read.office.symbols import symbol

# Code pages of the charsets that fonts name. 0 is left to the document, 2 is a font of signs.
_CODE_PAGES = {
    **{77: "mac_roman", 78: "cp932", 79: "cp949", 80: "cp936", 81: "cp950", 83: "mac_greek"},
    **{84: "mac_turkish", 88: "mac_latin2", 89: "mac_cyrillic", 128: "cp932", 129: "cp949", 130: "johab"},
    **{134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255"},
    **{178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850"},
}
_MAC_PAGES = {10000: "mac_roman", 10006: "mac_greek", 10007: "mac_cyrillic", 10029: "mac_latin2"}
_WESTERN = "cp1252"
_ANSI, _SIGNS = 0, 2


@dataclass(slots=True)
class Font:
    name: str = ""
    charset: int = 1
    page: int = 0


@dataclass(slots=True)
class Letters:
    """Filled in while the head of the document is read."""

    page: str = _WESTERN
    fonts: dict[int, Font] = field(default_factory=dict[int, Font])
    _encodings: dict[int, str] = field(default_factory=dict[int, str])

    def font(self, number: int) -> Font:
        self._encodings.clear()
        return self.fonts.setdefault(number, Font())

    def use_page(self, page: int) -> None:
        self._encodings.clear()
        self.page = _codec(page) or self.page

    def decoded(self, data: bytes, font: int) -> str:
        if font not in self._encodings:
            self._encodings[font] = self._encoding(font)
        encoding = self._encodings[font]
        if encoding:
            return data.decode(encoding, "replace")
        name = self.fonts[font].name
        return "".join(symbol(name, f"{byte:x}") for byte in data)

    def character(self, code: int, font: int) -> str:
        """The character of a number that stands in the text; fonts of signs have a place of their own."""
        known = self.fonts.get(font)
        if 0xF000 <= code <= 0xF0FF and known is not None:
            return symbol(known.name, f"{code:x}") or chr(code)
        return chr(code)

    def _encoding(self, number: int) -> str:
        """ "" for a font of signs."""
        font = self.fonts.get(number)
        if font is None:
            return self.page
        if font.charset == _SIGNS:
            return ""
        if font.page and (codec := _codec(font.page)):
            return codec
        if font.charset == _ANSI:
            # Where other fonts are there for the document's own code page, this one is Western.
            others = {_CODE_PAGES.get(other.charset) for other in self.fonts.values()}
            return _WESTERN if self.page in others else self.page
        return _CODE_PAGES.get(font.charset, self.page)


def _codec(page: int) -> str:
    """Python's name for a code page; "" if it has none."""
    if page == 65001:
        return "utf-8"
    name = _MAC_PAGES.get(page) or f"cp{page}"
    try:
        codecs.lookup(name)
    except LookupError:
        return ""
    # What Windows calls 936 is in the larger one.
    return "gb18030" if page == 936 else name
