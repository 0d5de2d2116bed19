"""Many documents at once: reading, cutting, embedding and writing each go on while the others do.

Three threads hand the documents on to the one that asks for the results, which writes. What a file does
wrong is its own result; what the model or the store does wrong ends the run, as it would befall every file.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mcpvectordb.embed import Embedder
from mcpvectordb.errors import EmbeddingError, Stopped, StoreError, VectorDBError
from mcpvectordb.models import Converted, Document, Ingested
from mcpvectordb.work import Work

from .drafts import Draft, Request
from .lane import Closed, Lane
from .vectors import VectorSource

logger = logging.getLogger(__name__)

K = TypeVar("K")

# A commit: large enough that commits are few, small enough that little waits for its answer.
GROUP_DOCUMENTS = 64
GROUP_CHUNKS = 2000
_GROUP_S = 2.0
# What may wait between two stages, in bytes of the sources and in passages.
_MOST_BYTES = 16 * 1024 * 1024
_LEAST_SIZE = 64 * 1024  # a file weighs so much at the least
_MOST_PASSAGES = 1000
# Small documents share a run of the model with those that are ready, up to so many passages.
_TOGETHER = 64
_EMBED_STEP = 64


@dataclass(slots=True)
class Item(Generic[K]):
    """A file on its way; it carries what its last stage has made of it."""

    key: K
    request: Request | None = None
    known: Document | None = None
    converted: Converted | None = None
    draft: Draft | None = None
    outcome: Ingested | VectorDBError | None = None  # it needs no more work

    @property
    def size(self) -> int:
        return len(self.request.source.data) if self.request and self.outcome is None else 0

    @property
    def passages(self) -> int:
        return self.draft.document.chunk_count if self.draft else 1


class Stages(Protocol):
    """What is done with one document; the one who ingests does it."""

    def look_up(self, request: Request) -> tuple[Document | None, Ingested | None]:
        """The version that is stored, and the result if there is nothing to do."""
        ...

    def convert(self, request: Request, work: Work) -> Converted: ...

    def cut(self, request: Request, known: Document | None, converted: Converted, work: Work) -> Draft: ...

    def embedder(self, work: Work) -> Embedder: ...

    def write(
        self, waiting: Sequence[Draft | Ingested], vectors: VectorSource, work: Work
    ) -> Iterator[Ingested]: ...


class Run(Generic[K]):
    def __init__(self, stages: Stages, vectors: VectorSource, work: Work) -> None:
        self._stages = stages
        self._vectors = vectors
        self._outer = work
        self._work = Work(
            checkpoint=lambda: self._ask(work.checkpoint),
            give_way=lambda: self._ask(work.give_way),
            spool=work.spool,
        )
        self._failure: BaseException | None = None
        self._ending = threading.Event()
        self._written: set[str] = set()
        self._read: Lane[Item[K]] = Lane(_MOST_BYTES, lambda item: item.size + _LEAST_SIZE)
        self._cut: Lane[Item[K]] = Lane(_MOST_PASSAGES, lambda item: item.passages)
        self._embedded: Lane[Item[K]] = Lane(GROUP_CHUNKS, lambda item: item.passages)

    def results(
        self, makers: Iterable[tuple[K, Callable[[], Request]]]
    ) -> Generator[tuple[K, Ingested | VectorDBError]]:
        stages = (
            (self._reading, self._read, makers),
            (self._cutting, self._cut, None),
            (self._embedding, self._embedded, None),
        )
        threads = [
            threading.Thread(target=self._stage, args=stage, name="ingest", daemon=True) for stage in stages
        ]
        for thread in threads:
            thread.start()
        try:
            for group in self._groups():
                yield from self._write(group)
            if self._failure is not None:
                raise self._failure
        finally:
            self._end()
            for thread in threads:
                thread.join()

    def _ask(self, outer: Callable[[], None]) -> None:
        """Every stage asks: if one is told to give up, all do."""
        if self._ending.is_set():
            raise Closed
        try:
            outer()
        except BaseException as exc:
            self._fail(exc)
            raise Closed from exc

    def _fail(self, exc: BaseException) -> None:
        if self._failure is None:
            self._failure = exc
        self._end()

    def _end(self) -> None:
        self._ending.set()
        for lane in (self._read, self._cut, self._embedded):
            lane.close()

    def _stage(self, work: Callable[..., None], into: Lane[Item[K]], makers: object) -> None:
        try:
            work(makers) if makers is not None else work()
            into.end()
        except Closed:
            pass
        except BaseException as exc:  # noqa: BLE001  (raised by the thread that asks for the results)
            self._fail(exc)

    def _reading(self, makers: Iterable[tuple[K, Callable[[], Request]]]) -> None:
        for key, make in makers:
            self._work.checkpoint()
            item: Item[K] = Item(key)
            with self._own_fault(item):
                item.request = make()
                item.known, item.outcome = self._stages.look_up(item.request)
                if item.outcome is None:
                    item.converted = self._stages.convert(item.request, self._work)
            self._read.put(item)

    def _cutting(self) -> None:
        while (item := self._read.take()) is not None:
            self._work.checkpoint()
            if item.outcome is None and item.request and item.converted:
                with self._own_fault(item):
                    item.draft = self._stages.cut(item.request, item.known, item.converted, self._work)
                item.converted = None
            self._cut.put(item)

    def _embedding(self) -> None:
        while (first := self._cut.take()) is not None:
            together = [first]
            while sum(item.passages for item in together) < _TOGETHER and (more := self._cut.take(0)):
                together.append(more)
            drafts = [item.draft for item in together if item.draft is not None]
            if drafts:
                embedder = self._stages.embedder(self._work)
                self._vectors.complete(drafts, embedder, self._work, step=_EMBED_STEP)
            for item in together:
                self._embedded.put(item)

    def _groups(self) -> Iterator[list[Item[K]]]:
        """What is written together. Nothing waits for long, and no document is twice in one commit."""
        group: list[Item[K]] = []
        doc_ids: set[str] = set()
        passages, due = 0, 0.0
        while True:
            try:
                item = self._embedded.take(max(due - time.monotonic(), 0.0) if group else None)
            except Closed:
                return  # what was given up is not written
            draft = item.draft if item else None
            is_full = len(doc_ids) >= GROUP_DOCUMENTS or passages >= GROUP_CHUNKS
            is_twice = draft is not None and draft.document.doc_id in doc_ids
            if group and (item is None or is_full or is_twice):
                yield group
                group, doc_ids, passages = [], set[str](), 0
            if item is None:
                if self._embedded.is_over:
                    return
                continue
            if draft is not None and draft.document.doc_id in self._written:
                # The same document once more in this run: only now can it be known to be the same.
                draft = self._again(item)
            if not group:
                due = time.monotonic() + _GROUP_S
            group.append(item)
            if draft is not None:
                doc_ids.add(draft.document.doc_id)
                passages += draft.document.chunk_count
            elif not doc_ids:
                due = 0.0  # what is not written waits for nothing

    def _again(self, item: Item[K]) -> Draft | None:
        if item.request is not None:
            item.outcome = self._stages.look_up(item.request)[1]
        if item.outcome is not None and item.draft is not None:
            item.draft.spool.remove()
            item.draft = None
        return item.draft

    def _write(self, group: Sequence[Item[K]]) -> Iterator[tuple[K, Ingested | VectorDBError]]:
        drafts = [item.draft for item in group if item.draft is not None]
        done = list(self._stages.write(drafts, self._vectors, self._outer))
        self._written.update(draft.document.doc_id for draft in drafts)
        results = iter(done)
        for item in group:
            yield item.key, item.outcome if item.outcome is not None else next(results)

    @contextmanager
    def _own_fault(self, item: Item[K]) -> Generator[None]:
        """What goes wrong here is the result of this file, unless it would go wrong with every other too."""
        try:
            yield
        except (Closed, Stopped, EmbeddingError, StoreError):
            raise
        except Exception as exc:
            if self._ending.is_set():
                raise
            if not isinstance(exc, VectorDBError):
                logger.exception("a file could not be read")
                exc = VectorDBError("It could not be read because of an internal error; the log says more.")
            item.outcome = exc
