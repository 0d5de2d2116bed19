"""Everything that is written to the table, one writer at a time.

A document is replaced in one commit: its new rows, and a tombstone for each old row that has no
successor. Deleting the tombstones is a second commit, and whether it happens or not changes no answer.
So a crash at any point leaves the old document or the new one, whole.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

from mcpvectordb import memory
from mcpvectordb.errors import DocumentNotFound, EmbedderMismatch, StoreError
from mcpvectordb.models import Deleted, Document

from . import database
from .connection import ENGINE_ERRORS, Connection, Table, first_line
from .database import Database
from .filters import quoted, texts, where
from .migrate import migrate
from .rows import Entry, Row, document_of, flips_of, row_id, stream_of
from .schema import DOCUMENT_COLUMNS, SCHEMA_VERSION, TOMBSTONE
from .upkeep import Upkeep

logger = logging.getLogger(__name__)

# A document of some megabytes, whose rows and indexes pass through a few hundred.
_MANY_CHUNKS = 4096


class Writer:
    def __init__(self, connection: Connection, upkeep: Upkeep) -> None:
        self._connection = connection
        self._upkeep = upkeep

    def replace(self, entries: Sequence[Entry], model: Mapping[str, object]) -> list[bool]:
        """Write whole documents in one commit; True for each that took the place of an older version.

        When this returns, they are on the disk.
        """
        if len({entry.document.document_id for entry in entries}) != len(entries):
            raise StoreError("A document stands twice in one batch. Ingest its versions one after another.")
        is_large = sum(len(entry.chunks) for entry in entries) >= _MANY_CHUNKS
        with memory.sparing() if is_large else nullcontext(), self._connection.exclusive():
            found = self._connection.database() or self._create(model)
            check_model(found, model)
            found = migrate(self._connection, found)
            table = self._connection.table()
            if table is None:
                _check_they_exist(entries, {})
                first = self._connection.create_table(found.table, stream_of(entries, {}, found.dimensions))
                self._say_it_has_a_table(found)
                self._index(first)
                replaced = [False for _ in entries]
            else:
                if not found.has_table:
                    self._say_it_has_a_table(found)  # whoever made it was killed before
                dimensions = found.dimensions
                replaced = self._connection.run(
                    "write the documents", lambda table: self._replace(table, entries, dimensions), table
                )
        # After the lock and the commit: upkeep may fail or be late, the documents are safe already.
        self._upkeep.poke()
        return replaced

    def delete(self, doc_id: str) -> Deleted:
        with self._connection.exclusive():
            clause = f"{where()} AND doc_id = {quoted(doc_id)}"
            count = self._connection.read("look a document up", lambda table: table.count_rows(clause), 0)
            if not count:
                raise _unknown(doc_id)
            self._connection.read("delete the document", lambda table: self._delete(table, doc_id), None)
        self._upkeep.poke()
        return Deleted(doc_id=doc_id, deleted_chunks=count)

    def set_tags(self, doc_id: str, tags: Sequence[str]) -> Document:
        """Give a document these tags in place of those it has, in one commit; nothing else of it changes."""
        clause = f"{where()} AND doc_id = {quoted(doc_id)}"

        def change(table: Table) -> Document | None:
            first = table.search().where(f"{clause} AND chunk_index = 0").select(list(DOCUMENT_COLUMNS))
            rows = first.limit(1).to_list()
            if not rows:
                return None
            known = document_of(rows[0])
            if known.tags != tuple(tags):
                self._heal(table)
                # The engine copies the rows, vectors and all: 20 ms at 100,000 rows, where merging them in
                # takes seconds, and as much again for an index that it drops.
                table.update(where=clause, values_sql={"tags": texts(tags)})
            return replace(known, tags=tuple(tags))

        with self._connection.exclusive():
            changed = self._connection.read("set the tags", change, None)
        if changed is None:
            raise _unknown(doc_id)
        self._upkeep.poke()
        return changed

    def _delete(self, table: Table, doc_id: str) -> None:
        self._heal(table)
        table.delete(f"doc_id = {quoted(doc_id)}")

    def _replace(self, table: Table, entries: Sequence[Entry], dimensions: int) -> list[bool]:
        old = self._healed(table, entries)
        _check_they_exist(entries, old)
        surplus: dict[str, range] = {
            entry.document.doc_id: range(len(entry.chunks), old[entry.document.doc_id]["chunk_count"])
            for entry in entries
            if entry.document.doc_id in old and old[entry.document.doc_id]["chunk_count"] > len(entry.chunks)
        }
        entries = [_with_tags_of(old, entry) for entry in entries]
        # The engine takes in all rows of a merge before it writes any, 30 KB and more for each.
        is_large = sum(len(entry.chunks) for entry in entries) > _MOST_MERGED_ROWS
        if not old:
            table.add(stream_of(entries, {}, dimensions))
        elif is_large and self._swap(table, entries, old, dimensions):
            surplus = dict.fromkeys(old, range(0))
        else:
            rows = stream_of(entries, surplus, dimensions)
            table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        if surplus:
            try:
                table.delete(_TOMBSTONES)
            except ENGINE_ERRORS as exc:
                # The documents are in the table. What is left over is hidden, and the next write heals it.
                logger.warning("hidden rows stay until the next write: %s", first_line(exc))
        return [entry.document.doc_id in old for entry in entries]

    def _swap(self, table: Table, entries: Sequence[Entry], old: Mapping[str, Row], dimensions: int) -> bool:
        """Write the new rows hidden, then in one commit show them and hide the old ones.

        That second commit touches one narrow column. False, and nothing is changed, where the two versions
        cannot be told apart by their time.
        """
        listed = ", ".join(map(quoted, old))
        query = table.search().where(f"{where()} AND doc_id IN ({listed})").select([*_VERSION, "library"])
        before = query.limit(sum(row["chunk_count"] for row in old.values())).to_arrow()
        times = {entry.document.doc_id: entry.document.created_at for entry in entries}
        taken = set(zip(before["id"].to_pylist(), before["created_at"].to_pylist(), strict=True))
        if any((row_id(doc_id, 0), created_at) in taken for doc_id, created_at in times.items()):
            return False
        hidden = [replace(entry, document=replace(entry.document, library=TOMBSTONE)) for entry in entries]
        table.add(stream_of(hidden, {}, dimensions))
        table.merge_insert(list(_VERSION)).when_matched_update_all().execute(flips_of(entries, before))
        return True

    def _healed(self, table: Table, entries: Sequence[Entry]) -> dict[str, Row]:
        """How many chunks, and which tags, those documents have that are stored already, once the table is
        rid of what a crash has left."""
        ids = {entry.document.document_id: entry.document for entry in entries}
        listed = ", ".join(str(number) for number in ids)
        stored = f"document_id IN ({listed})"
        # Mostly there is neither, and one count says so, of indexed columns alone: each reads all rows that
        # no index covers yet.
        if not table.count_rows(f"{_TOMBSTONES} OR {stored}"):
            return {}
        self._heal(table)
        columns = ["doc_id", "document_id", "source", "chunk_count", "tags"]
        query = table.search().where(f"{where()} AND chunk_index = 0 AND {stored}").select(columns)
        rows = query.limit(len(ids)).to_list()
        for row in rows:
            new = ids[row["document_id"]]
            if row["doc_id"] != new.doc_id:
                raise StoreError(
                    f"{new.source} and {row['source']} have the same number {row['document_id']} by chance. "
                    "Nothing was written; put one of them in another library."
                )
        return {row["doc_id"]: row for row in rows}

    def _heal(self, table: Table) -> None:
        """Clear away what a crash between a replacement's two commits has left."""
        left = table.count_rows(_TOMBSTONES)
        if left:
            logger.warning("removing %d hidden rows that an interrupted replacement left", left)
            table.delete(_TOMBSTONES)

    def _create(self, model: Mapping[str, object]) -> Database:
        """Describe a new database; its table is made with the first rows."""
        new = Database(
            schema_version=SCHEMA_VERSION,
            model=model,
            table=f"chunks-{uuid.uuid4().hex[:8]}",
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        database.write(self._connection.home, new, self._connection.disk.sync)
        return new

    def _index(self, table: Table) -> None:
        """Make the indexes of a new table. Its rows are stored already, so no failure may say otherwise.

        One of the vectors, which takes time and memory, is left to upkeep: without it they are found too.
        """
        try:
            self._connection.run("make the indexes", self._connection.make_first_indexes, table)
            # A search in between has seen that they were missing, and a notice would go on saying so.
            self._connection.run("look at the indexes", self._connection.check_indexes, table)
        except StoreError as exc:
            logger.warning("the first indexes are left to upkeep: %s", exc)

    def _say_it_has_a_table(self, found: Database) -> None:
        """From here on a table that is not there is a loss, and not a database that is still empty."""
        self._connection.disk.settle(self._connection.folder)
        database.write(self._connection.home, replace(found, has_table=True), self._connection.disk.sync)


def _with_tags_of(old: Mapping[str, Row], entry: Entry) -> Entry:
    """The tags may have been set while the new version was being embedded."""
    row = old.get(entry.document.doc_id)
    if row is None or not entry.keeps_tags:
        return entry
    return replace(entry, document=replace(entry.document, tags=tuple(row["tags"])))


def _check_they_exist(entries: Sequence[Entry], old: Mapping[str, Row]) -> None:
    """A document may have been deleted while its next version was being embedded."""
    for entry in entries:
        if entry.must_exist and entry.document.doc_id not in old:
            raise _unknown(entry.document.doc_id)


def _unknown(doc_id: str) -> DocumentNotFound:
    return DocumentNotFound(f"There is no document {doc_id!r}. Take a doc_id from search or list_documents.")


_MOST_MERGED_ROWS = 2000
_VERSION = ("id", "created_at")  # tells a row of the new version from the old one in its place
_TOMBSTONES = f"library = {quoted(TOMBSTONE)}"


def check_model(found: Database, model: Mapping[str, object], other: str = "not", fix: str = "") -> None:
    """Vectors of two models cannot be compared, so a database has one."""
    if any(
        found.model.get(key) != model[key] for key in ("repository", "revision", "precision", "dimensions")
    ):
        fix = fix or (
            f"Set MCPVECTORDB_MODEL=auto, or run `mcpvectordb reindex --model {model.get('name')}` to embed "
            "every document again."
        )
        raise EmbedderMismatch(
            f"This database was made with {found.model.get('repository')} ({found.model.get('precision')}, "
            f"{found.dimensions} dimensions), {other} {model['repository']} ({model['precision']}, "
            f"{model['dimensions']}). {fix}"
        )
