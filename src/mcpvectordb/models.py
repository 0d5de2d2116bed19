"""The values that travel between the stages: frozen, keyword-only, no behaviour beyond derived properties.

Imports nothing heavy: vectors are passed beside these values as numpy arrays, never inside them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Kind = Literal["file", "url", "text", "note", "upload"]
Mode = Literal["hybrid", "keyword", "vector"]
JobKind = Literal["file", "url", "text", "note", "upload", "folder"]
JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]
Metadata = Mapping[str, object]

# A namespace of our own, so that our ids meet nobody else's uuid5 of the same words.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "mcpvectordb:document")
# Integers above 2**53 are not exact in JavaScript clients.
_DOCUMENT_ID_BITS = 53


def document_uuid(library: str, source: str) -> str:
    """The id of a document: the same library and source always give the same id.

    The length in front keeps ("a", "b:c") and ("a:b", "c") apart.
    """
    return str(uuid.uuid5(_NAMESPACE, f"{len(library)}:{library}:{source}"))


def document_number(doc_id: str) -> int:
    """The integer form of a doc_id for clients that want one; 53 bits of it."""
    return uuid.UUID(doc_id).int >> (128 - _DOCUMENT_ID_BITS)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Bytes to index, with the name that identifies them."""

    name: str  # the identity: absolute path, canonical URL, or the name given to a text
    library: str
    kind: Kind
    data: bytes
    file_name: str  # decides the type among texts and is the last resort for a title
    last_modified: str = ""  # ISO 8601, whole seconds, +00:00; "" when unknown
    mtime_ns: int = 0  # 0 where a later change need not show in it
    etag: str = ""
    charset: str = ""  # what a server said of a text's encoding
    title: str = ""  # given by the caller, who knows better than the text
    fallback_title: str = ""  # for a text that has no title of its own; else it is the file's name
    stored_path: str = ""  # where the bytes are kept, if we keep them

    @cached_property
    def content_hash(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def doc_id(self) -> str:
        return document_uuid(self.library, self.name)

    @property
    def is_written(self) -> bool:
        """Given as text, so that it is text whatever its first letters look like."""
        return self.kind in ("text", "note")

    @property
    def called(self) -> str:
        """What a sentence calls it that goes to whoever gave it."""
        return f"The {self.kind}" if self.is_written else self.file_name


@dataclass(frozen=True, kw_only=True, slots=True)
class PageMark:
    """From this offset of the Markdown on, the text stands on this page, slide or sheet (1-based)."""

    offset: int
    page: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Converted:
    """What a converter made of a source."""

    text: str
    title: str  # the document's own or its first heading; "" leaves the file's name, which is not embedded
    file_type: str
    is_markdown: bool  # plain text has no headings, tables or fences: a "#" there is a character
    pages: tuple[PageMark, ...] = ()
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """An exact slice of the document's text, with what stands around it."""

    index: int
    content: str
    start: int  # offset of content in the document's text
    headings: tuple[str, ...] = ()
    page: int = 0
    page_end: int = 0
    context: str = ""  # embedded in front of content, never stored in it

    @property
    def end(self) -> int:
        return self.start + len(self.content)

    @property
    def embedded(self) -> str:
        """What the model reads, without the model's own prefix."""
        return f"{self.context}\n{self.content}" if self.context else self.content


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document's record: everything but its text."""

    doc_id: str
    library: str
    source: str
    title: str
    file_type: str
    kind: Kind
    content_hash: str
    created_at: str
    chunk_count: int
    last_modified: str = ""
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, object])
    mtime_ns: int = 0
    size: int = 0
    etag: str = ""
    stored_path: str = ""
    pipeline: int = 0

    @property
    def document_id(self) -> int:
        return document_number(self.doc_id)


@dataclass(frozen=True, slots=True)
class Header:
    """What is kept of an indexed file to tell whether it has changed since, and what was said of it."""

    doc_id: str
    size: int
    mtime_ns: int
    created_at: str
    chunk_count: int
    # Read only on request: as they stand in the table.
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, object])


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentText:
    """A document with its whole text, or the part of it that was asked for."""

    document: Document
    content: str
    total_chars: int
    offset: int
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentPage:
    """One page of a list of documents."""

    documents: tuple[Document, ...]
    total: int
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    name: str
    document_count: int
    chunk_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A passage found by a search."""

    document: Document
    chunk: Chunk
    score: float
    keyword_score: float | None  # None where that leg did not find the passage
    vector_score: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    hits: tuple[Hit, ...]
    mode: Mode  # the legs that served the answer, which may be fewer than were asked for
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingested:
    status: Literal["indexed", "replaced", "skipped"]
    document: Document
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileOutcome:
    """What became of one file of a folder."""

    path: str
    status: Literal["indexed", "replaced", "skipped", "failed"]
    doc_id: str = ""
    chunk_count: int = 0
    reason: str = ""  # why it failed, or what there is to know of it


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderResult:
    folder: str
    library: str
    outcomes: tuple[FileOutcome, ...] = ()  # of every file but the unchanged ones
    unchanged: int = 0  # known by size and time, and not opened
    ignored: Mapping[str, int] = field(default_factory=dict[str, int])  # by reason
    notice: str = ""

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A piece of work that outlives its call, and if need be its process."""

    job_id: str
    kind: JobKind
    source: str
    library: str
    doc_id: str  # "" for a folder
    status: JobStatus
    created_at: str
    updated_at: str
    progress: float = 0.0  # 0 to 1
    message: str = ""  # how far it is, in words
    error: str = ""
    attempts: int = 0
    request: Mapping[str, object] = field(default_factory=dict[str, object])
    # Of a document: outcome, document_id, title, chunk_count, notice. Of a folder: its counts.
    result: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def has_ended(self) -> bool:
        return self.status in ("done", "failed", "cancelled")

    @property
    def document_id(self) -> int | None:
        return document_number(self.doc_id) if self.doc_id else None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    jobs: tuple[Job, ...]
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted:
    doc_id: str
    deleted_chunks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Transferred:
    """What an export wrote or an import stored."""

    path: str
    documents: int
    passages: int
    size_bytes: int
    skipped: int = 0  # documents that were there already


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What doctor found where it looked: a problem with what mends it, or that all is well."""

    check: str
    problem: str = ""
    fix: str = ""
    fixed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """A database in figures."""

    home: str
    schema_version: int
    model: Mapping[str, object]
    documents: int
    passages: int
    libraries: tuple[Library, ...]
    files: int
    size_bytes: int
    versions: int
    unindexed_passages: int  # that every keyword search reads
    has_vector_index: bool
    unindexed_vectors: int  # that every search by meaning reads
    hidden_rows: int  # that an interrupted replacement left; the next write removes them
    pending: tuple[str, ...]  # what upkeep will find to do
    recoveries: tuple[str, ...]  # what was damaged and restored before
    notice: str = ""
    jobs: Mapping[str, int] = field(default_factory=dict[str, int])  # by state
