"""The database on disk: crashes, other processes, damage. Real tables, real processes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import words_db
from mcpvectordb.errors import DocumentNotFound, EmbedderMismatch, StoreError
from mcpvectordb.models import Library, document_number, document_uuid
from mcpvectordb.vectordb import VectorDB
from stores import listing, source, spawn, table_in, tombstones

OLD = "".join(
    f"## Part {n}\n\nThe old topic{n} is told here. {'Old words follow. ' * 60}\n\n" for n in range(6)
)
NEW = "Only this new sentence is left.\n"
# The list of the design, and text_hash, which came with schema 2 (see docs/architecture.md).
COLUMNS = """
    id doc_id document_id library source title file_type last_modified page page_end chunk_index chunk_count
    start end headings content search_text exact_text embed_hash vector content_hash created_at tags metadata
    metadata_terms kind stored_path mtime_ns size etag pipeline text_hash
"""
# Kills its process when the table's method of that name is called, as a loss of power would.
DIES = """
import os, sys
from pathlib import Path
from embedders import words_db

class DyingTable:
    def __init__(self, table, method):
        self._table, self._method = table, method

    def __getattr__(self, name):
        if name == self._method:
            os._exit(9)
        return getattr(self._table, name)

home, path, method = sys.argv[1:]
db = words_db(Path(home))
connection = db._store._connection
connection._table = DyingTable(connection.table(), method)
db.ingest_file(path)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "notes.md"
    path.write_text(OLD)
    return path


@pytest.fixture
def db(home: Path) -> Iterator[VectorDB]:
    with words_db(home) as db:
        yield db


def test_the_table_has_every_column_of_the_design(db: VectorDB, home: Path, notes: Path) -> None:
    db.ingest_file(str(notes))
    assert table_in(home).schema.names == COLUMNS.split()


def test_the_columns_of_a_row_are_filled(db: VectorDB, home: Path, notes: Path) -> None:
    document = db.ingest_file(str(notes), metadata={"a": {"b": 1}}, tags=["x"]).document
    rows = sorted(table_in(home).to_arrow().to_pylist(), key=lambda row: row["chunk_index"])
    assert "".join(row["content"] for row in rows) == OLD
    assert [OLD[row["start"] : row["end"]] for row in rows] == [row["content"] for row in rows]
    assert [row["id"] for row in rows] == [f"{document.doc_id}#{n}" for n in range(document.chunk_count)]
    assert {row["document_id"] for row in rows} == {document.document_id}
    assert {row["metadata"] for row in rows} == {'{"a": {"b": 1}}'}
    assert [row["metadata_terms"] for row in rows] == [["a.b=1"]] * len(rows)
    assert {len(row["embed_hash"]) for row in rows} == {64}


@given(st.text(), st.text())
def test_a_documents_number_has_53_bits_of_its_id(library: str, name: str) -> None:
    doc_id = document_uuid(library, name)
    assert 0 <= document_number(doc_id) < 2**53
    assert f"{document_number(doc_id):053b}" == f"{int(doc_id.replace('-', ''), 16):0128b}"[:53]


@given(st.text(), st.text(), st.text(), st.text())
def test_different_documents_have_different_ids(a: str, b: str, c: str, d: str) -> None:
    assert (document_uuid(a, b) == document_uuid(c, d)) == ((a, b) == (c, d))


@pytest.mark.parametrize(
    ("method", "content", "left"),
    [("merge_insert", OLD, False), ("delete", NEW, True)],
    ids=["before the commit", "between the commit and the clean-up"],
)
def test_a_crash_leaves_the_old_document_or_the_new_one_whole(
    db: VectorDB, home: Path, notes: Path, method: str, content: str, left: bool
) -> None:
    old = db.ingest_file(str(notes)).document
    notes.write_text(NEW)
    process = spawn(DIES, home, notes, method)
    assert process.wait(60) == 9
    assert (tombstones(home) > 0) == left

    text = db.get_document(old.doc_id)
    chunks = text.document.chunk_count
    assert text.content == content
    assert db.list_libraries() == (Library(name="default", document_count=1, chunk_count=chunks),)
    assert db.list_documents().documents == (text.document,)
    for mode in ("hybrid", "keyword", "vector"):
        hits = db.search("old topic5 new sentence", mode=mode, top_k=50).hits
        assert {hit.chunk.content in content for hit in hits} == {True}

    db.ingest_source(source("other", "Another document."))
    assert tombstones(home) == 0
    assert table_in(home).count_rows() == chunks + 1
    assert db.ingest_file(str(notes)).status == ("skipped" if left else "replaced")
    assert db.get_document(old.doc_id).content == NEW


def test_a_crash_while_the_first_table_is_made_leaves_an_empty_database(
    db: VectorDB, home: Path, notes: Path, tmp_path: Path
) -> None:
    db.ingest_file(str(notes))
    crashed = tmp_path / "crashed"
    (table,) = (home / "lance").iterdir()
    shutil.copytree(table / "data", crashed / "lance" / table.name / "data")
    described = json.loads((home / "database.json").read_text(encoding="utf-8"))
    assert described.pop("has_table")  # written last of all
    (crashed / "database.json").write_text(json.dumps(described), encoding="utf-8")
    with words_db(crashed) as other:
        assert (other.list_documents().total, other.search("old").hits) == (0, ())
        document = other.ingest_file(str(notes)).document
        assert other.get_document(document.doc_id).content == OLD


@pytest.mark.parametrize("torn", ["no version", "an empty version", "an empty data file"])
def test_a_first_write_that_was_cut_off_is_begun_anew_and_what_follows_is_not_lost(
    db: VectorDB, home: Path, notes: Path, torn: str
) -> None:
    db.ingest_file(str(notes))
    described = json.loads((home / "database.json").read_text(encoding="utf-8"))
    (home / "database.json").write_text(json.dumps(described | {"has_table": False}), encoding="utf-8")
    (table,) = (home / "lance").iterdir()
    if torn == "no version":
        for manifest in (table / "_versions").iterdir():
            manifest.unlink()
    else:
        for path in (table / ("data" if "data" in torn else "_versions")).iterdir():
            path.write_bytes(b"")
    with words_db(home) as other:
        assert (other.list_documents().total, other.list_documents().notice) == (0, "")
        document = other.ingest_file(str(notes)).document
        assert other.get_document(document.doc_id).content == OLD
    assert json.loads((home / "database.json").read_text(encoding="utf-8"))["has_table"]


def test_a_table_whose_maker_was_killed_is_never_taken_for_an_empty_database_once_it_is_written_to(
    db: VectorDB, home: Path, notes: Path
) -> None:
    db.ingest_file(str(notes))
    described = json.loads((home / "database.json").read_text(encoding="utf-8"))
    (home / "database.json").write_text(json.dumps(described | {"has_table": False}), encoding="utf-8")
    with words_db(home) as other:
        other.ingest_source(source("another", "Acknowledged."))
    shutil.rmtree(home / "lance")
    with words_db(home) as other, pytest.raises(StoreError, match="is gone"):
        other.list_documents()


def test_a_document_that_was_looked_for_is_looked_for_again_once_somebody_has_written(
    db: VectorDB, home: Path
) -> None:
    db.ingest_source(source("other", "Another one."))
    wanted = source("wanted", "The one that is looked for.")
    with words_db(home) as writer:
        for _ in range(2):
            assert [db._store.read.find(wanted.doc_id) for _ in range(2)] == [None, None]
            writer.ingest_source(wanted)
            found = [db._store.read.find(wanted.doc_id) for _ in range(2)]
            assert [one and one.source for one in found] == ["wanted", "wanted"]
            writer.delete_document(wanted.doc_id)


def test_a_commit_is_seen_by_the_next_call_of_another_reader(db: VectorDB, home: Path) -> None:
    with words_db(home) as reader:
        assert reader.list_documents().total == 0
        first = db.ingest_source(source("a", "First version.")).document
        assert reader.get_document(first.doc_id).content == "First version."
        db.ingest_source(source("a", "Second version."))
        assert reader.get_document(first.doc_id).content == "Second version."
        assert [hit.chunk.content for hit in reader.search("second").hits] == ["Second version."]
        db.delete_document(first.doc_id)
        assert reader.list_documents().total == 0


def test_reading_an_empty_home_makes_no_file(db: VectorDB, home: Path) -> None:
    assert db.list_documents().documents == ()
    assert db.list_libraries() == ()
    assert db.search("anything").hits == ()
    with pytest.raises(DocumentNotFound):
        db.get_document("no such document")
    assert not home.exists()


def test_a_database_of_a_newer_program_is_refused_untouched(db: VectorDB, home: Path, notes: Path) -> None:
    db.ingest_file(str(notes))
    db.close()
    described = json.loads((home / "database.json").read_text())
    (home / "database.json").write_text(
        json.dumps(described | {"schema_version": 99, "model": "of tomorrow"})
    )
    before = listing(home)
    expected = (
        f"{home} was made by a newer mcpvectordb (schema 99, not 2). "
        "Upgrade mcpvectordb; nothing was changed."
    )
    with words_db(home) as other:
        for call in (
            lambda: other.search("old"),
            other.list_libraries,
            lambda: other.ingest_file(str(notes)),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert str(caught.value) == expected
    assert listing(home) == before


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "null", "7", "{}", '{"schema_version": "x"}', "\0" * 100, "model", "dimensions", "table"],
)
def test_a_damaged_description_is_an_error_that_says_so(
    db: VectorDB, home: Path, notes: Path, damage: str
) -> None:
    db.ingest_file(str(notes))
    db.close()
    path = home / "database.json"
    described = json.loads(path.read_text())
    texts = {
        "model": json.dumps(described | {"model": "minilm"}),
        "dimensions": json.dumps(described | {"model": described["model"] | {"dimensions": "many"}}),
        "table": json.dumps({key: value for key, value in described.items() if key != "table"}),
    }
    path.write_text(texts.get(damage, damage))
    with words_db(home) as other:
        for call in (
            lambda: other.search("old"),
            other.list_libraries,
            lambda: other.ingest_file(str(notes)),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert str(caught.value).startswith(f"{path} ")
            assert str(caught.value).endswith("Restore it from a backup.")


def test_tables_without_their_description_are_a_loss_and_no_new_database(
    db: VectorDB, home: Path, notes: Path
) -> None:
    db.ingest_file(str(notes))
    (home / "database.json").unlink()
    expected = (
        f"{home} holds tables but no database.json. "
        "Restore that file from a backup, or set MCPVECTORDB_HOME to another folder."
    )
    before = listing(home / "lance")
    with words_db(home) as other:
        for call in (
            lambda: other.search("old"),
            other.list_libraries,
            lambda: other.ingest_file(str(notes)),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert str(caught.value) == expected
    assert listing(home / "lance") == before


def test_a_table_whose_versions_are_gone_is_an_error(db: VectorDB, home: Path, notes: Path) -> None:
    """A damaged table must not look like one without a match."""
    db.ingest_file(str(notes))
    db.close()
    (table,) = (home / "lance").iterdir()
    for manifest in (table / "_versions").iterdir():
        manifest.unlink()
    with words_db(home) as other, pytest.raises(StoreError, match="cannot be opened"):
        other.search("old", mode="keyword")


def test_a_home_below_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    home = tmp_path / "file" / "home"
    with words_db(home) as db:
        for call in (db.list_documents, lambda: db.ingest_source(source("a", "Text."))):
            with pytest.raises(StoreError, match=r"home cannot be read: .*\. Check MCPVECTORDB_HOME\.$"):
                call()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_is_an_error(home: Path) -> None:
    home.mkdir(mode=0o500)
    with words_db(home) as db, pytest.raises(StoreError) as caught:
        db.ingest_source(source("a", "Text."))
    assert str(caught.value) == f"Cannot write to {home}: Permission denied. Check the folder."


def test_a_home_whose_name_is_too_long_is_an_error(tmp_path: Path) -> None:
    with (
        words_db(tmp_path / ("x" * 300)) as db,
        pytest.raises(StoreError, match=r"Check MCPVECTORDB_HOME\.$"),
    ):
        db.search("anything")


def test_a_database_of_another_model_is_refused(db: VectorDB, home: Path, notes: Path) -> None:
    db.ingest_file(str(notes))
    db.close()
    described = json.loads((home / "database.json").read_text())
    described["model"]["revision"] = "another"
    (home / "database.json").write_text(json.dumps(described))
    with words_db(home) as other:
        assert other.search("topic5", mode="keyword").hits
        with pytest.raises(EmbedderMismatch, match="Set MCPVECTORDB_MODEL=auto"):
            other.ingest_source(source("a", "Text."))


@pytest.mark.parametrize("doc_id", ["", "no such", "' OR '1'='1", "\x7ftombstone", "a\0b"])
def test_an_unknown_document_is_an_error(db: VectorDB, notes: Path, doc_id: str) -> None:
    db.ingest_file(str(notes))
    for call in (db.get_document, db.delete_document):
        with pytest.raises(DocumentNotFound) as caught:
            call(doc_id)
        expected = f"There is no document {doc_id!r}. Take a doc_id from search or list_documents."
        assert str(caught.value) == expected
    assert db.list_documents().total == 1


def test_documents_are_listed_newest_first_in_pages(db: VectorDB) -> None:
    for n in range(5):
        db.ingest_source(source(f"text {n}", f"Text number {n}."), tags=["even" if n % 2 == 0 else "odd"])
    pages = [db.list_documents(limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [[document.source for document in page.documents] for page in pages] == [
        ["text 4", "text 3"],
        ["text 2", "text 1"],
        ["text 0"],
        [],
    ]
    assert [page.total for page in pages] == [5, 5, 5, 5]
    assert [document.source for document in db.list_documents(tags=["odd"]).documents] == ["text 3", "text 1"]
