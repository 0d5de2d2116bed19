"""A folder as one job: the walk, every file that has changed, and what became of each.

A bad file never stops the rest. One that could not be converted is set aside until it changes, so that a
folder in which nothing changes costs a walk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from mcpvectordb import folders, sources
from mcpvectordb.convert import PIPELINE, is_supported
from mcpvectordb.errors import ConversionError, ConverterDied, SourceForbidden, VectorDBError
from mcpvectordb.folders import Found
from mcpvectordb.ingest import Ingester, Request
from mcpvectordb.models import FileOutcome, FolderResult, Header, Ingested, Job, Metadata, document_uuid
from mcpvectordb.store import Store
from mcpvectordb.work import Work

from .folders import FolderRecords, Seen

_MB = 1024 * 1024
# What became of files is written down so often; a crash before that costs a look at their bytes.
_WRITE_EVERY_S = 2.0
_WRITE_EVERY = 64
# Clocks of file systems go in steps of up to two seconds; see folders.py.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderWork:
    """What is to be done with a folder, besides which one it is."""

    library: str
    metadata: Metadata | None = None
    tags: tuple[str, ...] | None = None
    refresh: bool = False
    recursive: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def record(self) -> dict[str, object]:
        return asdict(self)

    @staticmethod
    def of(record: Mapping[str, object]) -> FolderWork:
        lists = {
            name: None if value is None else tuple(cast("list[str]", value))
            for name in ("tags", "include", "exclude")
            for value in (record[name],)
        }
        return FolderWork(**cast("dict[str, Any]", {**record, **lists}))

    def differs(self, header: Header) -> bool:
        """Whether an unchanged document was to have other metadata or tags than it has."""
        return (self.metadata is not None and dict(self.metadata) != dict(header.metadata)) or (
            self.tags is not None and set(self.tags) != set(header.tags)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """What there is to do for a folder."""

    folder: str
    changed: tuple[Found, ...]
    set_aside: tuple[FileOutcome, ...]
    unchanged: int
    ignored: Mapping[str, int]
    notice: str

    def result(self, library: str, outcomes: Sequence[FileOutcome]) -> FolderResult:
        return FolderResult(
            folder=self.folder,
            library=library,
            outcomes=tuple(outcomes),
            unchanged=self.unchanged,
            ignored=self.ignored,
            notice=self.notice,
        )


class Walking:
    def __init__(
        self,
        home: Path,
        store: Store,
        ingester: Ingester,
        files: FolderRecords,
        *,
        ignore: Sequence[str],
        max_file_mb: int,
    ) -> None:
        self._home = home
        self._store = store
        self._ingester = ingester
        self._files = files
        self._ignore = tuple(ignore)
        self._max_file_mb = max_file_mb

    def plan(self, folder: str, work: FolderWork, checkpoint: Callable[[], None]) -> Planned:
        """Walk, and leave out what need not be opened."""
        resolved = folders.resolve(folder)
        options = folders.Options(
            is_supported=is_supported,
            max_bytes=self._max_file_mb * _MB,
            recursive=work.recursive,
            include=work.include,
            exclude=work.exclude,
            ignore=self._ignore,
            own=self._home,
        )
        asks_more = work.tags is not None or work.metadata is not None
        headers = self._store.read.headers(work.library, with_words=asks_more)
        plan = folders.plan(
            resolved, options, headers, refresh=work.refresh, differs=work.differs, checkpoint=checkpoint
        )
        changed: list[Found] = []
        set_aside: list[FileOutcome] = []
        seen = {} if work.refresh or not plan.changed else self._files.seen(pipeline=PIPELINE)
        for found in plan.changed:
            one = seen.get(document_uuid(work.library, found.path)) if seen else None
            header = headers.get(found.path)
            if one is None or (one.size, one.mtime_ns) != (found.size, found.mtime_ns):
                changed.append(found)
            elif one.reason:
                reason = f"{one.reason} It is set aside until it changes; refresh: true tries it again."
                set_aside.append(FileOutcome(path=found.path, status="failed", reason=reason))
            elif header is None or header.created_at != one.created_at:
                changed.append(found)  # compared with a version that is there no more
        unchanged = plan.unchanged + len(plan.changed) - len(changed) - len(set_aside)
        return Planned(
            folder=str(resolved),
            changed=tuple(changed),
            set_aside=tuple(set_aside),
            unchanged=unchanged,
            ignored=plan.ignored,
            notice=_differing(plan.differing),
        )

    def do(self, job: Job, work: Work) -> FolderResult:
        asked = FolderWork.of(job.request)
        planned = self.plan(job.source, asked, work.checkpoint)
        pending: list[FileOutcome] = []
        seen: dict[str, Seen] = {}
        written_at = time.monotonic()
        requests = ((found, lambda found=found: self._request(found, asked)) for found in planned.changed)
        try:
            done = self._ingester.ingest_many(requests, work)
            for number, (found, result) in enumerate(done, start=1):
                doc_id = document_uuid(asked.library, found.path)
                pending.append(_outcome(found, doc_id, result))
                if (one := _seen(found, result)) is not None:
                    seen[doc_id] = one
                work.report(
                    number / len(planned.changed),
                    f"{number} of {len(planned.changed)} files, the last {Path(found.path).name}",
                )
                if len(pending) >= _WRITE_EVERY or time.monotonic() - written_at > _WRITE_EVERY_S:
                    self._files.add(job.job_id, pending, seen, PIPELINE)
                    pending, seen, written_at = [], {}, time.monotonic()
        finally:
            if pending:
                self._files.add(job.job_id, pending, seen, PIPELINE)
        # From the table: if this folder was taken over, the files of before are there too.
        outcomes = (*self._files.outcomes(job.job_id), *planned.set_aside)
        return planned.result(asked.library, outcomes)

    def found(self, job: Job) -> FolderResult:
        """The result of a folder's job that another process has done."""
        return FolderResult(
            folder=job.source,
            library=job.library,
            outcomes=tuple(self._files.outcomes(job.job_id)),
            unchanged=cast("int", job.result["unchanged"]),
            ignored=cast("Mapping[str, int]", job.result["ignored"]),
            notice=str(job.result["notice"]),
        )

    def _request(self, found: Found, asked: FolderWork) -> Request:
        source = sources.read_file(found.path, library=asked.library, max_file_mb=self._max_file_mb)
        return Request(source=source, metadata=asked.metadata, tags=asked.tags, refresh=asked.refresh)


def _outcome(found: Found, doc_id: str, result: Ingested | VectorDBError) -> FileOutcome:
    if isinstance(result, VectorDBError):
        return FileOutcome(path=found.path, status="failed", reason=str(result))
    return FileOutcome(
        path=found.path,
        status=result.status,
        doc_id=doc_id,
        chunk_count=result.document.chunk_count,
        reason=result.notice,
    )


def _seen(found: Found, result: Ingested | VectorDBError) -> Seen | None:
    """What there is to remember of a file that was opened, so that it need not be opened again."""
    if isinstance(result, ConversionError | SourceForbidden):
        return Seen(
            size=found.size,
            mtime_ns=found.mtime_ns,
            reason=str(result),
            is_kill=isinstance(result, ConverterDied),
        )
    is_settled = time.time_ns() - found.mtime_ns > _SETTLED_NS
    if isinstance(result, VectorDBError) or result.status != "skipped" or not is_settled:
        return None
    return Seen(size=found.size, mtime_ns=found.mtime_ns, created_at=result.document.created_at)


def _differing(count: int) -> str:
    if not count:
        return ""
    return (
        f"{count} unchanged files were indexed with other tags or metadata, which stay as they are. "
        "Call again with refresh: true to store the new ones."
    )
