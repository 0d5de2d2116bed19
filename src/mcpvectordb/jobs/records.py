"""Jobs on disk, for every process that uses the database.

A job belongs to the process that holds its lease. A lease that is not renewed runs out, and the job may be
taken over; one that is given back may be taken at once. A lease that ends later than any could was made
before the clock was set back, and holds nothing either.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from mcpvectordb.errors import JobNotFound
from mcpvectordb.models import Job, JobKind, JobPage, JobStatus

from .database import JobsDatabase

# So many times a job is begun; then it is it that ends the programs.
MOST_ATTEMPTS = 3
# Folders wait for single documents: somebody waits for those.
SINGLE, FOLDER = 0, 1
# Ended jobs that are kept to be looked at.
_MOST_ENDED = 1000
_ACTIVE = "status IN ('queued', 'running')"
# Between what `Records._leases_now` gives.
_HELD = "(lease_until BETWEEN ? AND ?)"
_COLUMNS = (
    "job_id, kind, source, library, doc_id, status, created_at, updated_at, progress, message, error, "
    "attempts, request, result"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """What is to be done, in words that another process understands."""

    kind: JobKind
    source: str
    library: str
    doc_id: str = ""  # "" for a folder
    request: Mapping[str, object]
    content_hash: str = ""

    @property
    def key(self) -> str:
        """Two calls for the same bytes in the same way are one job."""
        return json.dumps([self.kind, self.library, self.source, self.content_hash, self.request])

    @property
    def priority(self) -> int:
        return FOLDER if self.kind == "folder" else SINGLE


class Records:
    def __init__(self, database: JobsDatabase, *, lease_s: float) -> None:
        self._database = database
        self.owner = uuid.uuid4().hex
        self.lease_s = lease_s

    def add(self, new: NewJob, job_id: str) -> Job:
        """Make a job, ours to run; or give the one that is to do the same and has not ended yet.

        Only the newest about a source may be that one: where A, B and A again are said, A is meant.
        """
        with self._database.changing(create=True) as db:
            newest = db.execute(
                f"SELECT key, {_COLUMNS} FROM jobs WHERE library = ? AND source = ? AND {_ACTIVE}"
                " AND cancel = 0 ORDER BY number DESC LIMIT 1",
                (new.library, new.source),
            ).fetchone()
            if newest is not None and newest[0] == new.key:
                return _job(newest[1:])
            db.execute(
                "INSERT INTO jobs (job_id, kind, priority, key, request, source, library, doc_id, status,"
                " owner, lease_until, created_at, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?)",
                (
                    job_id,
                    new.kind,
                    new.priority,
                    new.key,
                    json.dumps(new.request),
                    new.source,
                    new.library,
                    new.doc_id,
                    self.owner,
                    self._lease(),
                    _now(),
                    _now(),
                ),
            )
            return _get(db, job_id)

    def adopt(self) -> int:
        """Take what nobody holds any more; how many jobs that are."""
        return self._take("1") if self._are_any_left() else 0

    def take(self, job_id: str) -> bool:
        """Take this job, if nobody holds it any more. If it was to be given up, it has ended with this."""
        return bool(self._are_any_left() and self._take("job_id = ?", job_id))

    def claim(self, priority: int) -> Job | None:
        """The next of our jobs to run; it is running from here on."""
        with self._database.changing() as db:
            row = db.execute(
                "SELECT job_id, attempts FROM jobs WHERE owner = ? AND status = 'queued' AND cancel = 0"
                " AND priority = ? ORDER BY number LIMIT 1",
                (self.owner, priority),
            ).fetchone()
            if row is None:
                return None
            job_id, attempts = row
            db.execute(
                "UPDATE jobs SET status = 'running', lease_until = ?, attempts = attempts + 1, updated_at = ?"
                " WHERE job_id = ?",
                (self._lease(), _now(), job_id),
            )
            if attempts >= MOST_ATTEMPTS:
                error = (
                    f"It was interrupted {attempts} times, the program ending in the middle of it, and is "
                    "given up. Ingest it again to try once more."
                )
                _end(db, "failed", "job_id = ?", job_id, error=error)
            return _get(db, job_id)

    def renew(self, progress: Mapping[str, tuple[float, str]]) -> dict[str, bool]:
        """Keep our leases and tell how far our jobs are; those still ours, and whether each is cancelled."""
        with self._database.changing() as db:
            db.execute(
                f"UPDATE jobs SET lease_until = ? WHERE owner = ? AND {_ACTIVE}", (self._lease(), self.owner)
            )
            for job_id, (fraction, message) in progress.items():
                db.execute(
                    "UPDATE jobs SET progress = ?, message = ?, updated_at = ?"
                    " WHERE job_id = ? AND owner = ? AND status = 'running'",
                    (fraction, message, _now(), job_id, self.owner),
                )
            return _held(db, self.owner)

    def held(self) -> dict[str, bool]:
        """Our jobs that have not ended, and whether each is cancelled."""
        with self._database.reading() as db:
            return _held(db, self.owner)

    def finish(
        self, job_id: str, status: JobStatus, *, error: str = "", result: Mapping[str, object] | None = None
    ) -> bool:
        """The job has ended, if it is still ours: whoever has taken it over ends it otherwise."""
        with self._database.changing() as db:
            ended = _end(
                db, status, "job_id = ? AND owner = ?", job_id, self.owner, error=error, result=result
            )
            too_old = f"SELECT job_id FROM jobs WHERE NOT {_ACTIVE} ORDER BY number DESC LIMIT -1 OFFSET ?"
            for table in ("files", "jobs"):  # the files first, which are found by the jobs
                db.execute(f"DELETE FROM {table} WHERE job_id IN ({too_old})", (_MOST_ENDED,))
        return bool(ended)

    def give_back(self) -> list[str]:
        """This process ends: others may take over at once what it has not finished.

        What somebody has cancelled is no work for others: it ends here. The jobs that did.
        """
        if not self._database.exists:
            return []
        with self._database.changing() as db:
            given_up = [job_id for job_id, is_cancelled in _held(db, self.owner).items() if is_cancelled]
            _end(db, "cancelled", "cancel = 1 AND owner = ?", self.owner)
            # What was stopped in an orderly way was not interrupted by the job itself.
            db.execute(
                "UPDATE jobs SET attempts = attempts - (status = 'running'), status = 'queued', owner = '',"
                f" lease_until = 0 WHERE owner = ? AND {_ACTIVE}",
                (self.owner,),
            )
        return given_up

    def cancel(self, job_id: str) -> Job:
        """Ask whoever runs the job to stop; a job that nobody runs has ended with this."""
        self.get(job_id)
        with self._database.changing() as db:
            db.execute(f"UPDATE jobs SET cancel = 1 WHERE job_id = ? AND {_ACTIVE}", (job_id,))
            idle = db.execute(
                f"SELECT 1 FROM jobs WHERE job_id = ? AND (status = 'queued' OR ({_ACTIVE} AND NOT {_HELD}))",
                (job_id, *self._leases_now()),
            ).fetchone()
            if idle:
                _end(db, "cancelled", "job_id = ?", job_id)
            return _get(db, job_id)

    def is_single_waiting_elsewhere(self) -> bool:
        """Whether another process has a single document waiting for its turn."""
        with self._database.reading() as db:
            found = db.execute(
                "SELECT 1 FROM jobs WHERE status = 'queued' AND priority = ? AND cancel = 0 AND owner != ?"
                f" AND owner != '' AND {_HELD} LIMIT 1",
                (SINGLE, self.owner, *self._leases_now()),
            ).fetchone()
        return found is not None

    def get(self, job_id: str) -> Job:
        # Half a character, as a command line may hand over, could not even be asked for.
        if not self._database.exists or not job_id.isascii():
            raise _not_found(job_id)
        with self._database.reading() as db:
            return _get(db, job_id)

    def recent(
        self, *, status: JobStatus | None, libraries: Sequence[str] | None, limit: int, offset: int
    ) -> JobPage:
        """Jobs, newest first; with libraries, only those about them."""
        if not self._database.exists:
            return JobPage(jobs=(), total=0)
        where, given = _chosen(status, libraries)
        with self._database.reading() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM jobs {where} ORDER BY number DESC LIMIT ? OFFSET ?",
                (*given, limit, offset),
            ).fetchall()
            (total,) = db.execute(f"SELECT count(*) FROM jobs {where}", given).fetchone()
        return JobPage(jobs=tuple(_job(row) for row in rows), total=total)

    def counts(self, libraries: Sequence[str] | None = None) -> dict[str, int]:
        """How many jobs are in each state."""
        if not self._database.exists:
            return {}
        where, given = _chosen(None, libraries)
        with self._database.reading() as db:
            return dict(
                db.execute(f"SELECT status, count(*) FROM jobs {where} GROUP BY status", given).fetchall()
            )

    def active(self) -> set[str]:
        if not self._database.exists:
            return set()
        with self._database.reading() as db:
            return {row[0] for row in db.execute(f"SELECT job_id FROM jobs WHERE {_ACTIVE}").fetchall()}

    def busy_documents(self) -> set[str]:
        """The documents that a job is about which has not ended."""
        if not self._database.exists:
            return set()
        with self._database.reading() as db:
            return {row[0] for row in db.execute(f"SELECT doc_id FROM jobs WHERE {_ACTIVE}").fetchall()}

    def _are_any_left(self) -> bool:
        """A look costs nothing, a transaction a write to the disk."""
        if not self._database.exists:
            return False
        with self._database.reading() as db:
            left = db.execute(
                f"SELECT 1 FROM jobs WHERE NOT {_HELD} AND {_ACTIVE} LIMIT 1", self._leases_now()
            ).fetchone()
        return left is not None

    def _take(self, which: str, *given: object) -> int:
        left = (*self._leases_now(), *given)
        with self._database.changing() as db:
            # Whoever was to give it up has ended before doing so.
            _end(db, "cancelled", f"cancel = 1 AND NOT {_HELD} AND {which}", *left)
            return db.execute(
                "UPDATE jobs SET owner = ?, status = 'queued', lease_until = ?"
                f" WHERE {_ACTIVE} AND NOT {_HELD} AND {which}",
                (self.owner, self._lease(), *left),
            ).rowcount

    def _lease(self) -> float:
        return time.time() + self.lease_s

    def _leases_now(self) -> tuple[float, float]:
        """Between which times a lease ends that somebody holds; twice as late as ours, for clocks are set."""
        now = time.time()
        return now, now + 2 * self.lease_s


def _chosen(status: JobStatus | None, libraries: Sequence[str] | None) -> tuple[str, list[str]]:
    """The clause for some of the jobs, and what stands in it."""
    clauses = ["status = ?"] if status else []
    if libraries is not None:
        clauses.append(f"library IN ({', '.join('?' * len(libraries))})")
    return f"WHERE {' AND '.join(clauses)}" if clauses else "", [
        *([status] if status else []),
        *(libraries or ()),
    ]


def _end(
    db: sqlite3.Connection,
    status: JobStatus,
    which: str,
    *given: object,
    error: str = "",
    result: Mapping[str, object] | None = None,
) -> int:
    """End those of the jobs that have not ended yet; how many that were."""
    return db.execute(
        "UPDATE jobs SET status = ?, error = ?, result = ?, message = '', lease_until = 0,"
        " progress = CASE WHEN ? = 'done' THEN 1 ELSE progress END, updated_at = ?"
        f" WHERE {_ACTIVE} AND {which}",
        (status, error, json.dumps(result or {}), status, _now(), *given),
    ).rowcount


def _held(db: sqlite3.Connection, owner: str) -> dict[str, bool]:
    rows = db.execute(f"SELECT job_id, cancel FROM jobs WHERE owner = ? AND {_ACTIVE}", (owner,)).fetchall()
    return {job_id: bool(cancel) for job_id, cancel in rows}


def _get(db: sqlite3.Connection, job_id: str) -> Job:
    row = db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if row is None:
        raise _not_found(job_id)
    return _job(row)


def _not_found(job_id: str) -> JobNotFound:
    return JobNotFound(f"There is no job {job_id[:60]!r}. Call jobs without a job_id to see those there are.")


def _job(row: Sequence[Any]) -> Job:
    *plain, request, result = row
    names = _COLUMNS.split(", ")
    return Job(
        **cast("dict[str, Any]", dict(zip(names, plain, strict=False))),
        request=json.loads(request),
        result=json.loads(result),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
