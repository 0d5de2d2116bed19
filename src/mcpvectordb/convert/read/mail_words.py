"""Mail's ways of writing text in ASCII, read as tolerantly as mail programs do. Pure.

Encoded words in headers, quoted-printable that nobody declared, lines that flow, and charsets that lie.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re

from mcpvectordb.charsets import strictly
from mcpvectordb.convert.text import decode

_ENCODED_WORD = re.compile(r"=\?([^?\s]+)\?([bBqQ])\?([^?]*)\?=")
_BETWEEN_WORDS = re.compile(r"(\?=)\s+(?==\?[^?\s]+\?[bBqQ]\?)")
# Pure ASCII, so it would pass for UTF-8. Nothing but mail is in it.
_UTF7 = ("utf-7", "utf7", "unicode-1-1-utf-7")
_SOFT_BREAK = re.compile(rb"=[ \t]*\r?\n")
_QUOTED_BYTE = re.compile(rb"=[0-9A-F]{2}")
_UNSTUFFED = "-- "


def header(value: str) -> str:
    """A header's text: encoded words decoded, 8-bit letters as what they are, folded lines joined."""
    value = re.sub(r"[\r\n]+[ \t]*", " ", value)
    if any("\udc80" <= letter <= "\udcff" for letter in value):
        value = text(value.encode("ascii", "surrogateescape"), "") if _is_raw(value) else value
    words: list[tuple[str, bytes]] = []
    parts: list[str] = []
    end = 0
    value = _BETWEEN_WORDS.sub(r"\1", value)
    for match in _ENCODED_WORD.finditer(value):
        charset = match[1].partition("*")[0]
        word = _word(match[2], match[3])
        if match.start() == end and words and words[-1][0].lower() == charset.lower():
            # A letter of several bytes may be cut in two between words.
            words[-1] = (charset, words[-1][1] + word)
        else:
            parts += [*_decoded(words), value[end : match.start()]]
            words = [(charset, word)]
        end = match.end()
    return "".join([*parts, *_decoded(words), value[end:]])


def text(data: bytes, charset: str) -> str:
    """The text of a part, whatever its charset says; never fails."""
    if charset.strip(" \"'").lower() in _UTF7 and data.isascii():
        plain = strictly(data, "utf-7")
        if plain is not None:
            return _unified(plain)
    found = decode(data, charset)
    return found if found is not None else _unified(data.replace(b"\0", b"").decode("cp1252", "replace"))


def unquoted(data: bytes) -> bytes:
    """Quoted-printable that lost its header on the way is decoded; anything else stays as it is."""
    if len(_SOFT_BREAK.findall(data)) < 2 or len(_QUOTED_BYTE.findall(data)) < 2:
        return data
    return quopri.decodestring(data)


def flowed(body: str, *, drops_space: bool) -> str:
    """Text of format=flowed with its soft line ends taken back: a blank at the end means "goes on"."""
    lines: list[list[str]] = []
    open_depth = -1
    for line in body.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:].removeprefix(" ")
        goes_on = content.endswith(" ") and content != _UNSTUFFED
        part = content[:-1] if goes_on and drops_space else content
        if open_depth == depth and content != _UNSTUFFED:
            lines[-1].append(part)
        else:
            lines.append([f"{'>' * depth} {part}" if depth else part])
        open_depth = depth if goes_on else -1
    return "\n".join("".join(parts) for parts in lines)


def _is_raw(value: str) -> bool:
    return all(letter < "\x80" or "\udc80" <= letter <= "\udcff" for letter in value)


def _word(encoding: str, payload: str) -> bytes:
    if encoding in "qQ":
        return quopri.decodestring(payload.replace("_", " ").encode("utf-8", "surrogateescape"), header=False)
    payload = re.sub(r"[^A-Za-z0-9+/]", "", payload)
    try:
        return base64.b64decode(payload + "=" * (-len(payload) % 4))
    except binascii.Error:
        # One letter too many is all that can be wrong now.
        return base64.b64decode(payload[: len(payload) // 4 * 4])


def _decoded(words: list[tuple[str, bytes]]) -> list[str]:
    return [text(word, charset) for charset, word in words]


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
