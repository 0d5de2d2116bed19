"""Everything that is read from the table. Reads never wait for a writer and never write."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from mcpvectordb.errors import DocumentNotFound, StoreError
from mcpvectordb.models import Chunk, Document, DocumentPage, Header, Library

from . import indexes, terms, vectors
from .connection import Connection, Table
from .filters import Libraries, quoted, where
from .rows import Row, chunk_of, document_of
from .schema import CHUNK_COLUMNS, DOCUMENT_COLUMNS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

# A document's chunks are read in one go; LanceDB's own default limit is 10 rows.
_ALL = 10_000_000
# A filter that leaves so few rows is searched exactly: as fast as by the index, and it finds all.
_FEW_ROWS = 1000
_FEW_SHARE = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Leg:
    """One leg's answer: ids by falling relevance, their scores, and what each passage says."""

    ids: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict[str, float])
    embed_hashes: dict[str, str] = field(default_factory=dict[str, str])


class Reader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # What was last looked for, in which version of the table, and what was there.
        self._found: tuple[str, tuple[str, int], list[Row]] = ("", ("", 0), [])
        # Likewise, whether a filter left few rows.
        self._left_few: tuple[str, tuple[str, int], bool] = ("", ("", 0), False)

    def find(self, doc_id: str) -> Document | None:
        """The record of a document, or None."""
        clause = f"{where()} AND id = {quoted(f'{doc_id}#0')}"

        def read(table: Table) -> list[Row]:
            version = (table.name, table.version)
            # An ingest asks when it is called and again at its turn; mostly nobody has written meanwhile.
            asked, as_of, rows = self._found
            if (asked, as_of) == (doc_id, version):
                return rows
            # Most are new ones, and counting reads a third of what selecting reads to find nothing.
            rows = cast("list[Row]", [])
            if table.count_rows(clause):
                rows = table.search().where(clause).select(list(DOCUMENT_COLUMNS)).limit(1).to_list()
            self._found = (doc_id, version, rows)
            return rows

        rows = self._connection.read("look a document up", read, cast("list[Row]", []))
        return document_of(rows[0]) if rows else None

    def text(self, doc_id: str) -> tuple[Document, str]:
        """A document and its whole text."""
        clause = f"{where()} AND doc_id = {quoted(doc_id)}"
        rows = self._rows("read a document", clause, (*DOCUMENT_COLUMNS, "chunk_index", "content"), _ALL)
        if not rows:
            raise DocumentNotFound(
                f"There is no document {doc_id!r}. Take a doc_id from search or list_documents."
            )
        rows = sorted(rows, key=lambda row: row["chunk_index"])
        document = document_of(rows[0])
        if [row["chunk_index"] for row in rows] != list(range(document.chunk_count)):
            raise StoreError(
                f"{document.source} is not stored whole ({len(rows)} of {document.chunk_count} passages). "
                "Ingest it again with refresh: true."
            )
        return document, "".join(row["content"] for row in rows)

    def numbered(self, document_id: int) -> Document | None:
        """The record of the document with this number, or None."""
        clause = f"{where(filters={'document_id': document_id})} AND chunk_index = 0"
        rows = self._rows("look a document up", clause, DOCUMENT_COLUMNS, 1)
        return document_of(rows[0]) if rows else None

    def whole(self, doc_id: str) -> tuple[Document, list[Chunk]]:
        """A document and all its passages, in order."""
        clause = f"{where()} AND doc_id = {quoted(doc_id)}"
        rows = self._rows("read a document", clause, (*DOCUMENT_COLUMNS, *CHUNK_COLUMNS), _ALL)
        if not rows:
            raise DocumentNotFound(
                f"There is no document {doc_id!r}. Take a doc_id from search or list_documents."
            )
        rows = sorted(rows, key=lambda row: row["chunk_index"])
        return document_of(rows[0]), [chunk_of(row) for row in rows]

    def stored(self) -> dict[str, tuple[str, str]]:
        """By doc_id, the source and the stored path of every document that has a stored file."""
        columns = ("doc_id", "source", "stored_path")
        clause = f"{where()} AND chunk_index = 0 AND stored_path != ''"
        rows = self._rows("list the stored files", clause, columns, _ALL)
        return {row["doc_id"]: (row["source"], row["stored_path"]) for row in rows}

    def documents(self, *, library: Libraries, tags: Sequence[str], limit: int, offset: int) -> DocumentPage:
        """A page of the documents, newest first."""
        clause = f"{where(library=library, tags=tags)} AND chunk_index = 0"

        def read(table: Table) -> tuple[list[Row], int]:
            from lancedb.query import ColumnOrdering  # noqa: PLC0415  (see connection.py)

            newest_first = [
                ColumnOrdering(column_name="created_at", ascending=False),
                ColumnOrdering(column_name="doc_id", ascending=True),
            ]
            query = table.search().where(clause).order_by(newest_first).select(list(DOCUMENT_COLUMNS))
            return query.limit(limit).offset(offset).to_list(), table.count_rows(clause)

        rows, total = self._connection.read("list the documents", read, ([], 0))
        return DocumentPage(documents=tuple(document_of(row) for row in rows), total=total)

    def headers(self, library: str, *, with_words: bool = False) -> dict[str, Header]:
        """The files of a library by their path, for telling which have changed; one read of narrow columns.

        with_words also reads their tags and metadata.
        """
        clause = f"{where(library=library)} AND chunk_index = 0 AND kind = 'file'"
        columns = ["doc_id", "size", "mtime_ns", "created_at", "chunk_count"]
        columns += ["tags", "metadata"] if with_words else []

        def read(table: Table) -> Any:
            return table.search().where(clause).select(["source", *columns]).limit(_ALL).to_arrow()

        found = self._connection.read("look the files up", read, None)
        if found is None:
            return {}
        # By columns: a mapping for each row costs as much again as the read.
        values = [found.column(name).to_pylist() for name in columns]
        if with_words:
            values[-2:] = [map(tuple, values[-2]), map(json.loads, values[-1])]
        return dict(zip(found.column("source").to_pylist(), map(Header, *values), strict=True))

    def libraries(self) -> tuple[Library, ...]:
        clause = f"{where()} AND chunk_index = 0"
        columns = ["library", "chunk_count"]

        def read(table: Table) -> list[dict[str, Any]]:
            found = table.search().where(clause).select(columns).limit(_ALL).to_arrow()
            return (
                found.group_by("library")
                .aggregate([("chunk_count", "sum"), ("chunk_count", "count")])
                .to_pylist()
            )

        rows = self._connection.read("list the libraries", read, [])
        return tuple(
            Library(
                name=row["library"],
                document_count=row["chunk_count_count"],
                chunk_count=row["chunk_count_sum"],
            )
            for row in sorted(rows, key=lambda row: row["library"])
        )

    def keyword_leg(self, query: str, clause: str, depth: int) -> Leg:
        """BM25: by stems; by exact words for a query of stop words only; quoted phrases count on top."""

        def read(table: Table) -> list[Row]:
            query_types: Any = importlib.import_module("lancedb.query")  # its types cannot be checked
            occur = query_types.Occur
            self._connection.check_indexes(table)

            if terms.is_stop_words_only(query):
                match = query_types.MatchQuery(terms.exact_text(query), "exact_text")
            else:
                match = query_types.MatchQuery(terms.search_text(query), "search_text")
            phrases = [query_types.PhraseQuery(phrase, "exact_text") for phrase in terms.phrases(query)]
            # Added, not demanded: questions quote loosely, and a demanded phrase costs CACM .06 nDCG@10.
            whole = (
                query_types.BooleanQuery([*((occur.SHOULD, p) for p in phrases), (occur.SHOULD, match)])
                if phrases
                else match
            )
            found = table.search(whole, query_type="fts").where(clause, prefilter=True)
            return found.select(["id", "embed_hash", "_score"]).limit(depth).to_list()

        return _leg(self._connection.read("search by keywords", read, []), "_score")

    def vector_leg(self, vector: NDArray[np.float32], clause: str, depth: int) -> Leg:
        """The nearest vectors by cosine."""

        def read(table: Table) -> list[Row]:
            found = table.search(vector, vector_column_name="vector").distance_type("cosine")
            if self._connection.has_vector_index(table):
                if self._is_selective(table, clause):
                    found = found.bypass_vector_index()
                else:
                    found = indexes.nearest(found)
            found = found.where(clause, prefilter=True).select(["id", "embed_hash", "_distance"])
            return [row | {"_score": 1.0 - row["_distance"]} for row in found.limit(depth).to_list()]

        return _leg(self._connection.read("search by meaning", read, []), "_score")

    def _is_selective(self, table: Table, clause: str) -> bool:
        """Whether so few rows are asked for that reading all of them is faster than the index, and exact."""
        if clause == where():
            return False
        version = (table.name, table.version)
        asked, as_of, is_few = self._left_few
        if (asked, as_of) != (clause, version):
            is_few = table.count_rows(clause) <= max(_FEW_ROWS, int(_FEW_SHARE * table.count_rows()))
            self._left_few = (clause, version, is_few)
        return is_few

    def passages(self, ids: Sequence[str]) -> dict[str, tuple[Document, Chunk]]:
        """The rows of ids. One that another process has just removed is missing from the answer."""
        clause = f"{where()} AND id IN ({', '.join(quoted(key) for key in ids)})"
        columns = ("id", *DOCUMENT_COLUMNS, *CHUNK_COLUMNS)
        rows = self._rows("read the passages found", clause, columns, len(ids)) if ids else []
        return {row["id"]: (document_of(row), chunk_of(row)) for row in rows}

    def vectors(self, embed_hashes: Sequence[str], doc_ids: Sequence[str] = ()) -> dict[str, Vectors]:
        """The vectors that are stored under these hashes.

        They are looked for in doc_ids first: where a document is replaced nearly all of them stand there, and
        are found at once also where the hashes have no index yet.
        """
        clauses = [f"doc_id IN ({', '.join(map(quoted, doc_ids))})", ""] if doc_ids else [""]

        def read(table: Table) -> dict[str, Vectors]:
            found: dict[str, Vectors] = {}
            for clause in clauses:
                found |= vectors.find(table, [key for key in embed_hashes if key not in found], clause)
            return found

        return self._connection.read("look vectors up", read, cast("dict[str, Vectors]", {}))

    def _rows(self, action: str, clause: str, columns: Sequence[str], limit: int) -> list[Row]:
        def read(table: Table) -> list[Row]:
            return table.search().where(clause).select(list(columns)).limit(limit).to_list()

        return self._connection.read(action, read, cast("list[Row]", []))


def _leg(rows: Sequence[Row], score: str) -> Leg:
    # Equal scores come in any order from the engine; by id they come the same way every time.
    rows = sorted(rows, key=lambda row: (-row[score], row["id"]))
    return Leg(
        ids=tuple(row["id"] for row in rows),
        scores={row["id"]: row[score] for row in rows},
        embed_hashes={row["id"]: row["embed_hash"] for row in rows},
    )
