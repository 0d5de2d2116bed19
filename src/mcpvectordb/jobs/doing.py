"""What a job does when its turn has come, from its record alone: another process may have made it.

Also what is kept of its result, and how that is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from mcpvectordb import sources
from mcpvectordb.errors import DocumentNotFound, SourceNotFound
from mcpvectordb.ingest import Ingester, Request
from mcpvectordb.models import FolderResult, Ingested, Job, Kind, Metadata, Source
from mcpvectordb.store import Store
from mcpvectordb.stored import StoredFiles
from mcpvectordb.work import Work

from .keep import Keep
from .walking import Walking

# What a source is besides its bytes, its name and its library.
_DESCRIPTION = ("file_name", "title", "fallback_title", "last_modified", "etag", "charset")


class Doer:
    """Documents. Folders are made of them: see walking.py."""

    def __init__(
        self,
        ingester: Ingester,
        store: Store,
        keep: Keep,
        walking: Walking,
        stored: StoredFiles,
        *,
        max_file_mb: int,
        noticed: Callable[[str], str],
    ) -> None:
        self._ingester = ingester
        self._store = store
        self._keep = keep
        self._walking = walking
        self._stored = stored
        self._max_file_mb = max_file_mb
        self._noticed = noticed

    def do(self, job: Job, work: Work, source: Source | None) -> Ingested | FolderResult:
        """source is what the job is about, where this process still holds it."""
        if job.kind == "folder":
            result = self._walking.do(job, work)
            return replace(result, notice=self._noticed(result.notice))
        source = source or self._source(job)
        request = request_of(job.request, source)
        if job.kind == "upload":
            done = self._upload(job.job_id, request, work)
        else:
            done = self._ingester.ingest(request, work)
            if done.status == "replaced":
                self._stored.remove(done.document.doc_id)  # of an upload that had this name before
        return replace(done, notice=self._noticed(done.notice))

    def _upload(self, job_id: str, request: Request, work: Work) -> Ingested:
        """The file is there before its document's row, and goes if there is to be none."""
        source, content = request.source, self._keep.payload(job_id)

        def keep() -> str:
            return self._stored.keep(source.doc_id, source.file_name, content)

        try:
            request = replace(request, source=replace(source, stored_path=keep()))
            done = self._ingester.ingest(request, work)
            tags = request.tags
            if done.status == "skipped" and tags is not None and tags != done.document.tags:
                # Sent again with other tags, which whoever sent it means.
                document = self._store.write.set_tags(done.document.doc_id, tags)
                done = replace(done, document=document, notice="")
        except BaseException:
            self._stored.remove(source.doc_id)
            raise
        if not self._stored.has(done.document.stored_path):
            keep()  # whoever deleted the older version has taken the file with it
        return done

    def kept(self, result: Ingested | FolderResult) -> Mapping[str, object]:
        if isinstance(result, FolderResult):
            return {
                "unchanged": result.unchanged,
                "ignored": dict(result.ignored),
                "notice": result.notice,
                **{status: result.count(status) for status in ("indexed", "replaced", "skipped", "failed")},
            }
        document = result.document
        return {
            "outcome": result.status,
            "document_id": document.document_id,
            "title": document.title,
            "chunk_count": document.chunk_count,
            "notice": result.notice,
        }

    def found(self, job: Job) -> Ingested | FolderResult:
        """The result of a job that another process has done."""
        if job.kind == "folder":
            return self._walking.found(job)
        document = self._store.read.find(job.doc_id)
        if document is None:
            raise DocumentNotFound(f"{job.source} was indexed and has been deleted since. Ingest it again.")
        status = cast("Any", job.result["outcome"])
        return Ingested(status=status, document=document, notice=str(job.result.get("notice", "")))

    def _source(self, job: Job) -> Source:
        if job.kind == "file":
            return sources.read_file(job.source, library=job.library, max_file_mb=self._max_file_mb)
        try:
            data = self._keep.payload(job.job_id).read_bytes()
        except FileNotFoundError as exc:
            raise SourceNotFound(f"What was kept of {job.source} is gone. Ingest it again.") from exc
        described = cast("dict[str, Any]", job.request["source"])
        kind = cast("Kind", job.kind)
        return Source(name=job.source, library=job.library, kind=kind, data=data, **described)


def described(source: Source) -> dict[str, object]:
    """What a job has to keep of a source besides its bytes."""
    return {name: getattr(source, name) for name in _DESCRIPTION}


def record_of(request: Request) -> dict[str, object]:
    """What a caller said of documents, for a job to keep."""
    return {
        "metadata": None if request.metadata is None else dict(request.metadata),
        "tags": None if request.tags is None else list(request.tags),
        "refresh": request.refresh,
        "must_exist": request.must_exist,
    }


def request_of(record: Mapping[str, object], source: Source) -> Request:
    tags = cast("Sequence[str] | None", record["tags"])
    return Request(
        source=source,
        metadata=cast("Metadata | None", record["metadata"]),
        tags=None if tags is None else tuple(tags),
        refresh=bool(record["refresh"]),
        must_exist=bool(record.get("must_exist")),  # jobs of older programs do not say
    )
