"""Outlook messages for the tests, written from the specification: an OLE file of properties."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Mapping
from typing import TypeAlias

FREE, END, FAT, NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF
SECTOR, SMALL, CUTOFF = 512, 64, 4096
EPOCH = dt.datetime(1601, 1, 1, tzinfo=dt.UTC)

Storage: TypeAlias = Mapping[str, "bytes | Storage"]


def ole(root: Storage) -> bytes:
    """An OLE file with these storages and streams."""
    entries: list[tuple[str, int, int, int, bytes]] = []  # name, kind, child, sibling, data
    _add(entries, "Root Entry", 5, root)
    small, chains, small_chain, places = bytearray(), [], [], []
    sectors: list[bytes] = []
    for _, kind, _, _, data in entries:
        if kind != 2 or not data:
            places.append(END)
        elif len(data) < CUTOFF:
            places.append(len(small) // SMALL)
            count = -(-len(data) // SMALL)
            small_chain += [*range(len(small_chain) + 1, len(small_chain) + count), END]
            small += data.ljust(count * SMALL, b"\0")
        else:
            places.append(_chain(sectors, chains, data))
    places[0] = _chain(sectors, chains, bytes(small)) if small else END
    small_fat = _chain(sectors, chains, struct.pack(f"<{len(small_chain)}I", *small_chain)) if small else END
    directory = b"".join(
        _entry(*entry[:4], place, len(small) if index == 0 else len(entry[4]))
        for index, (entry, place) in enumerate(zip(entries, places, strict=True))
    )
    first = _chain(sectors, chains, directory)
    count = 1
    while count * (SECTOR // 4) < len(chains) + count:
        count += 1
    at = len(sectors)
    table = [*chains, *[FAT] * count]
    packed = struct.pack(f"<{len(table)}I", *table).ljust(count * SECTOR, b"\xff")
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        bytes.fromhex("d0cf11e0a1b11ae1"),
        *(0x3E, 3, 0xFFFE, 9, 6),
        *(0, count, first, 0, CUTOFF, small_fat, -(-len(small_chain) * 4 // SECTOR) if small else 0, END, 0),
    )
    difat = [*range(at, at + count), *[FREE] * (109 - count)]
    return header + struct.pack("<109I", *difat) + b"".join(sectors) + packed


def message(*, attached: list[Storage] | None = None, header: int = 32, **properties: object) -> Storage:
    """A message: text by its property's tag (t0037), bytes (b1013, a1000), numbers (n3FFD), times (d0039)."""
    fixed, streams = b"", dict[str, "bytes | Storage"]()
    for name, value in properties.items():
        kind, tag = name[0], int(name[1:], 16)
        if kind == "t":
            assert isinstance(value, str)
            streams[f"__substg1.0_{tag:04X}001F"] = value.encode("utf-16-le")
        elif kind == "a":
            assert isinstance(value, bytes)
            streams[f"__substg1.0_{tag:04X}001E"] = value
        elif kind == "b":
            assert isinstance(value, bytes)
            streams[f"__substg1.0_{tag:04X}0102"] = value
        elif kind == "n":
            fixed += struct.pack("<HHIQ", 3, tag, 6, value)
        elif kind == "d":
            assert isinstance(value, dt.datetime)
            fixed += struct.pack("<HHIQ", 0x40, tag, 6, int((value - EPOCH).total_seconds()) * 10_000_000)
    for index, storage in enumerate(attached or []):
        streams[f"__attach_version1.0_#{index:08X}"] = storage
    return {"__properties_version1.0": bytes(header) + fixed, **streams}


def _add(
    entries: list[tuple[str, int, int, int, bytes]], name: str, kind: int, content: bytes | Storage
) -> int:
    index = len(entries)
    entries.append((name, kind, NONE, NONE, content if isinstance(content, bytes) else b""))
    if not isinstance(content, bytes):
        before = NONE
        for child, inner in content.items():
            at = _add(entries, child, 2 if isinstance(inner, bytes) else 1, inner)
            if before == NONE:
                entries[index] = (name, kind, at, NONE, b"")
            else:
                entries[before] = (*entries[before][:3], at, entries[before][4])
            before = at
    return index


def _entry(name: str, kind: int, child: int, sibling: int, start: int, size: int) -> bytes:
    wide = name.encode("utf-16-le")
    head = wide.ljust(64, b"\0") + struct.pack("<HBBIII", len(wide) + 2, kind, 1, NONE, sibling, child)
    return head + bytes(36) + struct.pack("<IQ", start, size)


def _chain(sectors: list[bytes], chains: list[int], data: bytes) -> int:
    start = len(sectors)
    count = -(-len(data) // SECTOR)
    for index in range(count):
        sectors.append(data[index * SECTOR : (index + 1) * SECTOR].ljust(SECTOR, b"\0"))
        chains.append(END if index == count - 1 else start + index + 1)
    return start
