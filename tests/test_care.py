"""Looking after a database: `status`, `doctor`, `export`, `import`, and databases of older programs."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from embedders import CountingLoader, words_db
from mcpvectordb.cli import main
from mcpvectordb.embed import MODELS
from mcpvectordb.errors import EmbedderMismatch, SourceError, StoreError
from mcpvectordb.models import Finding, document_uuid
from mcpvectordb.store import Entry, Store
from mcpvectordb.store.schema import TOMBSTONE
from mcpvectordb.store.transfer import FORMAT, SEAL_BYTES, seal
from mcpvectordb.vectordb import VectorDB
from stores import listing, newest_data_file, rows_in, source, table_folder, table_in, text, tombstones
from support import wait_until

CHECKS = (
    "folder",
    "versions",
    "hidden rows",
    "documents",
    "texts",
    "vectors",
    "indexes",
    "files",
    "left-over tables",
    "upkeep",
    "jobs",
    "left-over job files",
    "model",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


@pytest.fixture
def db(home: Path) -> Iterator[VectorDB]:
    with words_db(home) as db:
        db.ingest_source(source("a", text("a", 1, 3)), tags=["x"], metadata={"n": {"m": 1}})
        db.ingest_source(source("b", text("b", 1, 2), library="papers"))
        yield db


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"MCPVECTORDB_HOME": str(home)}, catch_exceptions=False)


def problems(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {finding.check: finding.problem for finding in findings if finding.problem and not finding.fixed}


def set_values(home: Path, where: str, **values: object) -> None:
    """Change rows behind the program's back."""
    table_in(home).update(where=where, values=values)


def test_a_sound_database_has_no_findings(db: VectorDB) -> None:
    findings = db.doctor()
    assert tuple(finding.check for finding in findings) == CHECKS
    assert problems(findings) == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "holds tables but no database.json"),
        ("", "cannot be read"),
        ('{"schema_version": 99}', "was made by a newer mcpvectordb (schema 99, not 2)"),
    ],
)
def test_a_description_that_is_damaged_missing_or_newer_is_told_and_left_alone(
    db: VectorDB, home: Path, content: str | None, says: str
) -> None:
    db.close()
    described = home / "database.json"
    if content is None:
        described.unlink()
    else:
        described.write_text(content, encoding="utf-8")
    before = listing(home)
    told = run(home, "doctor")
    assert (told.exit_code, told.output.startswith("PROBLEM  folder: ")) == (1, True)
    assert says in told.output
    for command in (["doctor", "--fix"], ["status"], ["export", str(home.parent / "out")]):
        told = run(home, *command)
        assert (told.exit_code, says in told.output) == (1, True)
    assert listing(home) == before


def test_looking_changes_nothing(db: VectorDB, home: Path) -> None:
    db.close()
    before = listing(home)
    with words_db(home) as other:
        other.doctor()
        other.status()
        other.list_documents()
        other.list_libraries()
        other.search("version1")
        other.get_document(document_uuid("default", "a"))
    assert listing(home) == before


@pytest.mark.parametrize(
    ("where", "values", "check", "says"),
    [
        ("chunk_index = 0", {"content": "x"}, "texts", "1 documents are not as they were written: a"),
        ("chunk_index = 0", {"vector": [0.0] * 384}, "vectors", "have vectors that cannot be compared: a"),
        ("chunk_index = 1", {"chunk_index": 77}, "documents", "1 documents are not stored whole: a"),
    ],
)
def test_rows_that_are_not_as_they_were_written_are_found_and_named(
    db: VectorDB, home: Path, where: str, values: dict[str, object], check: str, says: str
) -> None:
    set_values(home, f"{where} AND source = 'a'", **values)
    found = problems(db.doctor())
    assert says in found[check]
    db.ingest_source(source("a", text("a", 1, 3)), refresh=True)
    if check != "documents":  # the row with the wrong number is one too many
        assert problems(db.doctor()) == {}


def test_a_text_whose_bits_have_turned_is_found_although_its_length_is_the_same(
    db: VectorDB, home: Path
) -> None:
    content = next(
        row["content"] for row in rows_in(home) if row["source"] == "a" and row["chunk_index"] == 1
    )
    set_values(home, "chunk_index = 1 AND source = 'a'", content="X" + content[1:])
    assert problems(db.doctor()).keys() == {"texts"}


def test_hidden_rows_and_broken_indexes_are_mended_with_fix(db: VectorDB, home: Path) -> None:
    db.close()  # or its upkeep might mend the index before it is told
    set_values(home, "source = 'a' AND chunk_index = 2", library=TOMBSTONE)
    table_in(home).drop_index("tags_idx")
    with words_db(home) as db:
        found = problems(db.doctor())
        assert found["hidden rows"] == "1 rows of an interrupted replacement are left"
        assert found["indexes"] == "that of tags is missing"
        assert db.status().hidden_rows == 1  # type: ignore[union-attr]
        mended = {finding.check for finding in db.doctor(fix=True) if finding.fixed}
    assert mended == {"hidden rows", "indexes", "upkeep"}
    assert tombstones(home) == 0
    assert "tags_idx" in [index.name for index in table_in(home).list_indices()]


def test_mending_succeeds_beside_writers(db: VectorDB, home: Path) -> None:
    """Of two commits that meet, the one of the tidying fails: that is nothing to tell."""
    over = threading.Event()

    def write(name: str) -> None:
        version = 0
        with words_db(home) as other:
            while not over.is_set():
                other.ingest_source(source(name, text(name, version := version + 1, 1)))

    with ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(write, name) for name in ("one", "two")]
        try:
            for _ in range(12):
                assert db._store.care.mend() == []
        finally:
            over.set()
    assert [task.exception() for task in writing] == [None, None]


def test_the_size_is_told_while_files_come_and_go(db: VectorDB, home: Path) -> None:
    """The engine's drafts vanish between being listed and being measured."""
    is_over = threading.Event()

    def churn() -> None:
        while not is_over.is_set():
            for number in range(50):
                (home / "lance" / f".draft{number}").write_bytes(b"x")
            for number in range(50):
                (home / "lance" / f".draft{number}").unlink()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        assert all(db.status().size_bytes > 0 for _ in range(20))  # type: ignore[union-attr]
    finally:
        is_over.set()
        churning.join()


def test_a_damaged_version_is_told_as_mended(db: VectorDB, home: Path) -> None:
    db.close()
    newest_data_file(home).write_bytes(b"")
    with words_db(home) as other:
        findings = other.doctor()
        (told,) = [finding for finding in findings if finding.check == "versions"]
        assert told.fixed
        assert "its newest good version was restored" in told.problem
        assert other.status().recoveries == (told.problem,)  # type: ignore[union-attr]


def test_where_no_version_reads_whole_the_documents_that_do_are_saved(home: Path) -> None:
    with words_db(home) as db:
        for name in "abc":
            db.ingest_source(source(name, text(name, 1, 2)))
    files = sorted((table_folder(home) / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    files[0].write_bytes(b"")  # the first one: it is in every version
    with words_db(home) as db:
        assert "no version of it reads whole" in problems(db.doctor())["versions"]
        findings = db.doctor(fix=True)
        (told,) = [finding.problem for finding in findings if finding.check == "saved"]
        assert told.startswith("The database could not be read whole. 2 documents were saved; ")
        assert problems(findings) == {}
        assert {document.source for document in db.list_documents().documents} == {"b", "c"}
        assert db.get_document(document_uuid("default", "c")).content == text("c", 1, 2)
        assert db.search("version1", mode="keyword").hits
        assert db.ingest_source(source("a", text("a", 1, 2))).status == "indexed"
        assert problems(db.doctor()) == {}
    assert list((home / "damaged").rglob("*.lance"))


def test_where_rows_cannot_be_read_although_it_opens_the_documents_that_can_are_saved(home: Path) -> None:
    with words_db(home) as db:
        for name in "abc":
            db.ingest_source(source(name, text(name, 1, 2)))
    files = sorted((table_folder(home) / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    raw = files[0].read_bytes()
    # How the column of the titles is written, which no look at the others meets.
    title = table_in(home).schema.get_field_index("title")
    *before, after = raw.split(b"/lance.encodings.ColumnEncoding", title + 1)
    files[0].write_bytes(
        b"/lance.encodings.ColumnEncoding".join(before) + b"/lance.encodings.columnEncoding" + after
    )
    with words_db(home) as db:
        assert "Not all documents can be read." in problems(db.doctor())["documents"]
        findings = db.doctor(fix=True)
        (told,) = [finding.problem for finding in findings if finding.check == "saved"]
        assert "2 documents were saved" in told
        assert problems(findings) == {}
        assert {document.source for document in db.list_documents().documents} == {"b", "c"}
        assert db.get_document(document_uuid("default", "c")).content == text("c", 1, 2)
        assert problems(db.doctor()) == {}


@pytest.mark.parametrize("name", ["Dropbox", "OneDrive - Work", "Google Drive", "Mobile Documents"])
def test_a_folder_that_is_synced_elsewhere_is_told(tmp_path: Path, name: str) -> None:
    with words_db(tmp_path / name / "home") as db:
        assert "kept in step with other machines" in problems(db.doctor())["folder"]


def test_status_tells_counts_size_model_and_cover(db: VectorDB, home: Path) -> None:
    status = db.status()
    assert status is not None
    rows = table_in(home).count_rows()
    assert (status.documents, status.passages, status.schema_version) == (2, rows, 2)
    assert [(one.name, one.document_count) for one in status.libraries] == [("default", 1), ("papers", 1)]
    assert status.model["name"] == "minilm"
    assert 0 < status.unindexed_passages < rows
    assert (status.has_vector_index, status.hidden_rows) == (False, 0)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert status.files == len(files)
    assert any("passages to add to the indexes" in told for told in status.pending)
    wait_until(db.tidy)
    tidied = db.status()
    assert tidied is not None
    assert (tidied.unindexed_passages, tidied.pending) == (0, ())


def test_the_commands_print_what_they_find(db: VectorDB, home: Path) -> None:
    shown = run(home, "status")
    assert shown.exit_code == 0
    assert f"folder      {home}" in shown.output
    assert "library   papers: 1 documents" in shown.output
    as_json = json.loads(run(home, "status", "--json").output)
    assert (as_json["document_count"], as_json["model"]["name"]) == (2, "minilm")
    table_in(home).drop_index("tags_idx")
    checked = run(home, "doctor")
    assert checked.exit_code == 1
    assert "PROBLEM  indexes: that of tags is missing. Run `mcpvectordb doctor --fix`." in checked.output
    assert "fixed    indexes" in run(home, "doctor", "--fix").output
    again = run(home, "doctor", "--json")
    assert (again.exit_code, {one["problem"] for one in json.loads(again.output)}) == (0, {""})


def test_status_of_no_database_says_so(tmp_path: Path) -> None:
    shown = run(tmp_path / "nothing", "status")
    assert (shown.exit_code, shown.output) == (0, f"There is no database in {tmp_path / 'nothing'} yet.\n")
    assert not (tmp_path / "nothing").exists()


def test_an_exported_library_is_imported_row_for_row_and_nothing_is_embedded(
    db: VectorDB, home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "all.mcpv"
    done = db.export_file(str(file))
    assert (done.documents, done.size_bytes) == (2, file.stat().st_size)
    loader = CountingLoader()
    with words_db(tmp_path / "other", load=loader) as other:
        first = other.import_file(str(file))
        assert (first.documents, first.passages, first.skipped) == (2, done.passages, 0)
        assert rows_in(tmp_path / "other") == rows_in(home)
        assert other.list_documents().documents == db.list_documents().documents
        again = other.import_file(str(file))
        assert (again.documents, again.skipped) == (0, 2)
        assert loader.texts == []
        assert other.search("version1", library="papers").hits
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_one_library_can_be_exported_and_put_into_another(db: VectorDB, tmp_path: Path) -> None:
    file = tmp_path / "papers.mcpv"
    assert db.export_file(str(file), library="papers").documents == 1
    assert db.import_file(str(file), library="copies").documents == 1
    (copy,) = db.list_documents(library="copies").documents
    assert copy.doc_id == document_uuid("copies", "b")
    assert db.get_document(copy.doc_id).content == text("b", 1, 2)
    with pytest.raises(StoreError, match="the library 'none' has no documents"):
        db.export_file(str(file), library="none")


def test_two_libraries_that_have_the_same_source_are_not_put_into_one(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.mcpv"
    with words_db(home) as db:
        for library in ("letters", "papers"):
            db.ingest_source(source("a", text(f"a of {library}", 1, 2), library))
        db.export_file(str(file))
    with words_db(tmp_path / "other") as other:
        with pytest.raises(
            SourceError, match=r"holds a in the libraries .* Import the file without a library"
        ):
            other.import_file(str(file), library="copies")
        assert other.status() is None
        assert other.import_file(str(file)).documents == 2


def test_no_document_is_written_twice_at_once_to_a_new_database_either(db: VectorDB, tmp_path: Path) -> None:
    document, chunks = db.read.whole(document_uuid("papers", "b"))
    vectors = np.ones((len(chunks), 384), dtype=np.float32)
    one = Entry(document=document, chunks=chunks, embed_hashes=[""] * len(chunks), vectors=vectors)
    store = Store(tmp_path / "other")
    with pytest.raises(StoreError, match="stands twice in one batch"):
        store.write.replace([one, one], MODELS["minilm"].identity)
    assert store.database() is None


@pytest.mark.parametrize("place", ["folder", "/", "pipe", "a" * 256, f"{'a' * 256}/all.mcpv"])
def test_a_place_that_no_export_can_be_written_to_is_an_error(
    db: VectorDB, tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    if place == "pipe":
        if os.name != "posix":
            pytest.skip("this system has no pipes in folders")
        os.mkfifo(tmp_path / place)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(StoreError, match=r"Cannot write .* Choose another place"):
        db.export_file(str(tmp_path / place))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_two_exports_to_one_file_at_once_do_not_meet(db: VectorDB, tmp_path: Path) -> None:
    file = tmp_path / "all.mcpv"
    with ThreadPoolExecutor(4) as pool:
        assert [done.documents for done in pool.map(lambda _: db.export_file(str(file)), range(4))] == [2] * 4
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def rewrite(
    file: Path, *, model: dict[str, Any] | None = None, columns: dict[str, Any] | None = None, **said: Any
) -> None:
    """Change an exported file as another program could that makes such files; None takes a key away."""
    with pa.OSFile(str(file), "rb") as raw:
        table = pa.ipc.open_file(raw.read_buffer()[:-SEAL_BYTES]).read_all()
    header = json.loads(table.schema.metadata[b"mcpvectordb"]) | said
    header["model"] |= model or {}
    header["model"] = {name: value for name, value in header["model"].items() if value is not None}
    for name, value in (columns or {}).items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array([value] * len(table), table.schema.field(name).type))
    table = table.replace_schema_metadata({b"mcpvectordb": json.dumps(header).encode()})
    with pa.OSFile(str(file), "wb") as raw, pa.ipc.new_file(raw, table.schema) as writer:
        writer.write_table(table)
    seal(file)


def test_a_file_of_another_model_is_refused_with_the_way_out(
    db: VectorDB, home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "all.mcpv"
    db.export_file(str(file))
    rewrite(file, model={"revision": "another"})
    before = listing(home / "lance")
    with pytest.raises(EmbedderMismatch) as caught:
        db.import_file(str(file))
    assert str(caught.value).endswith(
        "Import it into a database of its own: set MCPVECTORDB_HOME to a new folder."
    )
    assert "all.mcpv holds vectors of" in str(caught.value)
    assert listing(home / "lance") == before


@pytest.mark.parametrize("damage", ["cut", "other", "missing"])
def test_a_file_that_is_no_whole_export_is_refused(db: VectorDB, tmp_path: Path, damage: str) -> None:
    file = tmp_path / "all.mcpv"
    db.export_file(str(file))
    raw = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(raw[: len(raw) // 2] if damage == "cut" else b"something else")
    with pytest.raises(
        SourceError, match="There is no file" if damage == "missing" else "not a whole export"
    ):
        db.import_file(str(file))
    assert db.list_documents().total == 2


def test_no_bit_of_an_export_may_turn(db: VectorDB, home: Path, tmp_path: Path) -> None:
    """Arrow lets many pass: some change a text, some end the program that reads them."""
    file = tmp_path / "all.mcpv"
    db.export_file(str(file))
    raw = file.read_bytes()
    before = listing(home / "lance")
    for at in range(0, len(raw), len(raw) // 100):
        file.write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
        with pytest.raises(SourceError, match="is not a whole export"):
            db.import_file(str(file))
    assert listing(home / "lance") == before


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"repository": None}},
        {"model": {"name": None}},
        {"model": {"dimensions": "many"}},
        {"model": {"dimensions": 7}},
        {"format": "first"},
        {"columns": {"metadata": "{"}},
        {"columns": {"library": "another"}},
        {"columns": {"library": None}},
    ],
    ids=str,
)
def test_a_file_that_contradicts_itself_is_refused_and_makes_no_database(
    db: VectorDB, tmp_path: Path, changes: dict[str, Any]
) -> None:
    file = tmp_path / "all.mcpv"
    db.export_file(str(file))
    rewrite(file, **changes)
    with words_db(tmp_path / "other") as other:
        with pytest.raises(SourceError, match=re.escape(str(file))):
            other.import_file(str(file))
        assert other.status() is None
    assert not (tmp_path / "other").exists()


def test_a_file_of_a_newer_program_is_refused(db: VectorDB, tmp_path: Path) -> None:
    file = tmp_path / "all.mcpv"
    db.export_file(str(file))
    rewrite(file, format=FORMAT + 1, model={"repository": None})
    with pytest.raises(SourceError, match="was exported by a newer mcpvectordb"):
        db.import_file(str(file))


def test_an_imported_upload_has_the_stored_file_that_is_here_and_no_other(
    db: VectorDB, home: Path, tmp_path: Path
) -> None:
    set_values(home, "source = 'b'", stored_path="files/b/b.md")
    file = tmp_path / "all.mcpv"
    db.export_file(str(file))
    assert db.import_file(str(file)).skipped == 2
    with words_db(tmp_path / "other") as other:
        assert other.import_file(str(file)).documents == 2
        assert {document.stored_path for document in other.list_documents().documents} == {""}
        assert other.import_file(str(file)).skipped == 2


def test_an_export_that_cannot_be_written_leaves_the_old_file(db: VectorDB, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^Cannot write .*nowhere"):
        db.export_file(str(tmp_path / "nowhere" / "all.mcpv"))


def test_the_commands_export_and_import(db: VectorDB, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.mcpv"
    told = run(home, "export", str(file))
    assert told.output.startswith("Exported 2 documents (")
    told = run(tmp_path / "other", "import", str(file))
    assert told.output.startswith("Imported 2 documents (")
    assert rows_in(tmp_path / "other") == rows_in(home)
    refused = run(tmp_path / "other", "import", str(home / "database.json"))
    assert (refused.exit_code, "is not a whole export" in refused.output) == (1, True)


def as_schema_1(home: Path) -> list[dict[str, Any]]:
    """The database as the first release made it; its rows."""
    table_in(home).drop_columns(["text_hash"])
    described = json.loads((home / "database.json").read_text(encoding="utf-8"))
    (home / "database.json").write_text(json.dumps(described | {"schema_version": 1}), encoding="utf-8")
    return rows_in(home)


def test_a_database_of_an_older_program_is_read_as_it_is_and_migrated_by_the_first_write(
    db: VectorDB, home: Path
) -> None:
    expected = rows_in(home)
    db.close()
    old = as_schema_1(home)
    before = listing(home)
    with words_db(home) as other:
        assert other.get_document(document_uuid("default", "a")).content == text("a", 1, 3)
        assert other.search("version1").hits
        assert problems(other.doctor()) == {}
        assert listing(home) == before
        other.ingest_source(source("c", text("c", 1, 1)))
        assert other.status().schema_version == 2  # type: ignore[union-attr]
        migrated = [row for row in rows_in(home) if row["source"] != "c"]
    assert migrated == expected
    assert [{k: v for k, v in row.items() if k != "text_hash"} for row in migrated] == old


def test_a_migration_that_was_cut_off_is_done_again(db: VectorDB, home: Path) -> None:
    """Between the new column and the new description."""
    db.close()
    described = json.loads((home / "database.json").read_text(encoding="utf-8"))
    (home / "database.json").write_text(json.dumps(described | {"schema_version": 1}), encoding="utf-8")
    with words_db(home) as other:
        other.ingest_source(source("c", text("c", 1, 1)))
        assert other.status().schema_version == 2  # type: ignore[union-attr]
        assert problems(other.doctor()) == {}
