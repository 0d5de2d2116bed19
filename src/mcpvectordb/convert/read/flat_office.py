"""Office documents in one XML file: a package whose parts stand one after another, and Word's XML of 2003.

Both are packed into what they would be as a docx, pptx or xlsx, and read as that.
"""

from __future__ import annotations

import base64
import binascii
import io
import zipfile

from . import Read
from .office.tree import Damaged, Element, local, parse, serialised

_PACKAGE = b"http://schemas.microsoft.com/office/2006/xmlPackage"
_WORD_2003 = b"http://schemas.microsoft.com/office/word/2003/wordml"
_WORD = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_STYLES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles"
_WITHIN_BYTES = 8192


def read(data: bytes, file_name: str) -> Read | None:
    """The document; None if this XML is none of these."""
    start = data[:_WITHIN_BYTES]
    if (_PACKAGE not in start and _WORD_2003 not in start) or b"<!ENTITY" in data:
        # Definitions of entities are refused by the reader of any XML.
        return None
    try:
        root, _ = parse(data.replace(_WORD_2003, _WORD))
    except Damaged:
        return None
    if local(root) == "wordDocument":
        return _read_parts(_of_2003(root), file_name)
    return _read_parts(dict(_parts(root)), file_name) if local(root) == "package" else None


def _read_parts(parts: dict[str, bytes], file_name: str) -> Read | None:
    # Only what is needed is loaded, and the readers of XML need none of these.
    from . import sheets, slides, word  # noqa: PLC0415

    readers = {"word/": word.read, "ppt/": slides.read, "xl/": sheets.read_xlsx}
    for folder, reader in readers.items():
        if any(name.startswith(folder) for name in parts):
            return reader(_zipped(parts), file_name)
    return None


def _parts(package: Element) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for part in package:
        name = next((value for key, value in part.items() if key.endswith("}name")), "").lstrip("/")
        for holder in part:
            if local(holder) == "xmlData" and len(holder):
                found.append((name, serialised(holder[0])))
            elif local(holder) == "binaryData":
                found.append((name, _decoded(holder.text or "")))
    return found


def _of_2003(root: Element) -> dict[str, bytes]:
    parts = {"word/document.xml": serialised(root)}
    styles = next((child for child in root if local(child) == "styles"), None)
    if styles is not None:
        relation = f'<Relationship Id="s" Type="{_STYLES}" Target="styles.xml"/>'
        relations = f'<Relationships xmlns="{_RELATIONS}">{relation}</Relationships>'
        parts |= {
            "word/styles.xml": serialised(styles),
            "word/_rels/document.xml.rels": relations.encode(),
        }
    return parts


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        # A picture, mostly; a part that is missing is told by the reader that misses it.
        return b""


def _zipped(parts: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return stream.getvalue()
