"""A letter, from whatever mail program, to Markdown: subject, addresses, body, and attachments that are text.

Readers of mail formats fill in a Letter; this module writes it. Attachments that are not text are named and
left: each is a document of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import unescape

from mcpvectordb.convert.page import to_markdown
from mcpvectordb.convert.text import decode, decode_html
from mcpvectordb.errors import ConversionError

from . import Read, delimited, rtf, structured
from .lines import closed, demoted, fenced, one_line, plain_in_markdown, tidied
from .office.titles import useful_title

# Nobody forwards deeper by hand; mail bombs do.
DEEPEST = 8
_MOST_ATTACHMENTS = 200
_NAMES_SHOWN = 10
_LONGEST_NAME = 200
_LONGEST_ATTACHMENT = 10_000_000

# Longer plain text is a mail's text, whatever stands in its HTML.
_CERTAIN_CHARS = 2000
# Plain text with fewer of the HTML's words than this is a stub: "your mail program cannot show this".
_LEAST_SHARE = 0.5
_TARGETS = re.compile(r"\]\([^()\s]*\)|https?://\S+")
_PAGE_TITLE = re.compile(r"<title\b[^<>]{0,200}>([^<]{1,500})</title", re.I)
_HTML = re.compile(r"\s*(?:<!doctype html|<html\b|<head\b|<body\b)", re.I)
# Invisible letters with which newsletters fill up the preview.
_PADDING = re.compile(r"(?<![ \u00a0])(?:[ \u00a0]*+[\u034f\u200b-\u200f\u2007\u00ad\ufeff]){4,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    name: str
    data: bytes = b""
    letter: Letter | None = None  # a message within the message
    is_text: bool = False  # the mail says so, whatever its name


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    subject: str = ""
    addresses: tuple[tuple[str, str], ...] = ()  # From, To, Cc, Date and their like, in order
    plain: str = ""
    html: str = ""
    attachments: tuple[Attachment, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(slots=True)
class _Rest:
    """What was left out of the text."""

    names: list[str] = field(default_factory=list[str])
    notices: list[str] = field(default_factory=list[str])


def written(letter: Letter, file_name: str) -> Read:
    """The letter as a document; ConversionError if there is no word in it."""
    rest = _Rest()
    text = tidied("\n\n".join(_blocks(letter, 1, rest)))
    if not text.strip():
        raise ConversionError(f"{file_name} holds no text (no subject, no body): there is nothing to index.")
    return Read(
        text=text, title=one_line(letter.subject) or _page_title(letter.html), notice=_notice(file_name, rest)
    )


def _page_title(page: str) -> str:
    """Of a page that a program saved as a mail, without a subject."""
    found = _PAGE_TITLE.search(page)
    return useful_title(unescape(found[1])) if found else ""


def _blocks(letter: Letter, level: int, rest: _Rest) -> Iterator[str]:
    rest.notices += letter.notices
    if subject := one_line(letter.subject):
        yield f"{'#' * min(level, 6)} {subject}"
    lines = [f"{name}: {value}" for name, text in letter.addresses if (value := one_line(text))]
    if lines:
        yield "\n".join(lines)
    if body := _body(letter, level + 1, rest):
        # Beside the headings of attachments, and told apart from the addresses above it.
        yield f"{'#' * min(level + 1, 6)} Content"
        yield body
    attached = letter.attachments[:_MOST_ATTACHMENTS]
    if len(letter.attachments) > len(attached):
        rest.notices.append(
            f"Only the first {_MOST_ATTACHMENTS} of {len(letter.attachments)} attachments were read."
        )
    names = [_name(attachment) for attachment in attached]
    if names:
        yield f"Attachments: {', '.join(names)}"
    for attachment, name in zip(attached, names, strict=True):
        yield from _attached(attachment, name, level, rest)


def _attached(attachment: Attachment, name: str, level: int, rest: _Rest) -> Iterator[str]:
    heading = f"{'#' * min(level + 1, 6)} Attachment: {name}"
    if attachment.letter is not None:
        if level >= DEEPEST:
            rest.names.append(name)
            return
        yield heading
        yield from _blocks(attachment.letter, level + 2, rest)
        return
    text = _text(attachment, rest)
    if text is None:
        rest.names.append(name)
    elif text.strip():
        yield heading
        yield text if text.startswith("|") else demoted(text, level + 1)


def _name(attachment: Attachment) -> str:
    subject = attachment.letter.subject if attachment.letter else ""
    return one_line(attachment.name)[:_LONGEST_NAME] or one_line(subject)[:_LONGEST_NAME] or "unnamed"


def _body(letter: Letter, level: int, rest: _Rest) -> str:
    plain, html = letter.plain, letter.html
    if not html and _HTML.match(plain):
        # A program that called its HTML plain text.
        plain, html = "", plain
    plain = _PADDING.sub(" ", tidied(plain))
    if html and len(plain) < _CERTAIN_CHARS:
        try:
            shown = _PADDING.sub(" ", closed(to_markdown(html)))
        except ConversionError as exc:
            rest.notices.append(f"{exc} The plain text of the message was indexed instead.")
            shown = ""
        if len(_words(plain)) < _LEAST_SHARE * len(_words(shown)) or not plain.strip():
            return demoted(shown, level)
    return plain_in_markdown(plain)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", _TARGETS.sub(" ", text))


def _text(attachment: Attachment, rest: _Rest) -> str | None:
    """The Markdown of an attachment that is text; None if it is not."""
    name, data = attachment.name.lower(), attachment.data
    reader = next((reader for endings, reader in _READERS if name.endswith(endings)), None)
    if reader is None and attachment.is_text:
        reader = _plain_text
    if reader is None or len(data) > _LONGEST_ATTACHMENT:
        return None
    if not data.strip():
        return ""
    try:
        read = reader(data, attachment.name)
    except ConversionError as exc:
        rest.notices.append(str(exc))
        return ""
    return read.text if read.is_markdown else plain_in_markdown(read.text)


def _plain_text(data: bytes, name: str) -> Read:
    text = decode(data)
    if text is None:
        raise ConversionError(f"{name} is not text, though it says so: it was left out.")
    return Read(text=tidied(text), is_markdown=False)


def _code(data: bytes, name: str) -> Read:
    read = _plain_text(data, name)
    return Read(text=fenced(read.text, name.rpartition(".")[2].lower()))


def _markdown(data: bytes, name: str) -> Read:
    return Read(text=closed(_plain_text(data, name).text))


def _page(data: bytes, name: str) -> Read:
    html = decode_html(data)
    if html is None:
        raise ConversionError(f"{name} is not text, though it says so: it was left out.")
    return Read(text=closed(to_markdown(html)))


_READERS: tuple[tuple[tuple[str, ...], Callable[[bytes, str], Read]], ...] = (
    ((".txt", ".text", ".log", ".rst", ".adoc", ".srt", ".vtt"), _plain_text),
    ((".md", ".markdown"), _markdown),
    ((".csv", ".tsv"), delimited.read),
    ((".html", ".htm", ".xhtml"), _page),
    ((".json", ".jsonl", ".ndjson"), structured.read_json),
    ((".xml",), structured.read_xml),
    ((".rtf",), rtf.read),
    ((".yaml", ".yml", ".toml", ".ini", ".diff", ".patch", ".sql", ".py", ".sh", ".ics", ".vcf"), _code),
)


def _notice(file_name: str, rest: _Rest) -> str:
    notices = list(dict.fromkeys(rest.notices))
    if rest.names:
        shown = ", ".join(rest.names[:_NAMES_SHOWN])
        more = f" and {len(rest.names) - _NAMES_SHOWN} more" if len(rest.names) > _NAMES_SHOWN else ""
        one, them = ("attachment", "it") if len(rest.names) == 1 else ("attachments", "them")
        verb = "was" if len(rest.names) == 1 else "were"
        notices.append(
            f"{len(rest.names)} {one} of {file_name} {verb} not indexed ({shown}{more}): "
            f"save {them} from the mail program and add {them}."
        )
    return " ".join(notices)
