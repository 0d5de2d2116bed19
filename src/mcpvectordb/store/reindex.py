"""A second table beside the live one: filled with vectors of another model, then made the live one.

The live table serves and is written to all the while. What has changed in it meanwhile is found by comparing
the documents' records, and the last of it is brought over under the write lock, before the pointer in
database.json flips. A filling that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from mcpvectordb.errors import DocumentNotFound, StoreBusy, StoreError
from mcpvectordb.models import Chunk, Document

from . import database
from .connection import Connection, Table
from .database import Database
from .filters import quoted, where
from .locks import UPKEEP_PATIENCE_S, upkeep_lock
from .rows import Entry, Row, chunk_of, document_of, stream_of
from .schema import CHUNK_COLUMNS, DOCUMENT_COLUMNS, SCHEMA_VERSION

T = TypeVar("T")

logger = logging.getLogger(__name__)

_ALL = 10_000_000
_NOTE = "reindex.json"  # which table is being filled, and for which model
# What says that a document is another version of itself. Another model may cut it into other chunks.
_VERSION_COLUMNS = tuple(name for name in DOCUMENT_COLUMNS if name != "chunk_count")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What the live table has and the second one has not, or not in this version."""

    missing: tuple[Document, ...]
    gone: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.gone)


class SecondTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = ""
        self._table: Table | None = None
        self._model: Mapping[str, object] = {}

    @contextmanager
    def opened(self, model: Mapping[str, object]) -> Generator[None]:
        """Hold the place of the one who re-indexes; go on with a table begun for the same model."""
        home = self._connection.home
        try:
            with _place(home):
                self._model = model
                self._begin()
                yield
        except Timeout as exc:
            raise StoreBusy(
                "Another process is re-indexing this database. Wait until it has finished."
            ) from exc
        except OSError as exc:
            raise StoreError(f"Cannot write to {home}: {exc.strerror or exc}. Check the folder.") from exc

    def difference(self) -> Difference:
        live = self._connection.read("read the documents", _versions, {})
        here: dict[str, Row] = {}
        if self._table is not None:
            here = self._run("read the documents", _versions)
        return Difference(
            missing=tuple(
                document_of(row) for key, row in live.items() if _version(here.get(key)) != _version(row)
            ),
            gone=tuple(key for key in here if key not in live),
        )

    def chunks(self, doc_id: str) -> tuple[Document, list[Chunk]]:
        """A document of the live table as it is now."""

        def read(table: Table) -> list[Row]:
            columns = [*DOCUMENT_COLUMNS, *CHUNK_COLUMNS]
            return _select(table, f"doc_id = {quoted(doc_id)}", columns)

        rows = sorted(self._connection.read("read a document", read, []), key=lambda row: row["chunk_index"])
        if not rows:
            raise DocumentNotFound(f"The document {doc_id!r} has just been deleted.")
        return document_of(rows[0]), [chunk_of(row) for row in rows]

    def write(self, entries: Sequence[Entry], gone: Sequence[str] = ()) -> None:
        """Put whole documents into the second table, in place of older versions; take gone ones out."""
        out = [*gone, *(entry.document.doc_id for entry in entries)]
        dimensions = int(str(self._model["dimensions"]))

        def change(table: Table) -> None:
            if out:
                table.delete(f"doc_id IN ({', '.join(quoted(key) for key in out)})")
            if entries:
                table.add(stream_of(entries, {}, dimensions))

        if self._table is not None:
            self._run("write the documents", change)
        elif entries:
            self._table = self._connection.make_table(self._name, stream_of(entries, {}, dimensions))
        # After a loss of power no more than the last of it has to be made again.
        self._connection.disk.settle(self._connection.folder)

    def finish(self, catch_up: Callable[[Difference], None], is_small: Callable[[Difference], bool]) -> bool:
        """Make the second table the live one, once catch_up has brought over what is still different.

        That is done while other writers wait; False if it is not small, and nothing has changed then.
        """
        if self._table is not None:
            self._run("make the indexes", self._connection.make_indexes)
        with self._connection.exclusive():
            left = self.difference()
            if left and not is_small(left):
                return False
            if left:
                catch_up(left)
            # What the pointer is about to name must be on the disk before it does.
            self._connection.disk.settle(self._connection.folder)
            live = self._live()
            flipped = replace(
                live,
                model=self._model,
                table=self._name,
                has_table=self._table is not None,
                schema_version=SCHEMA_VERSION,
            )
            database.write(self._connection.home, flipped, self._connection.disk.sync)
        self._note.unlink(missing_ok=True)
        self._drop_old(live.table)
        return True

    def _begin(self) -> None:
        name, model = _noted(self._note)
        with self._connection.exclusive():
            # Only now: somebody else may have finished a re-indexing since this one was asked for.
            live = self._live()
            if name and model == json.loads(json.dumps(self._model)) and name != live.table:
                self._name = name
                self._table = self._connection.open_other(name)
            else:
                self._name = f"chunks-{uuid.uuid4().hex[:8]}"
                self._note.write_text(
                    json.dumps({"table": self._name, "model": self._model}), encoding="utf-8"
                )
            for path in self._connection.folder.glob("*.lance"):
                if path.stem not in (self._name, live.table):
                    self._drop(path.stem)

    def _live(self) -> Database:
        found = self._connection.database()
        if found is None:
            raise StoreError("Nothing has been indexed yet, so there is nothing to re-index.")
        return found

    def _drop_old(self, name: str) -> None:
        """Remove the table that was the live one, once no upkeep is at it: that would go on making files in
        it, and the folder would stay."""
        try:
            with upkeep_lock(self._connection.home).acquire(timeout=UPKEEP_PATIENCE_S):
                self._drop(name)
        except Timeout:
            logger.warning("the table %s was left behind, because upkeep is at it for too long", name)

    def _drop(self, name: str) -> None:
        """Remove a table that nothing points to. A reader that is still at it opens the live one instead."""
        try:
            self._connection.drop_other(name)
        except StoreError as exc:
            logger.warning("the table %s was left behind, the next re-indexing removes it: %s", name, exc)

    def _run(self, action: str, call: Callable[[Table], T]) -> T:
        return self._connection.run_on(action, call, self._table)

    @property
    def _note(self) -> Path:
        return self._connection.home / _NOTE


def left_behind(connection: Connection) -> list[str]:
    """The tables that nothing names: those of a re-indexing that was killed before it removed the old one.

    None while somebody re-indexes, who is about to.
    """
    live = connection.database()
    if live is None or not any(path.stem != live.table for path in connection.folder.glob("*.lance")):
        return []
    try:
        with _place(connection.home):
            live = connection.database()
            named = {_noted(connection.home / _NOTE)[0], "" if live is None else live.table}
            return sorted(path.stem for path in connection.folder.glob("*.lance") if path.stem not in named)
    except (Timeout, OSError) as exc:
        logger.debug("not known which tables were left behind: %s", exc)
        return []


def remove_left_behind(connection: Connection) -> None:
    with connection.exclusive():  # nobody makes one, nor has another made the live one
        for name in left_behind(connection):
            connection.drop_other(name)


def _place(home: Path) -> FileLock:
    """Of the one who re-indexes."""
    return FileLock(home / "reindex.lock", timeout=0)


def _noted(note: Path) -> tuple[str, Any]:
    """The table that is being filled, and for which model; "" where there is none."""
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        return str(noted["table"]), noted["model"]
    except FileNotFoundError:
        return "", None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        logger.warning("%s cannot be read (%s): the re-indexing starts anew", note, exc)
        return "", None


def _select(table: Table, clause: str, columns: Sequence[str]) -> list[Row]:
    return table.search().where(f"{where()} AND {clause}").select(list(columns)).limit(_ALL).to_list()


def _versions(table: Table) -> dict[str, Row]:
    return {row["doc_id"]: row for row in _select(table, "chunk_index = 0", DOCUMENT_COLUMNS)}


def _version(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row[name] for name in _VERSION_COLUMNS)
