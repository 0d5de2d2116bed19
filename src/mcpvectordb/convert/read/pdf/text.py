"""Characters and words as a PDF gives them, made fit to read: ligatures, controls, broken words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# pdfium's sign for a hyphen at the end of a line. It puts no line break after one.
HYPHEN = "\ufffe"
# Stands for a character that is to be left out.
NOTHING = "\x00"

_ODD = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\ufffc\uffff"
    "\ufb00-\ufdff\ufe70-\ufefc\ud800-\udfff\ue000-\uf8ff]"
)
_PRIVATE = "\ue000"
# Word's bullets come from fonts of symbols, whose characters have no meaning but their place in the font.
_SYMBOLS = {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "➢", "\uf0fc": "✓", "\uf0e0": "→", "\uf06f": "▪"}
_CJK = re.compile("[\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")
_BROKEN = re.compile(f"([^\\W\\d]*)([\\w.]*){HYPHEN}\\s?([^\\W\\d]*)")
_COMPOUND = re.compile(r"[^\W\d]+-[^\W\d]+")
# Dots between an entry of a table of contents and its page.
_LEADERS = re.compile(r"\s*(?:\.\s?){5,}\s*|\s*(?:…\s?){3,}\s*|\s*_{6,}\s*|\s*(?:·\s?){5,}\s*")


def clean(text: str) -> str:
    """One line of text: blanks made single, letters made plain, what is no character left out."""
    if not text.isascii() or _ODD.search(text) is not None:
        text = unicodedata.normalize("NFC", _ODD.sub(_plain, text))
    text = " ".join(text.split())
    if "...." in text or ". . ." in text or "____" in text or "……" in text or "····" in text:
        text = _LEADERS.sub(" … ", text).strip()
    return text


def joined(before: str, after: str) -> str:
    """Two lines as one; a word broken between them keeps its HYPHEN until the whole document is known."""
    if before.endswith(HYPHEN):
        return before + after
    if before.endswith(("-", "\u2010")) and before[-2:-1].isalpha() and after[:1].islower():
        return before[:-1] + HYPHEN + after
    if _CJK.match(before[-1:]) and _CJK.match(after):
        return before + after
    return f"{before} {after}"


def compounds(texts: Iterable[str]) -> frozenset[str]:
    """The words that the document writes with a hyphen where no line ends: self-locking, e-mail."""
    return frozenset(
        compound.casefold()
        for text in texts
        if "-" in text
        for word in text.split()
        if "-" in word
        for compound in _COMPOUND.findall(word)
    )


def mended(text: str, known: frozenset[str]) -> str:
    """Words broken at the end of a line made whole; a hyphen of the word's own stays."""

    def whole(found: re.Match[str]) -> str:
        start, rest, end = found[1], found[2], found[3]
        is_broken = start and not rest and end[:1].islower()
        if is_broken and f"{start}-{end}".casefold() not in known:
            return start + end
        return f"{start}{rest}-{end}"

    return _BROKEN.sub(whole, text) if HYPHEN in text else text


def _plain(found: re.Match[str]) -> str:
    character = found[0]
    if "\x80" <= character <= "\x9f":
        # The punctuation of Windows, from fonts that claim Latin-1.
        return character.encode("latin-1").decode("cp1252", "ignore")
    if _PRIVATE <= character <= "\uf8ff":
        return _SYMBOLS.get(character, "")
    if character >= "\ufb00" and character < "\ufeff":
        return unicodedata.normalize("NFKC", character).strip()
    return ""
