"""A piece of work as whoever asked for it sees it: wait for it, look how far it is, give it up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from mcpvectordb.errors import JobCancelled, VectorDBError
from mcpvectordb.models import Job

T = TypeVar("T")

# Told how far the work is: a fraction of it, and words for a person.
Progress = tuple[float, str]


class Running(Generic[T]):
    """A job in this process, shared by all who wait for it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[T] = Future()
        self.cancelled = threading.Event()
        self.progress: Progress = (job.progress, job.message or "waiting for its turn")
        self.is_in_hand = False  # begun, by a thread of this process
        self.waiting = 0  # calls that would still take its result


class Task(Generic[T]):
    """Work that was asked for. Where nothing had to be done it has a result from the start and no job."""

    def __init__(
        self,
        *,
        source: str,
        library: str,
        doc_id: str = "",
        result: T | None = None,
        running: Running[T] | None = None,
        guard: AbstractContextManager[object] | None = None,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> None:
        """guard is held while those who wait are counted and the last of them leaves."""
        self.source = source
        self.library = library
        self.doc_id = doc_id
        self._guard = guard or nullcontext()
        self._on_cancel = on_cancel
        self._running = running
        self._future: Future[T]
        if running is None:
            assert result is not None, "a task without a job has a result"
            self._future = Future()
            self._future.set_result(result)
        else:
            self._future = running.future
            running.waiting += 1

    @property
    def job_id(self) -> str | None:
        return self._running.job.job_id if self._running else None

    @property
    def created_at(self) -> str:
        return self._running.job.created_at if self._running else ""

    @property
    def progress(self) -> Progress:
        return self._running.progress if self._running else (1.0, "")

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> T:
        """What came of it, or the VectorDBError it failed with; TimeoutError if that takes too long."""
        return self._future.result(timeout_s)

    def add_done_callback(self, call: Callable[[], None]) -> None:
        """Call this once the work has ended, from whatever thread it ended in."""
        self._future.add_done_callback(lambda _: call())

    def cancel(self) -> None:
        """Give the work up, for everybody."""
        if self._running is not None and not self.done():
            self._on_cancel()

    def join(self) -> None:
        """One more waits for it."""
        if self._running is not None:
            with self._guard:
                self._running.waiting += 1

    def leave(self) -> None:
        """Whoever asked has lost interest: the work is given up, unless others wait for it too."""
        if self._running is None or self.done():
            return
        with self._guard:
            self._running.waiting -= 1
            if self._running.waiting <= 0:
                self._on_cancel()


def ended_otherwise(job: Job) -> VectorDBError | None:
    """Why a job that has ended has no result; None if it has one."""
    if job.status == "cancelled":
        return JobCancelled(f"The ingest of {job.source} was cancelled; what was there before is as it was.")
    if job.status == "failed":
        return VectorDBError(job.error)
    return None
