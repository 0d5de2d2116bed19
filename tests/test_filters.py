"""Filters on a real table: any value finds the rows that have it and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from embedders import words_db
from mcpvectordb.errors import QueryError
from mcpvectordb.models import Source
from mcpvectordb.store import filters
from mcpvectordb.vectordb import VectorDB

# Each is the name, the title, the library, a tag and a metadata value of one document.
VALUES = (
    "plain",
    "PLAIN",
    "it's",
    "''",
    'say "hi"',
    "back\\slash",
    "\\'",
    "100%",
    "under_score",
    "a%b_c",
    "Größe 数据 🙂",
    "e\u0301",
    "é",
    "x' OR '1'='1",
    "x'; DROP TABLE chunks; --",
    "/* comment */",
    "null",
    "true",
    "[1]",
    "{}",
    "$1 ? :name @p",
    " padded ",
    "\u200b",
    "a=b",
)
NESTED = {
    "year": 2024,
    "ratio": 0.5,
    "flag": True,
    "one": 1,
    "nothing": None,
    "list": ["a", 2, False, ["deep"]],
    "author": {"name": "Ann O'Neill", "langs": ["en", "de"]},
    "dotted.key": "d",
    "quote'key": "q",
    "": "empty key",
}
VALID = (
    "doc_id, source, title, library, file_type, last_modified, content_hash, created_at, kind, page, "
    "chunk_index, chunk_count, document_id, tags, metadata.<key>"
)


def source(name: str, library: str = "default") -> Source:
    return Source(name=name, library=library, kind="text", data=b"word " + name.encode(), file_name=name)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorDB]:
    with words_db(tmp_path_factory.mktemp("filters") / "home") as db:
        for value in VALUES:
            db.ingest_source(source(value, value), metadata={"key": value}, tags=[value])
        db.ingest_source(source("nested", "nested"), metadata=NESTED, tags=["one", "two"])
        yield db


def found(db: VectorDB, **narrowed: object) -> list[str]:
    result = db.search("word", top_k=100, mode="keyword", **narrowed)  # type: ignore[arg-type]
    return sorted(hit.document.source for hit in result.hits)


WAYS: dict[str, Callable[[VectorDB, str], list[str]]] = {
    "library": lambda db, value: found(db, library=value),
    "library filter": lambda db, value: found(db, filter={"library": value}),
    "title": lambda db, value: found(db, filter={"title": value}),
    "source": lambda db, value: found(db, filter={"source": value}),
    "tags": lambda db, value: found(db, tags=[value]),
    "tags filter": lambda db, value: found(db, filter={"tags": value}),
    "metadata": lambda db, value: found(db, filter={"metadata.key": value}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", VALUES)
def test_a_value_finds_its_own_document_only(db: VectorDB, way: str, value: str) -> None:
    assert WAYS[way](db, value) == [value]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text() | st.text("'\"\\%_;-\0\n \t/*()=", max_size=12))
@example("\0")
@example("plain\0")
@example("plain\n")
@example("'")
@example("\\")
@example("\x7ftombstone")
@example("' OR library = '\x7ftombstone")
@example("a" * 100_000)
def test_no_value_finds_what_does_not_have_it(db: VectorDB, value: str) -> None:
    expected = [value] if value in VALUES else []
    for way, search in WAYS.items():
        more = (
            ["nested"]
            if way in ("library", "library filter", "title", "source") and value == "nested"
            else []
        )
        more += ["nested"] if way in ("tags", "tags filter") and value in ("one", "two") else []
        assert (way, search(db, value)) == (way, expected + more)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(max_size=30), value=st.text(max_size=5) | st.integers() | st.booleans() | st.floats())
def test_any_key_and_value_is_an_answer_or_a_query_error(db: VectorDB, key: str, value: object) -> None:
    for name in (key, f"metadata.{key}"):
        try:
            found(db, filter={name: value})
        except QueryError as exc:
            assert str(exc)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers() | st.floats(allow_nan=False, allow_infinity=False).map(float.__trunc__))
@example(2**31 - 1)
@example(2**31)
@example(-(2**31))
@example(2**53)
@example(2**63 - 1)
@example(2**63)
@example(-(2**63))
@example(-(2**63) - 1)
@example(-1)
def test_a_number_of_any_size_can_be_asked_for(db: VectorDB, number: int) -> None:
    everything = sorted([*VALUES, "nested"])
    expected = {"page": 0, "chunk_index": 0, "chunk_count": 1}
    for field, stored in expected.items():
        assert found(db, filter={field: number}) == (everything if number == stored else [])
    assert found(db, filter={"document_id": number}) == []


def test_a_documents_number_finds_it(db: VectorDB) -> None:
    document = db.search("word", library="plain").hits[0].document
    assert found(db, filter={"document_id": document.document_id}) == ["plain"]
    assert found(db, filter={"document_id": float(document.document_id)}) == ["plain"]


@pytest.mark.parametrize(
    ("key", "value", "matches"),
    [
        ("year", 2024, True),
        ("year", 2024.0, True),
        ("year", "2024", False),
        ("year", 2025, False),
        ("ratio", 0.5, True),
        ("flag", True, True),
        ("flag", 1, False),
        ("flag", "true", False),
        ("one", 1, True),
        ("one", True, False),
        ("list", "a", True),
        ("list", 2, True),
        ("list", False, True),
        ("list", 0, False),
        ("list", "deep", True),
        ("list", "b", False),
        ("author.name", "Ann O'Neill", True),
        ("author.name", "Ann", False),
        ("author.langs", "de", True),
        ("author", "Ann O'Neill", False),
        ("dotted.key", "d", True),
        ("quote'key", "q", True),
        ("nothing", "", False),
        ("nothing", "null", False),
        ("no such key", "x", False),
    ],
)
def test_metadata_is_found_by_key_type_and_value(
    db: VectorDB, key: str, value: object, matches: bool
) -> None:
    assert found(db, library="nested", filter={f"metadata.{key}": value}) == (["nested"] if matches else [])


@pytest.mark.parametrize(
    ("tags", "matches"), [(["one"], True), (["one", "two"], True), (["one", "three"], False), (["on"], False)]
)
def test_all_tags_must_be_there(db: VectorDB, tags: list[str], matches: bool) -> None:
    expected = ["nested"] if matches else []
    assert found(db, tags=tags) == found(db, filter={"tags": tags}) == expected


def test_filters_narrow_together(db: VectorDB) -> None:
    both = {"metadata.year": 2024, "metadata.flag": True, "tags": ["two"], "kind": "text"}
    assert found(db, library="nested", filter=both) == ["nested"]
    assert found(db, library="nested", filter=both | {"metadata.one": 2}) == []
    assert found(db, library="plain", filter=both) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("title", 1, "The filter 'title' wants a string, not an integer."),
        ("title", None, "The filter 'title' wants a string, not null."),
        ("source", ["a"], "The filter 'source' wants a string, not a list."),
        ("library", {"a": 1}, "The filter 'library' wants a string, not an object."),
        ("page", "1", "The filter 'page' wants an integer, not a string."),
        ("page", True, "The filter 'page' wants an integer, not a boolean."),
        ("page", 1.5, "The filter 'page' wants an integer, not a number."),
        ("page", float("inf"), "The filter 'page' wants an integer, not a number."),
        ("page", None, "The filter 'page' wants an integer, not null."),
        ("metadata.a", None, "The filter 'metadata.a' wants a string, a number or a boolean, not null."),
        ("metadata.a", [1], "The filter 'metadata.a' wants a string, a number or a boolean, not a list."),
        ("metadata.a", {}, "The filter 'metadata.a' wants a string, a number or a boolean, not an object."),
        (
            "metadata.a",
            float("nan"),
            "The filter 'metadata.a' wants a string, a number or a boolean, not a number.",
        ),
        ("tags", [], "The filter 'tags' wants a tag (a string) or a list of tags, all of which must match."),
        ("tags", 1, "The filter 'tags' wants a tag (a string) or a list of tags, all of which must match."),
        (
            "tags",
            ["a", 1],
            "The filter 'tags' wants a tag (a string) or a list of tags, all of which must match.",
        ),
        ("titel", "a", f"There is no filter 'titel'. Did you mean 'title'? Valid keys: {VALID}."),
        ("metadata", "a", f"There is no filter 'metadata'. Valid keys: {VALID}."),
        ("metadata.", "a", f"There is no filter 'metadata.'. Valid keys: {VALID}."),
        ("vector", "a", f"There is no filter 'vector'. Valid keys: {VALID}."),
        (
            "1=1 OR title",
            "a",
            f"There is no filter '1=1 OR title'. Valid keys: {VALID}.",
        ),
    ],
)
def test_a_wrong_filter_is_refused_in_a_sentence(db: VectorDB, key: str, value: object, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        db.search("word", filter={key: value})
    assert str(caught.value) == message


# What Python makes of bytes on a command line that are not of the locale's encoding.
NOT_TEXT = "caf\udce9"


@pytest.mark.parametrize(
    "asked",
    [
        {"query": NOT_TEXT},
        {"library": NOT_TEXT},
        {"tags": [NOT_TEXT]},
        {"filter": {"source": NOT_TEXT}},
        {"filter": {"metadata.a": NOT_TEXT}},
    ],
)
def test_what_is_not_text_is_refused_in_a_sentence(db: VectorDB, asked: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="is not valid text") as caught:
        db.search(**{"query": "word", **asked})
    assert "codec" not in str(caught.value)


def test_a_wrong_filter_is_refused_on_an_empty_database_too(tmp_path: Path) -> None:
    with words_db(tmp_path / "home") as db, pytest.raises(QueryError, match="There is no filter 'x'"):
        db.search("word", filter={"x": 1})


@given(st.text())
def test_a_literal_ends_where_its_value_ends(value: str) -> None:
    literal = filters.quoted(value)
    assert literal[0] == literal[-1] == "'"
    assert "'" not in literal[1:-1].replace("''", "")
    assert literal[1:-1].replace("''", "'") == value
