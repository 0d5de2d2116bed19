"""The indexes: which there are, which are missing or damaged, and making them.

A row that no index covers is read by every query instead, so indexes change speed, and for words the way
they are matched, but lose nothing.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from . import recovery, terms

Table = Any
COLUMNS = (
    "search_text",
    "exact_text",
    "id",
    "doc_id",
    "document_id",
    "source",
    "library",
    "file_type",
    "tags",
    "metadata_terms",
    "embed_hash",
)
_OF_WORDS = ("search_text", "exact_text")
# Without these no search is slower: they are for who writes.
FOR_WRITING = ("embed_hash",)
VECTOR = "vector"
# An exact search reads every vector. So many numbers take it some tens of milliseconds: 20,000 passages with
# MiniLM's 384 dimensions, 10,000 with nomic's 768.
SLOW_VALUES = 8_000_000
# Past this many times that, the index is not about to be made, it is missing.
_LATE = 2
# Measured on 32,000 MiniLM vectors and on 194,000 made of them: recall@10 1.000 in 19 ms, where exact takes
# 485 ms, and smaller partitions or one bit a dimension (IVF_RQ) give .98 in no less.
NPROBES = 20
REFINE = 2


def absent(table: Table) -> list[str]:
    """The columns that have no index yet. One on an empty table finds nothing later, so first come rows."""
    have = _columns(table)
    return [column for column in COLUMNS if column not in have]


def make(table: Table, column: str) -> None:
    """Make the index of a column, unless another thread or process has made it since somebody looked."""
    if column in _columns(table):
        return
    if column == VECTOR:
        make_vector_index(table)
    else:
        table.create_index(column, config=_configs()[column])


def missing(table: Table, slow_values: int) -> tuple[str, ...]:
    """The columns that should have an index by now and have none."""
    have = _columns(table)
    late = not have & {VECTOR} and _values(table) > _LATE * slow_values
    return (*absent(table), *((VECTOR,) if late else ()))


def has_vector_index(table: Table) -> bool:
    return VECTOR in _columns(table)


def wants_vector_index(table: Table, slow_values: int) -> bool:
    """Whether the table has grown so large that an exact search is slow, and has no index for it yet."""
    return not has_vector_index(table) and _values(table) > slow_values


def make_vector_index(table: Table) -> None:
    from lancedb.index import IvfSq  # noqa: PLC0415  (see connection.py)

    table.create_index(VECTOR, config=IvfSq(distance_type="cosine"))


def nearest(query: Any) -> Any:
    """The query with what this index needs for a recall of .95 and more. Without a limit on the partitions, a
    filter that leaves few rows in the nearest ones goes on to others."""
    return query.maximum_nprobes(0).minimum_nprobes(NPROBES).refine_factor(REFINE)


def damaged(table: Table, table_folder: Path) -> list[str]:
    """The indexes whose files are missing, shorter than they were, or not written to their end.

    The engine would tell only when a query needs that part of the file, and then fail.
    """
    try:
        with recovery.engine_panics():
            listed = table.list_indices()
    except RuntimeError as exc:
        if not recovery.is_panic(exc):
            raise
        # It reads the settings of a word index when it lists it, and does not get to the others.
        return [f"{column}_idx" for column in _OF_WORDS]
    return [index.name for index in listed if _is_damaged(index, table_folder)]


def broken(table: Table) -> list[str]:
    """The indexes that fail when they are asked. Tries each with a question that has no answer."""
    found: list[str] = []
    for index in table.list_indices():
        column = index.columns[0]
        try:
            with recovery.engine_panics():
                _probe(table, column)
        except (OSError, RuntimeError, ValueError):
            found.append(index.name)
    return found


def _probe(table: Table, column: str) -> None:
    query_types: Any = importlib.import_module("lancedb.query")
    match column:
        case "search_text" | "exact_text":
            # A word that every table has, or the index would not be read beyond its list of words.
            word = _some_word(table, column)
            table.search(query_types.MatchQuery(word, column), query_type="fts").limit(1).to_list()
        case "tags" | "metadata_terms":
            table.count_rows(f"array_has({column}, 'no such')")
        case "document_id":
            table.count_rows("document_id = -1")
        case "vector":
            size = table.schema.field(VECTOR).type.list_size
            nearest(table.search([1.0] * size, vector_column_name=VECTOR)).limit(1).to_list()
        case _:
            table.count_rows(f"{column} = 'no such'")


def _some_word(table: Table, column: str) -> str:
    first = table.search().select([column]).limit(1).to_list()
    return next((word for row in first for word in str(row[column]).split() if len(word) > 3), "text")


def _columns(table: Table) -> set[str]:
    return {column for index in table.list_indices() for column in index.columns}


def _values(table: Table) -> int:
    return table.count_rows() * table.schema.field(VECTOR).type.list_size


def _is_damaged(index: Any, table_folder: Path) -> bool:
    if index.num_segments != 1:  # it tells one folder of several; doctor's probes try them all
        return False
    files = [path for path in (table_folder / "_indices" / index.index_uuid).glob("*") if path.is_file()]
    try:
        if index.size_bytes is not None and sum(path.stat().st_size for path in files) != index.size_bytes:
            return True
    except FileNotFoundError:  # another process has just put another index in its place
        return False
    return not files or not all(recovery.is_finished(path) for path in files)


def _configs() -> dict[str, Any]:
    from lancedb.index import FTS, Bitmap, BTree, LabelList  # noqa: PLC0415  (see connection.py)

    words = "icu/split"  # finds words in every script; the default finds none in Chinese
    return {
        "search_text": FTS(
            base_tokenizer=words, stem=True, remove_stop_words=True, custom_stop_words=list(terms.STOP_WORDS)
        ),
        "exact_text": FTS(base_tokenizer=words, stem=False, remove_stop_words=False, with_position=True),
        "id": BTree(),
        "doc_id": BTree(),
        "document_id": BTree(),
        "source": BTree(),
        "library": Bitmap(),
        "file_type": Bitmap(),
        "tags": LabelList(),
        "metadata_terms": LabelList(),
        "embed_hash": BTree(),
    }
