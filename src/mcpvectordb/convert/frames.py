"""The words between the server and its converter: a length, a JSON head, a length, bytes."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

_LENGTHS = struct.Struct("<II")


def send(stream: BinaryIO, head: dict[str, Any], body: bytes = b"") -> None:
    packed = json.dumps(head).encode()
    stream.write(_LENGTHS.pack(len(packed), len(body)))
    stream.write(packed)
    stream.write(body)
    stream.flush()


def receive(stream: BinaryIO, *, most_bytes: int) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None at the end of the stream, ValueError for more than is allowed."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head, body = _LENGTHS.unpack(lengths)
    if head + body > most_bytes:
        raise ValueError(f"a message of {head + body} bytes")
    packed, data = stream.read(head), stream.read(body)
    if len(packed) < head or len(data) < body:
        return None
    return json.loads(packed), data
