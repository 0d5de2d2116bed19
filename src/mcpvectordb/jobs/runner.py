"""Runs jobs: one thread for single documents, one for folders, one that keeps the leases.

None of them is started before there is a job. What a job does is handed in; here is only when, and what
becomes of it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcpvectordb.errors import JobCancelled, Stopped, StoreError, VectorDBError
from mcpvectordb.models import Job, JobStatus, Source
from mcpvectordb.work import Work

from .keep import Keep
from .records import FOLDER, SINGLE, NewJob, Records
from .task import Progress, Running, Task, ended_otherwise
from .turn import Turn

logger = logging.getLogger(__name__)

_INTERNAL = "Internal error: this is a bug in mcpvectordb, and its log on stderr has the details."
# How often a job is looked at: whether somebody has cancelled it, and how far it is.
_LOOK_EVERY_S = 0.5
_TELL_EVERY_S = 2.0
_RETRY_S = 5.0
# Of sources that wait for their turn so many bytes are held; the others are read again.
_MOST_HELD_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Doing:
    """What a job does, and how its result is kept with it and found again."""

    do: Callable[[Job, Work, Source | None], Any]
    kept: Callable[[Any], Mapping[str, object]]
    found: Callable[[Job], Any]


class Runner:
    def __init__(self, records: Records, keep: Keep, turn: Turn, doing: Doing) -> None:
        self._records = records
        self._keep = keep
        self._turn = turn
        self._doing = doing
        self._changed = threading.Condition()
        self._running: dict[str, Running[Any]] = {}
        self._sources: dict[str, Source] = {}
        self._lanes: dict[int, threading.Thread] = {}
        self._has_work = {SINGLE: False, FOLDER: False}
        self._lease_keeper: threading.Thread | None = None
        self._adopter: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(
        self, new: NewJob, *, source: Source | None = None, content: bytes | Path | None = None
    ) -> Task[Any]:
        """Make a job, or join the one that does the same. content is kept with it, source only in memory."""
        if self._stopping.is_set():
            raise _stopped()
        job_id = uuid.uuid4().hex
        if content is not None:
            self._keep.put(job_id, content)
        with self._changed:
            try:
                job = self._records.add(new, job_id)
            except BaseException:
                self._keep.remove(job_id)
                raise
            is_new = job.job_id == job_id
            running = self._running.get(job.job_id)
            if running is None:
                running = self._running[job.job_id] = Running(job)
                self._see_to_leases()
                if (
                    is_new
                    and source is not None
                    and self._held_bytes() + len(source.data) <= _MOST_HELD_BYTES
                ):
                    self._sources[job_id] = source
                if not is_new:
                    self._watch(running)
            task: Task[Any] = Task(
                source=new.source,
                library=new.library,
                doc_id=new.doc_id,
                running=running,
                # Under the lock: nobody may join a job that is given up at this moment.
                guard=self._changed,
                on_cancel=lambda: self._cancel_quietly(job.job_id),
            )
        if is_new:
            self._poke(new.priority)
        else:
            self._keep.remove(job_id)
        return task

    def cancel(self, job_id: str) -> Job:
        """Give a job up, whoever runs it; it stops at its next step."""
        job = self._records.cancel(job_id)
        with self._changed:
            running = self._running.get(job_id)
        if running is not None:
            running.cancelled.set()
        if job.status == "cancelled":
            self._settle(job)
        return job

    def serve(self) -> None:
        """Take over what other processes have left behind, from now on."""
        with self._changed:
            if self._adopter is None:
                self._adopter = _thread("job-adopter", self._adopt)

    def stop(self) -> None:
        """Running jobs give up at their next step, and stay to be taken over."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Wait for running jobs to have stopped, and give them back; False where one has not stopped yet."""
        self.stop()
        until = time.monotonic() + timeout_s
        with self._changed:
            threads = list(self._lanes.values())
        if not threads:
            return True  # nothing was ours
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        try:
            for job_id in self._records.give_back():
                self._keep.remove(job_id)
        except StoreError as exc:
            logger.warning("unfinished jobs can be taken over only when their leases run out: %s", exc)
        return not any(thread.is_alive() for thread in threads)

    def progress_of(self, job: Job) -> Job:
        """The job as this process knows it, if it runs here: the table is told only every so often."""
        with self._changed:
            running = self._running.get(job.job_id)
        if running is None or job.has_ended:
            return job
        fraction, words = running.progress
        return replace(job, progress=fraction, message=words)

    def is_cancelled(self, job_id: str) -> bool:
        """Whether a job of this process has been told to stop."""
        with self._changed:
            running = self._running.get(job_id)
        return running is not None and running.cancelled.is_set()

    def _poke(self, priority: int) -> None:
        with self._changed:
            self._has_work[priority] = True
            lane = self._lanes.get(priority)
            if lane is None or not lane.is_alive():
                name = "job-folder" if priority == FOLDER else "job-single"
                self._lanes[priority] = _thread(name, lambda: self._lane(priority))
            self._changed.notify_all()

    def _see_to_leases(self) -> None:
        """There is a job of ours; the caller holds the lock."""
        if self._lease_keeper is None:
            self._lease_keeper = _thread("job-leases", self._keep_leases)

    def _lane(self, priority: int) -> None:
        turn = self._turn.folder if priority == FOLDER else self._turn.single
        while True:
            with self._changed:
                while not self._has_work[priority] and not self._stopping.is_set():
                    self._changed.wait()
                self._has_work[priority] = False
            try:
                while not self._stopping.is_set():
                    with turn(self.stop_here):
                        job = self._records.claim(priority)
                        if job is None:
                            break
                        self._run(job)
            except Stopped:
                return
            except (VectorDBError, OSError) as exc:
                # The jobs' table or the lock cannot be used now, as on a disk that is full.
                logger.warning("jobs have to wait: %s", exc)
                self._stopping.wait(_RETRY_S)
                self._has_work[priority] = True
            if self._stopping.is_set():
                return

    def _run(self, job: Job) -> None:
        with self._changed:
            running = self._running.setdefault(job.job_id, Running(job))
            self._see_to_leases()
            source = self._sources.pop(job.job_id, None)
        running.job, running.is_in_hand = job, True
        if job.has_ended:  # begun too often
            self._settle(job)
            return

        def checkpoint() -> None:
            if running.cancelled.is_set():
                raise JobCancelled("cancelled")
            self.stop_here()

        def report(fraction: float, words: str) -> None:
            running.progress = (fraction, words)

        work = Work(
            checkpoint=checkpoint,
            give_way=(lambda: self._turn.give_way(checkpoint)) if job.kind == "folder" else checkpoint,
            report=report,
            spool=self._keep.folder(job.job_id),
        )
        started = time.monotonic()
        try:
            done = self._doing.do(job, work, source)
        except Stopped as exc:
            self._resolve(job.job_id, exc)
        except JobCancelled:
            self._end(job, "cancelled", ended_otherwise(replace(job, status="cancelled")))
        except VectorDBError as exc:
            self._end(job, "failed", exc)
        except Exception as exc:
            logger.exception("the job %s failed in a way that is a bug of ours", job.job_id)
            self._end(job, "failed", exc, error=_INTERNAL)
        else:
            self._end(job, "done", None, done)
        logger.debug("job %s: %s, ran for %.1f s", job.job_id, job.kind, time.monotonic() - started)

    def _end(
        self,
        job: Job,
        status: JobStatus,
        exc: Exception | None,
        done: Any = None,
        *,
        error: str | None = None,
    ) -> None:
        try:
            is_ours = self._records.finish(
                job.job_id,
                status,
                error=(str(exc) if error is None else error) if status == "failed" else "",
                result=self._doing.kept(done) if exc is None else None,
            )
            # Else another process has taken it over, because this one slept: it needs what is kept.
            if is_ours:
                self._keep.remove(job.job_id)
        except StoreError as failed:
            # What it did is done. Once its lease is over the job is run again, and finds nothing to do.
            logger.warning("the end of job %s could not be written down: %s", job.job_id, failed)
        self._resolve(job.job_id, exc, done)

    def _settle(self, job: Job) -> None:
        """A job that has ended otherwise than by running here: tell those who wait, and clear up."""
        self._keep.remove(job.job_id)
        failed = ended_otherwise(job)
        if failed is not None:
            self._resolve(job.job_id, failed)
            return
        try:
            self._resolve(job.job_id, None, self._doing.found(job))
        except VectorDBError as exc:
            self._resolve(job.job_id, exc)

    def _resolve(self, job_id: str, exc: Exception | None, done: Any = None) -> None:
        with self._changed:
            running = self._running.pop(job_id, None)
            self._sources.pop(job_id, None)
        if running is None or not running.future.set_running_or_notify_cancel():
            return
        if exc is not None:
            running.future.set_exception(exc)
        else:
            running.future.set_result(done)

    def _keep_leases(self) -> None:
        told: dict[str, Progress] = {}
        renewed_at = told_at = 0.0
        while not self._stopping.wait(_LOOK_EVERY_S):
            with self._changed:
                here = dict(self._running)
                if not here:
                    self._lease_keeper = None
                    return
            now = time.monotonic()
            news = {job_id: one.progress for job_id, one in here.items() if told.get(job_id) != one.progress}
            is_due = now - renewed_at > self._records.lease_s / 4 or (news and now - told_at > _TELL_EVERY_S)
            try:
                held = self._records.renew(news) if is_due else self._records.held()
            except StoreError as exc:
                logger.warning("leases could not be renewed: %s", exc)
                continue
            if is_due:
                renewed_at = told_at = now
                told = {job_id: one.progress for job_id, one in here.items()}
            for job_id, running in here.items():
                if held.get(job_id):
                    running.cancelled.set()
                elif job_id not in held and not running.is_in_hand:
                    self._look_up(job_id)

    def _look_up(self, job_id: str) -> None:
        """A job that waits here may have been ended by another process, which cancelled it."""
        try:
            job = self._records.get(job_id)
        except VectorDBError as exc:
            self._resolve(job_id, exc)
            return
        if job.has_ended:
            self._settle(job)

    def _watch(self, running: Running[Any]) -> None:
        """Wait for a job that another process runs; run it here, should that process be gone."""
        job_id = running.job.job_id

        def watch() -> None:
            while not self._stopping.wait(_LOOK_EVERY_S):
                try:
                    job = self._records.get(job_id)
                    if job.has_ended:
                        self._settle(job)
                        return
                    running.progress = (job.progress, job.message or "waiting for its turn")
                    if self._records.take(job_id):
                        self._poke(FOLDER if job.kind == "folder" else SINGLE)
                        return
                except VectorDBError as exc:
                    self._resolve(job_id, exc)
                    return
            self._resolve(job_id, _stopped())

        _thread("job-watcher", watch)

    def _adopt(self) -> None:
        # Not at once: a server's first second belongs to its client.
        pause_s = 1.0
        while not self._stopping.wait(pause_s):
            pause_s = self._records.lease_s / 2
            try:
                if self._records.adopt():
                    logger.info("taking over jobs that another process has left")
                    self._poke(SINGLE)
                    self._poke(FOLDER)
                self._keep.sweep(self._records.active())
            except StoreError as exc:
                logger.warning("could not look for jobs that were left: %s", exc)

    def _cancel_quietly(self, job_id: str) -> None:
        try:
            self.cancel(job_id)
        except VectorDBError as exc:
            logger.warning("the job %s could not be cancelled: %s", job_id, exc)

    def stop_here(self) -> None:
        """Raises if the program is ending."""
        if self._stopping.is_set():
            raise _stopped()

    def _held_bytes(self) -> int:
        return sum(len(source.data) for source in self._sources.values())


def _stopped() -> Stopped:
    return Stopped(
        "The program is ending. Nothing was half written; the work goes on in the next server on this "
        "database."
    )


def _thread(name: str, target: Callable[[], None]) -> threading.Thread:
    # A client that goes away must not leave a process behind.
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread
