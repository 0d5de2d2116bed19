"""A document on its way into the store: read, cut and named, but not yet written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mcpvectordb import chunk
from mcpvectordb.convert import PIPELINE
from mcpvectordb.embed import Embedder, Model, embed_hash
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import Chunk, Converted, Document, Metadata, Source
from mcpvectordb.store import Entry
from mcpvectordb.work import Work

from .passages import Passages
from .spool import Spool

# A shorter document is embedded anew in a moment: not worth a file in the folder of its job.
_LEAST_SPOOLED = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A source and what the caller says of it. None keeps what a stored version has."""

    source: Source
    metadata: Metadata | None = None
    tags: tuple[str, ...] | None = None
    refresh: bool = False  # index again even if the bytes are the same
    must_exist: bool = False  # a change of what is stored: DocumentNotFound if it is deleted meanwhile


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    request: Request
    known: Document | None  # the version that it replaces
    model: Model  # what its vectors are of
    document: Document
    passages: Passages
    hashes: list[str]
    spool: Spool
    notice: str

    def entry(self) -> Entry:
        """What is written, once the spool has all vectors."""
        return Entry(
            document=self.document,
            chunks=self.passages,
            embed_hashes=self.hashes,
            vectors=self.spool.rows(self.hashes),
            keeps_tags=self.request.tags is None,
            must_exist=self.request.must_exist,
        )


def limits_for(embedder: Embedder, chunk_tokens: int) -> chunk.Limits:
    """How long a chunk may be for a model: its prefix and special tokens take their part."""
    return chunk.Limits(
        tokens=min(chunk_tokens, embedder.model.max_tokens),
        reserved=embedder.special_tokens + embedder.count_tokens(embedder.model.document_prefix),
    )


def draft_of(
    request: Request,
    known: Document | None,
    converted: Converted,
    embedder: Embedder,
    limits: chunk.Limits,
    work: Work,
) -> Draft:
    """Cut a converted source into passages."""
    source, model = request.source, embedder.model
    counted = _counted(embedder.count_tokens, work.checkpoint)
    hashes: list[str] = []
    pieces = _hashed(chunk.cut(converted, limits, counted), model, hashes)
    passages = Passages(converted.text, _told(pieces, len(converted.text), work.report))
    if not passages:
        raise ConversionError(f"{source.called} holds no text: there is nothing to index.")
    document = Document(
        doc_id=source.doc_id,
        library=source.library,
        source=source.name,
        title=source.title or converted.title or source.fallback_title or source.file_name,
        file_type=converted.file_type,
        kind=source.kind,
        content_hash=source.content_hash,
        created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        chunk_count=len(passages),
        last_modified=source.last_modified,
        tags=request.tags if request.tags is not None else known.tags if known else (),
        metadata=request.metadata if request.metadata is not None else known.metadata if known else {},
        mtime_ns=source.mtime_ns,
        size=len(source.data),
        etag=source.etag,
        stored_path=source.stored_path,
        pipeline=PIPELINE,
    )
    return Draft(
        request=request,
        known=known,
        model=model,
        document=document,
        passages=passages,
        hashes=hashes,
        spool=Spool(model.dimensions, _spool_path(work, document, model)),
        notice=converted.notice,
    )


def _spool_path(work: Work, document: Document, model: Model) -> Path | None:
    if work.spool is None or document.chunk_count <= _LEAST_SPOOLED:
        return None
    return work.spool / f"{document.doc_id}.{model.dimensions}.vectors"


def _counted(count: Callable[[str], int], checkpoint: Callable[[], None]) -> Callable[[str], int]:
    """Counting is what takes the time in cutting, so it is where that can be given up."""

    def counted(text: str) -> int:
        checkpoint()
        return count(text)

    return counted


def _hashed(pieces: Iterable[Chunk], model: Model, hashes: list[str]) -> Iterator[Chunk]:
    for piece in pieces:
        hashes.append(embed_hash(model, piece.embedded))
        yield piece


def _told(pieces: Iterable[Chunk], length: int, report: Callable[[float, str], None]) -> Iterator[Chunk]:
    for piece in pieces:
        if piece.index % 500 == 499:
            report(_CUT_SHARE * piece.end / length, f"cut {piece.index + 1} passages")
        yield piece


_CUT_SHARE = 0.05
