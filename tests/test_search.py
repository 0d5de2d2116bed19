"""Searching: the two legs on the real model and a real table, and what is said when one of them fails."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import lancedb
import pytest
from filelock import FileLock

from embedders import FailingEmbedder, use, words_db
from mcpvectordb.embed import is_available
from mcpvectordb.embed.models import MINILM
from mcpvectordb.errors import EmbeddingError, QueryError, StoreError
from mcpvectordb.models import Mode, SearchResult, Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
from stores import until

needs_minilm = pytest.mark.skipif(not is_available(MINILM), reason="the extra `offline` is not installed")

TEXTS = {
    "invoices": "Bills are settled by the company within fourteen days of receipt.",
    "keys": "Rotate the signing certificates every ninety days.",
    "cats": "The kitten slept on the warm windowsill all afternoon.",
    "errors": "Restart the worker when the log shows ERR_4711.",
    "hamlet": "To be, or not to be, that is the question.",
    "storage": "Backups are copied to the second data centre every night.",
    "quoted": "The quick brown fox jumps over the lazy dog.",
    "shuffled": "The brown dog is quick and the fox is lazy; it jumps over.",
}
ODD = {
    "punctuation": "?!... --- ;;;",
    "one quote": '"unbalanced phrase',
    "three quotes": '"a" "b',
    "empty quotes": '""',
    "quoted punctuation": '"!!!"',
    "emoji": "🙂🙃 👩‍👩‍👧‍👦",
    "NUL": "cat\0dog",
    "SQL": "'; DROP TABLE chunks; -- ' OR '1'='1",
    "query syntax": "title:cat AND (dog OR +bird -fish)^2 ~3 [a TO b] {x} *",
    "backslashes": "\\ \\' \\\" \\\\",
    "braces": '{"match": {"column": "vector"}}',
    "long": "database search " * 625,
    "one long word": "x" * 10_000,
    "line breaks": "cat\r\n\tdog\u2028bird",
    "right to left": "\u202eقطة\u202c",
    "combining": "\u0301\u0301",
    "not a character": "\ufffe\uffff",
}
DAMAGED = f"Found by keywords only, because the search by meaning failed: {FailingEmbedder.MESSAGE}"


def source(name: str, content: str, library: str = "default") -> Source:
    return Source(name=name, library=library, kind="text", data=content.encode(), file_name="text")


def names(result: SearchResult) -> list[str]:
    return [hit.document.source for hit in result.hits]


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def damage_keyword_indexes(home: Path) -> None:
    """Take the files of the keyword indexes away, as a bad disk would."""
    folders = {path.parent for path in (home / "lance").rglob("*tokens.lance")}
    assert len(folders) == 2
    for folder in folders:
        shutil.rmtree(folder)


def drop_keyword_indexes(home: Path) -> None:
    """The table as a crash leaves it between the first rows and their indexes."""
    name = json.loads((home / "database.json").read_text())["table"]
    table = lancedb.connect(home / "lance").open_table(name)
    for index in table.list_indices():
        if index.columns[0] in ("search_text", "exact_text"):
            table.drop_index(index.name)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorDB]:
    """The texts with the vectors of the real model."""
    with VectorDB(Settings(home=tmp_path_factory.mktemp("real") / "home", model="minilm")) as db:
        list(db.ingest_sources(source(name, content) for name, content in TEXTS.items()))
        yield db


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def db(home: Path) -> Iterator[VectorDB]:
    with words_db(home) as db:
        list(db.ingest_sources(source(name, content) for name, content in TEXTS.items()))
        yield db


@needs_minilm
def test_a_paraphrase_without_a_shared_word_is_found_by_meaning_alone(real: VectorDB) -> None:
    query = "when do invoices get paid"
    keyword, vector = real.search(query, mode="keyword"), real.search(query, mode="vector")
    assert (keyword.mode, names(keyword)) == ("keyword", [])
    assert (vector.mode, names(vector)[0]) == ("vector", "invoices")


@needs_minilm
def test_an_identifier_is_found_by_keyword_alone(real: VectorDB) -> None:
    result = real.search("ERR_4711", mode="keyword")
    assert (result.mode, names(result)) == ("keyword", ["errors"])


@needs_minilm
@pytest.mark.parametrize(
    ("query", "name"),
    [("when do invoices get paid", "invoices"), ("ERR_4711", "errors"), ("a sleeping young cat", "cats")],
)
def test_hybrid_search_finds_what_either_leg_finds(real: VectorDB, query: str, name: str) -> None:
    result = real.search(query)
    assert (result.mode, result.notice, names(result)[0]) == ("hybrid", "", name)


@needs_minilm
def test_the_only_passage_with_a_rare_word_comes_first_though_many_are_nearer_in_meaning(
    tmp_path: Path,
) -> None:
    """By places alone, what both legs find middling was ahead of it."""
    parcels = {
        f"parcel {n}": f"Error {n}: what it means and how it is mended. Code {n} of a parcel in depot {n}."
        for n in range(110)
    }
    rare = {
        "diary": "On Sunday the cat slept, it rained, and we had soup with bread. The printer said E7731 "
        "to my mother, who was knitting a scarf for the neighbours and did not care."
    }
    with VectorDB(Settings(home=tmp_path / "home", model="minilm")) as db:
        list(db.ingest_sources(source(name, content) for name, content in (parcels | rare).items()))
        for query in ("E7731 parcel", "which parcel is E7731", "parcel error code E7731"):
            assert "diary" not in names(db.search(query, top_k=50, mode="vector")), query
            assert names(db.search(query))[0] == "diary", query


@needs_minilm
def test_a_hit_says_which_legs_found_it(real: VectorDB) -> None:
    hit = real.search("ERR_4711").hits[0]
    other = next(hit for hit in real.search("ERR_4711").hits if hit.document.source != "errors")
    assert (hit.chunk.content, hit.chunk.start) == (TEXTS["errors"], 0)
    assert hit.keyword_score is not None
    assert hit.vector_score is not None
    assert (other.keyword_score, other.vector_score is None) == (None, False)


@needs_minilm
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize("query", ODD.values(), ids=ODD)
def test_an_odd_query_is_answered_without_a_notice(real: VectorDB, query: str, mode: Mode) -> None:
    result = real.search(query, mode=mode)
    assert (result.mode, result.notice) == (mode, "")


@needs_minilm
def test_two_calls_give_the_same_answer(real: VectorDB) -> None:
    assert real.search("the data of the company", top_k=8) == real.search("the data of the company", top_k=8)


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize("query", ["", " ", "\n\t "])
def test_an_empty_query_is_refused(db: VectorDB, query: str, mode: Mode) -> None:
    with pytest.raises(QueryError) as caught:
        db.search(query, mode=mode)
    assert str(caught.value) == "The query is empty. Ask a question or give some keywords."


def test_a_query_of_stop_words_finds_the_text_that_has_them(db: VectorDB) -> None:
    assert names(db.search("to be or not to be", mode="keyword"))[0] == "hamlet"
    assert names(db.search('"to be or not to be"', mode="keyword"))[0] == "hamlet"


def test_a_quoted_phrase_puts_the_text_that_has_it_first(db: VectorDB) -> None:
    assert names(db.search('"quick brown fox"', mode="keyword"))[0] == "quoted"
    assert names(db.search('"dog is quick"', mode="keyword"))[0] == "shuffled"


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize("top_k", [1, 3, 8])
def test_no_more_hits_than_asked_for_come_with_falling_scores(db: VectorDB, mode: Mode, top_k: int) -> None:
    hits = db.search("the quick days of the company", top_k=top_k, mode=mode).hits
    scores = [hit.score for hit in hits]
    assert 0 < len(hits) <= top_k
    assert scores == sorted(scores, reverse=True)
    assert len({(hit.document.doc_id, hit.chunk.index) for hit in hits}) == len(hits)
    assert mode == "keyword" or len(hits) == top_k


def test_searching_is_limited_to_a_library_and_to_tags(home: Path) -> None:
    with words_db(home) as db:
        for library in ("one", "two"):
            for tag in ("red", "blue"):
                db.ingest_source(
                    source(f"{library} {tag}", f"Apples, {library}, {tag}.", library), tags=[tag, "all"]
                )
        assert sorted(names(db.search("apples", library="one"))) == ["one blue", "one red"]
        assert sorted(names(db.search("apples", tags=["red"]))) == ["one red", "two red"]
        assert names(db.search("apples", library="two", tags=["red", "all"])) == ["two red"]
        assert names(db.search("apples", tags=["red", "blue"])) == []


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_copies_of_a_passage_take_no_place_from_one_that_is_nearly_as_good(home: Path, mode: Mode) -> None:
    with words_db(home) as db:
        for n in range(5):
            db.ingest_source(source("fruit.txt", "Apples and pears.", f"copy {n}"))
        db.ingest_source(source("other.txt", "Apples and pears grow."))
        two = [hit.chunk.content for hit in db.search("apples and pears", top_k=2, mode=mode).hits]
        six = [hit.chunk.content for hit in db.search("apples and pears", top_k=6, mode=mode).hits]
    different = ["Apples and pears grow.", "Apples and pears."]
    assert sorted(two) == different
    assert sorted(six) == [different[0]] + [different[1]] * 5


def test_searching_beside_the_first_ingest_leaves_no_notice_of_missing_indexes(home: Path) -> None:
    with words_db(home) as db:
        is_over = threading.Event()

        def search() -> None:
            while not is_over.is_set():
                db.search("kittens", mode="keyword")

        searching = threading.Thread(target=search)
        searching.start()
        try:
            done = db.ingest_source(source("cats", "Kittens purr."))
        finally:
            is_over.set()
            searching.join()
        assert done.notice == ""


def test_a_model_that_fails_leaves_the_keyword_search_with_a_notice(db: VectorDB, home: Path) -> None:
    with words_db(home, load=use(FailingEmbedder())) as failing:
        result = failing.search("kitten")
        assert (names(result), result.mode, result.notice) == (["cats"], "keyword", DAMAGED)
        assert result.hits == failing.search("kitten", mode="keyword").hits
        with pytest.raises(EmbeddingError) as caught:
            failing.search("kitten", mode="vector")
    assert str(caught.value) == FailingEmbedder.MESSAGE


def test_a_keyword_index_that_is_damaged_is_done_without_and_made_again(db: VectorDB, home: Path) -> None:
    db.close()
    damage_keyword_indexes(home)
    with words_db(home) as damaged:
        with FileLock(home / "upkeep.lock"):
            result = damaged.search("kitten slept")
            assert (result.mode, names(result)[0]) == ("hybrid", "cats")
            assert result.notice.startswith("The index of search_text, exact_text is being rebuilt")
        damaged.ingest_source(source("more", "Another text."))
        until(lambda: not damaged.search("kittens", mode="keyword").notice)
        assert names(damaged.search("kittens", mode="keyword")) == ["cats"]


def test_an_index_that_goes_missing_while_running_is_noticed_and_made_again(db: VectorDB, home: Path) -> None:
    """Without it the engine reads the rows, but by whole words only."""
    with FileLock(home / "upkeep.lock"):
        drop_keyword_indexes(home)
        assert "is being rebuilt" in db.search("slept", mode="keyword").notice
    db.ingest_source(source("more", "Another text."))
    until(lambda: not db.search("kittens", mode="keyword").notice)
    assert names(db.search("kittens", mode="keyword")) == ["cats"]


def test_both_legs_failing_is_an_error(db: VectorDB, home: Path) -> None:
    db.close()
    for path in (home / "lance").glob("*/data/*"):
        path.unlink()
    with (
        words_db(home, load=use(FailingEmbedder())) as failing,
        pytest.raises(StoreError, match=r"is damaged and no version of it reads whole"),
    ):
        failing.search("kitten slept")


def test_an_unknown_library_is_named_with_those_there_are(db: VectorDB) -> None:
    db.ingest_source(source("a", "Apples.", "fruit"))
    notice = "There is no library 'frut'. The libraries are: default, fruit."
    assert db.search("apples", library="frut") == SearchResult(hits=(), mode="hybrid", notice=notice)
    assert db.search("zebra", library="fruit", mode="keyword") == SearchResult(hits=(), mode="keyword")


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_an_empty_database_says_so(home: Path, mode: Mode) -> None:
    expected = SearchResult(hits=(), mode=mode, notice="Nothing has been indexed yet. Ingest a file first.")
    with words_db(home, load=use(FailingEmbedder())) as db:
        assert db.search("anything", mode=mode) == expected
    assert not home.exists()


def test_searching_writes_nothing(db: VectorDB, home: Path) -> None:
    db.close()
    before = listing(home)
    with words_db(home) as other:
        for mode in ("hybrid", "keyword", "vector"):
            assert other.search("the quick days", mode=mode).hits
    assert listing(home) == before
