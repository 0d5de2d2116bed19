"""What is this content? Content decides for binaries, the name among texts. Pure: bytes and a name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from mcpvectordb.errors import ConversionError, UnsupportedType

from . import formats
from .formats import Format

# "Meeting 3.5 notes" and "release-1.2" have no extension: one is short, without blanks, not a number.
_EXTENSION = re.compile(r"\.(?=[^.]*[A-Za-z])[A-Za-z0-9_+-]{1,12}")

_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_START_CHARS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class _Foreign:
    """Content that is recognised and not read, with what to do instead."""

    name: str
    advice: str = ""


_IMAGE = "Text in a picture needs OCR: run OCR and add its result"
_ARCHIVE = "Unpack it and add the files in it"
_SOUND = "Add a transcript of it instead"
_MEDIA = {"image": _IMAGE, "archive": _ARCHIVE, "sound": _SOUND}

# (offset, bytes, what it is, what to do). Signatures of printable letters alone are in _SPELT.
_SIGNATURES = (
    (0, b"\x89PNG\r\n", "a PNG image", "image"),
    (0, b"\xff\xd8\xff", "a JPEG image", "image"),
    (0, b"II*\x00", "a TIFF image", "image"),
    (0, b"MM\x00*", "a TIFF image", "image"),
    (0, b"\x00\x00\x01\x00", "an icon", "image"),
    (0, b"\x1f\x8b", "a gzip archive", "archive"),
    (0, b"\xfd7zXZ\x00", "an xz archive", "archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive", "archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive", "archive"),
    (257, b"ustar", "a tar archive", "archive"),
    (0, b"\x7fELF", "a program", ""),
    (0, b"\xca\xfe\xba\xbe", "a program", ""),
    (0, b"\xcf\xfa\xed\xfe", "a program", ""),
    (0, b"\x00asm", "a program", ""),
    (0, b"SQLite format 3\x00", "an SQLite database", ""),
)
# A text may well begin with these letters, so they count only for content that is not text.
_SPELT = (
    (0, b"GIF8", "a GIF image", "image"),
    (0, b"BM", "a BMP image", "image"),
    (8, b"WEBP", "a WebP image", "image"),
    (4, b"ftypheic", "a HEIC image", "image"),
    (4, b"ftypavif", "an AVIF image", "image"),
    (8, b"WAVE", "a sound file", "sound"),
    (0, b"ID3", "a sound file", "sound"),
    (0, b"OggS", "a sound file", "sound"),
    (0, b"fLaC", "a sound file", "sound"),
    (4, b"ftyp", "a video", "sound"),
    (0, b"BZh", "a bzip2 archive", "archive"),
    (0, b"MZ", "a program", ""),
    (0, b"PAR1", "a Parquet table", ""),
    (0, b"wOF", "a font", ""),
)

_PDF = re.compile(rb"%PDF-\d")
# Readers of PDF accept junk in front of the signature, within this much of the start.
_PDF_WITHIN_BYTES = 1024
_RTF = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,8}\{\\rtf")
# Workbooks that are not packed at all, as before 1993, begin with the record that says their version.
_OLD_SHEET = re.compile(rb"\x09[\x00\x02\x04\x08][\x04\x06\x08\x10]\x00")
_MAIL_START = re.compile(rb"\s{0,8}(?:From [^\r\n\0]+|[A-Za-z][\w-]{0,60}:[^\r\n\0]*)[\r\n]")
_ZIP_END = b"PK\x05\x06"
_ZIP = (b"PK\x03\x04", _ZIP_END, b"PK\x07\x08")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SAMPLE_BYTES = 65_536

# The first member of OpenDocument and EPUB files is their type, stored as it is.
_MIMETYPE = re.compile(rb"mimetypeapplication/(epub\+zip|vnd\.oasis\.opendocument\.[a-z-]+)")
_MIMETYPES: dict[bytes, Format] = {
    b"epub+zip": formats.EPUB,
    b"vnd.oasis.opendocument.text": formats.ODT,
    b"vnd.oasis.opendocument.text-template": formats.ODT,
    b"vnd.oasis.opendocument.spreadsheet": formats.ODS,
    b"vnd.oasis.opendocument.spreadsheet-template": formats.ODS,
    b"vnd.oasis.opendocument.presentation": formats.ODP,
    b"vnd.oasis.opendocument.presentation-template": formats.ODP,
    b"vnd.oasis.opendocument.graphics": formats.ODG,
    b"vnd.oasis.opendocument.graphics-template": formats.ODG,
    b"vnd.oasis.opendocument.text-master": formats.ODT,
    b"vnd.oasis.opendocument.text-web": formats.ODT,
}
# What names in a zip say it is, in this order.
_XLSB = _Foreign(name="an Excel binary workbook (xlsb)", advice="Save it as .xlsx and add that")
_ZIP_NAMES: tuple[tuple[bytes, Format | _Foreign], ...] = (
    (b"xl/workbook.bin", _XLSB),
    (b"word/document", formats.DOCX),
    (b"word/", formats.DOCX),
    (b"ppt/", formats.PPTX),
    (b"xl/", formats.XLSX),
    (b"META-INF/container.xml", formats.EPUB),
    (b"visio/", _Foreign(name="a Visio drawing", advice="Save it as PDF and add that")),
    (b".iwa", _Foreign(name="an Apple iWork document", advice="Export it as PDF or docx and add that")),
)
# Storage names of OLE files, as UTF-16. A message may hold any of the others, so it stands first.
_DOC = _Foreign(
    name="an old Word document (doc)", advice="Save it as .docx (Word or LibreOffice can) and add that"
)
_PPT = _Foreign(
    name="an old PowerPoint presentation (ppt)",
    advice="Save it as .pptx (PowerPoint or LibreOffice can) and add that",
)
_OLE_NAMES: tuple[tuple[str, Format | _Foreign], ...] = (
    ("__properties_version1.0", formats.MSG),
    ("PowerPoint Document", _PPT),
    ("WordDocument", _DOC),
    ("Workbook", formats.XLS),
    ("Book", formats.XLS),
)
_OLE_EXTENSIONS = {".doc": _DOC, ".dot": _DOC, ".ppt": _PPT, ".pps": _PPT, ".pot": _PPT}


def extension_of(file_name: str) -> str:
    """The extension in lower case with its dot, or "" for README, .env and numbers such as v1.2."""
    suffix = PurePosixPath(file_name.replace("\\", "/")).suffix
    return suffix.lower() if _EXTENSION.fullmatch(suffix) else ""


def by_content(data: bytes, file_name: str) -> Format | None:
    """The format that the bytes themselves show; None for what may be text.

    UnsupportedType for a binary that nothing here reads.
    """
    if data.startswith(_ZIP):
        return _known(_zip_kind(data, file_name), file_name)
    if data.startswith(_OLE):
        return _known(_ole_kind(data, file_name), file_name)
    if _RTF.match(data):
        return formats.RTF
    if _OLD_SHEET.match(data):
        return formats.XLS
    if _PDF.match(data.lstrip()[:8]) or (b"\0" in data and _PDF.search(data[:_PDF_WITHIN_BYTES])):
        return formats.PDF
    found = _first(data, _SIGNATURES)
    return None if found is None else _known(found, file_name)


def begins_as_mail(data: bytes) -> bool:
    """Whether the first line is one of a message's headers, or of a mailbox."""
    return _MAIL_START.match(data) is not None


def not_text(data: bytes, file_name: str) -> UnsupportedType:
    """The error for content already known not to be text."""
    return _unsupported(_first(data, _SPELT) or _Foreign(name="a binary file"), file_name)


def by_name(file_name: str) -> Format | None:
    """The format that the name stands for; None where the content has to say."""
    name = PurePosixPath(file_name.replace("\\", "/")).name.lower()
    return formats.BY_NAME.get(name) or formats.BY_EXTENSION.get(extension_of(file_name))


def is_supported(file_name: str) -> bool:
    """Whether a file of this name may be read: it has no extension, and its content decides, or a known one.

    The same as by_name and extension_of say, for those who ask of ten thousand files.
    """
    stem, dot, extension = file_name.rpartition(".")
    suffix = f"{dot}{extension}"
    return (
        (bool(stem) and suffix.lower() in formats.BY_EXTENSION)
        or file_name.lower() in formats.BY_NAME
        or not (stem and _EXTENSION.fullmatch(suffix))
    )


def unknown_extension(file_name: str) -> UnsupportedType:
    return UnsupportedType(
        f"{file_name} has the extension {extension_of(file_name)}, which is not supported: "
        f"convert it to one of these and add that: {formats.supported()}."
    )


def looks_like_html(text: str) -> bool:
    return _HTML_START.match(text[:_START_CHARS]) is not None


def _known(found: Format | _Foreign, file_name: str) -> Format:
    if isinstance(found, _Foreign):
        raise _unsupported(found, file_name)
    return found


def _unsupported(found: _Foreign, file_name: str) -> UnsupportedType:
    advice = found.advice or "Convert it and add that"
    return UnsupportedType(
        f"{file_name} looks like {found.name}, which is not supported. {advice}. "
        f"Supported are: {formats.supported()}."
    )


def _zip_kind(data: bytes, file_name: str) -> Format | _Foreign:
    mimetype = _MIMETYPE.search(data[:200])
    if mimetype is not None:
        known = _MIMETYPES.get(mimetype[1])
        return known or _Foreign(name="a rare OpenDocument file", advice="Save it as PDF and add that")
    # Names stand before each member and again, all together, at the end. Some programs write backslashes.
    sample = (data[:_SAMPLE_BYTES] + data[-_SAMPLE_BYTES:]).replace(b"\\", b"/")
    for name, kind in _ZIP_NAMES:
        if name in sample:
            return kind
    if b"content.xml" in sample and b"META-INF/manifest.xml" in sample:
        # Packed again by hand, the type is no longer in front; what it is in truth, its reader sees.
        named = by_name(file_name)
        return named if named in formats.ODF else formats.ODT
    named = by_name(file_name)
    # Cut off before it shows what it is: its reader says that it is damaged.
    if named is not None and named.packing == "zip" and _ZIP_END not in data:
        return named
    return _Foreign(name="a zip archive", advice=_ARCHIVE)


def _ole_kind(data: bytes, file_name: str) -> Format | _Foreign:
    if _wide("EncryptedPackage") in data:
        raise ConversionError(
            f"{file_name} is protected by a password: open it, remove the password, save it and add that."
        )
    # Some programs write the names in capitals, as a text may too; but names are followed by zeros.
    found = [kind for name, kind in _OLE_NAMES if _wide(name) in data or _wide(f"{name.upper()}\0") in data]
    named = by_name(file_name)
    if not found:
        # The list of names mostly comes last, and goes first when a file is cut off.
        if named is not None and named.packing == "ole":
            return named
        return _OLE_EXTENSIONS.get(extension_of(file_name)) or _Foreign(name="an old Microsoft Office file")
    # A workbook may hold a Word text and the other way round: then the name decides.
    return named if named in found else found[0]


def _wide(name: str) -> bytes:
    return name.encode("utf-16-le")


def _first(data: bytes, table: tuple[tuple[int, bytes, str, str], ...]) -> _Foreign | None:
    for offset, magic, name, media in table:
        if data.startswith(magic, offset):
            return _Foreign(name=name, advice=_MEDIA.get(media, ""))
    return None
