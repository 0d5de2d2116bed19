"""What is remembered of a folder's files: what became of each, and which need not be opened again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcpvectordb.models import FileOutcome

from .database import JobsDatabase

# A file that ended its converter so many times is set aside until it changes. The first time the machine
# may have been to blame.
_MOST_KILLS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A file as it was when it was last opened, and what came of that."""

    size: int
    mtime_ns: int
    reason: str = ""  # why it could not be converted; "" if its bytes were those of its document
    is_kill: bool = False  # it ended its converter
    created_at: str = ""  # of the version of its document that it was compared with


class FolderRecords:
    def __init__(self, database: JobsDatabase) -> None:
        self._database = database

    def add(
        self, job_id: str, outcomes: Sequence[FileOutcome], seen: Mapping[str, Seen], pipeline: int
    ) -> None:
        """Remember what became of files, and by doc_id how they were; a folder that is taken over may come by
        the same file again."""
        with self._database.changing() as db:
            db.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                [(job_id, one.path, one.status, one.doc_id, one.chunk_count, one.reason) for one in outcomes],
            )
            for doc_id, one in seen.items():
                known = db.execute(
                    "SELECT kills FROM seen WHERE doc_id = ? AND size = ? AND mtime_ns = ? AND pipeline = ?",
                    (doc_id, one.size, one.mtime_ns, pipeline),
                ).fetchone()
                kills = (known[0] if known else 0) + 1 if one.is_kill else _MOST_KILLS
                db.execute(
                    "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (doc_id, one.size, one.mtime_ns, pipeline, kills, one.reason, one.created_at),
                )

    def outcomes(self, job_id: str, *, limit: int = -1) -> list[FileOutcome]:
        """A folder's files, those that failed first; all of them, unless limited."""
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            rows = db.execute(
                "SELECT path, status, doc_id, chunk_count, reason FROM files WHERE job_id = ?"
                " ORDER BY status != 'failed', rowid LIMIT ?",
                (job_id, limit),
            ).fetchall()
        return [
            FileOutcome(path=path, status=status, doc_id=doc_id, chunk_count=count, reason=reason)
            for path, status, doc_id, count, reason in rows
        ]

    def seen(self, *, pipeline: int) -> dict[str, Seen]:
        """By doc_id, the files that are not to be opened again until they change, or our converters do."""
        if not self._database.exists:
            return {}
        with self._database.reading() as db:
            rows = db.execute(
                "SELECT doc_id, size, mtime_ns, reason, created_at FROM seen"
                " WHERE pipeline = ? AND kills >= ?",
                (pipeline, _MOST_KILLS),
            ).fetchall()
        return {
            doc_id: Seen(size=size, mtime_ns=mtime_ns, reason=reason, created_at=created_at)
            for doc_id, size, mtime_ns, reason, created_at in rows
        }
