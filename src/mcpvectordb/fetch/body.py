"""Unpack a body while it arrives.

Pure: takes parts, gives parts. Nothing inflates further than one piece at a time, so that whoever counts
the pieces can stop a bomb: a megabyte of gzip may hold a gigabyte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

_PIECE_BYTES = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = 0x1F

ACCEPTED = "gzip, deflate"


class BadEncoding(Exception):
    """The body is not in the encoding that its header names; the text says how."""


def unpacker(content_encoding: str) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """What undoes a Content-Encoding; BadEncoding for one that was not asked for, or for several."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    match names:
        case []:
            return iter
        case ["gzip" | "x-gzip"]:
            return gunzipped
        case ["deflate"]:
            return inflated
        case _:
            raise BadEncoding("it is packed in a way that was not asked for")


def gunzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    """One gzip member after another; what follows the last one is padding."""
    return _unpacked(parts, lambda first: _GZIP, goes_on=lambda first: first == _GZIP_MAGIC)


def inflated(parts: Iterable[bytes]) -> Iterator[bytes]:
    """`deflate` is zlib by the standard, and the bare stream to some servers; the first byte tells."""

    def window(first: int) -> int:
        return zlib.MAX_WBITS if first & 0x8F == 0x08 else -zlib.MAX_WBITS

    return _unpacked(parts, window, goes_on=lambda first: False)


def _unpacked(
    parts: Iterable[bytes], window: Callable[[int], int], *, goes_on: Callable[[int], bool]
) -> Iterator[bytes]:
    unzip = None
    for part in parts:
        while part:
            if unzip is None:
                unzip = zlib.decompressobj(window(part[0]))
            elif unzip.eof:
                if not goes_on(part[0]):
                    return
                unzip = zlib.decompressobj(window(part[0]))
            yield from _pieces(unzip, part)
            part = unzip.unused_data
    if unzip is not None and not unzip.eof:
        raise BadEncoding("its packed content is cut off")


def _pieces(unzip: zlib._Decompress, part: bytes) -> Iterator[bytes]:  # pyright: ignore[reportPrivateUsage]
    """What the stream holds up to the end of part. A full piece means that there may be more inside."""
    while True:
        try:
            piece = unzip.decompress(part, _PIECE_BYTES)
        except zlib.error as exc:
            raise BadEncoding("its packed content is damaged") from exc
        yield piece
        part = unzip.unconsumed_tail
        if unzip.eof or (not part and len(piece) < _PIECE_BYTES):
            return
