"""The shapes of the knowledge base: what the engine answers over HTTP, and the gateway hands on over MCP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcpvectordb.models import JobKind, JobStatus, Kind


class Shape(BaseModel):
    """Base of the shapes. A newer engine may say more than its gateway knows of."""

    model_config = ConfigDict(frozen=True)


class Hit(Shape):
    document_id: int
    title: str
    source_path: str
    chunk_index: int
    text: str
    score: float = Field(description="1 is first place in every leg")
    fts_score: float | None = Field(description="BM25; null where words did not find the passage")
    vec_score: float | None = Field(description="Cosine; null where meaning did not find the passage")
    page: int = Field(description="1-based; 0 where there are no pages")
    metadata: dict[str, Any]
    tags: list[str]


class SearchResult(Shape):
    results: list[Hit]
    mode: str = Field(description="The legs that served this answer")
    notice: str | None = Field(None, description="Something the caller should know or do")


class Job(Shape):
    job_id: str
    status: JobStatus
    document_id: int | None = Field(description="The document that a done job has made")
    title: str | None
    error: str | None = Field(description="Why a failed job failed")
    created_at: str
    kind: JobKind
    progress: float = Field(description="0 to 1")
    message: str = Field(description="What is being done, in words")
    chunk_count: int | None
    outcome: str | None = Field(description="indexed, replaced or skipped")
    notice: str | None = None


class Jobs(Shape):
    jobs: list[Job] = Field(description="Newest first")
    total: int


class Document(Shape):
    document_id: int
    title: str
    source_path: str = Field(description="A note's own name or note:<id>; upload:<hash>/<name> for a file")
    kind: Kind
    tags: list[str]
    metadata: dict[str, Any]
    created_at: str
    chunk_count: int
    library: str
    doc_id: str


class Chunk(Shape):
    chunk_index: int
    text: str
    page: int = Field(description="1-based; 0 where there are no pages")
    headings: list[str]


class Details(Document):
    chunks: list[Chunk]
    notice: str | None = None


class Documents(Shape):
    documents: list[Document] = Field(description="Newest first")
    total: int


class Matches(Shape):
    """The documents of one source_path: few, so they come with their text."""

    documents: list[Details]
    total: int


class UploadStarted(Shape):
    upload_id: str


class ChunkReceived(Shape):
    upload_id: str
    chunk_index: int
    received: int = Field(description="Bytes that have come in all")
    total_size: int


class Deleted(Shape):
    status: Literal["deleted"]
    document_id: int
    title: str


class Status(Shape):
    version: str
    model: dict[str, Any] | None = Field(description="Null before the first document")
    device: str
    documents: int
    chunks: int
    queue: dict[str, int] = Field(description="How many jobs are in each state")
    index: dict[str, Any] = Field(description="How far the indexes cover the passages")
    notice: str | None = None


class Error(Shape):
    error: str = Field(description="What happened, and what to do")
