"""Vectors that are stored already, by the hash of what they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .filters import quoted, where
from .rows import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Table = Any
_ROWS_PER_HASH = 64


def find(table: Table, embed_hashes: Sequence[str], clause: str = "") -> dict[str, Vectors]:
    """The vectors of these hashes in the rows of clause, save those that are no vectors any more."""
    ids = _ids(table, embed_hashes, clause)
    return _read(table, ids) if ids else {}


def sound(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of these are a direction: not zeros, not what is no number, nor of a length far from 1."""
    import numpy as np  # noqa: PLC0415  (not before something is read)

    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(np.linalg.norm(vectors, axis=1) - 1.0) < 0.05


def _ids(table: Table, embed_hashes: Sequence[str], clause: str) -> dict[str, str]:
    """For each hash the id of one row that has it."""
    found: dict[str, str] = {}
    left: list[str] = list(embed_hashes)
    # A line that a thousand documents share has a thousand rows, so there may be more than are read at once.
    while left:
        wanted = f"embed_hash IN ({', '.join(map(quoted, left))})"
        query = table.search().where(" AND ".join(part for part in (where(), clause, wanted) if part))
        rows: list[Row] = query.select(["id", "embed_hash"]).limit(_ROWS_PER_HASH * len(left)).to_list()
        found |= {row["embed_hash"]: row["id"] for row in rows}
        if len(rows) < _ROWS_PER_HASH * len(left):
            break
        left = [key for key in left if key not in found]
    return found


def _read(table: Table, ids: Mapping[str, str]) -> dict[str, Vectors]:
    clause = f"{where()} AND id IN ({', '.join(map(quoted, ids.values()))})"
    rows = table.search().where(clause).select(["embed_hash", "vector"]).limit(len(ids)).to_arrow()
    size = table.schema.field("vector").type.list_size
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(-1, size)
    found = zip(rows["embed_hash"].to_pylist(), vectors, sound(vectors), strict=True)
    # What was replaced between the two looks may be something else by now.
    return {key: vector for key, vector, is_sound in found if is_sound and key in ids}
