"""The jobs' own small database: one SQLite file in the data folder, shared by every process that uses it.

Opened by the first job; asking about jobs where there never was one makes no file. SQLite's exceptions stop
here.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from mcpvectordb.errors import JobsDamaged, StoreError
from mcpvectordb.store import Disk, cannot_write

FILE_NAME = "jobs.sqlite"
# Where what was damaged of the table is kept, too.
_ASIDE = "damaged"
_VERSION = 1
_BUSY_S = 10.0
_POLL_S = 0.01
# Of 4 KB. By itself SQLite lets its log grow to 4 MB, which a thousand short documents hardly take.
_LOG_PAGES = 128
_FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE")
# The folder, not the file, is what stands in the way.
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_NOT_OURS = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    priority INTEGER NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    source TEXT NOT NULL,
    library TEXT NOT NULL,
    doc_id TEXT NOT NULL,
    status TEXT NOT NULL,
    progress REAL NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    result TEXT NOT NULL DEFAULT '{}',
    attempts INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    lease_until REAL NOT NULL DEFAULT 0,
    cancel INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, priority, number);
CREATE TABLE IF NOT EXISTS files (
    job_id TEXT NOT NULL,
    path TEXT NOT NULL,
    status TEXT NOT NULL,
    doc_id TEXT NOT NULL,
    chunk_count INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (job_id, path)
);
CREATE TABLE IF NOT EXISTS seen (
    doc_id TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    pipeline INTEGER NOT NULL,
    kills INTEGER NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL
);
"""


class JobsDatabase:
    def __init__(self, home: Path, disk: Disk) -> None:
        self.home = home
        self._disk = disk
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @property
    def path(self) -> Path:
        return self.home / FILE_NAME

    @property
    def exists(self) -> bool:
        with self._errors():
            return self.path.is_file()

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Makes no file, not even those that SQLite shares between readers and writers."""
        with self._lock, self._errors():
            if self._connection is None and not self._is_in_use():
                with closing(self._connected("?mode=ro&immutable=1")) as db:
                    if _version(db):
                        yield db
                        return
            # In use, or just being made by another process, which is waited for.
            yield self._opened()

    @contextmanager
    def changing(self, *, create: bool = False) -> Generator[sqlite3.Connection]:
        """One transaction, alone among all processes; on the disk when it is left."""
        with self._lock, self._errors():
            db = self._opened(create=create)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def problem(self) -> StoreError | None:
        """What is wrong with the file itself, if anything is."""
        if not self.exists:
            return None
        try:
            with self.reading() as db:
                (said,) = db.execute("PRAGMA quick_check").fetchone()
        except StoreError as exc:
            return exc
        return None if said == "ok" else self._damaged(said)

    def set_aside(self) -> None:
        """Move the file away, with what SQLite keeps beside it; the next job makes a new one.

        Whoever has it open notices, as when the folder is put back from a copy.
        """
        with self._lock, self._errors():
            self.close()
            folder = self.home / _ASIDE / datetime.now(UTC).strftime("jobs-%Y%m%d-%H%M%S-%f")
            self._disk.make_folder(folder)
            for path in (self.path.with_name(FILE_NAME + suffix) for suffix in ("", "-wal", "-shm")):
                if path.exists():
                    path.replace(folder / path.name)
            self._disk.sync([folder, self.home])

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except OSError as exc:
            raise cannot_write(self.home, exc) from exc
        except sqlite3.Error as exc:
            if exc.sqlite_errorname in _FULL:
                raise StoreError(
                    f"Cannot write to {self.home}: the disk is full. Make room and try again."
                ) from exc
            if exc.sqlite_errorname.startswith(_DAMAGED):
                raise self._damaged(exc) from exc
            if exc.sqlite_errorname.startswith(_NOT_OURS):
                raise StoreError(f"Cannot write to {self.home}: {exc}. Check the folder.") from exc
            raise StoreError(
                f"The jobs in {self.path} cannot be read or written: {exc}. Try again in a moment."
            ) from exc

    def _damaged(self, what: object) -> JobsDamaged:
        return JobsDamaged(f"The jobs in {self.path} are damaged: {what}. Run `mcpvectordb doctor --fix`.")

    def _is_in_use(self) -> bool:
        """Whether somebody writes to it, or was killed when doing so: then it is more than its one file."""
        return self.path.with_name(f"{FILE_NAME}-wal").exists()

    def _opened(self, *, create: bool = False) -> sqlite3.Connection:
        if self._connection is not None and self._file != _identity(self.path):
            # The folder was taken away, or put back from a copy: what we hold is a file that nobody sees.
            self.close()
        if self._connection is None:
            is_new = not self.path.exists()
            if is_new and not create:
                raise StoreError(f"The jobs in {self.home} are gone. Put the folder back.")
            self._disk.make_folder(self.home)
            db = self._connected("?mode=rwc")
            try:
                _use_log(db)
                db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
                db.execute("PRAGMA synchronous = FULL")  # a job that was answered for is on the disk
                if not _version(db):
                    db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
                    # Its name alone. SQLite syncs the file, and to open and close it here would drop
                    # the locks SQLite has on it: another process would then take the log away.
                    self._disk.sync([self.home])
            except BaseException:
                db.close()
                raise
            self._connection = db
            self._file = _identity(self.path)
        return self._connection

    def _connected(self, how: str) -> sqlite3.Connection:
        """SQLite's connection, once it is known that we understand what is in the file."""
        db = sqlite3.connect(
            self.path.absolute().as_uri() + how,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_S,
        )
        try:
            if _version(db) > _VERSION:
                raise StoreError(
                    f"{self.path} was made by a newer mcpvectordb. Upgrade it; nothing was changed."
                )
        except BaseException:
            db.close()
            raise
        return db


def _version(db: sqlite3.Connection) -> int:
    """0 for a file that is only just being made."""
    return db.execute("PRAGMA user_version").fetchone()[0]


def _use_log(db: sqlite3.Connection) -> None:
    """Write ahead to a log, from now on for all. SQLite waits for nobody here: of several processes that have
    just made the file, those that come second would fail at once."""
    give_up = time.monotonic() + _BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if not exc.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > give_up:
                raise
        time.sleep(_POLL_S)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino
