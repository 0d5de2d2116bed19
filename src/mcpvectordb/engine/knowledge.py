"""The part of a VectorDB that the engine may see: certain libraries, and nothing else by whatever number.

Synchronous. A document or a job of another library is as unknown here as one that never was.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from mcpvectordb import __version__
from mcpvectordb.checks import tags_of
from mcpvectordb.contract import knowledge
from mcpvectordb.errors import ArgumentError, CallTimeout, DocumentNotFound, JobNotFound, NotANote
from mcpvectordb.models import Document, JobStatus, Mode, Status, document_uuid
from mcpvectordb.vectordb import VectorDB

from . import requests, shapes

# Shorter than the gateway waits, so that its callers get our sentence and not its own.
_CHANGE_S = 40.0


class Knowledge:
    def __init__(self, db: VectorDB, libraries: Sequence[str]) -> None:
        self._db = db
        self._libraries = tuple(libraries)

    def search(self, asked: requests.Search) -> knowledge.SearchResult:
        if asked.fts_only and asked.vec_only:
            raise ArgumentError("fts_only and vec_only exclude each other. Leave both out to use both.")
        mode: Mode = "keyword" if asked.fts_only else "vector" if asked.vec_only else "hybrid"
        found = self._db.search(
            asked.query,
            top_k=asked.top,
            library=self._libraries,
            tags=tags_of(asked.tags) or (),
            mode=mode,
        )
        return knowledge.SearchResult(
            results=[shapes.hit(hit) for hit in found.hits], mode=found.mode, notice=found.notice or None
        )

    def add_note(self, asked: requests.Note) -> knowledge.Job:
        # Always a job, and what was said of a note whose text is known already is stored too.
        task = self._db.begin.note(
            asked.text,
            title=asked.title or "",
            source_path=asked.source_path,
            library=self._libraries[0],
            tags=asked.tags,
            refresh=True,
        )
        return self.job(task.job_id or "")

    def add_upload(self, path: Path, name: str, tags: Sequence[str] | None) -> knowledge.Job:
        """Take the file away from path and index it."""
        task = self._db.begin.upload(path, name, library=self._libraries[0], tags=tags)
        return self.job(task.job_id or "")

    def jobs(self, asked: requests.ListJobs) -> knowledge.Jobs:
        page = self._db.begin.jobs(
            status=asked.status, limit=asked.limit, offset=asked.offset, libraries=self._libraries
        )
        return knowledge.Jobs(jobs=[shapes.job(job) for job in page.jobs], total=page.total)

    def job(self, job_id: str) -> knowledge.Job:
        try:
            found = self._db.job(job_id)
        except JobNotFound:
            found = None
        # Of another library or none at all: the same words for both.
        if found is None or found.library not in self._libraries:
            raise JobNotFound(f"There is no job {job_id[:60]!r}. List them to see those there are.")
        return shapes.job(found)

    def documents(self, asked: requests.ListDocuments) -> knowledge.Documents | knowledge.Matches:
        tags = tags_of(asked.tags) or ()
        if asked.source_path is not None:
            return self._matches(asked.source_path, tags, asked.limit, asked.offset)
        page = self._db.list_documents(
            library=self._libraries, tags=tags, limit=asked.limit, offset=asked.offset
        )
        return knowledge.Documents(
            documents=[shapes.document(document) for document in page.documents], total=page.total
        )

    def _matches(self, source_path: str, tags: Sequence[str], limit: int, offset: int) -> knowledge.Matches:
        # The id follows from library and name, so one is looked up, not searched for.
        known = [self._db.read.find(document_uuid(name, source_path)) for name in self._libraries]
        found = [one for one in known if one is not None and set(tags) <= set(one.tags)]
        found.sort(key=lambda one: one.created_at, reverse=True)
        return knowledge.Matches(
            documents=[self._details(one) for one in found[offset : offset + limit]], total=len(found)
        )

    def document(self, document_id: int) -> knowledge.Details:
        return self._details(self._find(document_id))

    def update_note(self, document_id: int, asked: requests.NoteChange) -> knowledge.Details:
        """Give a note another text. When this returns, it is searchable under the same number."""
        note = self._find(document_id)
        if note.kind != "note":
            raise NotANote(
                f"Only notes can be updated: {note.title!r} is of the kind {note.kind}. Delete it and "
                "upload it anew."
            )
        task = self._db.begin.note(
            asked.text,
            title=self._own_title(note),
            source_path=note.source,
            library=note.library,
            tags=asked.tags,
            refresh=True,
            must_exist=True,
        )
        try:
            done = task.result(_CHANGE_S)
        except DocumentNotFound as exc:
            raise _unknown(document_id) from exc
        except TimeoutError as exc:
            raise CallTimeout(
                f"The note is being indexed still; look at job {task.job_id} with GET /jobs or kb_jobs."
            ) from exc
        return self._details(self._find(document_id), notice=done.notice)

    def delete(self, document_id: int) -> knowledge.Deleted:
        document = self._find(document_id)
        self._db.delete_document(document.doc_id)
        return knowledge.Deleted(status="deleted", document_id=document_id, title=document.title)

    def status(self) -> knowledge.Status:
        found = self._db.status()
        seen = [one for one in found.libraries if one.name in self._libraries] if found else []
        model = None if found is None else found.model
        chunks = sum(one.chunk_count for one in seen)
        counted = self._db.begin.records.counts(self._libraries)
        return knowledge.Status(
            version=__version__,
            model=None
            if model is None
            else {key: model.get(key) for key in ("name", "repository", "precision", "dimensions")},
            device=self._db.models.device(model),
            documents=sum(one.document_count for one in seen),
            chunks=chunks,
            queue={status: counted.get(status, 0) for status in get_args(JobStatus)},
            index={
                "chunks": chunks,
                "chunks_by_words": 0 if found is None else _share(chunks, found, found.unindexed_passages),
                "has_vector_index": found is not None and found.has_vector_index,
                "chunks_by_vectors": 0
                if found is None or not found.has_vector_index
                else _share(chunks, found, found.unindexed_vectors),
            },
            notice=(found.notice or None) if found is not None else None,
        )

    def _find(self, document_id: int) -> Document:
        found = self._db.read.numbered(document_id)
        if found is None or found.library not in self._libraries:
            raise _unknown(document_id)
        return found

    def _details(self, document: Document, *, notice: str = "") -> knowledge.Details:
        document, chunks = self._db.read.whole(document.doc_id)
        return shapes.details(document, chunks, notice=notice)

    def _own_title(self, note: Document) -> str:
        """The title the note was given, for its next version; "" where its text was the title's source."""
        text = self._db.get_document(note.doc_id).content
        lines = {line.strip("# \t") for line in text.splitlines()}
        start = note.title.removesuffix("…")
        is_of_text = note.title in lines or (start != note.title and any(start in line for line in lines))
        return "" if is_of_text else note.title


def _share(chunks: int, found: Status, unindexed: int) -> int:
    """How many of the chunks an index covers: as large a share of them as of the table.

    How many there are in the other libraries is theirs to know, and indexes do not tell libraries apart.
    """
    # Written beside the counting, there may be more to index than was counted before.
    return round(chunks * max(0.0, 1 - unindexed / found.passages)) if found.passages else 0


def _unknown(document_id: int) -> DocumentNotFound:
    return DocumentNotFound(
        f"There is no document {document_id}. Take a document_id from a search or a list."
    )
