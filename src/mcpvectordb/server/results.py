"""What the tools answer: the contract's shapes as pydantic models, and how our values become them.

The models are also where the published output schemas come from, so an answer and its schema cannot part.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from mcpvectordb.contract.answers import Result
from mcpvectordb.models import (
    Deleted,
    Document,
    DocumentPage,
    DocumentText,
    Hit,
    Ingested,
    Library,
    Metadata,
    Mode,
)
from mcpvectordb.models import SearchResult as Found
from mcpvectordb.vectordb import Task


class IngestResult(Result):
    status: Literal["indexed", "replaced", "skipped", "processing"]
    doc_id: str
    source: str
    library: str
    chunk_count: int
    title: str | None = None
    job_id: str | None = Field(default=None, description="Of the job that goes on; see the tool jobs")
    progress: float | None = Field(default=None, description="0 to 1, while the work goes on")
    notice: str | None = Field(default=None, description="Something the caller should know or do")

    @classmethod
    def of(cls, ingested: Ingested) -> IngestResult:
        document = ingested.document
        return cls(
            status=ingested.status,
            doc_id=document.doc_id,
            source=document.source,
            library=document.library,
            chunk_count=document.chunk_count,
            title=document.title,
            notice=ingested.notice or None,
        )

    @classmethod
    def of_task(cls, task: Task[Ingested]) -> IngestResult:
        """For work that goes on."""
        fraction, words = task.progress
        return cls(
            status="processing",
            doc_id=task.doc_id,
            source=task.source,
            library=task.library,
            chunk_count=0,
            job_id=task.job_id,
            progress=round(fraction, 4),
            notice=going_on(words),
        )


def going_on(words: str) -> str:
    """What to know of work that has not ended."""
    return (
        f"Not finished yet: {words}. It goes on in the background, and what was there before stays until it "
        "is done: ask `jobs` with this job_id how far it is, or call again to wait for it."
    )


class Passage(BaseModel):
    doc_id: str
    source: str
    title: str
    library: str
    file_type: str
    last_modified: str
    page: int = Field(description="1-based; 0 where there are no pages")
    content: str
    chunk_index: int
    metadata: Metadata
    score: float = Field(description="1 is first place in every leg")
    headings: list[str] = Field(description="Path of headings above the passage")
    start: int = Field(description="Offset of content in the document's text")
    end: int
    tags: list[str]

    @classmethod
    def of(cls, hit: Hit) -> Passage:
        document, chunk = hit.document, hit.chunk
        return cls(
            doc_id=document.doc_id,
            source=document.source,
            title=document.title,
            library=document.library,
            file_type=document.file_type,
            last_modified=document.last_modified,
            page=chunk.page,
            content=chunk.content,
            chunk_index=chunk.index,
            metadata=document.metadata,
            score=round(hit.score, 6),
            headings=list(chunk.headings),
            start=chunk.start,
            end=chunk.end,
            tags=list(document.tags),
        )


class SearchResult(Result):
    results: list[Passage]
    mode: Mode = Field(description="The legs that served this answer")
    notice: str | None = None

    @classmethod
    def of(cls, found: Found) -> SearchResult:
        return cls(
            results=[Passage.of(hit) for hit in found.hits], mode=found.mode, notice=found.notice or None
        )


class DocumentRecord(BaseModel):
    doc_id: str
    source: str
    title: str
    library: str
    content_hash: str
    created_at: str = Field(description="When this version was indexed")
    metadata: Metadata
    chunk_count: int
    file_type: str
    last_modified: str
    tags: list[str]

    @classmethod
    def of(cls, document: Document) -> DocumentRecord:
        return cls(
            doc_id=document.doc_id,
            source=document.source,
            title=document.title,
            library=document.library,
            content_hash=document.content_hash,
            created_at=document.created_at,
            metadata=document.metadata,
            chunk_count=document.chunk_count,
            file_type=document.file_type,
            last_modified=document.last_modified,
            tags=list(document.tags),
        )


class DocumentsResult(Result):
    documents: list[DocumentRecord]
    count: int = Field(description="Documents on this page")
    total: int = Field(description="Documents in all")
    notice: str | None = None

    @classmethod
    def of(cls, page: DocumentPage) -> DocumentsResult:
        records = [DocumentRecord.of(document) for document in page.documents]
        return cls(documents=records, count=len(records), total=page.total, notice=page.notice or None)


class LibraryRecord(BaseModel):
    library: str
    document_count: int
    chunk_count: int


class LibrariesResult(Result):
    libraries: list[LibraryRecord]

    @classmethod
    def of(cls, libraries: tuple[Library, ...]) -> LibrariesResult:
        return cls(
            libraries=[
                LibraryRecord(
                    library=one.name, document_count=one.document_count, chunk_count=one.chunk_count
                )
                for one in libraries
            ]
        )


class DeleteResult(Result):
    status: Literal["deleted"]
    doc_id: str
    deleted_chunks: int

    @classmethod
    def of(cls, deleted: Deleted) -> DeleteResult:
        return cls(status="deleted", doc_id=deleted.doc_id, deleted_chunks=deleted.deleted_chunks)


class TagsResult(Result):
    status: Literal["tagged"]
    doc_id: str
    source: str
    title: str
    library: str
    tags: list[str]

    @classmethod
    def of(cls, document: Document) -> TagsResult:
        return cls(
            status="tagged",
            doc_id=document.doc_id,
            source=document.source,
            title=document.title,
            library=document.library,
            tags=list(document.tags),
        )


class TextResult(Result):
    doc_id: str
    source: str
    title: str
    library: str
    content: str
    chunk_count: int
    metadata: Metadata
    offset: int = Field(description="Where content begins in the whole text")
    total_chars: int = Field(description="Length of the whole text")
    notice: str | None = None

    @classmethod
    def of(cls, text: DocumentText) -> TextResult:
        return cls(
            doc_id=text.document.doc_id,
            source=text.document.source,
            title=text.document.title,
            library=text.document.library,
            content=text.content,
            chunk_count=text.document.chunk_count,
            metadata=text.document.metadata,
            offset=text.offset,
            total_chars=text.total_chars,
            notice=text.notice or None,
        )
