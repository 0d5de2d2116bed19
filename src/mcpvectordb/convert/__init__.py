"""Bytes to Markdown or plain text, with a title and page marks.

Owns markitdown and every library that reads a format; none of them is imported in this process, and none of
their exceptions leaves this package. It opens no document, fetches nothing, and knows neither chunks nor the
database. Plain text, Markdown and source code are read here; everything else by the worker.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from mcpvectordb.errors import ConversionError
from mcpvectordb.models import Converted, Source

from . import detect, markdown
from .detect import is_supported
from .formats import CODE, DOCUMENTS, EML, HTML, TXT, XML, Format, supported_extensions
from .read import Read
from .text import declares_charset, decode
from .worker import Limits, Worker, too_much_text

__all__ = ["CODE", "DOCUMENTS", "PIPELINE", "Converter", "Limits", "is_supported", "supported_extensions"]

# Version of the conversion, stored with each document: raise it when the same bytes give other text.
PIPELINE = 6

_BACKTICKS = re.compile(r"`{3,}")
_MB = 1024 * 1024
_UTF8_BYTES = 4  # at most, for a character

# Letters by class and signs by looks, but nothing shows: fillers, variant selectors, the empty Braille cell.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(c) for c in range(0xFE00, 0xFE10)
}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
# Of Markdown that marks no text.
_MARKS = frozenset("#>*_~`|=+-:\\")
# Mostly the first letters tell; only the letters there are, each once, tell that there is nothing.
_FIRST_CHARS = 1000

# Only files are named by their format: a text may be called "acme.com", a page "index.php".
_FILES = ("file", "upload")


class Converter:
    """Making one starts nothing: the worker process comes with the first document that needs it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._worker = Worker(self._limits)

    def convert(self, source: Source, checkpoint: Callable[[], None] = lambda: None) -> Converted:
        """The text of a source; ConversionError if it has none, UnsupportedType if we cannot read it.

        checkpoint is asked every so often, and may raise to give up.
        """
        name, called = source.file_name, source.called
        if not source.data:
            raise ConversionError(f"{called} is empty: there is nothing to index.")
        known = None if source.is_written else detect.by_content(source.data, name)
        named = detect.by_name(name)
        found: Read | None = None
        notice = ""
        if known is not None and named is not None and known is not named and source.kind in _FILES:
            notice = _misnamed(name, named, known)
        if known is None and named is EML and detect.begins_as_mail(source.data):
            known = EML  # its parts may be of any kind: what is text in it, its reader knows
        if known is None:
            text = decode(source.data, source.charset)
            if text is None:
                raise detect.not_text(source.data, called)
            if not text or text.isspace():  # not strip(), which copies a long text
                raise ConversionError(f"{called} holds only blank lines: there is nothing to index.")
            known, notice = _text_format(source, text, named)
            if not known.reader:
                found = _in_process(text, known, called, self._limits)
        if found is None:
            # XML mostly says in its first line what it is in, and then it knows better than who sends it.
            is_sure = known is XML and declares_charset(source.data)
            data = _as_utf8(source) if known.packing == "text" and not is_sure else source.data
            found = self._worker.convert(known, data, name, checkpoint)
        if not _shows_text(found):
            raise ConversionError(f"{called} holds no text: there is nothing to index.")
        return Converted(
            text=found.text,
            title=found.title or _heading(found, known),
            file_type=_file_type(known, named, name),
            is_markdown=found.is_markdown,
            pages=found.pages,
            notice=" ".join(part for part in (found.notice, notice) if part),
        )

    def stop(self) -> None:
        self._worker.stop()


def _heading(found: Read, known: Format) -> str:
    """The first heading, unless the reader or a program put it there."""
    heading = markdown.title(found.text) if found.is_markdown else ""
    return "" if re.fullmatch(known.made_headings, heading, re.I) else heading


def _text_format(source: Source, text: str, named: Format | None) -> tuple[Format, str]:
    """The format of a text, and what to say if it is not what its name says."""
    name = source.file_name
    is_page = detect.looks_like_html(text)
    # What a program exports as .doc is a page more often than not.
    if named is None and not is_page and detect.extension_of(name) and source.kind in _FILES:
        raise detect.unknown_extension(name)
    if named is None or (source.kind == "url" and is_page and named.language):
        return (HTML if is_page else TXT), ""
    if named.packing in ("text", "own") and named.file_type not in ("pdf", "rtf"):
        return named, ""
    # Excel's XML of 2003 mostly goes by the name of .xls.
    meant = HTML if is_page else XML if text.lstrip().startswith("<?xml") else TXT
    return meant, _misnamed(name, named, meant)


def _misnamed(name: str, named: Format, known: Format) -> str:
    return f"{name} is named like {named.description}, but it is {known.description}."


def _in_process(text: str, known: Format, name: str, limits: Limits) -> Read:
    """Held to the same measure as what the worker reads; a fence may be as long as the code."""
    fence = _fence(text) if known.language else ""
    if _is_longer(text, limits.text_mb * _MB - 2 * len(fence)):
        raise too_much_text(name, limits)
    # In a fence, nothing would look like something.
    if fence and _shows_text(Read(text=text, is_markdown=False)):
        text = f"{fence}{known.language}\n{text.rstrip(chr(10))}\n{fence}\n"
    return Read(text=text, is_markdown=known.is_markdown)


def _fence(text: str) -> str:
    # Looked for once: a text of backticks alone takes for ever if each length is tried in turn.
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)


def _is_longer(text: str, most_bytes: int) -> bool:
    """Counted in UTF-8, which is made only of a text that might be, and never of all of it at once."""
    if text.isascii() or len(text) > most_bytes or len(text) * _UTF8_BYTES <= most_bytes:
        return len(text) > most_bytes
    parts = (text[start : start + _MB] for start in range(0, len(text), _MB))
    return sum(len(part.encode("utf-8", "replace")) for part in parts) > most_bytes


def _shows_text(found: Read) -> bool:
    """Whether there is anything to find but marks of Markdown and characters that show nothing."""
    marks = _MARKS if found.is_markdown else frozenset[str]()
    return _shows(found.text[:_FIRST_CHARS], marks) or _shows(found.text[_FIRST_CHARS:], marks)


def _shows(text: str, marks: frozenset[str]) -> bool:
    return any(
        character not in marks
        and character not in _BLANK
        and unicodedata.category(character) not in _INVISIBLE
        for character in set(text)
    )


def _as_utf8(source: Source) -> bytes:
    """The bytes for a reader of text; a charset that came with them is heard before it is guessed."""
    text = decode(source.data, source.charset) if source.charset else None
    return source.data if text is None else text.encode("utf-8", "replace")


def _file_type(known: Format, named: Format | None, name: str) -> str:
    """Extension-like. Among the extensions of one format the file's own, where it is the usual one."""
    extension = detect.extension_of(name).removeprefix(".")
    if named is known and known.packing == "text" and known.file_type not in ("txt", "md", "html"):
        return extension or known.file_type
    return known.file_type
