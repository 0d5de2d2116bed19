"""The compressed RTF of an Outlook message to text.

Unpacks Microsoft's LZFu ([MS-OXRTFCP]): single bytes and references into a ring of 4,096, which begins filled
with what most RTF begins with.
"""

from __future__ import annotations

import struct

from mcpvectordb.convert.read import rtf
from mcpvectordb.errors import ConversionError

_RING = 4096
_PREFILLED = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
_HEADER = struct.Struct("<II4sI")  # size packed, size unpacked, kind, checksum
# Packed data gives at most nine bytes for one.
_MOST_GROWTH = 10


def text(data: bytes) -> str:
    """The text of a compressed RTF body; "" if it holds none that can be read."""
    try:
        return rtf.read(unpacked(data), "the message's body").text
    except ConversionError:
        # The message has its subject and addresses all the same.
        return ""


def unpacked(data: bytes) -> bytes:
    """The RTF; what can be had of it if the data break off, b"" if this is no compressed RTF."""
    if len(data) < _HEADER.size:
        return b""
    _, size, kind, _ = _HEADER.unpack_from(data)
    packed = data[_HEADER.size :]
    if kind == b"MELA":
        return packed[:size]
    if kind != b"LZFu":
        return b""
    return _expanded(packed, min(size, _MOST_GROWTH * len(packed)))


def _expanded(packed: bytes, size: int) -> bytes:
    ring = bytearray(_PREFILLED.ljust(_RING, b"\0"))
    write, at = len(_PREFILLED), 0
    out = bytearray()
    while at < len(packed) and len(out) < size:
        flags, at = packed[at], at + 1
        for bit in range(8):
            if flags >> bit & 1:
                if at + 2 > len(packed):
                    return bytes(out)
                token, at = packed[at] << 8 | packed[at + 1], at + 2
                offset, length = token >> 4, (token & 15) + 2
                # A reference to the place that is written next is the end.
                if offset == write:
                    return bytes(out)
            elif at < len(packed):
                ring[write], offset, length, at = packed[at], write, 1, at + 1
            else:
                return bytes(out)
            for step in range(length):
                byte = ring[(offset + step) % _RING]
                out.append(byte)
                ring[write] = byte
                write = (write + 1) % _RING
    return bytes(out)
