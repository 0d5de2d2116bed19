"""The last resort, where no version of the table reads whole: save the documents that can still be read.

They go to a new table, which takes the old one's place; the old one is kept in `damaged/`.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from . import database, recovery
from .connection import ENGINE_ERRORS, Connection, Table, first_line
from .schema import TOMBSTONE, arrow

logger = logging.getLogger(__name__)

_STEP = 1024
_SURVEY = ("doc_id", "source", "library", "chunk_index", "chunk_count")


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    documents: int
    lost_passages: int
    torn: tuple[str, ...]  # sources of which only a part could be read

    @property
    def message(self) -> str:
        torn = f", among them parts of {', '.join(self.torn[:5])}" if self.torn else ""
        return (
            f"The database could not be read whole. {self.documents} documents were saved; "
            f"{self.lost_passages} passages could not be read{torn}. Ingest what is missing again; the old "
            f"table is kept in {recovery.FOLDER!r}."
        )


def salvage(connection: Connection) -> Saved | None:
    """Put what can be read into a new table; None where there is no database."""
    found = connection.database()
    if found is None:
        return None
    with connection.exclusive():
        old = connection.open_as_it_is(found.table)
        whole, torn, readable = _survey(old)
        name = f"chunks-{uuid.uuid4().hex[:8]}"
        table: Table | None = None
        for rows in _readable(old, 0, old.count_rows(), old.schema.names):
            kept = rows.filter(arrow().array([doc_id in whole for doc_id in rows["doc_id"].to_pylist()]))
            if not kept.num_rows:
                continue
            if table is None:
                table = connection.create_table(name, kept)
            else:
                table.add(kept)
        if table is not None:
            connection.make_indexes(table)
        connection.disk.settle(connection.folder)
        saved = Saved(
            documents=len(whole), lost_passages=old.count_rows() - readable, torn=tuple(sorted(torn))
        )
        database.write(
            connection.home, replace(found, table=name, has_table=table is not None), connection.disk.sync
        )
        aside = connection.home / recovery.FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        aside.mkdir(parents=True)
        shutil.move(connection.table_folder(found.table), aside)
    logger.warning("%s", saved.message)
    return saved


def _survey(table: Table) -> tuple[set[str], set[str], int]:
    """The documents that can be read whole, the sources of those that cannot, and how many rows can be."""
    parts: dict[str, set[int]] = {}
    counts: dict[str, tuple[int, str]] = {}
    readable = 0
    # All columns: a row is saved only where every one of them can be read.
    for rows in _readable(table, 0, table.count_rows(), table.schema.names):
        readable += rows.num_rows
        for row in rows.select(list(_SURVEY)).to_pylist():
            if row["library"] != TOMBSTONE:
                parts.setdefault(row["doc_id"], set()).add(row["chunk_index"])
                counts[row["doc_id"]] = (row["chunk_count"], row["source"])
    whole = {doc_id for doc_id, (count, _) in counts.items() if parts[doc_id] == set(range(count))}
    return whole, {source for doc_id, (_, source) in counts.items() if doc_id not in whole}, readable


def _readable(table: Table, start: int, end: int, columns: Sequence[str]) -> Iterator[Any]:
    """The rows from start to end that can be read, in steps that get smaller around those that cannot."""
    for first in range(start, end, _STEP):
        yield from _part(table, first, min(end, first + _STEP), columns)


def _part(table: Table, start: int, end: int, columns: Sequence[str]) -> Iterator[Any]:
    try:
        with recovery.engine_panics():
            rows = table.take_offsets(list(range(start, end))).select(list(columns)).to_arrow()
        yield rows
    except ENGINE_ERRORS as exc:
        recovery.check_system(exc)
        if end - start == 1:
            logger.info("row %d cannot be read: %s", start, first_line(exc))
            return
        middle = (start + end) // 2
        yield from _part(table, start, middle, columns)
        yield from _part(table, middle, end, columns)
