"""What the tools answer about folders and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from pydantic import BaseModel, Field

from mcpvectordb.contract.answers import Result
from mcpvectordb.models import FileOutcome, FolderResult, Job, JobKind, JobPage, JobStatus
from mcpvectordb.vectordb import Task

from .results import going_on

# Clients refuse long answers; the rest is counted, and `jobs` has all of them.
_MOST_FILES = 100


class FileRecord(BaseModel):
    path: str
    status: Literal["indexed", "replaced", "skipped", "failed"]
    doc_id: str | None = None
    chunk_count: int | None = None
    error: str | None = None
    notice: str | None = None

    @classmethod
    def of(cls, one: FileOutcome) -> FileRecord:
        failed = one.status == "failed"
        return cls(
            path=one.path,
            status=one.status,
            doc_id=one.doc_id or None,
            chunk_count=None if failed else one.chunk_count,
            error=one.reason if failed else None,
            notice=None if failed else one.reason or None,
        )


class FolderAnswer(Result):
    status: Literal["done", "processing"]
    folder: str
    library: str
    indexed: int = Field(default=0, description="New files")
    replaced: int = Field(default=0, description="Files that had changed")
    unchanged: int = Field(default=0, description="Files that are as they were")
    failed: int = 0
    ignored: dict[str, int] = Field(
        default_factory=dict, description="Files and folders passed over, by the reason"
    )
    files: list[FileRecord] = Field(
        default_factory=list[FileRecord], description="All but the unchanged ones, those that failed first"
    )
    job_id: str | None = None
    progress: float | None = Field(default=None, description="0 to 1, while the work goes on")
    notice: str | None = None

    @classmethod
    def of(cls, result: FolderResult) -> FolderAnswer:
        told = [one for one in result.outcomes if one.status != "skipped"]
        told.sort(key=lambda one: one.status != "failed")
        notices = [result.notice] if result.notice else []
        if len(told) > _MOST_FILES:
            notices.append(f"{len(told) - _MOST_FILES} more files are not listed here.")
        return cls(
            status="done",
            folder=result.folder,
            library=result.library,
            indexed=result.count("indexed"),
            replaced=result.count("replaced"),
            unchanged=result.unchanged + result.count("skipped"),
            failed=result.count("failed"),
            ignored=dict(result.ignored),
            files=[FileRecord.of(one) for one in told[:_MOST_FILES]],
            notice=" ".join(notices) or None,
        )

    @classmethod
    def of_task(cls, task: Task[FolderResult]) -> FolderAnswer:
        fraction, words = task.progress
        return cls(
            status="processing",
            folder=task.source,
            library=task.library,
            job_id=task.job_id,
            progress=round(fraction, 4),
            notice=going_on(words),
        )


class JobRecord(Result):
    job_id: str
    kind: JobKind
    status: JobStatus
    source: str
    library: str
    progress: float = Field(description="0 to 1")
    message: str | None = Field(default=None, description="How far it is, in words")
    error: str | None = None
    doc_id: str | None = None
    document_id: int | None = None
    title: str | None = None
    outcome: str | None = Field(default=None, description="indexed, replaced or skipped")
    chunk_count: int | None = None
    notice: str | None = None
    created_at: str
    updated_at: str
    files: list[FileRecord] | None = Field(default=None, description="Of a folder, those that failed first")

    @classmethod
    def of(cls, job: Job, files: Sequence[FileOutcome] | None = None) -> JobRecord:
        kept = job.result
        return cls(
            job_id=job.job_id,
            kind=job.kind,
            status=job.status,
            source=job.source,
            library=job.library,
            progress=round(job.progress, 4),
            message=job.message or None,
            error=job.error or None,
            doc_id=job.doc_id or None,
            document_id=job.document_id,
            title=cast("str | None", kept.get("title")),
            outcome=cast("str | None", kept.get("outcome")),
            chunk_count=cast("int | None", kept.get("chunk_count")),
            notice=cast("str", kept.get("notice", "")) or None,
            created_at=job.created_at,
            updated_at=job.updated_at,
            files=None if files is None else [FileRecord.of(one) for one in files],
        )


class JobsResult(Result):
    jobs: list[JobRecord]
    count: int = Field(description="Jobs in this answer")
    total: int = Field(description="Jobs in all, in that state")

    @classmethod
    def of(cls, page: JobPage) -> JobsResult:
        return cls(jobs=[JobRecord.of(job) for job in page.jobs], count=len(page.jobs), total=page.total)

    @classmethod
    def of_one(cls, job: Job, files: Sequence[FileOutcome] | None) -> JobsResult:
        return cls(jobs=[JobRecord.of(job, files)], count=1, total=1)
