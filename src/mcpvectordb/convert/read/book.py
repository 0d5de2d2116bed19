"""EPUB books: the chapters in reading order, with what the book says of itself in front.

The package file says which chapters there are and in which order; where it is damaged, the pages in the
archive by name are better than nothing. Books locked by a shop are refused: their chapters are noise.
"""

from __future__ import annotations

import io
import posixpath
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from mcpvectordb.convert.page import to_markdown
from mcpvectordb.convert.text import decode_html
from mcpvectordb.errors import ConversionError

from . import Read
from .book_package import PAGE_NAMES, Package, contents, encrypted, package, package_paths
from .lines import closed, one_line, tidied
from .xml.tree import DefinesEntities, Node, parse

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_NAMES_SHOWN = 5
_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)


def read(data: bytes, file_name: str) -> Read:
    try:
        archive = _Archive(zipfile.ZipFile(io.BytesIO(data)))
    except _ERRORS as exc:
        raise ConversionError(
            f"{file_name} could not be read as an EPUB book ({exc}): download or export it again "
            "and add that."
        ) from exc
    book = _package(archive)
    chapters = _chapters(archive, book)
    locked = {archive.find("", path) for path in encrypted(archive.tree(_ENCRYPTION))}
    if locked & set(chapters):
        raise ConversionError(
            f"{file_name} is protected by its shop (DRM), so its text cannot be read: "
            "get the book without protection and add that."
        )
    labels = _labels(archive, book)
    parts = [_front(book)]
    lost: list[str] = []
    for path in chapters:
        text = _chapter(archive, path, labels.get(path, ""))
        if text is None:
            lost.append(posixpath.basename(path))
        else:
            parts.append(text)
    if not any(parts[1:]):
        raise ConversionError(
            f"{file_name} holds no text in its chapters (only pictures, or none): if a reader shows text "
            "there, export it as PDF and add that."
        )
    text = tidied("\n\n".join(part for part in parts if part))
    return Read(text=text, title=book.title, notice=_notice(file_name, book, lost))


@dataclass(slots=True)
class _Archive:
    """The files of a book by the names it calls them, which are not always the names they have."""

    zip: zipfile.ZipFile
    _names: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for name in self.zip.namelist():
            self._names.setdefault(_folded(name), name)

    def names(self) -> list[str]:
        return self.zip.namelist()

    def find(self, base: str, target: str) -> str:
        """The file that a reference from the file `base` means; its path as it should be if it is missing."""
        target = target.partition("#")[0].strip()
        paths = [_resolved(base, path) for path in (target, unquote(target))]
        return next((found for path in paths if (found := self._names.get(_folded(path)))), paths[-1])

    def read(self, path: str) -> bytes | None:
        try:
            return self.zip.read(path)
        except (KeyError, *_ERRORS):
            return None

    def tree(self, path: str) -> Node | None:
        data = self.read(self.find("", path))
        text = decode_html(data) if data else None
        try:
            tree = parse(text) if text else None
        except DefinesEntities:
            return None
        return tree.root if tree else None


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).casefold()


def _resolved(base: str, target: str) -> str:
    path = posixpath.normpath(posixpath.join("/", posixpath.dirname(base), target))
    return path.lstrip("/")


def _package(archive: _Archive) -> Package:
    named = [archive.find("", path) for path in package_paths(archive.tree(_CONTAINER))]
    others = sorted(name for name in archive.names() if name.lower().endswith(".opf"))
    for path in dict.fromkeys([*named, *others]):
        root = archive.tree(path)
        if root is not None and (found := package(root, path)).chapters:
            return found
    return Package()


def _chapters(archive: _Archive, book: Package) -> list[str]:
    """The pages in reading order, each once, without tables of contents."""
    contents = {archive.find(book.path, target) for target in book.contents}
    paths = [archive.find(book.path, target) for target in book.chapters]
    if not book.path:
        paths = sorted(name for name in archive.names() if name.lower().endswith(PAGE_NAMES))
    kept = [path for path in dict.fromkeys(paths) if path not in contents]
    # A book that is nothing but its table of contents has that for its text.
    return kept or list(dict.fromkeys(paths))


def _labels(archive: _Archive, book: Package) -> dict[str, str]:
    """What the table of contents calls each page: the heading of those that have none of their own."""
    labels: dict[str, str] = {}
    for target in book.contents:
        path = archive.find(book.path, target)
        root = archive.tree(path)
        if root is not None:
            for label, page in contents(root):
                labels.setdefault(archive.find(path, page), label)
    return labels


def _chapter(archive: _Archive, path: str, label: str) -> str | None:
    """The Markdown of a page; None if it is missing or damaged."""
    data = archive.read(path)
    html = decode_html(data) if data is not None else None
    if html is None:
        return None
    try:
        text = closed(to_markdown(html))
    except ConversionError:
        return None
    has_heading = any(line.startswith("#") for line in text.split("\n"))
    return text if has_heading or not label or not text else f"## {label}\n\n{text}"


def _front(book: Package) -> str:
    lines = [f"{name}: {value}" for name, value in book.facts]
    heading = [f"# {book.title}"] if book.title else []
    return "\n\n".join([*heading, *(["\n".join(lines)] if lines else []), *_description(book)])


def _description(book: Package) -> Iterator[str]:
    for text in book.descriptions:
        if "<" not in text:
            yield one_line(text)
            continue
        try:
            yield to_markdown(text)
        except ConversionError:
            yield one_line(text)


def _notice(file_name: str, book: Package, lost: list[str]) -> str:
    notices: list[str] = []
    if not book.path:
        notices.append(
            f"{file_name} has no list of its chapters; its pages were read in the order of their names."
        )
    if lost:
        shown = ", ".join(lost[:_NAMES_SHOWN]) + (" and others" if len(lost) > _NAMES_SHOWN else "")
        plural = "chapters are" if len(lost) > 1 else "chapter is"
        notices.append(
            f"{len(lost)} {plural} missing or damaged in {file_name} ({shown}); the rest was indexed."
        )
    return " ".join(notices)
