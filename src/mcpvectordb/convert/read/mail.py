"""Mail to text: messages as mail programs save them (eml, emlx, mbox) and as Outlook does (msg).

Headers are read by the tolerant half of Python's email package: its strict one raises on headers that every
mail program shows. Nothing is fetched, no link is followed, no attachment is opened that is not text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.errors import MessageError
from email.message import Message
from email.parser import BytesParser
from email.policy import Compat32
from typing import TypeAlias, cast

from mcpvectordb.convert.text import decoded_by_mark
from mcpvectordb.errors import ConversionError

from . import Read, outlook
from .letter import DEEPEST, Attachment, Letter, written
from .lines import one_line, tidied
from .mail_words import flowed, header, text, unquoted

_ADDRESSES = ("From", "To", "Cc", "Bcc", "Reply-To", "Date")
# One of these makes it a message.
_TELLING = frozenset(
    {"from", "to", "subject", "date", "received", "message-id", "return-path", "mime-version", "content-type"}
)
_MOST_PARTS = 2000
# Python reads parameters in quadratic time.
_LONGEST_HEADER = 50_000
_APPLE_LENGTH = re.compile(rb"\s*(\d{1,10})[ \t]*\r?\n")
_MBOX_START = re.compile(rb"^From [^\r\n]*\d{4}[^\r\n]*\r?\n", re.M)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)
_ENCRYPTED = (
    "The message is encrypted, so its body was not indexed: open it in the mail program and save it there."
)


class _AsWritten(Compat32):
    """Gives headers back as they were written, 8-bit letters and all; mail_words makes sense of them."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        # Python takes "base64 " for an encoding it does not know.
        return value[:_LONGEST_HEADER].strip()


_PARSER = BytesParser(policy=_AsWritten())
_Message: TypeAlias = "Message[str, str]"


def read_eml(data: bytes, file_name: str) -> Read:
    marked = decoded_by_mark(data)
    data = marked.encode("utf-8", "replace") if marked is not None else data
    apple = _APPLE_LENGTH.match(data)
    if apple:
        # Apple's mail program puts the length in front and its own notes behind.
        data = data[apple.end() : apple.end() + int(apple[1])]
    data = data.lstrip(b"\r\n\t ")
    if data.startswith(b"From ") and len(_MBOX_START.findall(data)) > 1:
        return read_mbox(data, file_name)
    letter = _letter(data, file_name)
    if letter is None:
        return _without_headers(data, file_name)
    return written(letter, file_name)


def read_mbox(data: bytes, file_name: str) -> Read:
    """A mailbox: its messages one after the other, each with its subject as a heading."""
    starts = [match.start() for match in _MBOX_START.finditer(data)]
    texts: list[str] = []
    notices: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        letter = _letter(_QUOTED_FROM.sub(rb"\1", data[start:end]), file_name)
        try:
            read = written(letter, file_name) if letter else None
        except ConversionError:
            # An empty message among others is nothing to speak of.
            continue
        if read:
            texts.append(read.text)
            notices += [read.notice] if read.notice else []
    if not texts:
        raise ConversionError(f"{file_name} holds no messages with text: there is nothing to index.")
    more = f" And {len(notices) - 5} more of this kind." if len(notices) > 5 else ""
    return Read(text="\n\n".join(texts), notice=" ".join(notices[:5]) + more)


def read_msg(data: bytes, file_name: str) -> Read:
    return written(outlook.letter(data, file_name), file_name)


def _letter(data: bytes, file_name: str) -> Letter | None:
    """The message; None if it has none of a message's headers."""
    try:
        message: _Message = _PARSER.parsebytes(data)
        if not _TELLING & {name.lower() for name in message}:
            return None
        return _read(message, 1)
    except RecursionError as exc:
        raise ConversionError(
            f"{file_name} nests messages within messages too deeply to be read: "
            "save the one you mean from the mail program and add that."
        ) from exc
    # The package has raised everything from IndexError to UnicodeError on mail that is merely odd.
    except (MessageError, ValueError, LookupError, TypeError, AttributeError) as exc:
        raise ConversionError(
            f"{file_name} could not be read as an e-mail message ({type(exc).__name__}: {exc}): "
            "save it again from the mail program, or as PDF, and add that."
        ) from exc


def _without_headers(data: bytes, file_name: str) -> Read:
    plain = tidied(text(data, "")) if b"\0" not in data else ""
    if not plain.strip():
        raise ConversionError(
            f"{file_name} could not be read as an e-mail message (no headers): check what it is."
        )
    notice = f"{file_name} has no headers of an e-mail message; it was indexed as plain text."
    return Read(text=plain, is_markdown=False, notice=notice)


def _read(message: _Message, depth: int) -> Letter:
    parts = _Parts(depth)
    parts.add(message)
    addresses = [(name, ", ".join(_header(message, name))) for name in _ADDRESSES]
    return Letter(
        subject=one_line(" ".join(_header(message, "Subject")[:1])),
        addresses=tuple(addresses),
        plain="\n\n".join(parts.plain),
        html="\n".join(parts.html),
        attachments=tuple(parts.attachments),
        notices=tuple(parts.notices),
    )


def _header(message: _Message, name: str) -> list[str]:
    return [header(value) for value in message.get_all(name, [])]


class _Parts:
    """What a message holds, sorted: bodies of either kind, and attachments."""

    def __init__(self, depth: int) -> None:
        self.plain: list[str] = []
        self.html: list[str] = []
        self.attachments: list[Attachment] = []
        self.notices: list[str] = []
        self._depth = depth

    def add(self, message: _Message) -> None:
        for count, part in enumerate(_leaves(message)):
            if count >= _MOST_PARTS:
                self.notices.append(f"Only the first {_MOST_PARTS:,} parts of the message were read.")
                return
            self._add(part, is_whole=part is message)

    def _add(self, part: _Message, *, is_whole: bool) -> None:
        kind, name = part.get_content_type(), _file_name(part)
        is_attached = (part.get_content_disposition() == "attachment" or bool(name)) and not is_whole
        if kind == "message/rfc822" or (kind == "message/global" and part.is_multipart()):
            for inner in _inner(part)[:1]:
                if self._depth <= DEEPEST:
                    letter = _read(inner, self._depth + 1)
                    self.attachments.append(Attachment(name=name, letter=letter))
            return
        if kind in ("application/pkcs7-mime", "application/x-pkcs7-mime") and "signed" not in _smime(part):
            self.notices.append(_ENCRYPTED)
        elif kind == "application/pgp-encrypted":
            self.notices.append(_ENCRYPTED)
            return
        if kind == "text/html" and not is_attached:
            self.html.append(_text(part))
        elif kind in _PLAIN and not is_attached:
            self.plain.append(_text(part))
        elif kind.startswith("multipart/"):
            # Without the boundaries it speaks of it is one text.
            self.plain.append(_text(part))
        elif not is_attached and _is_of_the_page(part):
            return
        elif kind not in ("application/pgp-signature", "application/pkcs7-signature", "text/x-amp-html"):
            is_text = kind.startswith("text/") and kind != "text/rtf"
            data = _text(part).encode("utf-8", "replace") if is_text else _bytes(part)
            ending = "" if not is_text or "." in name else f".{_ENDINGS.get(kind, 'txt')}"
            self.attachments.append(
                Attachment(name=f"{name or 'unnamed'}{ending}", data=data, is_text=is_text)
            )


_PLAIN = ("text/plain", "message/delivery-status", "text/rfc822-headers")
_ENDINGS = {"text/html": "html", "text/calendar": "ics", "text/csv": "csv", "text/markdown": "md"}


def _is_of_the_page(part: _Message) -> bool:
    """What the HTML beside it refers to, and what Word keeps beside a page: nobody sent it as a file."""
    is_looks = part.get_content_maintype() in ("image", "font") or part.get_content_type() == "text/css"
    return bool(part.get("Content-Location") or (is_looks and part.get("Content-ID")))


def _leaves(message: _Message) -> Iterator[_Message]:
    """The parts that hold something, in order; of a message within the message only the outside."""
    pending: list[_Message] = [message]
    while pending:
        part = pending.pop()
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            pending += reversed(_inner(part))
        else:
            yield part


def _inner(part: _Message) -> list[_Message]:
    payload: object = part.get_payload()
    parts = cast("list[object]", payload) if isinstance(payload, list) else []
    return [cast("_Message", inner) for inner in parts if isinstance(inner, Message)]


def _file_name(part: _Message) -> str:
    found = part.get_filename("") or part.get_param("name", "", header="content-type")
    name = header(found if isinstance(found, str) else found[2])
    # Only the last of what may be a path.
    return one_line(name.replace("\\", "/").rpartition("/")[2])


def _smime(part: _Message) -> str:
    return str(part.get_param("smime-type", "")).lower()


def _bytes(part: _Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text(part: _Message) -> str:
    if part.is_multipart():
        # A delivery report is a list of blocks of headers.
        return "\n\n".join(block.as_string().strip() for block in _inner(part))
    data = _bytes(part)
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() not in ("quoted-printable", "base64"):
        data = unquoted(data)
    charset = part.get_param("charset", "")
    body = text(data, charset if isinstance(charset, str) else charset[2])
    if part.get_content_type() == "text/plain" and str(part.get_param("format", "")).lower() == "flowed":
        return flowed(body, drops_space=str(part.get_param("delsp", "")).lower() == "yes")
    return body
