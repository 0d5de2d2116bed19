"""The write lock: one writer at a time, over all processes that share a database. Readers never take it.

Readers have a lock of their own, which says that somebody reads and which nobody waits for.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mcpvectordb.errors import StoreBusy, StoreError

logger = logging.getLogger(__name__)

WRITE_LOCK = "write.lock"
UPKEEP_LOCK = "upkeep.lock"
WORK_LOCK = "work.lock"
READERS_LOCK = "readers.lock"
# A run of upkeep that is under way, in this process or another, is waited for.
UPKEEP_PATIENCE_S = 120.0
# Reads take some milliseconds.
_POLL_S = 0.01
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# How the engine tells the same in words.
_FULL_WORDS = ("no space left", "quota exceeded", "file too large")


class WriteLock:
    """May be taken again by the thread that has it: mending the table is part of opening it."""

    def __init__(self, home: Path, timeout_s: float) -> None:
        self.home = home
        self._timeout_s = timeout_s
        self._lock = FileLock(home / WRITE_LOCK)

    @contextmanager
    def held(self, timeout_s: float | None = None) -> Generator[None]:
        """Hold the lock, or a StoreBusy when another process keeps it for longer than the set time."""
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            self._acquire(patience_s)
        except Timeout as exc:
            raise StoreBusy(
                f"Another process has been writing for {patience_s:g} s. Try again in a moment."
            ) from exc
        except OSError as exc:
            raise cannot_write(self.home, exc) from exc
        try:
            yield
        finally:
            self._lock.release()

    def _acquire(self, patience_s: float) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            if not patience_s:
                raise
            logger.info("waiting up to %g s for another process that is writing", patience_s)
            self._lock.acquire(timeout=patience_s)


class Readers:
    """Who reads at this moment, over all processes: while nobody does, no old version is needed.

    A call that begins while they are removed goes on unmarked. It opens the newest version, which stays.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / READERS_LOCK

    @contextmanager
    def reading(self) -> Generator[None]:
        """Be seen reading, if that can be had at once. Makes and changes no file."""
        handle = self._locked(os.O_RDONLY, "LOCK_SH")
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)

    @contextmanager
    def none(self, patience_s: float) -> Generator[bool]:
        """Whether nobody reads, at some moment soon; whoever begins to until this ends finds the newest
        version."""
        give_up = time.monotonic() + patience_s
        while (handle := self._locked(os.O_RDWR | os.O_CREAT, "LOCK_EX")) is None:
            if os.name != "posix" or time.monotonic() > give_up:
                break
            time.sleep(_POLL_S)
        try:
            yield handle is not None
        finally:
            if handle is not None:
                os.close(handle)

    def make(self) -> None:
        """Make the file, which readers must not. The caller may write."""
        if os.name == "posix":
            # Not touch: a write that comes to nothing changes no file, not even its time.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644))

    def _locked(self, flags: int, kind: str) -> int | None:
        if os.name != "posix":  # Windows has no lock that many can share and none waits for
            return None
        fcntl: Any = importlib.import_module("fcntl")
        handle = -1
        try:
            handle = os.open(self._path, flags, 0o644)
            fcntl.flock(handle, getattr(fcntl, kind) | fcntl.LOCK_NB)
        except OSError:
            if handle >= 0:
                os.close(handle)
            return None
        return handle


def upkeep_lock(home: Path) -> FileLock:
    """Whoever has it does the upkeep; the others have nothing to wait for."""
    return FileLock(home / UPKEEP_LOCK, timeout=0)


class WorkLock:
    """Whoever has it embeds documents: two processes at once would only share the same cores.

    It is the process's, whichever of its threads takes and releases it.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lock = FileLock(home / WORK_LOCK, thread_local=False)

    def take(self) -> bool:
        """Whether it is ours now."""
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as exc:
            raise cannot_write(self.home, exc) from exc
        return True

    def release(self) -> None:
        self._lock.release()


def is_full(exc: BaseException) -> bool:
    text = str(exc).lower()
    return (isinstance(exc, OSError) and exc.errno in _FULL) or any(word in text for word in _FULL_WORDS)


def cannot_write(home: Path, exc: OSError) -> StoreError:
    if is_full(exc):
        return StoreError(f"Cannot write to {home}: the disk is full. Make room and try again.")
    return StoreError(f"Cannot write to {home}: {exc.strerror or exc}. Check the folder.")
