"""Outlook's messages (msg) to letters: an OLE file in which each property of the message is a stream.

Owns olefile among the readers; its exceptions, and those of files that only look like OLE, stop here.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import struct
from dataclasses import dataclass, replace
from email.utils import format_datetime
from typing import Any, cast

import olefile  # pyright: ignore

from mcpvectordb.convert.text import decode_html
from mcpvectordb.errors import ConversionError

from .letter import DEEPEST, Attachment, Letter
from .mail_words import text as decoded
from .rtf import body as rtf_body

_PROPERTIES = "__properties_version1.0"
_STREAM = "__substg1.0_"
_RECIPIENT, _ATTACHED = "__recip_version1.0_#", "__attach_version1.0_#"
_UNICODE, _ANSI, _BINARY, _TIME = 0x001F, 0x001E, 0x0102, 0x0040
_EMBEDDED = f"{_STREAM}3701000D"

_SUBJECT, _BODY, _HTML, _RTF = 0x0037, 0x1000, 0x1013, 0x1009
_SENDER = ((0x0C1A, 0x5D01, 0x0C1F), (0x0042, 0x5D02, 0x0065))  # the name, then its addresses
_DISPLAY = ((0x0E04, "To"), (0x0E03, "Cc"), (0x0E02, "Bcc"))
_TIMES = (0x0039, 0x0E06, 0x3007)  # sent, received, created
_NAMES = (0x3707, 0x3704, 0x3001)  # of an attachment: long, short, as shown
_DATA = 0x3701
_CODE_PAGES = (0x3FFD, 0x3FDE)  # of the message, of its body
_MOST_ITEMS = 200
_EPOCH = dt.datetime(1601, 1, 1, tzinfo=dt.UTC)
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


def letter(data: bytes, file_name: str) -> Letter:
    try:
        with cast(Any, olefile).OleFileIO(io.BytesIO(data)) as ole:
            message = _Message(ole)
            if not ole.exists(_PROPERTIES):
                raise ConversionError(
                    f"{file_name} is an old Office file but not an Outlook message: "
                    "name it by what it is (.doc, .xls, .ppt) and add it again."
                )
            found = message.letter()
    except ConversionError:
        raise
    # olefile raises what its arithmetic runs into on damaged files: struct.error, IndexError and more.
    except Exception as exc:
        raise ConversionError(
            f"{file_name} could not be read as an Outlook message ({type(exc).__name__}: {exc}): "
            "save it again from Outlook, or as PDF, and add that."
        ) from exc
    if not message.damaged:
        return found
    notice = f"{file_name} is damaged; what could be read of the message was indexed."
    return replace(found, notices=(*found.notices, notice))


@dataclass(slots=True)
class _Message:
    """A message in an OLE file, at the top or in an attachment."""

    ole: Any
    damaged: bool = False
    _children: frozenset[tuple[str, ...]] = frozenset()

    def letter(self) -> Letter:
        self._children = frozenset(tuple(entry) for entry in self.ole.listdir(streams=True, storages=True))
        return self._letter((), 1)

    def _letter(self, path: tuple[str, ...], depth: int) -> Letter:
        numbers = self._numbers(path, 32 if not path else 24)
        charset = next(
            (f"cp{page}" for tag in _CODE_PAGES if 0 < (page := numbers.get(tag, 0)) < 65000), "cp1252"
        )
        charset = "utf-8" if 65001 in (numbers.get(tag) for tag in _CODE_PAGES) else charset
        addresses = [("From", self._sender(path, charset)), *self._recipients(path, charset)]
        sent = next((date for tag in _TIMES if (date := _date(numbers.get(tag, 0)))), "")
        return Letter(
            subject=self._text(path, _SUBJECT, charset),
            addresses=(*addresses, ("Date", sent)),
            plain=self._text(path, _BODY, charset) or self._rich_text(path),
            html=self._html(path, charset),
            attachments=tuple(self._attachments(path, charset, depth)),
        )

    def _sender(self, path: tuple[str, ...], charset: str) -> str:
        for name_tag, *address_tags in _SENDER:
            name = self._text(path, name_tag, charset)
            found = (self._text(path, tag, charset) for tag in address_tags)
            # Exchange keeps its own kind of address here: /O=EXAMPLE/OU=…
            address = next((value for value in found if _ADDRESS.fullmatch(value.strip())), "")
            if name or address:
                return _person(name, address)
        return ""

    def _recipients(self, path: tuple[str, ...], charset: str) -> list[tuple[str, str]]:
        kinds: dict[int, list[str]] = {}
        for storage in self._storages(path, _RECIPIENT):
            numbers = self._numbers(storage, 8)
            found = (self._text(storage, tag, charset) for tag in (0x39FE, 0x3003))
            address = next((value for value in found if _ADDRESS.fullmatch(value.strip())), "")
            person = _person(self._text(storage, 0x3001, charset), address)
            kinds.setdefault(numbers.get(0x0C15, 1), []).append(person)
        return [
            (name, ", ".join(kinds.get(kind, [])) or self._text(path, tag, charset))
            for kind, (tag, name) in enumerate(_DISPLAY, start=1)
        ]

    def _attachments(self, path: tuple[str, ...], charset: str, depth: int) -> list[Attachment]:
        attachments: list[Attachment] = []
        for storage in self._storages(path, _ATTACHED):
            name = next((name for tag in _NAMES if (name := self._text(storage, tag, charset))), "")
            if (*storage, _EMBEDDED) in self._children and depth <= DEEPEST:
                inner = self._letter((*storage, _EMBEDDED), depth + 1)
                attachments.append(Attachment(name=name or inner.subject, letter=inner))
            else:
                attachments.append(Attachment(name=name, data=self._stream(storage, _DATA, _BINARY)))
        return attachments

    def _html(self, path: tuple[str, ...], charset: str) -> str:
        if html := self._text(path, _HTML, charset):
            return html
        data = self._stream(path, _HTML, _BINARY)
        return decode_html(data) or "" if data else ""

    def _rich_text(self, path: tuple[str, ...]) -> str:
        """The body as it stands in RTF; asked for only where nothing better is there."""
        if self._has(path, _HTML):
            return ""
        data = self._stream(path, _RTF, _BINARY)
        return rtf_body.text(data) if data else ""

    def _storages(self, path: tuple[str, ...], prefix: str) -> list[tuple[str, ...]]:
        length = len(path) + 1
        found = [
            entry
            for entry in self._children
            if len(entry) == length and entry[:-1] == path and entry[-1].startswith(prefix)
        ]
        return sorted(found)[:_MOST_ITEMS]

    def _has(self, path: tuple[str, ...], tag: int) -> bool:
        names = {f"{_STREAM}{tag:04X}{kind:04X}" for kind in (_UNICODE, _ANSI, _BINARY)}
        return any((*path, name) in self._children for name in names)

    def _text(self, path: tuple[str, ...], tag: int, charset: str) -> str:
        if data := self._stream(path, tag, _UNICODE):
            return data.decode("utf-16-le", "replace").rstrip("\0")
        data = self._stream(path, tag, _ANSI).rstrip(b"\0")
        return decoded(data, charset) if data else ""

    def _stream(self, path: tuple[str, ...], tag: int, kind: int) -> bytes:
        return self._bytes((*path, f"{_STREAM}{tag:04X}{kind:04X}"))

    def _bytes(self, path: tuple[str, ...]) -> bytes:
        if not self.ole.exists(list(path)):
            return b""
        try:
            data = cast(bytes, self.ole.openstream(list(path)).read())
            # A chain that leads nowhere is only logged there.
            self.damaged |= len(data) < self.ole.get_size(list(path))
            return data
        except (OSError, ValueError, IndexError, struct.error):
            self.damaged = True
            return b""

    def _numbers(self, path: tuple[str, ...], header: int) -> dict[int, int]:
        """The properties of fixed size: tag to value, for numbers and times."""
        data = self._bytes((*path, _PROPERTIES))
        numbers: dict[int, int] = {}
        for start in range(header, len(data) - 15, 16):
            kind, tag, _, value = struct.unpack_from("<HHIQ", data, start)
            numbers[tag] = value if kind == _TIME else value & 0xFFFFFFFF
        return numbers


def _person(name: str, address: str) -> str:
    name, address = name.strip(), address.strip()
    if not address or address.lower() in name.lower():
        return name
    return f"{name} <{address}>" if name else address


def _date(ticks: int) -> str:
    """The date of a number of tenths of microseconds since 1601; "" for what no message has."""
    try:
        date = _EPOCH + dt.timedelta(microseconds=ticks // 10)
    except OverflowError:
        return ""
    return format_datetime(date) if date.year > 1970 else ""
