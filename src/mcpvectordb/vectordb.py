"""VectorDB: the whole product as one object, and the place where its parts are put together.

Synchronous and safe to use from several threads. Making one opens and loads nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from . import embed
from .checks import check_name, tags_of
from .checkup import Checkup
from .convert import Converter, Limits
from .embed import Download, Embedder, Hub, Model, Models, ModelStatus, Progress
from .errors import ArgumentError, QueryError, Stopped, StoreError
from .ingest import Ingester, Request
from .jobs import FolderOptions, Ingestion, Options, Reading, Task, Wishes
from .models import (
    Deleted,
    Document,
    DocumentPage,
    DocumentText,
    FileOutcome,
    Finding,
    FolderResult,
    Ingested,
    Job,
    JobPage,
    JobStatus,
    Library,
    Mode,
    SearchResult,
    Source,
    Status,
    Transferred,
)
from .reindex import Reindexed, Reindexer
from .search import search
from .settings import Settings
from .store import Store, Sync, check_model, filters, sync
from .wishes import wish
from .work import Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Task", "VectorDB"]

# Clients refuse results over 25,000 tokens; at 2.4 characters a token this is the safe side of that.
LONG_TEXT_CHARS = 60_000
# How far work is said to be when its model has come: how long the rest takes is not known yet.
_DOWNLOAD_SHARE = 0.2


class VectorDB:
    def __init__(
        self,
        settings: Settings,
        *,
        load: Callable[[Model, str], Embedder] | None = None,
        environ: Mapping[str, str] = os.environ,
        sync: Sync = sync,
    ) -> None:
        self.settings = settings
        self._store = Store(settings.home, lock_timeout_s=settings.lock_timeout_s, sync=sync)
        self._stopping = threading.Event()
        # Hugging Face's own variables say where its files are kept; the rest is ours.
        hub = Hub.of(environ, connect_s=settings.hub_connect_s, stall_s=settings.hub_stall_s)
        self.models = Models(hub, wish(settings), load or partial(embed.load, hub=hub), self._checkpoint)
        # One at a time of those that are no job: two at once would only share the same cores.
        self._ingesting = threading.Lock()
        self._converter = Converter(
            Limits(
                timeout_s=settings.convert_timeout_s,
                memory_mb=settings.convert_memory_mb,
                text_mb=settings.max_text_mb,
            )
        )
        self._ingester = Ingester(
            self._store,
            self._converter,
            self._embedder,
            record=self.models.record,
            chunk_tokens=settings.chunk_tokens,
        )
        self.read = self._store.read
        # Makes tasks: `begin.file(path)` and so on. What was begun goes on when nobody waits for it.
        self.begin = Ingestion(
            settings.home,
            self._store,
            self._ingester,
            Reading(
                max_file_mb=settings.max_file_mb,
                url_timeout_s=settings.url_timeout_s,
                url_allowed=settings.url_allowed,
                ignore=settings.ignored,
            ),
            sync=sync,
            noticed=self._noticed,
        )

    def ingest_file(self, path: str, **options: Unpack[Options]) -> Ingested:
        """Index a file, or replace or skip it where it is known already."""
        return self.begin.file(path, **options).result()

    def ingest_url(self, url: str, **options: Unpack[Options]) -> Ingested:
        """Fetch a document and index it, or replace or skip it where it is known already."""
        return self.begin.url(url, **options).result()

    def ingest_text(self, content: str, source: str, **options: Unpack[Options]) -> Ingested:
        """Index a text under a name of its own."""
        return self.begin.text(content, source, **options).result()

    def ingest_source(self, source: Source, **options: Unpack[Wishes]) -> Ingested:
        """Index what has been read already."""
        return self.begin.source(source, **options).result()

    def ingest_folder(self, folder: str, **options: Unpack[FolderOptions]) -> FolderResult:
        """Index every file of a folder that can be read; unchanged ones are not even opened."""
        return self.begin.folder(folder, **options).result()

    def ingest_sources(self, many: Iterable[Source]) -> Iterator[Ingested]:
        """Index many sources, several to a commit; each result comes once its commit is on the disk."""
        with self._ingesting:
            work = Work(checkpoint=self._checkpoint)
            yield from self._ingester.ingest_all((Request(source=source) for source in many), work)

    def search(
        self,
        query: str,
        *,
        top_k: int = 5,
        library: filters.Libraries = None,
        filter: Mapping[str, object] | None = None,
        tags: Sequence[str] = (),
        mode: Mode = "hybrid",
    ) -> SearchResult:
        """The passages that best match query; of one library, of several that are named, or of all."""
        if not query.strip():
            raise QueryError("The query is empty. Ask a question or give some keywords.")
        filters.check_text(query)
        clause = filters.where(library=library, tags=tags, filters=filter)
        if self._store.database() is None:
            return SearchResult(
                hits=(), mode=mode, notice="Nothing has been indexed yet. Ingest a file first."
            )
        before = self._store.database()
        try:
            found = search(self._store, self._embed_query, query, clause=clause, top_k=top_k, mode=mode)
        except (StoreError, QueryError):
            if self._store.database() == before:
                raise
            found = None
        if found is None or self._store.database() != before:
            # Re-indexed meanwhile: a query's vector of the old model says nothing to the new table.
            found = search(self._store, self._embed_query, query, clause=clause, top_k=top_k, mode=mode)
        notice = found.notice
        if not found.hits and isinstance(library, str):
            notice = notice or self._unknown(library)
        return replace(found, notice=self._noticed(notice))

    def list_documents(
        self,
        *,
        library: filters.Libraries = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        offset: int = 0,
    ) -> DocumentPage:
        """A page of the documents, newest first."""
        page = self._store.read.documents(library=library, tags=tags, limit=limit, offset=offset)
        notice = self._unknown(library) if not page.total and isinstance(library, str) else ""
        return replace(page, notice=self._noticed(notice))

    def list_libraries(self) -> tuple[Library, ...]:
        return self._store.read.libraries()

    def get_document(self, doc_id: str, *, offset: int = 0, max_chars: int | None = None) -> DocumentText:
        """A document's text: all of it, or max_chars from offset on."""
        document, text = self._store.read.text(doc_id)
        if offset > len(text):
            raise QueryError(f"The offset {offset} is past the end: the document has {len(text)} characters.")
        content = text[offset:] if max_chars is None else text[offset : offset + max_chars]
        notice = ""
        if len(content) > LONG_TEXT_CHARS:
            notice = f"This text has {len(content)} characters. Read it in parts with offset and max_chars."
        elif offset + len(content) < len(text):
            notice = f"There is more: go on with offset {offset + len(content)} of {len(text)}."
        return DocumentText(
            document=document, content=content, total_chars=len(text), offset=offset, notice=notice
        )

    def delete_document(self, doc_id: str) -> Deleted:
        deleted = self._store.write.delete(doc_id)
        self.begin.stored.remove(doc_id)
        return deleted

    def set_tags(self, doc_id: str, tags: Sequence[str]) -> Document:
        """Give a document these tags in place of those it has; none takes them all away."""
        return self._store.write.set_tags(doc_id, tags_of(tags) or ())

    def list_models(self) -> tuple[ModelStatus, ...]:
        """The models there are, which of them is here, and which one this database uses."""
        return self.models.status(self.database_model())

    def model_notice(self) -> str:
        """What stays to be said of this database's model; "" where there is nothing."""
        return self.models.notice(self.database_model())

    def fetch_model(self, name: str | None = None) -> Download | None:
        """Begin the download of a model: the one this database uses or would use, unless another is named.

        None if it is on this machine already.
        """
        kept = self.database_model()
        if name is None and (kept is not None or self.settings.model != embed.AUTO):
            model = self.models.model(kept)
        else:
            model = self.models.named(embed.AUTO if name is None else name)
        return None if self.models.is_here(model) else self.models.fetch(model)

    def reindex(
        self, name: str, *, on_progress: Callable[[int, int], None] = lambda _done, _total: None
    ) -> Reindexed:
        """Embed every document again with the model named; the old vectors serve until the end.

        on_progress is told how many chunks are done, of how many.
        """
        kept = self.database_model()
        if kept is None:
            raise QueryError("Nothing has been indexed yet, so there is nothing to re-index.")
        embedder = self.models.embedder_of(self.models.named(name))
        model = embedder.model
        old = embed.from_record(kept)
        if old == model:
            self._store.forget_fallback()
            return Reindexed(documents=0, chunks=0)
        with self._ingesting:
            reindexer = Reindexer(
                self._store,
                embedder,
                old,
                chunk_tokens=self.settings.chunk_tokens,
                checkpoint=self._checkpoint,
                on_progress=on_progress,
            )
            return reindexer.run(embed.record(model))

    def jobs(self, *, status: JobStatus | None = None, limit: int = 20, offset: int = 0) -> JobPage:
        """Jobs of this database, whoever runs them, newest first."""
        return self.begin.jobs(status=status, limit=limit, offset=offset)

    def job(self, job_id: str) -> Job:
        return self.begin.job(job_id)

    def job_files(self, job_id: str, *, limit: int = 100) -> list[FileOutcome]:
        """What has become of the files of a folder's job so far, those that failed first."""
        return self.begin.files.outcomes(self.job(job_id).job_id, limit=limit)

    def job_counts(self) -> tuple[dict[str, int], str]:
        """How many jobs are in each state; if that cannot be known, why. The rest of a status can."""
        try:
            return self.begin.records.counts(), ""
        except StoreError as exc:
            return {}, str(exc)

    def cancel_job(self, job_id: str) -> Job:
        """Give a job up: the document in hand stays as it was, a folder keeps what is finished."""
        return self.begin.runner.cancel(job_id)

    def serve_jobs(self) -> None:
        """For programs that stay: take over what others leave behind."""
        self.begin.runner.serve()

    def tidy(self) -> bool:
        """Do the upkeep that there is to do, now; False where another process is at it."""
        return self._store.upkeep.run()

    def catch_up(self, timeout_s: float) -> None:
        """Do the upkeep that is due, for so long; what is cut off by the end of the process harms nothing."""
        self._store.upkeep.catch_up(timeout_s)

    def status(self) -> Status | None:
        """The database in figures, or None where there is none."""
        found = self._store.care.status()
        if found is None:
            return None
        jobs, problem = self.job_counts()
        return replace(found, jobs=jobs, notice=_joined(found.notice, problem))

    def doctor(self, *, fix: bool = False) -> tuple[Finding, ...]:
        """Check everything; with fix, mend what can be mended, and say what that was."""
        return Checkup(self._store, self.begin, self._embed_query).doctor(fix=fix)

    def export_file(self, path: str, *, library: str | None = None) -> Transferred:
        """Write documents with their vectors to a file that another database of the same model can take."""
        return self._store.transfer.export(_local(path), library=library)

    def import_file(self, path: str, *, library: str | None = None) -> Transferred:
        """Store the documents of an exported file. Nothing is embedded anew."""
        if library is not None:
            check_name("library", library)
        return self._store.transfer.import_(_local(path), library=library)

    def stop(self) -> None:
        """Give up running ingests at their next step; nothing of them is written."""
        self._stopping.set()
        self.begin.runner.stop()
        self._converter.stop()
        self.models.stop()

    def give_back(self, timeout_s: float = 5.0) -> bool:
        """After stop: let others take over what is unfinished; False if something has not stopped yet."""
        return self.begin.runner.close(timeout_s)

    def close(self) -> None:
        self.stop()
        self.give_back()
        self.begin.database.close()
        self._store.close()
        self.models.close()

    def __enter__(self) -> VectorDB:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checkpoint(self) -> None:
        if self._stopping.is_set():
            raise Stopped("The server is ending, so nothing was changed. Start it and call again.")

    def downloading(self) -> Progress | None:
        """How far the download of a model is, if one runs in this process."""
        return self.models.progress()

    def database_model(self) -> Mapping[str, object] | None:
        """What the database keeps of its model; None where there is no database yet."""
        database = self._store.database()
        return None if database is None else database.model

    def _embedder(self, work: Work) -> Embedder:
        """For documents: waits until the model is here."""

        def waiting() -> None:
            work.checkpoint()
            if (progress := self.downloading()) is not None:
                work.report(_DOWNLOAD_SHARE * progress.percent / 100, str(progress))

        embedder = self.models.embedder(self.database_model(), waiting)
        self._check_model(embedder.model)
        return embedder

    def _embed_query(self, query: str) -> NDArray[np.float32]:
        """Does not wait: without its model a search answers from keywords."""
        kept = self.database_model()
        if kept is None:
            raise QueryError("Nothing has been indexed yet. Ingest a file first.")
        self._check_model(self.models.model(kept))
        return self.models.embedder_at_once(kept).embed_query(query)

    def _check_model(self, model: Model) -> None:
        database = self._store.database()
        if database is not None:
            check_model(database, {"name": model.name, **model.identity})

    def _noticed(self, notice: str) -> str:
        """A notice with what stays to be said of the database."""
        return _joined(self._store.notice, notice, self.model_notice())

    def _unknown(self, library: str) -> str:
        names = [found.name for found in self._store.read.libraries()]
        if library in names:
            return ""
        there_are = f"The libraries are: {', '.join(names)}." if names else "There are no libraries yet."
        return f"There is no library {library!r}. {there_are}"


def _local(path: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as exc:  # ~somebody who is not known here
        raise ArgumentError(f"The path {path!r} is not valid: {exc}.") from exc


def _joined(*notices: str) -> str:
    return " ".join(notice for notice in notices if notice)
