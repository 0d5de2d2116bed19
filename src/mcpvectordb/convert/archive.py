"""May this zip be unpacked? Checked before any reader does so, member by member and never all in memory.

A file of 1 MB can declare or hide gigabytes, hold members that overlap, or carry XML that defines its way to
gigabytes. The libraries that read Office files look at none of this.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass

from mcpvectordb.errors import ConversionError

_MB = 1024 * 1024
_LOCAL_HEADER = struct.Struct("<26xHH")
_LOCAL_HEADER_BYTES = 30
_STEP_BYTES = 65_536
_OUT_BYTES = 1024 * 1024
# Not pictures: drawing programs declare document types and entities in SVG, and no reader opens one.
_XML_NAMES = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".vml")
# Web pages begin with a document type wherever they stand, in a Word document that takes one in too.
_PAGE_NAMES = (".xhtml", ".html", ".htm")
# As ASCII or as either UTF-16: the letters with or without a NUL between them.
_ENTITY = re.compile(rb"<\0?!\0?E\0?N\0?T\0?I\0?T\0?Y")
_DOCTYPE = re.compile(rb"<\0?!\0?D\0?O\0?C\0?T\0?Y\0?P\0?E")
# A mark may be cut in two by the steps in which a member is unpacked.
_OVERLAP_BYTES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveLimits:
    """Real files stay far below: the largest of some thousands had 4,000 members and 90 MB unpacked."""

    unpacked_mb: int = 400
    members: int = 20_000
    name_depth: int = 40


def check(
    data: bytes, file_name: str, *, doctypes: bool = False, limits: ArchiveLimits | None = None
) -> None:
    """Raise ConversionError for an archive that is damaged, locked, or not what it says.

    `doctypes` lets document type declarations pass, which Office files may not have, but books and the lists
    of parts in OpenDocument files do; definitions of entities never pass.
    """
    limits = limits or ArchiveLimits()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError, struct.error) as exc:
        raise ConversionError(
            f"{file_name} is damaged (its archive cannot be opened: {exc}): get it again and add that."
        ) from exc
    _check_declared(members, file_name, limits)
    _check_apart(members, len(data), file_name)
    for member in members:
        _check_member(data, member, file_name, doctypes=doctypes)


def _check_declared(members: list[zipfile.ZipInfo], file_name: str, limits: ArchiveLimits) -> None:
    if len(members) > limits.members:
        raise ConversionError(
            f"{file_name} holds {len(members):,} parts; no more than {limits.members:,} are unpacked. "
            "Save it again from its program, or as PDF, and add that."
        )
    unpacked = sum(member.file_size for member in members)
    if unpacked > limits.unpacked_mb * _MB:
        raise _too_large(file_name, f"would unpack to {unpacked / _MB:,.0f} MB", limits)
    for member in members:
        if member.filename.count("/") > limits.name_depth:
            raise ConversionError(f"{file_name} nests its parts too deeply: save it again and add that.")
        if member.flag_bits & 1:
            raise ConversionError(
                f"{file_name} is protected by a password: open it, remove the password, save it and add that."
            )


def _check_apart(members: list[zipfile.ZipInfo], size: int, file_name: str) -> None:
    """Members that share their bytes let a small file declare any size many times over."""
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise ConversionError(f"{file_name} is damaged (its parts overlap): get it again and add that.")
        end = member.header_offset + _LOCAL_HEADER_BYTES + member.compress_size
    if end > size:
        raise ConversionError(f"{file_name} is damaged (it is cut off): get it again and add that.")


def _check_member(data: bytes, member: zipfile.ZipInfo, file_name: str, *, doctypes: bool) -> None:
    """Unpack it once without keeping it: what it says of its size is only what it says."""
    start = _start_of(data, member)
    packed = memoryview(data)[start : start + member.compress_size]
    is_xml = member.filename.lower().endswith(_XML_NAMES)
    doctypes = doctypes or member.filename.lower().endswith(_PAGE_NAMES)
    if member.compress_type == zipfile.ZIP_STORED:
        if is_xml:
            _check_xml(bytes(packed), file_name, doctypes=doctypes)
        return
    if member.compress_type != zipfile.ZIP_DEFLATED:
        raise ConversionError(
            f"{file_name} is packed in a way that is not supported: save it again from its program."
        )
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)
    size, tail = 0, b""
    for at in range(0, len(packed), _STEP_BYTES):
        rest = bytes(packed[at : at + _STEP_BYTES])
        while rest:
            try:
                part = unpack.decompress(rest, _OUT_BYTES)
            except zlib.error as exc:
                raise ConversionError(
                    f"{file_name} is damaged ({member.filename} cannot be unpacked): "
                    "get it again and add that."
                ) from exc
            rest = unpack.unconsumed_tail
            size += len(part)
            if size > member.file_size:
                raise ConversionError(
                    f"{file_name} is damaged ({member.filename} is larger than it says): "
                    "get it again and add that."
                )
            if is_xml:
                _check_xml(tail + part, file_name, doctypes=doctypes)
                tail = part[-_OVERLAP_BYTES:]


def _start_of(data: bytes, member: zipfile.ZipInfo) -> int:
    header = data[member.header_offset : member.header_offset + _LOCAL_HEADER_BYTES]
    if len(header) < _LOCAL_HEADER_BYTES:
        return len(data)
    name, extra = _LOCAL_HEADER.unpack(header)
    return member.header_offset + _LOCAL_HEADER_BYTES + name + extra


def _check_xml(part: bytes, file_name: str, *, doctypes: bool) -> None:
    if _ENTITY.search(part) or (not doctypes and _DOCTYPE.search(part)):
        raise ConversionError(
            f"{file_name} was not read: its XML defines entities or a document type, "
            "which real documents of this kind do not. Save it again from its program and add that."
        )


def _too_large(file_name: str, fact: str, limits: ArchiveLimits) -> ConversionError:
    return ConversionError(
        f"{file_name} {fact}; no more than {limits.unpacked_mb} MB are unpacked. "
        "Split it, or save it without its pictures, and add that."
    )
