"""A multipart body with one file, written to the disk as it arrives: never more than a block in memory."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from mcpvectordb.checks import file_name_reason
from mcpvectordb.errors import ArgumentError, SourceTooLarge

FILE = "file"
TAGS = "tags"
_MOST_FIELD_BYTES = 64 * 1024
_MOST_PARTS = 200
_MB = 1024 * 1024


@dataclass(kw_only=True)
class Upload:
    """A file that has come whole."""

    path: Path
    name: str
    tags: list[str]  # as the fields said them


@dataclass(kw_only=True)
class _Part:
    disposition: bytes = b""
    name: str = ""
    file_name: str | None = None
    data: bytearray = field(default_factory=bytearray)


class _Form:
    """What the parser has found so far; `blocks` are the file's bytes that wait to be written."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.blocks: list[bytes] = []
        self.is_whole = False
        self._header = b""
        self._value = b""

    def part_begin(self) -> None:
        if len(self.parts) >= _MOST_PARTS:
            raise ArgumentError(f"The form has more than {_MOST_PARTS} parts. Send tags as one JSON list.")
        self.parts.append(_Part())

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self.parts[-1].disposition = self._value
        self._header = self._value = b""

    def headers_finished(self) -> None:
        part = self.parts[-1]
        _, options = parse_options_header(part.disposition)
        if b"name" not in options:
            raise ArgumentError("A part of the form has no name. Name it `file` or `tags`.")
        part.name = _text(options[b"name"])
        if part.name not in (FILE, TAGS):
            raise ArgumentError(f"The form takes the parts `file` and `tags`, not {part.name[:60]!r}.")
        if part.name == TAGS:
            return
        if sum(one.name == FILE for one in self.parts) > 1:
            raise ArgumentError("One file at a time: the form has two parts `file`.")
        # A quote in a name is sent as %22, by browsers as by our own client.
        part.file_name = _text(options.get(b"filename", b"")).replace("%22", '"')
        reason = file_name_reason(part.file_name)
        if reason:
            raise ArgumentError(f"The part `file` needs a file name, and {part.file_name[:60]!r}: {reason}.")

    def part_data(self, data: bytes, start: int, end: int) -> None:
        part = self.parts[-1]
        if part.file_name is not None:
            self.blocks.append(data[start:end])
            return
        part.data += data[start:end]
        if len(part.data) > _MOST_FIELD_BYTES:
            raise ArgumentError(f"The part {part.name!r} is larger than {_MOST_FIELD_BYTES} bytes.")

    def end(self) -> None:
        self.is_whole = True

    def parser(self, boundary: bytes) -> MultipartParser:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self.part_begin,
                "on_part_data": self.part_data,
                "on_header_field": self.header_field,
                "on_header_value": self.header_value,
                "on_header_end": self.header_end,
                "on_headers_finished": self.headers_finished,
                "on_end": self.end,
            },
        )


async def receive(content_type: str, body: AsyncIterator[bytes], folder: Path, *, most_bytes: int) -> Upload:
    """Write the form's file to folder. Whoever calls removes it; of one that fails nothing is left."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise ArgumentError("The Content-Type names no boundary, so the form cannot be read.")
    form = _Form()
    path = folder / uuid.uuid4().hex
    try:
        await anyio.to_thread.run_sync(_make, path)
        try:
            parser = form.parser(boundary)
            size = 0
            async for block in body:
                parser.write(block)
                size += sum(len(one) for one in form.blocks)
                if size > most_bytes:
                    raise SourceTooLarge(
                        f"The file is larger than {most_bytes // _MB} MB (MCPVECTORDB_MAX_FILE_MB). Split it."
                    )
                if form.blocks:
                    await anyio.to_thread.run_sync(_append, path, form.blocks)
                    form.blocks = []
        except FormParserError as exc:
            raise ArgumentError(f"The form cannot be read: {exc}.") from exc
        file = next((part for part in form.parts if part.file_name is not None), None)
        if not form.is_whole or file is None or file.file_name is None:
            raise ArgumentError("The form is cut off or has no part `file`. Send the whole file again.")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    tags = [_text(bytes(part.data)) for part in form.parts if part.name == TAGS]
    return Upload(path=path, name=file.file_name, tags=tags)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)


def _append(path: Path, blocks: list[bytes]) -> None:
    with path.open("ab") as file:
        for block in blocks:
            file.write(block)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ArgumentError("A name or a tag of the form is not UTF-8.") from exc
