"""A query becomes hits: two legs side by side, fused, the winners read once.

A leg that fails is said in the answer, never hidden: a broken index looks like "nothing found" otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from . import rank
from .errors import ModelOnTheWay, VectorDBError
from .models import Hit, Mode, SearchResult
from .store import Leg, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

# Fusing needs to see deeper than it answers: a passage at rank 40 of both legs beats many a rank 5 of one.
_LEAST_DEPTH = 100


def search(
    store: Store,
    embed_query: Callable[[str], NDArray[np.float32]],
    query: str,
    *,
    clause: str,
    top_k: int,
    mode: Mode,
) -> SearchResult:
    """The top_k passages for query among the rows that clause admits."""
    depth = max(_LEAST_DEPTH, 2 * top_k)

    def keyword() -> Leg:
        return store.read.keyword_leg(query, clause, depth)

    def vector() -> Leg:
        return store.read.vector_leg(embed_query(query), clause, depth)

    if mode == "keyword":
        keyword_leg, vector_leg, notice = keyword(), None, ""
    elif mode == "vector":
        keyword_leg, vector_leg, notice = None, vector(), ""
    else:
        keyword_leg, vector_leg, notice = _both(keyword, vector)

    legs = [leg for leg in (vector_leg, keyword_leg) if leg is not None]
    served: Mode = "hybrid" if len(legs) == 2 else "keyword" if keyword_leg is not None else "vector"
    says = {key: embed_hash for leg in legs for key, embed_hash in leg.embed_hashes.items()}
    # Equal scores go to the leg named first; by meaning is the better guess.
    parts = [_by_order(vector_leg)] if vector_leg is not None else []
    parts += [_by_share(keyword_leg)] if keyword_leg is not None else []
    chosen = rank.choose(rank.fuse(parts, says, depth=depth), says, top_k)
    passages = store.read.passages([key for key, _ in chosen])
    hits = tuple(
        Hit(
            document=passages[key][0],
            chunk=passages[key][1],
            score=score,
            keyword_score=keyword_leg.scores.get(key) if keyword_leg else None,
            vector_score=vector_leg.scores.get(key) if vector_leg else None,
        )
        for key, score in chosen
        if key in passages  # a document may have been replaced since the legs ran
    )
    return SearchResult(hits=hits, mode=served, notice=notice)


def _by_order(leg: Leg) -> dict[str, float]:
    """Cosines lie close together, whatever they are of: only their order says something."""
    return dict.fromkeys(leg.ids, 1.0)


def _by_share(leg: Leg) -> dict[str, float]:
    """The passage that has the one rare word of a query stands far above the next in BM25.

    By places alone it would lose to what both legs find middling.
    """
    best = leg.scores[leg.ids[0]] if leg.ids else 0.0
    return {key: leg.scores[key] / best if best > 0 else 1.0 for key in leg.ids}


def _both(keyword: Callable[[], Leg], vector: Callable[[], Leg]) -> tuple[Leg | None, Leg | None, str]:
    """Both legs at once; if one fails the other serves, with a notice. If both do, that is an error."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="keyword-leg") as pool:
        running = pool.submit(keyword)
        vector_leg, vector_error = _attempt(vector)
        keyword_leg, keyword_error = _attempt(running.result)
    if keyword_error and vector_error:
        raise keyword_error
    if vector_error:
        if isinstance(vector_error, ModelOnTheWay):
            return keyword_leg, None, f"Found by keywords only, until the model is here. {vector_error}"
        logger.warning("the vector leg failed: %s", vector_error)
        return (
            keyword_leg,
            None,
            f"Found by keywords only, because the search by meaning failed: {vector_error}",
        )
    if keyword_error:
        logger.warning("the keyword leg failed: %s", keyword_error)
        return None, vector_leg, f"Found by meaning only, because the keyword search failed: {keyword_error}"
    return keyword_leg, vector_leg, ""


def _attempt(leg: Callable[[], Leg]) -> tuple[Leg | None, VectorDBError | None]:
    try:
        return leg(), None
    except VectorDBError as exc:
        return None, exc
