"""Upkeep in the background: what it does, when, and what it must not cost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from embedders import WordEmbedder, words_db
from mcpvectordb.store import Disk, sync
from mcpvectordb.store.connection import Connection
from mcpvectordb.store.indexes import COLUMNS
from mcpvectordb.store.locks import WriteLock
from mcpvectordb.store.upkeep import Pending, Record, Upkeep
from mcpvectordb.vectordb import VectorDB
from stores import source, table_folder, table_in, text, until
from support import wait_until

WORDS = [f"word{n}" for n in range(200)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


@pytest.fixture
def db(home: Path) -> Iterator[VectorDB]:
    with words_db(home) as db:
        yield db


def sentences(count: int) -> list[str]:
    chance = np.random.default_rng(1)
    return [" ".join(chance.choice(WORDS, 12)) + "." for _ in range(count)]


def pending(db: VectorDB) -> Pending:
    found = db._store.upkeep.pending()
    assert found is not None
    return found


def many(db: VectorDB, count: int, library: str = "default") -> None:
    texts = enumerate(sentences(count))
    list(db.ingest_sources(source(f"{library} {n}", text, library=library) for n, text in texts))


def test_tidying_joins_files_covers_rows_and_changes_no_answer(db: VectorDB, home: Path) -> None:
    for n in range(12):
        db.ingest_source(source(f"text {n}", text(f"text {n}", 1, 1)))
    db.delete_document(db.list_documents().documents[0].doc_id)
    before = (db.list_documents(), db.list_libraries(), db.search("text 5 version1", mode="vector").hits)
    assert pending(db).fragments > 10
    wait_until(db.tidy)
    assert pending(db).fragments == 1
    assert {index.num_unindexed_rows for index in table_in(home).list_indices()} == {0}
    after = (db.list_documents(), db.list_libraries(), db.search("text 5 version1", mode="vector").hits)
    assert after == before


def test_many_single_ingests_are_tidied_in_the_background(db: VectorDB) -> None:
    for n in range(90):
        db.ingest_source(source(f"text {n}", f"This is text number {n}."))
    until(lambda: db._store.upkeep.spent_s > 0)
    until(lambda: not pending(db).is_due)
    assert db.list_documents().total == 90


def test_two_that_make_the_same_indexes_both_find_them_made(db: VectorDB, home: Path) -> None:
    """As a first ingest does and the upkeep that a search beside it wakes."""
    many(db, 3)
    with FileLock(home / "upkeep.lock"):
        for _ in range(3):
            for index in table_in(home).list_indices():
                table_in(home).drop_index(index.name)
            connections = [Connection(home, Disk(sync), lock_timeout_s=5) for _ in range(4)]
            tables = [connection.table() for connection in connections]
            with ThreadPoolExecutor(len(connections)) as pool:
                list(pool.map(Connection.make_indexes, connections, tables))
            assert {index.columns[0] for index in table_in(home).list_indices()} == set(COLUMNS)


def test_upkeep_waits_eleven_times_as_long_as_it_took(db: VectorDB, home: Path) -> None:
    many(db, 3)
    record = {"ended_at": time.time(), "took_s": 1000.0}
    (home / "upkeep.json").write_text(json.dumps(record), encoding="utf-8")
    upkeep = db._store.upkeep
    many(db, 700, "more")
    assert pending(db).is_due
    assert upkeep._look(is_idle=False) == pytest.approx(11_000, abs=60)
    assert upkeep.spent_s == 0
    (home / "upkeep.json").write_text(json.dumps(record | {"ended_at": 0.0}), encoding="utf-8")
    upkeep._look(is_idle=False)
    # On a slow machine the thread in the background looks too by now, and this one leaves the work to it.
    until(lambda: upkeep.spent_s > 0)
    until(lambda: not pending(db).is_due)


@pytest.mark.parametrize("garbage", ["", "[]", '{"hurried_at": "soon"}', '{"ended_at": null, "took_s": 9}'])
def test_a_damaged_record_is_as_good_as_none(db: VectorDB, home: Path, garbage: str) -> None:
    many(db, 1)
    (home / "upkeep.json").write_text(garbage, encoding="utf-8")
    assert db._store.upkeep.record() == Record()
    assert db.tidy()
    assert 0 < db._store.upkeep.record().ended_at <= time.time()


def test_a_clock_that_was_set_back_does_not_put_upkeep_off_until_it_has_caught_up(
    db: VectorDB, home: Path
) -> None:
    many(db, 3)
    record = {"ended_at": time.time(), "took_s": 1000.0, "vector_rows": 7}
    (home / "upkeep.json").write_text(json.dumps(record), encoding="utf-8")
    many(db, 700, "more")
    upkeep = db._store.upkeep
    assert (pending(db).is_due, upkeep.spent_s) == (True, 0)
    a_year = 365 * 86_400
    (home / "upkeep.json").write_text(
        json.dumps(record | {"ended_at": time.time() + a_year}), encoding="utf-8"
    )
    assert upkeep.record() == Record(vector_rows=7)
    upkeep._look(is_idle=False)
    # On a slow machine the thread in the background looks too by now, and this one leaves the work to it.
    until(lambda: upkeep.spent_s > 0)
    until(lambda: not pending(db).is_due)


def test_a_short_run_beside_a_writer_waits_for_it_and_joins_what_is_new(db: VectorDB, home: Path) -> None:
    upkeep = db._store.upkeep
    upkeep.is_paused = True
    for n in range(12):
        db.ingest_source(source(f"text {n}", text(f"text {n}", 1, 1)))
    with ThreadPoolExecutor(1) as pool:
        with WriteLock(home, 0).held():
            running = pool.submit(upkeep.run, is_busy=True)
            time.sleep(0.3)
            assert upkeep.spent_s == 0
        assert running.result(timeout=30)
    assert {index.num_unindexed_rows for index in table_in(home).list_indices()} == {0}
    assert pending(db).fragments < 4  # what is left is joined when nobody writes
    wait_until(db.tidy)
    assert pending(db).fragments == 1


def test_a_pause_between_two_runs_that_is_over_is_not_a_time_when_nobody_writes(
    db: VectorDB, home: Path
) -> None:
    looked: list[bool] = []

    class Watched(Upkeep):
        def _look(self, *, is_idle: bool) -> float | None:
            looked.append(is_idle)
            return 0.01 if len(looked) < 5 else None

    Watched(db._store._connection).poke()
    until(lambda: len(looked) == 5)
    assert looked == [False] * 5


def test_what_is_due_grows_with_the_table() -> None:
    def due(rows: int, new_rows: int, fragments: int) -> bool:
        return Pending(rows=rows, new_rows=new_rows, fragments=fragments, old_versions=0, missing=()).is_due

    assert [due(1000, new, 1) for new in (400, 600)] == [False, True]
    assert [due(200_000, new, 1) for new in (10_000, 11_000)] == [False, True]
    assert [due(1000, 0, fragments) for fragments in (60, 70)] == [False, True]
    assert [due(200_000, 0, fragments) for fragments in (400, 500)] == [False, True]


def test_upkeep_that_another_process_does_is_left_to_it(db: VectorDB, home: Path) -> None:
    many(db, 3)
    with FileLock(home / "upkeep.lock"):
        assert not db.tidy()
        assert db.search("word1").hits
    wait_until(db.tidy)


def test_old_versions_go_once_they_have_been_replaced_for_long_enough(db: VectorDB, home: Path) -> None:
    for n in range(6):
        db.ingest_source(source(f"text {n}", f"This is text number {n}."))
    folder = table_folder(home) / "_versions"
    versions = sorted(folder.glob("*.manifest"))  # newest first
    assert pending(db).old_versions == 0
    now = time.time()
    for age, path in enumerate(versions[2:]):  # as if all but the last two had been written long ago
        os.utime(path, (now - 3600 - age, now - 3600 - age))
    # The newest of the old ones was the current one until a moment ago: somebody may be reading it.
    assert pending(db).old_versions == len(versions) - 3
    before = {path.name for path in folder.glob("*.manifest")}
    wait_until(db.tidy)
    assert {path.name for path in versions[:3]} <= {path.name for path in folder.glob("*.manifest")}
    assert before


def size_of(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


@pytest.mark.skipif(
    os.name != "posix", reason="no shared lock there: ten minutes are kept whatever they take"
)
def test_many_versions_in_a_short_time_go_before_their_time_but_not_while_somebody_reads(
    db: VectorDB, home: Path
) -> None:
    db._store.upkeep.is_paused = True
    for n in range(110):
        db.ingest_source(source(f"text {n}", f"This is text number {n}."))
    before = {path.name for path in (table_folder(home) / "_versions").glob("*.manifest")}
    with db._store._connection.readers.reading():
        wait_until(db.tidy)
        assert before < {path.name for path in (table_folder(home) / "_versions").glob("*.manifest")}
    wait_until(db.tidy)
    assert len(list((table_folder(home) / "_versions").glob("*.manifest"))) < 5
    assert db.search("text number 7").hits[0].document.source == "text 7"
    # What comes in the ten minutes after that is not kept either, or the room would be taken again.
    for n in range(20):
        db.ingest_source(source(f"text {n}", f"This is the second text number {n}."))
    wait_until(db.tidy)
    swollen = size_of(home)
    db._store.upkeep.keep_s = 0.0
    db.ingest_source(source("text 0", "The last one."))
    wait_until(db.tidy)
    assert swollen <= 3 * size_of(home)
    assert db.list_documents().total == 110


def test_a_vector_index_is_made_by_itself_when_exact_search_gets_slow(db: VectorDB, home: Path) -> None:
    dimensions = WordEmbedder().model.dimensions
    many(db, 300)
    assert "vector" not in [index.columns[0] for index in table_in(home).list_indices()]
    exact = [db.search(query, mode="vector", top_k=10).hits for query in sentences(30)]
    db._store._connection.slow_values = 200 * dimensions
    assert pending(db).wants_vector_index
    wait_until(db.tidy)
    assert "vector" in [index.columns[0] for index in table_in(home).list_indices()]
    found = [db.search(query, mode="vector", top_k=10).hits for query in sentences(30)]
    same = [
        len({h.document.doc_id for h in a} & {h.document.doc_id for h in b}) / len(a)
        for a, b in zip(exact, found, strict=True)
    ]
    assert sum(same) / len(same) >= 0.95
    status = db.status()
    assert status is not None
    assert (status.has_vector_index, status.unindexed_vectors) == (True, 0)
    # Once the table has outgrown it, it is made anew.
    assert db._store.upkeep.record().vector_rows == 300
    (home / "upkeep.json").write_text(json.dumps({"vector_rows": 30}), encoding="utf-8")
    wait_until(db.tidy)
    assert db._store.upkeep.record().vector_rows == 300
    # What comes after it is found too, before and after the index covers it.
    for _ in range(2):
        db.ingest_source(source("new", "word1 word2 word3 unheard."))
        assert db.search("word1 word2 word3 unheard", mode="vector").hits[0].document.source == "new"
        wait_until(db.tidy)


def test_a_large_first_document_gets_its_vector_index_from_upkeep(db: VectorDB, home: Path) -> None:
    def indexed() -> set[str]:
        return {index.columns[0] for index in table_in(home).list_indices()}

    db._store._connection.slow_values = 20 * WordEmbedder().model.dimensions
    with FileLock(home / "upkeep.lock"):
        db.ingest_source(source("book", text("book", 1, 40)))
        assert indexed() == set(COLUMNS)
    until(lambda: "vector" in indexed())


def test_a_selective_filter_is_searched_exactly(db: VectorDB) -> None:
    dimensions = WordEmbedder().model.dimensions
    many(db, 20, "rare")
    many(db, 1200)
    expected = [db.search(query, mode="vector", library="rare", top_k=20).hits for query in sentences(5)]
    db._store._connection.slow_values = 200 * dimensions
    wait_until(db.tidy)
    found = [db.search(query, mode="vector", library="rare", top_k=20).hits for query in sentences(5)]
    assert found == expected
    assert {len(hits) for hits in found} == {20}
