"""Documents one after another, several to a commit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from mcpvectordb.convert import Converter
from mcpvectordb.embed import Embedder, Model
from mcpvectordb.errors import EmbedderMismatch, VectorDBError
from mcpvectordb.models import Converted, Document, Ingested
from mcpvectordb.store import Store
from mcpvectordb.work import Work

from .bulk import GROUP_CHUNKS, GROUP_DOCUMENTS, Run
from .drafts import Draft, Request, draft_of, limits_for
from .vectors import EMBED_STEP, VectorSource

if TYPE_CHECKING:
    from mcpvectordb.embed import Vectors

KeyT = TypeVar("KeyT")

# Of a document's time: converting and cutting, and everything before it is written.
_CUT, _EMBEDDED = 0.05, 0.95


class Ingester:
    def __init__(
        self,
        store: Store,
        converter: Converter,
        embedder: Callable[[Work], Embedder],
        *,
        record: Callable[[Model], Mapping[str, object]],
        chunk_tokens: int,
    ) -> None:
        self._store = store
        self._converter = converter
        self._embedder = embedder
        self._record = record
        self._chunk_tokens = chunk_tokens

    def ingest(self, request: Request, work: Work = Work()) -> Ingested:  # noqa: B008  (frozen)
        (result,) = self.ingest_all([request], work)
        return result

    def ingest_many(
        self, wanted: Iterable[tuple[KeyT, Callable[[], Request]]], work: Work
    ) -> Generator[tuple[KeyT, Ingested | VectorDBError]]:
        """Ingest what each of these makes, its stages side by side; the error of a file is its result.

        Each result comes after its commit, in the order asked. The makers are called in another thread.
        """
        return Run[KeyT](self, VectorSource(self._store), work).results(wanted)

    def ingest_all(
        self,
        requests: Iterable[Request],
        work: Work = Work(),  # noqa: B008  (frozen)
    ) -> Iterator[Ingested]:
        """Ingest many, several documents to a commit; each result is given after its commit."""
        vectors = VectorSource(self._store)
        waiting: list[Draft | Ingested] = []  # in the order asked, so skipped ones wait too
        try:
            for request in requests:
                # The same document twice in one group would be two versions in one commit, and the second
                # could not be known to be the same as the first.
                if request.source.doc_id in _documents(waiting):
                    yield from self.write(waiting, vectors, work)
                    waiting = []
                known, unchanged = self.look_up(request)
                waiting.append(unchanged or self._prepare(request, known, vectors, work))
                chunks = _documents(waiting).values()
                if not chunks or len(chunks) >= GROUP_DOCUMENTS or sum(chunks) >= GROUP_CHUNKS:
                    yield from self.write(waiting, vectors, work)
                    waiting = []
            yield from self.write(waiting, vectors, work)
            waiting = []
        finally:
            for item in waiting:
                if isinstance(item, Draft):
                    item.spool.close()

    def unchanged(self, request: Request) -> Ingested | None:
        """The result of a request for which nothing has to be done."""
        return self.look_up(request)[1]

    def look_up(self, request: Request) -> tuple[Document | None, Ingested | None]:
        """The version that is stored, and the result of a request for which nothing has to be done."""
        known = self._store.read.find(request.source.doc_id)
        if known is None or known.content_hash != request.source.content_hash or request.refresh:
            return known, None
        return known, Ingested(status="skipped", document=known, notice=_differs(known, request))

    def convert(self, request: Request, work: Work) -> Converted:
        work.checkpoint()
        return self._converter.convert(request.source, work.checkpoint)

    def cut(self, request: Request, known: Document | None, converted: Converted, work: Work) -> Draft:
        embedder = self._embedder(work)
        return draft_of(request, known, converted, embedder, limits_for(embedder, self._chunk_tokens), work)

    def embedder(self, work: Work) -> Embedder:
        return self._embedder(work)

    def _prepare(self, request: Request, known: Document | None, vectors: VectorSource, work: Work) -> Draft:
        work.report(0.0, "reading the text")
        draft = self.cut(request, known, self.convert(request, work), work)
        total = draft.document.chunk_count

        def report(_: Draft, position: int) -> None:
            share = _CUT + (_EMBEDDED - _CUT) * position / total
            work.report(share, f"embedding {position} of {total} passages")

        try:
            vectors.complete([draft], self._embedder(work), work, report)
        except BaseException:
            draft.spool.close()
            raise
        work.report(_EMBEDDED, f"writing {total} passages")
        return draft

    def _replace(self, waiting: Sequence[Draft | Ingested], work: Work) -> list[bool]:
        drafts = [item for item in waiting if isinstance(item, Draft)]
        if not drafts:
            return []
        work.checkpoint()
        # The model the vectors were made with, not the one of this moment: the store tells them apart.
        model = self._record(_model_of(drafts))
        return self._store.write.replace([draft.entry() for draft in drafts], model)

    def write(
        self, waiting: Sequence[Draft | Ingested], vectors: VectorSource, work: Work
    ) -> Iterator[Ingested]:
        try:
            replaced = self._replace(waiting, work)
        except EmbedderMismatch:
            model = self._embedder(work).model
            if all(item.model == model for item in waiting if isinstance(item, Draft)):
                raise
            # Another process has made the database, or re-indexed it, while this one was embedding.
            waiting = [
                self._prepare(item.request, item.known, vectors, work) if isinstance(item, Draft) else item
                for item in waiting
            ]
            replaced = self._replace(waiting, work)
        was_there = iter(replaced)
        for item in waiting:
            if isinstance(item, Ingested):
                yield item
            else:
                item.spool.remove()
                status = "replaced" if next(was_there) else "indexed"
                yield Ingested(status=status, document=item.document, notice=item.notice)


def embed_in_steps(embedder: Embedder, texts: Sequence[str], work: Work) -> Vectors:
    """The vectors of texts; between two steps the work may be given up."""
    import numpy as np  # noqa: PLC0415  (not before something is embedded)

    parts: list[Vectors] = []
    for start in range(0, len(texts), EMBED_STEP):
        work.checkpoint()
        parts.append(embedder.embed_documents(texts[start : start + EMBED_STEP]))
    return np.concatenate(parts)


def _model_of(drafts: Sequence[Draft]) -> Model:
    """The one model of all these vectors."""
    first = drafts[0].model
    if any(draft.model != first for draft in drafts):
        raise EmbedderMismatch("The database was re-indexed to another model meanwhile. Call again.")
    return first


def _documents(waiting: Iterable[Draft | Ingested]) -> dict[str, int]:
    """The documents that wait to be written, with the number of their chunks."""
    drafts = [item.document for item in waiting if isinstance(item, Draft)]
    return {document.doc_id: document.chunk_count for document in drafts}


def _differs(known: Document, request: Request) -> str:
    """What a skipped call asked for and did not get."""
    asked = [
        name
        for name, differs in (
            ("metadata", request.metadata is not None and dict(request.metadata) != dict(known.metadata)),
            ("tags", request.tags is not None and set(request.tags) != set(known.tags)),
        )
        if differs
    ]
    if not asked:
        return ""
    return (
        f"The content is unchanged, so the new {' and '.join(asked)} were not stored. "
        "Call again with refresh: true to store them."
    )
