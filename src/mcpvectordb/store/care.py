"""Looking after a database: what it is in figures, what is wrong with it, and mending that.

Checks read everything and change nothing; only `mend` writes.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import Timeout

from mcpvectordb.errors import StoreBusy, StoreDamaged, StoreError, VectorDBError
from mcpvectordb.models import Finding, Status

from . import indexes, recovery
from .connection import ENGINE_ERRORS, Connection, Table, first_line, is_retryable
from .database import Database
from .durable import file_sizes
from .filters import quoted, where
from .locks import UPKEEP_PATIENCE_S, upkeep_lock
from .reader import Reader
from .reindex import left_behind, remove_left_behind
from .salvage import salvage
from .schema import TOMBSTONE
from .upkeep import Pending, Upkeep
from .vectors import sound

logger = logging.getLogger(__name__)

_HIDDEN = f"library = {quoted(TOMBSTONE)}"
_BATCH = 4096
_MOST_NAMED = 3
# Of two commits that meet, upkeep's is the one that fails.
_MOST_TRIES = 5
_NETWORK = ("nfs", "cifs", "smb", "sshfs", "9p", "afp", "webdav", "davfs", "glusterfs", "ceph")
# Folders that programs keep in step with other machines, by parts of their usual names.
_SYNCED = ("dropbox", "onedrive", "google drive", "googledrive", "icloud", "mobile documents", "cloudstorage")
_REFRESH = "Ingest them again with refresh: true."
_WITH_FIX = "Run `mcpvectordb doctor --fix`."


class Care:
    def __init__(self, connection: Connection, reader: Reader, upkeep: Upkeep) -> None:
        self._connection = connection
        self._reader = reader
        self._upkeep = upkeep

    def status(self) -> Status | None:
        """The database in figures, or None where there is none."""
        found = self._connection.database()
        if found is None:
            return None
        home = self._connection.home
        libraries = self._reader.libraries()
        pending = self._upkeep.pending()
        sizes = list(file_sizes(home))
        words, vectors = self._connection.read("read the indexes", _unindexed, (0, None))
        return Status(
            home=str(home),
            schema_version=found.schema_version,
            model=found.model,
            documents=sum(library.document_count for library in libraries),
            passages=sum(library.chunk_count for library in libraries),
            libraries=libraries,
            files=len(sizes),
            size_bytes=sum(sizes),
            versions=len(recovery.versions(self._connection.table_folder(found.table))),
            unindexed_passages=words,
            has_vector_index=vectors is not None,
            unindexed_vectors=vectors or 0,
            hidden_rows=self._connection.read("count", lambda table: table.count_rows(_HIDDEN), 0),
            pending=_told(pending) if pending else (),
            recoveries=tuple(one.message for one in recovery.past(home)),
            notice=self._connection.notice,
        )

    def findings(self) -> list[Finding]:
        """Look everywhere, and say of each place what was found. Changes nothing but what opening mends."""
        self._upkeep.is_paused = True  # or it would mend a missing index before it is told
        try:
            return list(self._findings())
        finally:
            self._upkeep.is_paused = False

    def _findings(self) -> Iterator[Finding]:
        try:
            found = self._connection.database()
        except StoreError as exc:  # database.json is damaged, or of a newer program
            yield Finding(check="folder", problem=str(exc))
            return
        yield Finding(check="folder", problem=_problem_of_place(self._connection.home))
        if found is None:
            return
        restored = len(recovery.past(self._connection.home))
        try:
            self._connection.table()
        except VectorDBError as exc:
            yield Finding(
                check="versions", problem=str(exc), fix=_WITH_FIX if isinstance(exc, StoreDamaged) else ""
            )
            return
        recent = recovery.past(self._connection.home)[restored:]  # opening has done it
        yield Finding(check="versions", problem=" ".join(one.message for one in recent), fixed=bool(recent))
        yield from self._of_table()

    def _of_table(self) -> list[Finding]:
        """Once more where a re-indexing came between: the table that was looked at was being removed, and
        looked broken."""
        while True:
            found, table = self._connection.database(), self._connection.table()
            if found is None or table is None:
                return []
            told = list(self._of_this_table(found, table))
            if self._connection.database() == found:
                return told

    def _of_this_table(self, found: Database, table: Table) -> Iterator[Finding]:
        try:
            yield from self._checked_rows(table)
        except StoreDamaged as exc:
            yield Finding(check="documents", problem=str(exc), fix=_WITH_FIX)
            return
        yield _finding(
            "indexes", self._connection.run("check the indexes", self._problem_of_indexes, table), _WITH_FIX
        )
        left = len(list(recovery.unfinished(self._connection.table_folder(found.table))))
        told = f"{left} files were not written to their end; the current version does without them"
        yield _finding("files", told if left else "", "They go with the old versions, in ten minutes.")
        others = left_behind(self._connection)
        told = f"{len(others)} tables were left behind by a re-indexing that was cut off"
        yield _finding("left-over tables", told if others else "", _WITH_FIX)
        pending = self._upkeep.pending()
        late = "; ".join(_told(pending)) if pending and pending.is_due else ""
        yield _finding("upkeep", late, _WITH_FIX)

    def _checked_rows(self, table: Table) -> list[Finding]:
        """What is wrong in the rows; StoreDamaged where not all can be read, which opening does not see."""
        try:
            return self._connection.run("check the rows", lambda table: list(_rows(table)), table)
        except StoreError as exc:
            if exc.__cause__ is None:
                raise
            recovery.check_system(exc.__cause__)
            raise StoreDamaged(f"Not all documents can be read. {exc}") from exc

    def _problem_of_indexes(self, table: Table) -> str:
        lacking = indexes.missing(table, self._connection.slow_values)
        broken = [f"{name} cannot be read" for name in indexes.broken(table)]
        return "; ".join([*broken, *(f"that of {column} is missing" for column in lacking)])

    def mend(self) -> list[Finding]:
        """Make good what can be made good: hidden rows, indexes, pending upkeep and left-over files; and save
        what can be read where nothing is whole. What was lost in that is told."""
        told: list[Finding] = []
        try:
            table = self._connection.table()
            if table is not None:
                self._checked_rows(table)
        except StoreDamaged:
            saved = salvage(self._connection)
            if saved is not None:
                told.append(Finding(check="saved", problem=saved.message, fixed=True))
            table = self._connection.table()
        if table is not None:
            self._mend(table)
        return told

    def _mend(self, table: Table) -> None:
        remove_left_behind(self._connection)
        with self._connection.exclusive():
            self._connection.run("remove hidden rows", _remove_hidden, table)
            self._connection.run("drop broken indexes", _drop_broken, table)
        try:
            with upkeep_lock(self._connection.home).acquire(timeout=UPKEEP_PATIENCE_S):
                self._tidy()
        except Timeout as exc:
            raise StoreBusy("Another process is doing the upkeep. Try again in a moment.") from exc
        except ENGINE_ERRORS as exc:
            raise StoreError(f"Could not tidy the database up: {first_line(exc)}") from exc

    def _tidy(self) -> None:
        """All upkeep, indexes too. The caller holds the upkeep lock: another's would clear away what is being
        made."""
        for _ in range(_MOST_TRIES):
            try:
                self._upkeep.run_locked(remove_leftovers=True)
                return
            except ENGINE_ERRORS as exc:
                if not is_retryable(exc):
                    raise
                logger.info("a write came in between, tidying up again: %s", first_line(exc))
        logger.warning("others write all the while: what is left is done in the background")


def _finding(check: str, problem: str, fix: str) -> Finding:
    return Finding(check=check, problem=problem, fix=fix if problem else "")


def _problem_of_place(home: Path) -> str:
    """Why a database should not lie there."""
    if home.exists() and not os.access(home, os.W_OK):
        return f"{home} may not be written."
    parts = str(home).lower().replace("\\", "/")
    synced = next((name for name in _SYNCED if name in parts), "")
    if synced:
        return (
            f"{home} lies in a folder that is kept in step with other machines ({synced}), which can tear a "
            "database. Set MCPVECTORDB_HOME to a folder outside it."
        )
    kind = _file_system(home)
    if parts.startswith("//") or any(kind.startswith(name) or f".{name}" in kind for name in _NETWORK):
        return (
            f"{home} lies on a network drive ({kind or 'by its name'}), where locks and syncing cannot be "
            "relied on. Set MCPVECTORDB_HOME to a folder on this machine."
        )
    return ""


def _file_system(path: Path) -> str:
    """What kind of file system path is on, where the system tells it in a file."""
    mounts = Path("/proc/self/mounts")
    if not mounts.is_file():
        return ""
    best, kind = "", ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, place, found, *_ = line.split(" ")
        if path.is_relative_to(place) and len(place) >= len(best):
            best, kind = place, found
    return kind


def _rows(table: Table) -> Iterator[Finding]:
    """Every row is read once: whole documents, texts as they were written, vectors that can be compared."""
    hidden = table.count_rows(_HIDDEN)
    yield _finding(
        "hidden rows", f"{hidden} rows of an interrupted replacement are left" if hidden else "", _WITH_FIX
    )
    seen: dict[str, list[tuple[int, int]]] = {}
    sources: dict[str, str] = {}
    torn: set[str] = set()
    odd: set[str] = set()
    has_hash = "text_hash" in table.schema.names
    columns = ["doc_id", "source", "chunk_index", "chunk_count", "start", "end", "content"]
    columns += ["text_hash"] if has_hash else []
    # All columns: one that cannot be read is met here, and not by a search.
    for batch in table.search().where(where()).limit(2**31 - 1).to_batches(_BATCH):
        odd |= _odd_vectors(batch)
        for row in batch.select(columns).to_pylist():
            doc_id = row["doc_id"]
            sources[doc_id] = row["source"]
            seen.setdefault(doc_id, []).append((row["chunk_index"], row["chunk_count"]))
            if row["end"] - row["start"] != len(row["content"]) or (
                has_hash and hashlib.sha256(row["content"].encode()).hexdigest() != row["text_hash"]
            ):
                torn.add(doc_id)
    broken = [
        doc_id for doc_id, rows in seen.items() if sorted(rows) != [(n, len(rows)) for n in range(len(rows))]
    ]
    yield _finding("documents", _named("are not stored whole", broken, sources), _REFRESH)
    yield _finding("texts", _named("are not as they were written", torn, sources), _REFRESH)
    yield _finding("vectors", _named("have vectors that cannot be compared", odd, sources), _REFRESH)


def _odd_vectors(batch: Any) -> set[str]:
    """The documents of vectors that cannot be compared."""
    import numpy as np  # noqa: PLC0415  (not before something is read)

    vectors = batch.column("vector")
    flat = np.asarray(vectors.flatten().to_numpy(zero_copy_only=False), dtype=np.float32)
    ids = batch.column("doc_id").to_pylist()
    return {ids[n] for n in np.flatnonzero(~sound(flat.reshape(len(vectors), -1)))}


def _named(what: str, ids: Sequence[str] | set[str], sources: dict[str, str]) -> str:
    if not ids:
        return ""
    names = sorted(sources[doc_id] for doc_id in ids)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{len(names)} documents {what}: {', '.join(names[:_MOST_NAMED])}{more}"


def _drop_broken(table: Table) -> None:
    for name in indexes.broken(table):
        table.drop_index(name)


def _remove_hidden(table: Table) -> None:
    if table.count_rows(_HIDDEN):
        table.delete(_HIDDEN)


def _unindexed(table: Table) -> tuple[int, int | None]:
    """The rows that the word index and the vector index do not cover; None where there is no vector index."""
    found = {index.columns[0]: index.num_unindexed_rows for index in table.list_indices()}
    return found.get("search_text", table.count_rows()), found.get(indexes.VECTOR)


def _told(pending: Pending) -> tuple[str, ...]:
    said = (
        (pending.new_rows, f"{pending.new_rows} passages to add to the indexes"),
        (pending.fragments > 1, f"{pending.fragments} data files to join"),
        (pending.old_versions, f"{pending.old_versions} old versions to remove"),
        (pending.missing, f"indexes to make: {', '.join(pending.missing)}"),
        (pending.wants_vector_index, "a vector index to make"),
    )
    return tuple(text for is_so, text in said if is_so)
