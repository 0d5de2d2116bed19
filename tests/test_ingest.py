"""Ingesting: what is written, what is skipped, and what a failure leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lancedb
import pytest

from embedders import BlockingEmbedder, CountingLoader, FailingEmbedder, use, words_db
from mcpvectordb.errors import ArgumentError, ConversionError, EmbeddingError, Stopped, UnsupportedType
from mcpvectordb.models import Document, Ingested, Library, Source, document_uuid
from mcpvectordb.vectordb import VectorDB

LONG = "".join(
    f"## Part {n}\n\nSentence {n} tells of topic{n}. {'More words follow. ' * 60}\n\n" for n in range(9)
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "notes.md"
    path.write_text("# Notes\n\nThe first version speaks of apples.\n")
    # The time of a file that has just been written is not kept: see folders/.
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


@pytest.fixture
def loader() -> CountingLoader:
    return CountingLoader()


@pytest.fixture
def db(home: Path, loader: CountingLoader) -> Iterator[VectorDB]:
    with words_db(home, load=loader) as db:
        yield db


def text(name: str, content: str, library: str = "default") -> Source:
    return Source(name=name, library=library, kind="text", data=content.encode(), file_name=name)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below folder with its size and time."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def version(home: Path) -> int:
    connection = lancedb.connect(home / "lance")
    return connection.open_table(json.loads((home / "database.json").read_text())["table"]).version


def found(db: VectorDB, query: str) -> list[str]:
    return [hit.chunk.content for hit in db.search(query, mode="keyword").hits]


def stored(db: VectorDB) -> list[Document]:
    return list(db.list_documents().documents)


def test_a_new_file_is_indexed_with_all_that_is_known_of_it(db: VectorDB, notes: Path) -> None:
    # The time of a file just written is not kept: see sources.py.
    os.utime(notes, ns=(1_700_000_000_123_456_789,) * 2)
    result = db.ingest_file(str(notes), library="work", metadata={"year": 2024}, tags=["a", "b", "a"])
    document = result.document
    assert result == Ingested(
        status="indexed",
        document=Document(
            doc_id=document_uuid("work", str(notes)),
            library="work",
            source=str(notes),
            title="Notes",
            file_type="md",
            kind="file",
            content_hash=text("", notes.read_text()).content_hash,
            created_at=document.created_at,
            chunk_count=1,
            last_modified=document.last_modified,
            tags=("a", "b"),
            metadata={"year": 2024},
            mtime_ns=notes.stat().st_mtime_ns,
            size=notes.stat().st_size,
            pipeline=document.pipeline,
        ),
    )
    assert stored(db) == [document]
    assert db.get_document(document.doc_id).content == notes.read_text()


def test_an_unchanged_file_is_skipped_and_a_changed_one_replaced_under_the_same_id(
    db: VectorDB, notes: Path
) -> None:
    first = db.ingest_file(str(notes))
    again = db.ingest_file(str(notes))
    notes.write_text("# Notes\n\nThe second version speaks of pears.\n")
    changed = db.ingest_file(str(notes))
    assert again == Ingested(status="skipped", document=first.document)
    assert [first.status, again.status, changed.status] == ["indexed", "skipped", "replaced"]
    assert changed.document.doc_id == first.document.doc_id
    assert stored(db) == [changed.document]
    assert (found(db, "apples"), found(db, "pears")) == ([], [notes.read_text()])


def test_the_same_content_in_another_library_is_another_document(db: VectorDB, notes: Path) -> None:
    first = db.ingest_file(str(notes), library="one")
    second = db.ingest_file(str(notes), library="two")
    assert (first.status, second.status) == ("indexed", "indexed")
    assert first.document.doc_id != second.document.doc_id
    assert db.list_libraries() == (
        Library(name="one", document_count=1, chunk_count=1),
        Library(name="two", document_count=1, chunk_count=1),
    )


def test_skipping_writes_nothing_and_loads_no_model(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
    before = listing(home)
    loader = CountingLoader()
    with words_db(home, load=loader) as db:
        assert db.ingest_file(str(notes), metadata={"a": 1}).status == "skipped"
    assert listing(home) == before
    assert (loader.loads, loader.texts) == (0, [])


def test_skipping_imports_neither_the_converter_nor_the_model(home: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html><body><h1>Title</h1><p>A paragraph of text.</p></body></html>")
    with words_db(home) as db:
        db.ingest_file(str(page))
    code = """
import sys
from pathlib import Path
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
with VectorDB(Settings(home=Path(sys.argv[1]), model="minilm")) as db:
    print(db.ingest_file(sys.argv[2]).status)
print(*({"onnxruntime", "tokenizers", "markitdown", "bs4"} & set(sys.modules)))
"""
    arguments = [sys.executable, "-c", code, str(home), str(page)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout == "skipped\n\n"


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"metadata": {"a": 2}}, "metadata"),
        ({"metadata": {}}, "metadata"),
        ({"tags": ["y"]}, "tags"),
        ({"metadata": {"b": 1}, "tags": []}, "metadata and tags"),
    ],
)
def test_skipping_says_what_was_not_stored_and_refresh_stores_it(
    db: VectorDB, notes: Path, asked: dict[str, object], named: str
) -> None:
    first = db.ingest_file(str(notes), metadata={"a": 1}, tags=["x"]).document
    skipped = db.ingest_file(str(notes), **asked)  # type: ignore[arg-type]
    expected = (
        f"The content is unchanged, so the new {named} were not stored. "
        "Call again with refresh: true to store them."
    )
    assert skipped == Ingested(status="skipped", document=first, notice=expected)
    refreshed = db.ingest_file(str(notes), refresh=True, **asked)  # type: ignore[arg-type]
    (document,) = stored(db)
    assert refreshed == Ingested(status="replaced", document=document)
    assert document.metadata == asked.get("metadata", {"a": 1})
    assert document.tags == tuple(asked.get("tags", ["x"]))  # type: ignore[arg-type]


def test_skipping_with_the_same_metadata_and_tags_says_nothing(db: VectorDB, notes: Path) -> None:
    db.ingest_file(str(notes), metadata={"a": 1, "b": [2]}, tags=["x", "y"])
    assert db.ingest_file(str(notes), metadata={"b": [2], "a": 1}, tags=["y", "x"]).notice == ""


def test_a_replacement_keeps_metadata_and_tags_that_are_not_given(db: VectorDB, notes: Path) -> None:
    db.ingest_file(str(notes), metadata={"a": 1}, tags=["x"])
    notes.write_text("Changed once.")
    assert db.ingest_file(str(notes)).status == "replaced"
    (kept,) = stored(db)
    notes.write_text("Changed twice.")
    db.ingest_file(str(notes), metadata={}, tags=[])
    (cleared,) = stored(db)
    assert (kept.metadata, kept.tags, cleared.metadata, cleared.tags) == ({"a": 1}, ("x",), {}, ())


def test_a_shorter_version_leaves_no_passage_of_the_longer_one(db: VectorDB, home: Path, notes: Path) -> None:
    notes.write_text(LONG)
    long = db.ingest_file(str(notes)).document
    assert long.chunk_count > 3
    assert db.get_document(long.doc_id).content == LONG
    notes.write_text("Short now.")
    short = db.ingest_file(str(notes)).document
    table = lancedb.connect(home / "lance").open_table(
        json.loads((home / "database.json").read_text())["table"]
    )
    assert table.count_rows() == short.chunk_count == 1
    assert db.list_libraries() == (Library(name="default", document_count=1, chunk_count=1),)
    assert found(db, "topic8") == []
    assert db.get_document(short.doc_id).content == "Short now."


def test_a_longer_version_is_stored_whole(db: VectorDB, notes: Path) -> None:
    db.ingest_file(str(notes))
    notes.write_text(LONG)
    document = db.ingest_file(str(notes)).document
    assert db.get_document(document.doc_id).content == LONG
    assert found(db, "topic8")[0] in LONG


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ConversionError),
        (b" \n\n", ConversionError),
        (b"%PDF-1.7\n\0\1\2" * 99, ConversionError),
        (b"\x7fELF\0\1\2" * 99, UnsupportedType),
    ],
)
def test_a_file_that_can_no_longer_be_read_leaves_its_old_version(
    db: VectorDB, home: Path, notes: Path, data: bytes, error: type[Exception]
) -> None:
    old = db.ingest_file(str(notes)).document
    content, before = notes.read_text(), listing(home / "lance")
    notes.write_bytes(data)
    with pytest.raises(error):
        db.ingest_file(str(notes))
    assert listing(home / "lance") == before
    assert db.get_document(old.doc_id).document == old
    assert found(db, "apples") == [content]


def test_a_model_that_fails_leaves_the_old_version(home: Path, notes: Path) -> None:
    embedder = FailingEmbedder(failing=False)
    with words_db(home, load=use(embedder)) as db:
        old = db.ingest_file(str(notes)).document
        content, before = notes.read_text(), listing(home / "lance")
        notes.write_text("A version that is never embedded.")
        embedder.failing = True
        with pytest.raises(EmbeddingError, match="damaged"):
            db.ingest_file(str(notes))
        assert listing(home / "lance") == before
        assert stored(db) == [old]
        assert found(db, "apples") == [content]
        embedder.failing = False
        assert db.ingest_file(str(notes)).status == "replaced"


def test_a_model_that_fails_at_the_first_document_makes_no_database(home: Path, notes: Path) -> None:
    with words_db(home, load=FailingEmbedder) as db, pytest.raises(EmbeddingError):
        db.ingest_file(str(notes))
    assert not (home / "database.json").exists()


def test_stopping_in_the_middle_of_an_ingest_writes_nothing(home: Path, notes: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db, ThreadPoolExecutor(1) as pool:
        running = pool.submit(db.ingest_file, str(notes))
        assert embedder.reached.wait(5)
        db.stop()
        embedder.go.set()
        stopped = running.exception(5)
    assert isinstance(stopped, Stopped)
    assert not (home / "database.json").exists()
    # It was asked for, so whoever serves this database next does it.
    with words_db(home) as db:
        (left,) = db.jobs().jobs
        assert (left.status, left.source, left.attempts) == ("queued", str(notes), 0)


def test_searching_goes_on_while_a_document_is_embedded(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db, ThreadPoolExecutor(1) as pool:
        running = pool.submit(db.ingest_source, text("more", "Another text."))
        assert embedder.reached.wait(5)
        assert found(db, "apples") == [notes.read_text()]
        embedder.go.set()
        assert running.result(5).status == "indexed"


def test_many_documents_share_commits_and_keep_their_order(db: VectorDB, home: Path) -> None:
    db.ingest_source(text("text 5", "Text number 5."))
    before = version(home)
    many = [text(f"text {n}", f"Text number {n}.") for n in range(130)]
    results = list(db.ingest_sources(many))
    assert [result.document.source for result in results] == [source.name for source in many]
    assert [n for n, result in enumerate(results) if result.status == "skipped"] == [5]
    assert {result.status for result in results} == {"indexed", "skipped"}
    assert version(home) - before == 3  # 64, 64 and 1 documents
    assert db.list_libraries() == (Library(name="default", document_count=130, chunk_count=130),)


def test_a_result_of_a_bulk_run_is_given_when_its_document_is_stored(db: VectorDB, home: Path) -> None:
    results = db.ingest_sources(text(f"text {n}", f"Text number {n}.") for n in range(70))
    first = next(results)
    with words_db(home) as other:
        assert other.get_document(first.document.doc_id).content == "Text number 0."
        assert other.list_documents().total == 64
    assert len(list(results)) == 69


def test_a_document_that_comes_again_in_one_bulk_run_is_known_by_then(db: VectorDB) -> None:
    many = [
        text("a", "One."),
        text("b", "Two."),
        text("a", "Three."),
        text("a", "Three."),
        text("c", "Four."),
    ]
    results = list(db.ingest_sources(many))
    assert [(result.document.source, result.status) for result in results] == [
        ("a", "indexed"),
        ("b", "indexed"),
        ("a", "replaced"),
        ("a", "skipped"),
        ("c", "indexed"),
    ]
    assert db.get_document(results[0].document.doc_id).content == "Three."
    assert db.list_documents().total == 3


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0", "\x7ftombstone", "x" * 201, "\ud800"])
def test_a_library_or_tag_that_is_no_name_is_refused(
    db: VectorDB, home: Path, notes: Path, name: str
) -> None:
    with pytest.raises(ArgumentError, match="is not a name"):
        db.ingest_file(str(notes), library=name)
    with pytest.raises(ArgumentError, match="is not a name"):
        db.ingest_file(str(notes), tags=["fine", name])
    assert not home.exists()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"a": "x" * 70_000}, "The metadata is larger than 64 KB. Shorten it."),
        ({"a": float("nan")}, "The metadata cannot be stored as JSON: "),
        ({"a": "\ud800"}, "The metadata cannot be stored as JSON: "),
        ({"a": {1, 2}}, "The metadata cannot be stored as JSON: "),
    ],
)
def test_metadata_that_cannot_be_stored_is_refused(
    db: VectorDB, notes: Path, metadata: dict[str, object], message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        db.ingest_file(str(notes), metadata=metadata)
    assert str(caught.value).startswith(message)


def test_a_deleted_document_is_gone_and_can_be_indexed_anew(db: VectorDB, notes: Path) -> None:
    document = db.ingest_file(str(notes)).document
    assert db.delete_document(document.doc_id).deleted_chunks == 1
    assert (stored(db), found(db, "apples"), db.list_libraries()) == ([], [], ())
    assert db.ingest_file(str(notes)).status == "indexed"
