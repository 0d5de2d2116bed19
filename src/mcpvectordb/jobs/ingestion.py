"""Everything that can be asked to be ingested: checked and read at once, done by a job if there is work.

What is known and unchanged is answered without a job: a row is written only for real work.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack, cast

from mcpvectordb import sources
from mcpvectordb.checks import check_metadata, check_name, tags_of
from mcpvectordb.errors import JobsDamaged, SourceError, SourceTooLarge
from mcpvectordb.ingest import Ingester, Request
from mcpvectordb.models import (
    Finding,
    FolderResult,
    Ingested,
    Job,
    JobPage,
    JobStatus,
    Kind,
    Metadata,
    Source,
)
from mcpvectordb.store import Store, Sync, WorkLock
from mcpvectordb.stored import StoredFiles

from .database import JobsDatabase
from .doing import Doer, described, record_of
from .folders import FolderRecords
from .keep import Keep
from .records import NewJob, Records
from .runner import Doing, Runner
from .task import Task
from .turn import Turn
from .walking import FolderWork, Walking

# Renewed four times in this time. A process that has not done so is gone, or asleep.
LEASE_S = 20.0
_MOST_SOURCE_CHARS = 4096
_MOST_TITLE_CHARS = 80
_MB = 1024 * 1024
# Whatever a text is called, it is Markdown: "report.pdf" may be the name of somebody's notes on it.
_WRITTEN_AS = "text.md"


class Wishes(TypedDict, total=False):
    """What a caller may say of what is ingested. None keeps what a stored version has."""

    metadata: Metadata | None
    tags: Sequence[str] | None
    refresh: bool


class Options(Wishes, total=False):
    library: str


class FolderOptions(Options, total=False):
    recursive: bool
    include: Sequence[str]  # patterns as in .gitignore; only what one of these takes
    exclude: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """The same, checked."""

    library: str
    metadata: Metadata | None
    tags: tuple[str, ...] | None
    refresh: bool

    @staticmethod
    def of(options: Options) -> _Asked:
        library, metadata = options.get("library", "default"), options.get("metadata")
        check_name("library", library)
        check_metadata(metadata)
        tags = tags_of(options.get("tags"))
        return _Asked(library=library, metadata=metadata, tags=tags, refresh=options.get("refresh", False))

    def of_source(self, source: Source, *, must_exist: bool = False) -> Request:
        return Request(
            source=source,
            metadata=self.metadata,
            tags=self.tags,
            refresh=self.refresh,
            must_exist=must_exist,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Within which bounds things are read."""

    max_file_mb: int
    url_timeout_s: float
    url_allowed: Sequence[str]
    ignore: Sequence[str] = ()


class Ingestion:
    """Makes tasks. Nothing is opened or started before the first of them."""

    def __init__(
        self,
        home: Path,
        store: Store,
        ingester: Ingester,
        reading: Reading,
        *,
        sync: Sync,
        noticed: Callable[[str], str],
        lease_s: float = LEASE_S,
    ) -> None:
        self._ingester = ingester
        self._reading = reading
        self._noticed = noticed
        self.database = JobsDatabase(home, store.disk)
        self.records = Records(self.database, lease_s=lease_s)
        self.files = FolderRecords(self.database)
        self.keep = Keep(home, store.disk)
        self.stored = StoredFiles(home, store, sync)
        self._walking = Walking(
            home, store, ingester, self.files, ignore=reading.ignore, max_file_mb=reading.max_file_mb
        )
        doer = Doer(
            ingester,
            store,
            self.keep,
            self._walking,
            self.stored,
            max_file_mb=reading.max_file_mb,
            noticed=noticed,
        )
        self.runner = Runner(
            self.records,
            self.keep,
            Turn(WorkLock(home), self.records.is_single_waiting_elsewhere),
            Doing(do=doer.do, kept=doer.kept, found=doer.found),
        )

    def file(self, path: str, **options: Unpack[Options]) -> Task[Ingested]:
        asked = _Asked.of(options)
        return self._source(
            sources.read_file(path, library=asked.library, max_file_mb=self._reading.max_file_mb), asked
        )

    def url(
        self, url: str, *, checkpoint: Callable[[], None] = lambda: None, **options: Unpack[Options]
    ) -> Task[Ingested]:
        """Fetches before there is a job: only then is it known whether there is work. It may raise."""
        asked = _Asked.of(options)

        def stop_or_give_up() -> None:
            self.runner.stop_here()
            checkpoint()

        source = sources.read_url(
            url,
            library=asked.library,
            max_file_mb=self._reading.max_file_mb,
            timeout_s=self._reading.url_timeout_s,
            allowed=self._reading.url_allowed,
            checkpoint=stop_or_give_up,
        )
        return self._source(source, asked)

    def text(self, content: str, source: str, **options: Unpack[Options]) -> Task[Ingested]:
        """Markdown or plain text under a name of the caller's."""
        asked = _Asked.of(options)
        check_name("source", source, most_chars=_MOST_SOURCE_CHARS)
        return self._source(
            self._written("text", source, content, asked.library, fallback_title=source), asked
        )

    def note(
        self,
        content: str,
        *,
        source_path: str | None = None,
        title: str = "",
        must_exist: bool = False,
        **options: Unpack[Options],
    ) -> Task[Ingested]:
        """A note; one with the source_path of another takes its place.

        With must_exist there has to be that other one until the end, or the job fails: DocumentNotFound.
        """
        asked = _Asked.of(options)
        if source_path is not None:
            check_name("source_path", source_path, most_chars=_MOST_SOURCE_CHARS)
        if title:
            check_name("title", title, most_chars=_MOST_SOURCE_CHARS)
        name = source_path or f"note:{uuid.uuid4()}"
        note = self._written(
            "note", name, content, asked.library, title=title, fallback_title=_first_line(content)
        )
        return self._source(note, asked, must_exist=must_exist)

    def upload(self, path: Path, name: str, **options: Unpack[Options]) -> Task[Ingested]:
        """A file that was sent to us. It is moved away from path, whatever comes of it."""
        asked = _Asked.of(options)
        check_name("file name", name)
        try:
            if path.stat().st_size > self._reading.max_file_mb * _MB:
                raise SourceTooLarge(
                    f"{name} has {path.stat().st_size / _MB:.1f} MB; the limit is "
                    f"{self._reading.max_file_mb} MB. Split it, or raise MCPVECTORDB_MAX_FILE_MB."
                )
            with path.open("rb") as stream:
                content_hash = hashlib.file_digest(stream, "sha256").hexdigest()
            # Without its bytes: those stay on the disk until its turn has come.
            source = Source(
                name=f"upload:{content_hash[:16]}/{name}",
                library=asked.library,
                kind="upload",
                data=b"",
                file_name=name,
            )
            new = _new_job(asked.of_source(source), content_hash)
            return cast("Task[Ingested]", self.runner.start(new, content=path))
        except OSError as exc:
            raise SourceError(f"{name} cannot be read: {exc.strerror or exc}. Send it again.") from exc
        finally:
            path.unlink(missing_ok=True)

    def folder(
        self, folder: str, *, checkpoint: Callable[[], None] = lambda: None, **options: Unpack[FolderOptions]
    ) -> Task[FolderResult]:
        """Every file of a folder that can be read. Where none has changed there is no job."""
        asked = _Asked.of(options)
        work = FolderWork(
            library=asked.library,
            metadata=asked.metadata,
            tags=asked.tags,
            refresh=asked.refresh,
            recursive=options.get("recursive", True),
            include=tuple(options.get("include", ())),
            exclude=tuple(options.get("exclude", ())),
        )
        plan = self._walking.plan(folder, work, checkpoint)
        if not plan.changed:
            result = plan.result(asked.library, plan.set_aside)
            result = replace(result, notice=self._noticed(result.notice))
            return Task(source=plan.folder, library=asked.library, result=result)
        new = NewJob(kind="folder", source=plan.folder, library=asked.library, request=work.record())
        return cast("Task[FolderResult]", self.runner.start(new))

    def source(self, source: Source, **wishes: Unpack[Wishes]) -> Task[Ingested]:
        """What has been read already."""
        return self._source(source, _Asked.of({**wishes, "library": source.library}))

    def jobs(
        self, *, status: JobStatus | None, limit: int, offset: int, libraries: Sequence[str] | None = None
    ) -> JobPage:
        page = self.records.recent(status=status, libraries=libraries, limit=limit, offset=offset)
        return replace(page, jobs=tuple(self.runner.progress_of(job) for job in page.jobs))

    def job(self, job_id: str) -> Job:
        return self.runner.progress_of(self.records.get(job_id))

    def findings(self) -> Iterator[Finding]:
        """What doctor finds of jobs; looking changes nothing."""
        problem = self.database.problem()
        is_damaged = isinstance(problem, JobsDamaged)
        yield Finding(
            check="jobs",
            problem="" if problem is None else str(problem),
            fix="That sets the file aside, and unfinished jobs with it." if is_damaged else "",
        )
        if problem is not None:
            return
        left = self.keep.leftovers(self.records.active())
        yield Finding(
            check="left-over job files",
            problem=f"{len(left)} jobs that have ended left files behind" if left else "",
            fix="Run `mcpvectordb doctor --fix`." if left else "",
        )
        yield from self.stored.findings(self.records.busy_documents)

    def mend(self) -> None:
        """Remove what jobs that have ended left behind, and files of documents that are gone."""
        if isinstance(self.database.problem(), JobsDamaged):
            self.database.set_aside()
        if self.database.problem() is None:
            self.keep.sweep(self.records.active())
            self.stored.sweep(self.records.busy_documents)

    def _source(self, source: Source, asked: _Asked, *, must_exist: bool = False) -> Task[Ingested]:
        request = asked.of_source(source, must_exist=must_exist)
        unchanged = self._ingester.unchanged(request)
        if unchanged is not None:
            result = replace(unchanged, notice=self._noticed(unchanged.notice))
            return Task(source=source.name, library=source.library, doc_id=source.doc_id, result=result)
        new = _new_job(request, source.content_hash)
        # A file is read again where it lies; what came from elsewhere is kept until it is done with.
        kept = None if source.kind == "file" else source.data
        return cast("Task[Ingested]", self.runner.start(new, source=source, content=kept))

    def _written(
        self, kind: Kind, name: str, content: str, library: str, *, title: str = "", fallback_title: str
    ) -> Source:
        data = content.encode()
        if len(data) > self._reading.max_file_mb * _MB:
            raise SourceTooLarge(
                f"The text has {len(data) / _MB:.1f} MB; the limit is {self._reading.max_file_mb} MB. "
                "Split it, or raise MCPVECTORDB_MAX_FILE_MB."
            )
        return Source(
            name=name,
            library=library,
            kind=kind,
            data=data,
            file_name=_WRITTEN_AS,
            title=title,
            fallback_title=fallback_title,
        )


def _new_job(request: Request, content_hash: str) -> NewJob:
    source = request.source
    return NewJob(
        kind=source.kind,
        source=source.name,
        library=source.library,
        doc_id=source.doc_id,
        content_hash=content_hash,
        request=record_of(request) | {"source": described(source)},
    )


def _first_line(content: str) -> str:
    line = next((line.strip() for line in content.splitlines() if line.strip()), "Note")
    return line if len(line) <= _MOST_TITLE_CHARS else f"{line[:_MOST_TITLE_CHARS].rstrip()}…"
