"""The open table, and the border where LanceDB's exceptions become ours.

Nothing is imported or opened before the first call, and reading never makes a file, save where damage has
to be mended first.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mcpvectordb.errors import StoreError, VectorDBError

from . import database, indexes, recovery
from .database import Database
from .durable import Disk
from .locks import Readers, WriteLock, cannot_write, is_full
from .schema import TOMBSTONE

T = TypeVar("T")
# LanceDB's own types are mostly unknown to a type checker; this package is their one owner.
Table = Any

logger = logging.getLogger(__name__)

FOLDER = "lance"
ENGINE_ERRORS = (OSError, RuntimeError, ValueError)
_SOURCE_LINE = re.compile(r", \S+\.rs:\d+.*")
_MB = 1024 * 1024
# LanceDB's defaults are 6 GB and 1 GB: a laptop has other things to do with its memory.
_INDEX_CACHE = 256 * _MB
_METADATA_CACHE = 64 * _MB
_ENVIRONMENT = {
    "LANCEDB_LOG": "error",  # or every query logs to stderr
    "LANCE_DEFAULT_IO_BUFFER_SIZE": str(64 * _MB),  # the default lets a scan hold gigabytes in flight
    "LANCE_DEFAULT_BATCH_SIZE": "1024",  # with the default of 8,192 rows, exact scans hold 120 MB more
    "LANCE_IO_THREADS": "2",
}
# Words of the engine for files that are missing or not what they were.
_LOOKS_STALE = ("not found", "lanceerror(io)", "io error", "invalid magic", "invalid range", "panicked")
# Words for two commits that met; the one that lost may be tried again.
_LOOKS_RETRYABLE = ("conflict", "concurrent")
_MOST_ATTEMPTS = 5


class Connection:
    """Opens the database on first use and keeps the handle; safe to share between threads."""

    def __init__(self, home: Path, disk: Disk, *, lock_timeout_s: float) -> None:
        self.home = home
        self.disk = disk
        self.write_lock = WriteLock(home, lock_timeout_s)
        self.readers = Readers(home)
        # Called when an index is missing; whoever looks after the indexes sets it.
        self.on_missing_index: Callable[[], None] = lambda: None
        self.slow_values = indexes.SLOW_VALUES  # from so many numbers on, vectors get an index
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._database: Database | None = None
        self._lance: Any = None
        self._table: Table | None = None
        self._recovered = ""
        self._missing: tuple[str, ...] = ()
        self._has_vector_index = False
        self._checked_version = ("", 0)
        # One look at a time: a slow one at an older version must not have the last word.
        self._checking = threading.Lock()

    @property
    def folder(self) -> Path:
        return self.home / FOLDER

    @property
    def notice(self) -> str:
        """What whoever reads an answer should know of the state of the database."""
        missing = ""
        felt = [column for column in self._missing if column not in indexes.FOR_WRITING]
        if felt:
            by_words = "search_text" in felt or "exact_text" in felt
            missing = (
                f"The index of {', '.join(felt)} is being rebuilt; until then search reads "
                f"every row, which is slower{', and finds words only as they are written' * by_words}."
            )
        return " ".join(part for part in (self._recovered, missing) if part)

    def table_folder(self, name: str) -> Path:
        return self.folder / f"{name}.lance"

    def database(self) -> Database | None:
        """What the database is now; another process may have made or changed it since the last call."""
        stamp = database.stamp(self.home)
        # database.json comes before any table, so tables without one are a loss and not a new database.
        if stamp is None and self._holds_tables():
            stamp = database.stamp(self.home)  # both may have been made since the first look
            if stamp is None:
                raise StoreError(
                    f"{self.home} holds tables but no {database.FILE_NAME}. "
                    "Restore that file from a backup, or set MCPVECTORDB_HOME to another folder."
                )
        with self._lock:
            if stamp is None and self._stamp is not None:
                stamp = database.stamp(self.home)  # another thread may have just made it
            if stamp is None and self._stamp is not None:
                # A disk that was pulled out must not look like an empty database, nor be begun anew.
                raise StoreError(
                    f"The database in {self.home} is gone. Put the folder back, or start the program again "
                    "to begin a new one."
                )
            if stamp != self._stamp:
                self._database = database.read(self.home)
                self._table = None
                self._stamp = stamp
            return self._database

    def read(self, action: str, call: Callable[[Table], T], empty: T) -> T:
        """Run call on the table, or give empty where there is no table yet."""
        table = self.table()
        return empty if table is None else self.run(action, call, table)

    def run(self, action: str, call: Callable[[Table], T], table: Table) -> T:
        """Run call on table. A handle made stale by another process's clean-up, or files that are damaged,
        make it open the table anew, which mends it, and run call once more."""
        try:
            return self._attempt(call, table)
        except VectorDBError:
            raise
        except ENGINE_ERRORS as exc:
            if not any(words in str(exc).lower() for words in _LOOKS_STALE) or is_full(exc):
                raise self._failed(action, exc) from exc
            logger.info("opening the table again, because it failed to %s: %s", action, first_line(exc))
        with self._lock:
            self._table = None
        try:
            fresh = self.table()
            if fresh is None:
                raise StoreError(f"Could not {action}: the database in {self.home} is gone. Restore it.")
            return self._attempt(call, fresh)
        except ENGINE_ERRORS as exc:
            raise self._failed(action, exc) from exc

    def table(self) -> Table | None:
        """The live table, or None where nothing has been written yet."""
        while True:
            found = self.database()
            if found is None:
                return None
            with self._lock:
                if self._table is not None:
                    return self._table
            try:
                # Not under our own lock: mending waits for the write lock, whose holder may wait for us.
                table = self._opened(found)
            except StoreError:
                # A re-indexing drops the table that was the live one until just now.
                if self.database() == found:
                    raise
                continue
            with self._lock:
                if self._table is None and self._database == found:
                    self._table = table
                # Not `or`: a table's truth is its number of rows, which the engine would count.
                return table if self._table is None else self._table

    def _opened(self, found: Database) -> Table | None:
        # database.json is written before its table, and the table's rows before its first version:
        # until that is there the database is empty, also for one killed on the way.
        folder = self.table_folder(found.table)
        if not found.has_table and not recovery.versions(folder):
            return None
        if not (folder / "_versions").is_dir():
            raise StoreError(
                f"The table of the database in {self.home} is gone. Put the folder "
                f"{FOLDER}/{found.table}.lance back, or restore a backup."
            )
        return self._open_sound(found)

    def open_as_it_is(self, name: str) -> Table:
        """The table without a look at whether it reads whole: for saving what does."""
        try:
            return self._connected().open_table(name)
        except ENGINE_ERRORS as exc:
            raise self._failed("open the table", exc) from exc

    def create_table(self, name: str, rows: Any) -> Table:
        """Make the table with its first rows. The caller holds the write lock."""
        try:
            table = self._connected().create_table(name, data=rows)
        except ENGINE_ERRORS as exc:
            raise self._failed("make the table", exc) from exc
        with self._lock:
            self._table = table
        return table

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Hold the write lock; on leaving, put on the disk whatever was written under it."""
        self.database()  # a folder that is gone is not made again
        try:
            self.disk.make_folder(self.home)
            self.readers.make()
        except OSError as exc:
            raise cannot_write(self.home, exc) from exc
        with self.write_lock.held():
            try:
                yield
                if self.folder.is_dir():
                    self.disk.settle(self.folder)
            except OSError as exc:
                raise cannot_write(self.home, exc) from exc

    def make_first_indexes(self, table: Table) -> None:
        """Make those that every table has."""
        self._make(indexes.absent(table), table)

    def make_indexes(self, table: Table) -> None:
        """Make those that are missing by now, that of the vectors too where it is time for it."""
        self.make_first_indexes(table)
        if indexes.wants_vector_index(table, self.slow_values):
            self._make([indexes.VECTOR], table)

    def _make(self, columns: Sequence[str], table: Table) -> None:
        """Make the indexes of these columns.

        A writer's first rows and upkeep may both be at it, and of two that make the same index one fails. So
        each is tried for itself: the loser finds it made and goes on to the next.
        """
        for column in columns:
            self._attempt(partial(indexes.make, column=column), table)

    def check_indexes(self, table: Table) -> tuple[str, ...]:
        """The columns whose index is missing in this version; remembered for the notice."""
        with self._checking:
            # With its name: a re-indexed table may come by the same number.
            version = (table.name, table.version)
            if version != self._checked_version:
                self._missing = indexes.missing(table, self.slow_values) if table.count_rows() else ()
                self._has_vector_index = indexes.has_vector_index(table)
                self._checked_version = version
                if self._missing:
                    self.on_missing_index()
            return self._missing

    def has_vector_index(self, table: Table) -> bool:
        self.check_indexes(table)
        return self._has_vector_index

    def make_table(self, name: str, rows: Any) -> Table:
        """Make a table that is not the live one."""
        return self.run_on(
            "make a table", lambda lance: lance.create_table(name, data=rows), self._connected()
        )

    def open_other(self, name: str) -> Table | None:
        """A table that is not the live one, as far as it reads whole; None where nothing of it does.

        The caller holds the write lock.
        """
        return self.run_on(
            "open a table",
            lambda lance: recovery.cut_back(
                lambda: lance.open_table(name), self.table_folder(name), self.home
            ),
            self._connected(),
        )

    def drop_other(self, name: str) -> None:
        self.run_on(
            "remove a table", lambda lance: lance.drop_table(name, ignore_missing=True), self._connected()
        )

    def run_on(self, action: str, call: Callable[[Any], T], subject: Any) -> T:
        """Run call on a table that is not the live one, or on the connection; errors are ours."""
        try:
            return call(subject)
        except ENGINE_ERRORS as exc:
            raise self._failed(action, exc) from exc

    def close(self) -> None:
        with self._lock:
            self._table = None
            self._lance = None
            self._stamp = None
            self._database = None

    def _attempt(self, call: Callable[[Table], T], table: Table) -> T:
        """Under the write lock only upkeep commits beside us; whoever loses to it tries again."""
        for left in reversed(range(_MOST_ATTEMPTS)):
            try:
                with self.readers.reading(), recovery.engine_panics():
                    return call(table)
            except VectorDBError:
                raise
            except ENGINE_ERRORS as exc:
                if not left or not is_retryable(exc):
                    raise
                logger.info("another commit came first, trying again: %s", first_line(exc))
                table.checkout_latest()
        raise AssertionError("the last attempt returns or raises")

    def _failed(self, action: str, exc: BaseException) -> StoreError:
        if is_full(exc):
            return StoreError(
                f"Could not {action}: the disk that holds {self.home} is full. Nothing was changed; "
                "make room and try again."
            )
        return StoreError(f"Could not {action}: {first_line(exc)}")

    def _holds_tables(self) -> bool:
        return self.folder.is_dir() and any(self.folder.iterdir())

    def _open_sound(self, found: Database) -> Table | None:
        """Open the table, once it is known to read whole."""
        folder = self.table_folder(found.table)
        table: Table | None = None
        try:
            if recovery.is_sound(folder):
                with recovery.engine_panics():
                    table = self._connected().open_table(found.table)
        except ENGINE_ERRORS as exc:
            logger.info("the table does not open: %s", first_line(exc))
        if table is None or recovery.problem_of(table) or recovery.was_cut_off(folder, self.home):
            table = self._recover(found)
            if table is None:
                return None
        try:
            with self.readers.reading(), recovery.engine_panics():
                if damaged := indexes.damaged(table, folder):
                    self._drop(table, folder, damaged)
                self.check_indexes(table)
        except ENGINE_ERRORS as exc:
            raise self._failed("look at the indexes", exc) from exc
        return table

    def _recover(self, found: Database) -> Table | None:
        lance, folder = self._connected(), self.table_folder(found.table)
        try:
            with self.exclusive():
                if self.database() != found:
                    raise StoreError("The database has just been re-indexed. Try again.")
                if not found.has_table:
                    # Its first write was cut off before anybody was told that it had succeeded.
                    return recovery.cut_back(lambda: lance.open_table(found.table), folder, self.home)
                done = recovery.recover(lambda: lance.open_table(found.table), folder, self.home)
                if done is not None:
                    self.disk.settle(self.home / recovery.FOLDER)
                    self._recovered = done.message
                return lance.open_table(found.table)
        except ENGINE_ERRORS as exc:
            raise StoreError(f"The database in {self.home} cannot be opened: {first_line(exc)}") from exc

    def _drop(self, table: Table, folder: Path, damaged: list[str]) -> None:
        """Take damaged indexes out of use: without one a query reads the rows instead, with one it fails."""
        try:
            with self.exclusive():
                table.checkout_latest()
                for name in indexes.damaged(table, folder):
                    logger.warning("the index %s is damaged: it is dropped and will be made again", name)
                    table.drop_index(name)
        except (VectorDBError, *ENGINE_ERRORS) as exc:
            logger.warning("the damaged indexes %s stay for now: %s", ", ".join(damaged), exc)

    def _connected(self) -> Any:
        with self._lock:
            if self._lance is None:
                for name, value in _ENVIRONMENT.items():
                    os.environ.setdefault(name, value)
                import lancedb  # noqa: PLC0415  (1.2 s and 130 MB: not before it is needed)

                session = lancedb.Session(
                    index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE
                )
                # Interval 0: every read sees what another process has committed.
                self._lance = lancedb.connect(
                    self.folder, read_consistency_interval=timedelta(0), session=session
                )
            return self._lance


def is_retryable(exc: BaseException) -> bool:
    """Whether another commit came first, and this one may be tried again."""
    return any(words in str(exc).lower() for words in _LOOKS_RETRYABLE)


def first_line(exc: BaseException) -> str:
    """LanceDB's messages go on with its own source lines, which help nobody who calls a tool."""
    text = str(exc).strip() or type(exc).__name__
    return _SOURCE_LINE.sub("", text.splitlines()[0]).replace(TOMBSTONE, "")[:300]
