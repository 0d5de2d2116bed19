"""The tools that ingest, and those that look after the jobs which that makes."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from mcpvectordb.contract.answers import Result
from mcpvectordb.contract.arguments import Arguments
from mcpvectordb.models import FolderResult, Ingested, JobStatus
from mcpvectordb.vectordb import Task, VectorDB

from .job_results import FolderAnswer, JobRecord, JobsResult
from .results import IngestResult
from .tool import JobId, Library, Meta, Tags, Tool, Work

_MOST_FILES_SHOWN = 100


class _Ingest(Arguments):
    library: Library = "default"
    metadata: Meta = None
    tags: Tags = None


class IngestFile(_Ingest):
    path: str = Field(min_length=1, max_length=4096, description="Absolute or relative path to the file")
    refresh: bool = Field(False, description="Index again even if the file has not changed")


class IngestUrl(_Ingest):
    url: str = Field(min_length=1, max_length=8192, description="HTTP or HTTPS URL to fetch")
    refresh: bool = Field(False, description="Index again even if the content has not changed")


class IngestText(_Ingest):
    content: str = Field(min_length=1, description="The text, Markdown or plain")
    source: str = Field(
        min_length=1,
        max_length=4096,
        description="Name of the text. The same name in the same library is the same document",
    )
    refresh: bool = Field(False, description="Index again even if the text has not changed")


class IngestFolder(_Ingest):
    folder: str = Field(min_length=1, max_length=4096, description="Absolute or relative path to the folder")
    recursive: bool = Field(True, description="Also the folders in it")
    include: list[str] | None = Field(
        None, max_length=1000, description="Only files that one of these patterns takes, such as *.md"
    )
    exclude: list[str] | None = Field(
        None, max_length=1000, description="No files that one of these patterns takes, such as drafts/"
    )
    refresh: bool = Field(False, description="Index again even what has not changed")


class Jobs(Arguments):
    status: JobStatus | None = Field(None, description="Only jobs in this state; null means all")
    job_id: JobId | None = Field(None, description="Only this job, with the files of a folder")
    limit: int = Field(20, ge=1, le=1000, description="Most jobs to return")


class CancelJob(Arguments):
    job_id: JobId


def _file(db: VectorDB, args: IngestFile, _: Callable[[], None]) -> Task[Ingested]:
    return db.begin.file(
        args.path, library=args.library, metadata=args.metadata, tags=args.tags, refresh=args.refresh
    )


def _url(db: VectorDB, args: IngestUrl, give_up: Callable[[], None]) -> Task[Ingested]:
    return db.begin.url(
        args.url,
        checkpoint=give_up,
        library=args.library,
        metadata=args.metadata,
        tags=args.tags,
        refresh=args.refresh,
    )


def _text(db: VectorDB, args: IngestText, _: Callable[[], None]) -> Task[Ingested]:
    return db.begin.text(
        args.content,
        args.source,
        library=args.library,
        metadata=args.metadata,
        tags=args.tags,
        refresh=args.refresh,
    )


def _folder(db: VectorDB, args: IngestFolder, give_up: Callable[[], None]) -> Task[FolderResult]:
    return db.begin.folder(
        args.folder,
        checkpoint=give_up,
        library=args.library,
        metadata=args.metadata,
        tags=args.tags,
        refresh=args.refresh,
        recursive=args.recursive,
        include=args.include or (),
        exclude=args.exclude or (),
    )


def _jobs(db: VectorDB, args: Jobs) -> Result:
    if args.job_id is None:
        return JobsResult.of(db.jobs(status=args.status, limit=args.limit))
    job = db.job(args.job_id)
    files = db.job_files(job.job_id, limit=_MOST_FILES_SHOWN) if job.kind == "folder" else None
    return JobsResult.of_one(job, files)


INGEST_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="ingest_file",
        title="Index a file",
        description="Convert a local file (PDF, Word, PowerPoint, Excel, OpenDocument, EPUB, mail, notebook, "
        "web page, Markdown, text, source code and more) and index it. A file that is known and unchanged "
        "is skipped; a changed one takes the place of its old version. Long work answers with status "
        "`processing` and goes on as a job.",
        arguments=IngestFile,
        result=IngestResult,
        work=Work(begin=_file, done=IngestResult.of, processing=IngestResult.of_task),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="ingest_url",
        title="Index a web page",
        description="Fetch a public HTTP or HTTPS address (a page, a PDF, an Office file), convert it and "
        "index it. Content known and unchanged is skipped; changed content takes the place of the old. Long "
        "work answers with status `processing` and goes on as a job.",
        arguments=IngestUrl,
        result=IngestResult,
        work=Work(begin=_url, done=IngestResult.of, processing=IngestResult.of_task),
        read_only=False,
        destructive=True,
        open_world=True,
    ),
    Tool(
        name="ingest_text",
        title="Index a text",
        description="Index a text that you give, under a name of its own. The same name with another text "
        "takes the place of the old one.",
        arguments=IngestText,
        result=IngestResult,
        work=Work(begin=_text, done=IngestResult.of, processing=IngestResult.of_task),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="ingest_folder",
        title="Index a folder",
        description="Index every file of a folder that can be read. Hidden, ignored (.gitignore) and "
        "unsupported files are passed over and counted; unchanged ones are not even opened; a bad one does "
        "not stop the rest. Long work answers with status `processing` and goes on as a job.",
        arguments=IngestFolder,
        result=FolderAnswer,
        work=Work(begin=_folder, done=FolderAnswer.of, processing=FolderAnswer.of_task),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="jobs",
        title="List jobs",
        description="How far ingests are that go on in the background, and what became of those that ended; "
        "newest first. With a job_id, that one alone, with the files of a folder.",
        arguments=Jobs,
        result=JobsResult,
        call=_jobs,
        read_only=True,
    ),
    Tool(
        name="cancel_job",
        title="Cancel a job",
        description="Give up an ingest. The document in hand stays as it was before, a folder keeps the "
        "files that are finished.",
        arguments=CancelJob,
        result=JobRecord,
        call=lambda db, args: JobRecord.of(db.cancel_job(args.job_id)),
        read_only=False,
        destructive=True,
    ),
)
