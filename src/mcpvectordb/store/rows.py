"""Documents and chunks to rows of the table and back."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mcpvectordb.models import Chunk, Document

from . import terms
from .filters import metadata_terms
from .schema import TOMBSTONE, arrow, arrow_schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = Mapping[str, Any]


# A long document is written a part at a time: so many rows are in memory at once.
_ROWS_PER_BATCH = 512


class VectorRows(Protocol):
    """An array, or something that reads its rows when they are asked for."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> NDArray[np.float32]: ...


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A whole document ready to be written."""

    document: Document
    chunks: Sequence[Chunk]
    embed_hashes: Sequence[str]
    vectors: VectorRows
    keeps_tags: bool = False  # those that the version in the table has when this one takes its place
    must_exist: bool = False  # else nothing is written: what was deleted meanwhile stays deleted


class _Part(NamedTuple):
    """Some of the rows of a document."""

    entry: Entry
    start: int
    end: int


def row_id(doc_id: str, index: int) -> str:
    return f"{doc_id}#{index}"


def stream_of(entries: Sequence[Entry], surplus: Mapping[str, range], dimensions: int) -> Any:
    """The rows of entries, and a tombstone for each surplus chunk of an old version, a part at a time."""
    return arrow().RecordBatchReader.from_batches(
        arrow_schema(dimensions), _batches(entries, surplus, dimensions)
    )


def _batches(entries: Sequence[Entry], surplus: Mapping[str, range], dimensions: int) -> Iterator[Any]:
    schema = arrow_schema(dimensions)
    for rows in _portions(entries):
        columns = _columns(rows)
        flat = arrow().array(_joined(rows).reshape(-1))
        vectors = arrow().FixedSizeListArray.from_arrays(flat, dimensions)
        yield arrow().RecordBatch.from_arrays(
            [
                vectors if field.name == "vector" else arrow().array(columns[field.name], field.type)
                for field in schema
            ],
            schema=schema,
        )
    gone = [_tombstone(doc_id, index, dimensions) for doc_id, old in surplus.items() for index in old]
    yield from arrow().Table.from_pylist(gone, schema=schema).to_batches(_ROWS_PER_BATCH)


def flips_of(entries: Sequence[Entry], before: Any) -> Any:
    """What hides the rows of `before` and shows those of entries: their ids and times, with a new library."""
    pa = arrow()
    shown = [
        (row_id(entry.document.doc_id, index), entry.document.created_at, entry.document.library)
        for entry in entries
        for index in range(len(entry.chunks))
    ]
    columns = [list(column) for column in zip(*shown, strict=True)]
    names = ["id", "created_at", "library"]
    hidden = before.set_column(
        before.schema.get_field_index("library"), "library", pa.array([TOMBSTONE] * len(before))
    )
    return pa.concat_tables([pa.table(columns, names=names), hidden.select(names)])


def _portions(entries: Sequence[Entry]) -> Iterator[list[_Part]]:
    """Parts of documents that make batches: many of a small one, one after another of a large one."""
    rows: list[_Part] = []
    free = _ROWS_PER_BATCH
    for entry in entries:
        start = 0
        while start < len(entry.chunks):
            end = min(start + free, len(entry.chunks))
            rows.append(_Part(entry, start, end))
            free -= end - start
            start = end
            if not free:
                yield rows
                rows, free = [], _ROWS_PER_BATCH
    if rows:
        yield rows


def _joined(parts: Sequence[_Part]) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415  (not before something is written)

    return np.concatenate([part.entry.vectors[part.start : part.end] for part in parts]).astype(np.float32)


def document_of(row: Row) -> Document:
    return Document(
        doc_id=row["doc_id"],
        library=row["library"],
        source=row["source"],
        title=row["title"],
        file_type=row["file_type"],
        kind=row["kind"],
        content_hash=row["content_hash"],
        created_at=row["created_at"],
        chunk_count=row["chunk_count"],
        last_modified=row["last_modified"],
        tags=tuple(row["tags"]),
        metadata=json.loads(row["metadata"]),
        mtime_ns=row["mtime_ns"],
        size=row["size"],
        etag=row["etag"],
        stored_path=row["stored_path"],
        pipeline=row["pipeline"],
    )


def chunk_of(row: Row) -> Chunk:
    return Chunk(
        index=row["chunk_index"],
        content=row["content"],
        start=row["start"],
        headings=tuple(row["headings"]),
        page=row["page"],
        page_end=row["page_end"],
    )


def _columns(parts: Sequence[_Part]) -> dict[str, list[object]]:
    """Everything but the vectors."""
    columns: dict[str, list[object]] = defaultdict(list)
    for entry, start, end in parts:
        document, chunks = entry.document, entry.chunks[start:end]
        for name, value in _shared(document).items():
            columns[name] += [value] * len(chunks)
        columns["embed_hash"] += entry.embed_hashes[start:end]
        for chunk in chunks:
            for name, value in _own(document, chunk).items():
                columns[name].append(value)
    return columns


def _shared(document: Document) -> dict[str, object]:
    return {
        "doc_id": document.doc_id,
        "document_id": document.document_id,
        "library": document.library,
        "source": document.source,
        "title": document.title,
        "file_type": document.file_type,
        "last_modified": document.last_modified,
        "chunk_count": document.chunk_count,
        "content_hash": document.content_hash,
        "created_at": document.created_at,
        "tags": list(document.tags),
        "metadata": json.dumps(dict(document.metadata), ensure_ascii=False),
        "metadata_terms": metadata_terms(document.metadata),
        "kind": document.kind,
        "stored_path": document.stored_path,
        "mtime_ns": document.mtime_ns,
        "size": document.size,
        "etag": document.etag,
        "pipeline": document.pipeline,
    }


def _own(document: Document, chunk: Chunk) -> dict[str, object]:
    parts = (document.title, *_unseen(chunk), chunk.content)
    return {
        "id": row_id(document.doc_id, chunk.index),
        "page": chunk.page,
        "page_end": chunk.page_end,
        "chunk_index": chunk.index,
        "start": chunk.start,
        "end": chunk.end,
        "headings": list(chunk.headings),
        "content": chunk.content,
        "search_text": terms.search_text(*parts),
        "exact_text": terms.exact_text(*parts),
        "text_hash": hashlib.sha256(chunk.content.encode()).hexdigest(),
    }


def _unseen(chunk: Chunk) -> list[str]:
    """The headings that the chunk's own text does not show: counted once, not twice."""
    head = chunk.content[:500]
    return [heading for heading in chunk.headings if heading not in head]


def _tombstone(doc_id: str, index: int, dimensions: int) -> dict[str, object]:
    types = {str(field.name): str(field.type) for field in arrow_schema(dimensions)}
    texts = {name: "" for name, kind in types.items() if kind == "string"}
    numbers = {name: 0 for name, kind in types.items() if kind.startswith("int")}
    return {
        **texts,
        **numbers,
        "id": row_id(doc_id, index),
        "doc_id": doc_id,
        "library": TOMBSTONE,
        "chunk_index": index,
        "headings": [],
        "tags": [],
        "metadata_terms": [],
        "vector": [0.0] * dimensions,
    }
