"""The columns of the table: one row per chunk, the document's fields on each.

All columns that later features need are here from the first day, so that they need no migration.
"""

from __future__ import annotations

import importlib
from typing import Any

# 2: text_hash.
SCHEMA_VERSION = 2

# A row of a document's old version that its new version has no row for. It is written in the same commit
# as the new rows, hidden from every read, and deleted in the next commit. No library can have this name:
# control characters are refused in names.
TOMBSTONE = "\x7ftombstone"

# The document's record is the row with chunk_index 0; lists and counts read only these columns of it.
DOCUMENT_COLUMNS = (
    "doc_id",
    "library",
    "source",
    "title",
    "file_type",
    "kind",
    "content_hash",
    "created_at",
    "chunk_count",
    "last_modified",
    "tags",
    "metadata",
    "mtime_ns",
    "size",
    "etag",
    "stored_path",
    "pipeline",
)
CHUNK_COLUMNS = ("chunk_index", "content", "start", "headings", "page", "page_end")


def arrow() -> Any:
    """pyarrow, imported on first use (0.3 s that start-up must not pay). It has no types of its own."""
    return importlib.import_module("pyarrow")


def arrow_schema(dimensions: int) -> Any:
    pa = arrow()
    text, integer, number = pa.string(), pa.int64(), pa.int32()
    texts = pa.list_(pa.string())
    return pa.schema(
        [
            pa.field("id", text),  # f"{doc_id}#{chunk_index}"
            pa.field("doc_id", text),
            pa.field("document_id", integer),
            pa.field("library", text),
            pa.field("source", text),
            pa.field("title", text),
            pa.field("file_type", text),
            pa.field("last_modified", text),
            pa.field("page", number),
            pa.field("page_end", number),
            pa.field("chunk_index", number),
            pa.field("chunk_count", number),
            pa.field("start", integer),
            pa.field("end", integer),
            pa.field("headings", texts),
            pa.field("content", text),
            pa.field("search_text", text),  # what BM25 ranks by; see terms.py
            pa.field("exact_text", text),  # the second BM25 index: phrases and stop words
            pa.field("embed_hash", text),
            pa.field("vector", pa.list_(pa.float32(), dimensions)),
            pa.field("content_hash", text),
            pa.field("created_at", text),
            pa.field("tags", texts),
            pa.field("metadata", text),  # JSON
            pa.field("metadata_terms", texts),  # "key=json value", so that metadata filters use an index
            pa.field("kind", text),
            pa.field("stored_path", text),
            pa.field("mtime_ns", integer),
            pa.field("size", integer),
            pa.field("etag", text),
            pa.field("pipeline", number),
            pa.field("text_hash", text),  # SHA-256 of content, so that a disk that turns bits is found out
        ]
    )
