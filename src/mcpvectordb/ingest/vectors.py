"""Where the vectors of passages come from: made before, if at all possible; embedded, if not.

A vector is known by its embed_hash, which names the model and the exact text. It may stand in the spool of a
job that was interrupted, in the old version of the document, in another document, or in this one once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from mcpvectordb.embed import Embedder
from mcpvectordb.store import Store
from mcpvectordb.work import Work

from .drafts import Draft

if TYPE_CHECKING:
    from mcpvectordb.embed import Vectors

# Between two runs of the model with so many texts the work can be given up, and what was made is kept.
EMBED_STEP = 32
# So many passages are looked up at once.
_LOOK_UP = 512
# Vectors that may not be in the store yet, because their commit is still to come.
_MOST_RECENT = 4096

_Places = dict[str, list[tuple[Draft, int]]]


class VectorSource:
    """Made for one run of ingests, which ends with their commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: dict[str, Vectors] = {}

    def complete(
        self,
        drafts: Sequence[Draft],
        embedder: Embedder,
        work: Work,
        report: Callable[[Draft, int], None] = lambda _draft, _position: None,
        step: int = EMBED_STEP,
    ) -> None:
        """Give all passages of the drafts their vectors; several small documents share a run of the model.

        report is told which passage of which draft comes next.
        """
        replaced = [draft.document.doc_id for draft in drafts if draft.known is not None]
        places = ((draft, position) for draft in drafts for position in range(len(draft.passages)))
        while portion := list(islice(places, _LOOK_UP)):
            work.checkpoint()
            wanted = _wanted(portion)
            self._keep({key: self._recent[key] for key in wanted if key in self._recent}, wanted)
            if wanted:
                self._keep(self._store.read.vectors(list(wanted), replaced), wanted)
            missing = list(wanted)
            for start in range(0, len(missing), step):
                work.checkpoint()
                work.give_way()
                report(*wanted[missing[start]][0])
                part = missing[start : start + step]
                made = embedder.embed_documents([_text(*wanted[key][0]) for key in part])
                self._keep(dict(zip(part, made, strict=True)), wanted)

    def _keep(self, found: Mapping[str, Vectors], wanted: _Places) -> None:
        """Put vectors into the spools of those who want them, who then no longer do."""
        for key, vector in found.items():
            self._recent[key] = vector
            for draft in {id(draft): draft for draft, _ in wanted.pop(key)}.values():
                draft.spool.add(key, vector)
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]


def _wanted(places: Iterable[tuple[Draft, int]]) -> _Places:
    """The hashes that have no vector yet, with where they stand."""
    wanted: _Places = {}
    for draft, position in places:
        key = draft.hashes[position]
        if key not in draft.spool:
            wanted.setdefault(key, []).append((draft, position))
    return wanted


def _text(draft: Draft, position: int) -> str:
    return draft.passages[position].embedded
