"""Our values as the knowledge base's contract has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from mcpvectordb.contract import knowledge
from mcpvectordb.models import Chunk, Document, Hit, Job


def hit(found: Hit) -> knowledge.Hit:
    document, chunk = found.document, found.chunk
    return knowledge.Hit(
        document_id=document.document_id,
        title=document.title,
        source_path=document.source,
        chunk_index=chunk.index,
        text=chunk.content,
        score=round(found.score, 6),
        fts_score=found.keyword_score,
        vec_score=found.vector_score,
        page=chunk.page,
        metadata=dict(document.metadata),
        tags=list(document.tags),
    )


def job(found: Job) -> knowledge.Job:
    result = cast("dict[str, Any]", found.result)
    return knowledge.Job(
        job_id=found.job_id,
        status=found.status,
        # Before a job is done there is no document, or an older version of it.
        document_id=found.document_id if found.status == "done" else None,
        title=result.get("title"),
        error=found.error or None,
        created_at=found.created_at,
        kind=found.kind,
        progress=found.progress,
        message=found.message,
        chunk_count=result.get("chunk_count"),
        outcome=result.get("outcome"),
        notice=result.get("notice") or None,
    )


def document(found: Document) -> knowledge.Document:
    return knowledge.Document(**_fields(found))


def details(found: Document, chunks: Sequence[Chunk], *, notice: str = "") -> knowledge.Details:
    return knowledge.Details(
        **_fields(found),
        chunks=[
            knowledge.Chunk(
                chunk_index=chunk.index, text=chunk.content, page=chunk.page, headings=list(chunk.headings)
            )
            for chunk in chunks
        ],
        notice=notice or None,
    )


def _fields(found: Document) -> dict[str, Any]:
    return {
        "document_id": found.document_id,
        "title": found.title,
        "source_path": found.source,
        "kind": found.kind,
        "tags": list(found.tags),
        "metadata": dict(found.metadata),
        "created_at": found.created_at,
        "chunk_count": found.chunk_count,
        "library": found.library,
        "doc_id": found.doc_id,
    }
