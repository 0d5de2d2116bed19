"""Embed every stored document again with another model, from its stored text, without its source.

A document keeps its chunks where they were cut as an ingest cuts them and the new model can read them whole;
otherwise its text is cut anew for the new model. The old vectors serve until all is done.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from . import chunk
from .embed import Embedder, Model, embed_hash
from .errors import DocumentNotFound
from .ingest import embed_in_steps, limits_for
from .models import Chunk, Converted, Document, PageMark
from .store import Difference, Entry, Store
from .work import Work

logger = logging.getLogger(__name__)

# A commit to the second table: see ingest.py.
_GROUP_DOCUMENTS = 64
_GROUP_CHUNKS = 2000
# So much may be left to do under the write lock, while other writers wait: a second or two.
_FEW_DOCUMENTS = 4
_FEW_CHUNKS = 32
# After so many rounds the rest is done under the lock, or writers without end would keep it from ending.
_MOST_ROUNDS = 10
_FOLDERS = re.compile(r".*[\\/]", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reindexed:
    documents: int
    chunks: int


class Reindexer:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        old: Model | None,
        *,
        chunk_tokens: int,
        checkpoint: Callable[[], None],
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._embedder = embedder
        self._table = store.second_table()
        self._checkpoint = checkpoint
        self._on_progress = on_progress
        self._new_limits = limits_for(embedder, chunk_tokens)
        # Cut by the old model's limits the chunks come out as they are stored, if its tokens were the same.
        self._old_limits = old and chunk.Limits(
            tokens=min(chunk_tokens, old.max_tokens),
            reserved=embedder.special_tokens + embedder.count_tokens(old.document_prefix),
        )
        self._done = 0
        self._chunks = 0
        self._total = 0

    def run(self, record: Mapping[str, object]) -> Reindexed:
        """Fill a second table and make it the live one; record is what the database keeps of the model."""
        with self._table.opened(record):
            self._bring(self._table.difference())
            for _ in range(_MOST_ROUNDS):
                while not _is_small(left := self._table.difference()):
                    self._bring(left)
                if self._table.finish(self._bring, _is_small):
                    break
            else:
                self._table.finish(self._bring, lambda _: True)
        return Reindexed(documents=self._done, chunks=self._chunks)

    def _bring(self, left: Difference) -> None:
        """Bring over what is different. Documents deleted meanwhile are found gone at the next look."""
        self._total += sum(document.chunk_count for document in left.missing)
        self._table.write((), left.gone)
        for group in _grouped(self._entries(left.missing)):
            self._table.write(group)

    def _entries(self, documents: Sequence[Document]) -> Iterator[Entry]:
        for listed in documents:
            self._checkpoint()
            try:
                document, chunks = self._table.chunks(listed.doc_id)
            except DocumentNotFound:
                logger.info("%s was deleted meanwhile", listed.doc_id)
                continue
            yield self._entry(document, chunks)
            self._done += 1
            self._chunks += len(chunks)
            self._on_progress(self._chunks, max(self._total, self._chunks))

    def _entry(self, document: Document, stored: Sequence[Chunk]) -> Entry:
        chunks = self._kept(document, stored) or self._cut_anew(document, stored)
        texts = [piece.embedded for piece in chunks]
        return Entry(
            document=replace(document, chunk_count=len(chunks)),
            chunks=chunks,
            embed_hashes=[embed_hash(self._embedder.model, text) for text in texts],
            vectors=embed_in_steps(self._embedder, texts, Work(checkpoint=self._checkpoint)),
        )

    def _kept(self, document: Document, stored: Sequence[Chunk]) -> list[Chunk] | None:
        """The stored chunks with the context that an ingest gives them; None if they cannot stay."""
        if self._old_limits is None:
            return None
        for is_markdown in (True, False):
            made = self._split(document, stored, self._old_limits, is_markdown)
            if [_cut(piece) for piece in made] != [_cut(piece) for piece in stored]:
                continue
            if not all(self._fits(piece) for piece in made):
                return None
            return [replace(kept, context=piece.context) for kept, piece in zip(stored, made, strict=True)]
        return None

    def _cut_anew(self, document: Document, stored: Sequence[Chunk]) -> list[Chunk]:
        # Headings are known of Markdown only; without any, nothing is lost by reading it as plain text.
        is_markdown = any(piece.headings for piece in stored)
        return self._split(document, stored, self._new_limits, is_markdown)

    def _split(
        self, document: Document, stored: Sequence[Chunk], limits: chunk.Limits, is_markdown: bool
    ) -> list[Chunk]:
        # A title that is the file's name was put there for want of a better one, and is not embedded.
        name = _FOLDERS.sub("", document.source)
        is_named = document.title != name and not document.title.startswith(f"{name}.")
        converted = Converted(
            text="".join(piece.content for piece in stored),
            title=document.title if is_named else "",
            file_type=document.file_type,
            is_markdown=is_markdown,
            pages=tuple(_marks(stored)),
        )
        return chunk.split(converted, limits, self._embedder.count_tokens)

    def _fits(self, piece: Chunk) -> bool:
        limits, model = self._new_limits, self._embedder.model
        return limits.reserved + self._embedder.count_tokens(piece.embedded) <= model.max_tokens


def _cut(piece: Chunk) -> tuple[int, int, tuple[str, ...]]:
    return piece.start, piece.end, piece.headings


def _is_small(left: Difference) -> bool:
    chunks = sum(document.chunk_count for document in left.missing)
    return len(left.missing) <= _FEW_DOCUMENTS and chunks <= _FEW_CHUNKS


def _marks(stored: Sequence[Chunk]) -> Iterator[PageMark]:
    """The pages as far as they are known: where a chunk begins, and where one ends that goes on to another.

    Exact for chunks cut where they were; for others a page may begin a chunk's length late.
    """
    for piece in stored:
        content = piece.content
        if piece.page:
            yield PageMark(offset=piece.start + len(content) - len(content.lstrip()), page=piece.page)
        if piece.page_end > piece.page:
            yield PageMark(offset=piece.start + len(content.rstrip()) - 1, page=piece.page_end)


def _grouped(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    group: list[Entry] = []
    for entry in entries:
        group.append(entry)
        if len(group) >= _GROUP_DOCUMENTS or sum(len(each.chunks) for each in group) >= _GROUP_CHUNKS:
            yield group
            group = []
    if group:
        yield group
