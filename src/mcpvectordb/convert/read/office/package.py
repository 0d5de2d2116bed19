"""An Office file as a package: named parts in a zip, and the relations between them.

Reads parts out of bytes in memory. It never follows a relation out of the package: such a target is a string
for a link, no more. A part that is missing or damaged is kept for the notice and does not stop the rest.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from mcpvectordb.errors import ConversionError

from . import tree
from .names import DC
from .titles import useful_title

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_CHUNK_BYTES = 1 << 16
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    id: str
    kind: str  # the last word of its type: hyperlink, image, slide, notesSlide, comments, …
    target: str  # a part's name, or where a link leads
    is_external: bool


class Package:
    def __init__(self, data: bytes, file_name: str, kind: str) -> None:
        self.file_name = file_name
        self.kind = kind
        self.damaged: list[str] = []
        if data.startswith(_OLE):
            raise self.protected() if _ENCRYPTED_PACKAGE in data else self.unreadable("an older format")
        self._data = data
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        # zipfile stumbles over broken directories in more ways than it has exceptions of its own.
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, LookupError) as exc:
            raise self.unreadable("its archive is damaged or cut off") from exc
        if any(entry.flag_bits & 1 for entry in entries):
            raise self.protected()
        # Some programs write backslashes, or mix upper and lower case.
        self._entries = {entry.filename.replace("\\", "/").lstrip("/").lower(): entry for entry in entries}
        self._relations: dict[str, dict[str, Relation]] = {}

    def unreadable(self, why: str) -> ConversionError:
        return ConversionError(
            f"{self.file_name} could not be read as {self.kind} ({why}): "
            "open it in the program it comes from, save it again, and add that file."
        )

    def protected(self) -> ConversionError:
        return ConversionError(
            f"{self.file_name} is protected by a password: save a copy without one and add that."
        )

    def has(self, name: str) -> bool:
        return name.lower() in self._entries

    def names(self, prefix: str) -> list[str]:
        """The parts whose names begin so, in the order of the numbers in them."""
        found = [name for name in self._entries if name.startswith(prefix.lower())]
        return sorted(found, key=lambda name: [int(n) for n in _NUMBERS.findall(name)])

    def read(self, name: str) -> bytes | None:
        """The part's bytes, as far as they can be read; None if there is no such part."""
        entry = self._entries.get(name.lower())
        if entry is None:
            return None
        data, is_whole = self._unpacked(entry)
        if not is_whole:
            self.damaged.append(name)
        return data

    def tree(self, name: str) -> tree.Element | None:
        """The part's root; None if it is missing, or is no XML at all."""
        data = self.read(name)
        if data is None:
            return None
        try:
            root, is_whole = tree.parse(data)
        except tree.Damaged:
            root, is_whole = None, False
        if not is_whole and name not in self.damaged:
            self.damaged.append(name)
        return root

    def relations(self, part: str) -> dict[str, Relation]:
        """What a part refers to, by the id it uses; "" asks for the package itself."""
        if part not in self._relations:
            folder, name = posixpath.split(part)
            root = self.tree(posixpath.join(folder, "_rels", f"{name}.rels"))
            found = self._each_relation(folder, root) if root is not None else ()
            self._relations[part] = {relation.id: relation for relation in found}
        return self._relations[part]

    def related(self, part: str, kind: str) -> list[str]:
        """The names of the parts of that kind a part refers to."""
        return [
            relation.target
            for relation in self.relations(part).values()
            if relation.kind == kind and not relation.is_external
        ]

    def target(self, part: str, relation_id: str | None) -> str:
        """The part that a part means by that id; "" if it is none in this package."""
        relation = self.relations(part).get(relation_id or "")
        return relation.target if relation and not relation.is_external and self.has(relation.target) else ""

    def main(self, fallback: str) -> str:
        """The part where the document begins."""
        known = [name for name in self.related("", "officeDocument") if self.has(name)]
        return known[0] if known else fallback

    def title(self) -> str:
        """The title in the document's properties, if it is one."""
        parts = self.related("", "core-properties") or ["docProps/core.xml"]
        root = self.tree(parts[0])
        title = useful_title(root.findtext(f"{DC}title") or "") if root is not None else ""
        if not title:
            return ""
        app = self.read("docProps/app.xml") or b""
        template = re.search(rb"<Template>([^<]*)</Template>", app)
        name = template[1].decode("utf-8", "replace") if template else ""
        return "" if title == posixpath.splitext(name)[0] else title

    def notice(self) -> str:
        if not self.damaged:
            return ""
        names = ", ".join(dict.fromkeys(self.damaged))
        return f"Parts of {self.file_name} are damaged ({names}); what could be read of it was indexed."

    def _unpacked(self, entry: zipfile.ZipInfo) -> tuple[bytes, bool]:
        chunks: list[bytes] = []
        try:
            with self._opened(entry) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    chunks.append(chunk)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError):
            whole = b"".join(chunks)
            return max(whole, self._unchecked(entry), key=len), False
        return b"".join(chunks), True

    def _unchecked(self, entry: zipfile.ZipInfo) -> bytes:
        """The part as far as it unpacks. Where its checksum is wrong, zipfile keeps its last piece back."""
        at = entry.header_offset
        start = at + 30 + sum(int.from_bytes(self._data[i : i + 2], "little") for i in (at + 26, at + 28))
        packed = self._data[start : start + entry.compress_size]
        if entry.compress_type == zipfile.ZIP_STORED:
            return packed
        unpack = zlib.decompressobj(-zlib.MAX_WBITS)
        chunks: list[bytes] = []
        try:
            for place in range(0, len(packed), _CHUNK_BYTES):
                chunks.append(unpack.decompress(packed[place : place + _CHUNK_BYTES], entry.file_size))
        except zlib.error:
            # What stands before the damage is the part, as far as there is one.
            return b"".join(chunks)
        return b"".join(chunks)

    def _opened(self, entry: zipfile.ZipInfo) -> zipfile.ZipExtFile | io.BytesIO:
        try:
            return self._zip.open(entry)  # pyright: ignore[reportReturnType]
        except zipfile.BadZipFile:
            # zipfile refuses an entry whose name is spelt one way in the directory, another beside its data.
            entry.orig_filename = self._name_beside_data(entry)
            return self._zip.open(entry)  # pyright: ignore[reportReturnType]

    def _name_beside_data(self, entry: zipfile.ZipInfo) -> str:
        stream = self._zip.fp
        if stream is None:
            return entry.orig_filename
        stream.seek(entry.header_offset + 26)
        length = int.from_bytes(stream.read(2), "little")
        stream.seek(entry.header_offset + 30)
        return stream.read(length).decode("utf-8" if entry.flag_bits & 0x800 else "cp437", "replace")

    def _each_relation(self, folder: str, root: tree.Element) -> Iterator[Relation]:
        for element in root:
            target = (element.get("Target") or "").strip()
            is_external = (element.get("TargetMode") or "").lower() == "external"
            if not is_external:
                target = self._resolved(folder, target)
            yield Relation(
                id=element.get("Id") or "",
                kind=(element.get("Type") or "").rpartition("/")[2],
                target=target,
                is_external=is_external,
            )

    def _resolved(self, folder: str, target: str) -> str:
        target = target.replace("\\", "/").partition("#")[0]
        joined = target if target.startswith("/") else posixpath.join(folder, target)
        name = posixpath.normpath(joined).lstrip("/")
        return name if self.has(name) else unquote(name)
