"""Keeping the table small and its indexes in step with it, in a thread of its own.

Rows that no index covers yet are read by every query, and every commit leaves a few files, so this changes
speed and size, never answers. Each run reads the whole table (the engine rewrites its word indexes to add to
them), so runs are rationed by the time they take: they get a twelfth of it, whatever the size and machine.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from filelock import Timeout

from mcpvectordb.errors import StoreBusy, StoreError, VectorDBError

from . import indexes, recovery
from .connection import ENGINE_ERRORS, Connection, Table, first_line, is_retryable
from .durable import file_sizes
from .locks import upkeep_lock

logger = logging.getLogger(__name__)

RECORD = "upkeep.json"
# A run may follow another after this many times the time that one took. With the last run, whose pause may
# not have come yet, that stays under a tenth.
_PAUSE_PER_RUN = 11.0
# 500 rows that no index covers add some 15 ms to a search; 64 small files a few more.
_LEAST_NEW_ROWS = 500
_SHARE_NEW = 0.05
_LEAST_FRAGMENTS = 64
_ROWS_PER_FRAGMENT = 500
# Once nobody has written for this long there is time for less urgent work too.
_IDLE_S = 10.0
_IDLE_NEW_ROWS = 100
_IDLE_SHARE_NEW = 0.01
_IDLE_FRAGMENTS = 16
# Another process may still read a version we would clean away. It is counted from when a version was
# replaced, not from when it was made.
KEEP_VERSIONS = timedelta(minutes=10)
# Versions are removed when this many can go, or when nobody writes.
_MOST_OLD_VERSIONS = 100
# A program that writes without a pause piles up many times what it stores: each version of a thousand short
# documents takes 25 KB for 3.5, and each compaction a copy of all. Where there are many versions, and they
# take more room than the newest does, they go before their time if nobody reads at that moment.
_MANY_VERSIONS = 100
_SWOLLEN = 2.0
_WRITER_PATIENCE_S = 5.0
_READER_PATIENCE_S = 1.0  # writers wait meanwhile
# Removes none: the engine cleans up in the same call that compacts, and we want to sync in between.
_NEVER = timedelta(days=36_500)
# The first joins what is new, and covers it; the second joins that with the rest, which takes as long again
# and changes little: while somebody writes it is left to the first pass of the next run.
_MOST_PASSES = 2
# With so few rows a run takes a quarter of a second, but four times that beside a program that writes and
# writes: so writers wait for it. With more rows they would wait for too long.
_SMALL_ROWS = 20_000
# A vector index is made anew when the table is so many times larger than it was.
_OUTGROWN = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """When upkeep last ran and what it took, shared by all processes."""

    ended_at: float = 0.0
    took_s: float = 0.0
    vector_rows: int = 0  # how large the table was when the vector index was made
    hurried_at: float = 0.0  # when versions were last removed before their time


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """What upkeep would find to do."""

    rows: int
    new_rows: int  # that the word index does not cover
    fragments: int
    old_versions: int  # that may be removed by now
    missing: tuple[str, ...]  # columns without their index
    wants_vector_index: bool = False  # exact search has become slow

    @property
    def is_due(self) -> bool:
        return bool(
            self.missing
            or self.wants_vector_index
            or self.new_rows > _LEAST_NEW_ROWS + _SHARE_NEW * self.rows
            or self.fragments > _LEAST_FRAGMENTS + self.rows // _ROWS_PER_FRAGMENT
            or self.old_versions > _MOST_OLD_VERSIONS
        )

    @property
    def is_due_when_idle(self) -> bool:
        return bool(
            self.is_due
            or self.new_rows > _IDLE_NEW_ROWS + _IDLE_SHARE_NEW * self.rows
            or self.fragments > _IDLE_FRAGMENTS + self.rows // _ROWS_PER_FRAGMENT
            or self.old_versions > 1
        )


class Upkeep:
    def __init__(self, connection: Connection, *, keep_versions: timedelta = KEEP_VERSIONS) -> None:
        self._connection = connection
        self.keep_s = keep_versions.total_seconds()
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._poked = threading.Event()
        self._poked_at = 0.0
        self._stopping = False
        self.spent_s = 0.0  # by this process
        self.is_paused = False  # while somebody looks at how things are

    def poke(self) -> None:
        """Something was written, or an index is missing: see whether anything is due, in the background."""
        with self._guard:
            self._poked_at = time.monotonic()
            self._poked.set()
            if self._stopping or self.is_paused or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._loop, name="upkeep", daemon=True)
            self._thread.start()

    def catch_up(self, timeout_s: float) -> None:
        """Do now what is due, for so long: a process that ends leaves its thread no time to look."""
        thread = threading.Thread(target=self._catch_up, name="upkeep", daemon=True)
        thread.start()
        thread.join(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Let a run that is under way come to its end, for so long; being cut off harms nothing."""
        with self._guard:
            self._stopping = True
            self._poked.set()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def pending(self) -> Pending | None:
        """What there is to do, or None where there is no table."""
        return self._connection.read("see what upkeep there is to do", self._pending, None)

    def _pending(self, table: Table) -> Pending | None:
        found = {index.columns[0]: index for index in table.list_indices()}
        rows = table.count_rows()
        words = found.get("search_text")
        return Pending(
            rows=rows,
            new_rows=words.num_unindexed_rows if words is not None else rows,
            fragments=table.stats()["fragment_stats"]["num_small_fragments"],
            old_versions=len(self._by_age()[1]),
            missing=self._connection.check_indexes(table),
            wants_vector_index=indexes.wants_vector_index(table, self._connection.slow_values),
        )

    def run(self, *, is_busy: bool = False) -> bool:
        """Do all there is to do now; False where another process is at it, or wrote in between.

        is_busy: only what cannot wait until nobody writes.
        """
        if self._connection.table() is None:
            return True
        try:
            with upkeep_lock(self._connection.home):
                self.run_locked(is_busy=is_busy)
                return True
        except Timeout:
            logger.debug("another process is doing the upkeep")
            return False
        except ENGINE_ERRORS as exc:
            if not is_retryable(exc):
                raise StoreError(f"Could not tidy the database up: {first_line(exc)}") from exc
            logger.info("upkeep was put off, because a write came in between: %s", first_line(exc))
            return False

    def record(self) -> Record:
        try:
            said = Record(**json.loads((self._connection.home / RECORD).read_text(encoding="utf-8")))
            found = Record(
                ended_at=float(said.ended_at),
                took_s=float(said.took_s),
                vector_rows=int(said.vector_rows),
                hurried_at=float(said.hurried_at),
            )
        except (OSError, ValueError, TypeError, OverflowError):
            return Record()  # not there yet, or cut off: the next run writes it anew
        # From before the clock was set back, it would put off all upkeep until that time comes again.
        return found if found.ended_at <= time.time() else Record(vector_rows=found.vector_rows)

    def _loop(self) -> None:
        pause_s: float | None = 0.0
        while True:
            self._poked.wait(pause_s)
            self._poked.clear()
            if self._stopping:
                return
            try:
                # Not where a pause between two runs, which may be a short one, is over.
                pause_s = self._look(is_idle=time.monotonic() - self._poked_at >= _IDLE_S)
            except (VectorDBError, *ENGINE_ERRORS) as exc:
                # A writer got in between, or the folder is gone; the next write tries again.
                logger.warning("upkeep was put off: %s", first_line(exc))
                pause_s = None

    def _catch_up(self) -> None:
        try:
            self._look(is_idle=False)
        except (VectorDBError, *ENGINE_ERRORS) as exc:
            logger.warning("upkeep was put off: %s", first_line(exc))

    def _look(self, *, is_idle: bool) -> float | None:
        """Run if something is due; how long to wait for a write before looking again."""
        pending = None if self.is_paused else self.pending()
        if pending is None:
            return None
        if pending.is_due or (is_idle and (pending.is_due_when_idle or self._is_swollen_now())):
            record = self.record()
            rest_s = record.ended_at + _PAUSE_PER_RUN * record.took_s - time.time()
            if rest_s > 0 and not pending.missing:
                return min(rest_s, _PAUSE_PER_RUN * record.took_s)
            if not self.run(is_busy=not is_idle) or not is_idle:
                return _IDLE_S
            return self.keep_s + 1.0
        if not is_idle:
            return _IDLE_S
        # Nothing now, but the versions that are kept for a while have to go some time.
        return self.keep_s + 1.0 if len(self._by_age()[0]) > 1 else None

    def _is_swollen_now(self) -> bool:
        table = self._connection.table()
        return table is not None and self._is_swollen(table)

    def run_locked(self, *, is_busy: bool = False, remove_leftovers: bool = False) -> None:
        """The work itself. The caller holds the upkeep lock, without which no re-indexing removes a table."""
        table = self._connection.table()
        if table is None:
            return
        with self._alone() if is_busy and table.count_rows() <= _SMALL_ROWS else nullcontext():
            table.checkout_latest()  # a write may have come before the last try
            self._run_on(table, passes=1 if is_busy else _MOST_PASSES, remove_leftovers=remove_leftovers)

    def _run_on(self, table: Table, *, passes: int, remove_leftovers: bool) -> None:
        began, started = time.time(), time.monotonic()
        record = self.record()
        vector_rows, hurried_at = record.vector_rows, record.hurried_at
        try:
            vector_rows = self._make_indexes(table, vector_rows)
            self._join(table, passes)
            joined = table.version
            # Compaction has put acknowledged rows into new files: those are safe before any old one goes.
            self._connection.disk.settle(self._connection.folder, since=began - 1.0)
            self._connection.check_indexes(table)
            self._remove_old_versions(table, also_leftovers=remove_leftovers)
            if self._is_swollen(table) and self._remove_early(table, joined):
                hurried_at = time.time()
        finally:  # what was put off has taken its time too
            took_s = time.monotonic() - started
            self.spent_s += took_s
            self._write_record(
                Record(ended_at=time.time(), took_s=took_s, vector_rows=vector_rows, hurried_at=hurried_at)
            )

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Let no writer in, if that can be had soon; it goes without as well."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._connection.write_lock.held(timeout_s=_WRITER_PATIENCE_S))
            except StoreBusy:
                logger.debug("somebody writes for long: upkeep goes on beside that")
            yield

    def _join(self, table: Table, passes: int) -> None:
        """Put small files together and bring the indexes up to them."""
        for _ in range(passes):
            version = table.version
            try:
                table.optimize(cleanup_older_than=_NEVER)
            except ENGINE_ERRORS as exc:
                # Where versions pile up, writes come in between: those can go all the same.
                if not is_retryable(exc) or len(self._versions()) <= _MANY_VERSIONS:
                    raise
                logger.info("joining was put off, because a write came in between: %s", first_line(exc))
                table.checkout_latest()
                return
            if table.version == version:
                return

    def _make_indexes(self, table: Table, vector_rows: int) -> int:
        """Make those that are missing; the size of the table when its vector index was made."""
        had = indexes.has_vector_index(table)
        self._connection.make_indexes(table)
        rows = table.count_rows()
        if not indexes.has_vector_index(table):
            return 0
        if had and vector_rows and rows > _OUTGROWN * vector_rows:
            # Its partitions are as many as they were; the more rows in each, the more a search reads.
            indexes.make_vector_index(table)
            return rows
        return vector_rows if had and vector_rows else rows

    def _remove_old_versions(self, table: Table, *, also_leftovers: bool) -> None:
        kept, old = self._by_age()
        if kept and (old or also_leftovers):
            self._remove(table, kept, old, is_early=False)

    def _remove_early(self, table: Table, version: int) -> bool:
        """Remove the versions before this one, whose files have just been synced, if nobody reads."""
        listed = self._versions()
        kept = [path for number, path in listed if number >= version]
        old = [path for number, path in listed if number < version]
        return bool(kept and old) and self._remove(table, kept, old, is_early=True)

    def _is_swollen(self, table: Table) -> bool:
        """Whether there are many versions, or have just been, and they take more room than they should."""
        is_piling_up = len(self._versions()) > _MANY_VERSIONS
        if not is_piling_up and self.record().hurried_at < time.time() - self.keep_s:
            return False
        live = table.stats()["total_bytes"]
        return sum(file_sizes(self._connection.folder)) > _SWOLLEN * live

    def _remove(self, table: Table, kept: list[Path], old: list[Path], *, is_early: bool) -> bool:
        # Halfway between the last to go and the first to stay: files' times are coarser than the engine's.
        # Where none is to go, files that no version names still do.
        last_to_go = _modified(old[0]) if old else _modified(kept[-1]) - 2.0
        age_s = max(0.001, time.time() - (_modified(kept[-1]) + last_to_go) / 2)
        version = table.version
        try:
            with (
                self._connection.write_lock.held(timeout_s=_WRITER_PATIENCE_S if is_early else 0),
                self._connection.readers.none(_READER_PATIENCE_S)
                if is_early
                else nullcontext(True) as may_go,
            ):
                # The same call would compact what came meanwhile, while writers wait.
                if not may_go or (table.version != version and len(old) < _MOST_OLD_VERSIONS):
                    return False
                # Nobody else writes now, so files that no version names are a killed writer's.
                table.optimize(cleanup_older_than=timedelta(seconds=age_s), delete_unverified=True)
                self._connection.disk.settle(self._connection.folder)
                return True
        except StoreBusy:
            logger.debug("old versions stay until nobody writes")
            return False

    def _versions(self) -> list[tuple[int, Path]]:
        """The versions with their files, newest first."""
        found = self._connection.database()
        if found is None:
            return []
        return recovery.versions(self._connection.table_folder(found.table))

    def _by_age(self) -> tuple[list[Path], list[Path]]:
        """The versions' files, newest first: those to keep, and those that had been replaced by others
        before the time we keep began."""
        until = time.time() - self.keep_s
        listed = [path for _, path in self._versions()]
        # The newest of those that were there when the time began was read then; those before it were not.
        current = next((n for n, path in enumerate(listed) if _modified(path) <= until), len(listed))
        return listed[: current + 1], listed[current + 1 :]

    def _write_record(self, record: Record) -> None:
        path = self._connection.home / RECORD
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
        draft.replace(path)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # cleaned away by another process since it was listed
        return 0.0
