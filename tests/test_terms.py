"""Words as people ask for them, found by a keyword search of a real index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedders import words_db
from mcpvectordb.models import Source
from mcpvectordb.store import terms
from mcpvectordb.vectordb import VectorDB

TEXTS = {
    "istanbul": "Uçak İstanbul havaalanına indi.",
    "street": "Die Straße ist gesperrt.",
    "camel": "Call getUserName before parseHTTPResponse.",
    "snake": "Set max_retry_count in the file.",
    "code": "The job ended with ERR_4711.",
    "russian": "Все документы лежат в архиве.",
    "greek": "Τα έγγραφα είναι στο αρχείο.",
    "arabic": "قاعدة البيانات سريعة جدا.",
    "hindi": "मेरी किताबें मेज पर हैं।",
    "korean": "데이터베이스를 검색합니다.",
    "chinese": "这个系统使用向量数据库进行搜索。",
    "japanese": "このデータベースは検索がとても速いです。",
    "thai": "ภาษาไทยเป็นภาษาที่ไพเราะ",
    "coffee": "We met in the café on the corner.",
    "ligature": "The oﬃce is closed.",
    "plural": "Invoices were paid by the accountants.",
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorDB]:
    with words_db(tmp_path_factory.mktemp("terms") / "home") as db:
        list(db.ingest_sources(source(name, text) for name, text in TEXTS.items()))
        yield db


def source(name: str, text: str) -> Source:
    return Source(name=name, library="default", kind="text", data=text.encode(), file_name=name)


def found(db: VectorDB, query: str) -> list[str]:
    return [hit.document.source for hit in db.search(query, mode="keyword").hits]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("istanbul", "istanbul"),
        ("İSTANBUL", "istanbul"),
        ("ucak", "istanbul"),
        ("strasse", "street"),
        ("STRASSE", "street"),
        ("Straße", "street"),
        ("username", "camel"),
        ("getusername", "camel"),
        ("getUser", "camel"),
        ("http", "camel"),
        ("max_retry_count", "snake"),
        ("retry", "snake"),
        ("retry_count", "snake"),
        ("ERR_4711", "code"),
        ("err_4711", "code"),
        ("4711", "code"),
        ("документ", "russian"),
        ("АРХИВЕ", "russian"),
        ("ΈΓΓΡΑΦΑ", "greek"),
        ("بيانات", "arabic"),
        ("किताब", "hindi"),
        ("데이터베이스", "korean"),
        ("向量", "chinese"),
        ("数据库", "chinese"),
        ("検索", "japanese"),
        ("データベース", "japanese"),
        ("ﾃﾞｰﾀﾍﾞｰｽ", "japanese"),
        ("ภาษา", "thai"),
        ("cafe", "coffee"),
        ("CAFÉ", "coffee"),
        ("cafe\u0301", "coffee"),
        ("office", "ligature"),
        ("invoice", "plural"),
        ("accountant", "plural"),
    ],
)
def test_a_word_is_found_however_it_is_written(db: VectorDB, query: str, name: str) -> None:
    assert found(db, query) == [name]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ('"मेरी किताबें"', "hindi"),
        ('"向量数据库"', "chinese"),
        ("«документы лежат»", "russian"),
        ("„Straße ist gesperrt“", "street"),
        ("“café on the corner”", "coffee"),
        ('"max_retry_count in"', "snake"),
    ],
)
def test_a_quoted_phrase_is_found_in_every_script(db: VectorDB, query: str, name: str) -> None:
    assert found(db, query)[0] == name


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ("plain words", []),
        ('an "Exact Phrase" here', ["exact phrase"]),
        ('"one" and “two” and «three» and „four“', ["one", "two", "three", "four"]),
        ('unbalanced "quote', []),
        ('""', []),
        ('"!!" "_" "  "', []),
        ("it's 'single'", []),
    ],
)
def test_the_quoted_parts_of_a_query_are_its_phrases(query: str, phrases: list[str]) -> None:
    assert terms.phrases(query) == phrases


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("to be or not to be", True),
        ("The THE the", True),
        ("to be a database", False),
        ("", False),
        ("!?", False),
    ],
)
def test_a_query_of_stop_words_only_is_known(query: str, expected: bool) -> None:
    assert terms.is_stop_words_only(query) == expected


@pytest.mark.parametrize("letter", ["a", "aB", "я", "α", "क", "가", "ب", "字", "é", "_"])
def test_a_word_of_a_megabyte_is_no_more_work_than_its_length(letter: str) -> None:
    """Splitting and stemming it would be; the run's time limit is what fails here."""
    word = letter * (1_000_000 // len(letter))
    assert terms.search_text(word) == terms.exact_text(word) == terms.fold(word)


def test_a_document_of_one_endless_word_is_indexed_beside_others(tmp_path: Path) -> None:
    with words_db(tmp_path / "home") as db:
        db.ingest_source(source("blob", "Blob: " + "aB3x" * 250_000))
        assert found(db, "blob")[0] == "blob"
