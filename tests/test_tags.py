"""Setting the tags of an indexed document: one commit, nothing else of it changes, no race loses them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedders import BlockingEmbedder, CountingLoader, use, words_db
from mcpvectordb.errors import ArgumentError, DocumentNotFound
from mcpvectordb.store import filters
from mcpvectordb.vectordb import VectorDB
from stores import rows_in, source, spawn, table_in, text, tombstones
from support import Server, serving
from test_filters import VALUES


@pytest.fixture
def db(tmp_path: Path) -> Iterator[VectorDB]:
    with words_db(tmp_path) as db:
        yield db


def tags_of(db: VectorDB, doc_id: str) -> tuple[str, ...]:
    return db.get_document(doc_id).document.tags


def tagged(db: VectorDB, *tags: str) -> list[str]:
    return [document.source for document in db.list_documents(tags=tags).documents]


def test_tags_take_the_place_of_the_old_ones_and_nothing_else_changes(db: VectorDB, tmp_path: Path) -> None:
    before = db.ingest_source(source("a", text("a", 1, 5)), tags=["old"], metadata={"k": 1}).document
    db.ingest_source(source("b", text("b", 1, 2)), tags=["old"])
    rows = rows_in(tmp_path)
    version = table_in(tmp_path).version
    changed = db.set_tags(before.doc_id, ["new", "two words", "new"])
    assert changed.tags == ("new", "two words")
    assert table_in(tmp_path).version == version + 1
    # created_at is when the text was indexed, and that is no later for new tags.
    assert db.get_document(before.doc_id).document == changed
    assert changed.created_at == before.created_at
    assert rows_in(tmp_path) == [
        row | {"tags": ["new", "two words"]} if row["doc_id"] == before.doc_id else row for row in rows
    ]
    assert (tagged(db, "new"), tagged(db, "old"), tagged(db, "new", "old")) == (["a"], ["b"], [])


def test_no_tags_take_all_of_them_away(db: VectorDB, tmp_path: Path) -> None:
    doc_id = db.ingest_source(source("a", "# A\n\nSome words.\n"), tags=["x"]).document.doc_id
    assert db.set_tags(doc_id, []).tags == ()
    assert tags_of(db, doc_id) == ()
    assert [row["tags"] for row in rows_in(tmp_path)] == [[]]
    assert db.set_tags(doc_id, ["y"]).tags == ("y",)
    assert tagged(db, "y") == ["a"]


def test_the_same_tags_again_write_nothing(db: VectorDB, tmp_path: Path) -> None:
    doc_id = db.ingest_source(source("a", "# A\n\nSome words.\n"), tags=["x", "y"]).document.doc_id
    version = table_in(tmp_path).version
    assert db.set_tags(doc_id, ["x", "y"]).tags == ("x", "y")
    assert table_in(tmp_path).version == version


def test_any_words_may_be_tags_and_are_found_by_them(db: VectorDB) -> None:
    doc_id = db.ingest_source(source("a", "# A\n\nSome words.\n")).document.doc_id
    assert db.set_tags(doc_id, VALUES).tags == VALUES
    assert tags_of(db, doc_id) == VALUES
    for tag in VALUES:
        assert tagged(db, tag) == ["a"], tag
    assert tagged(db, "x") == []


@pytest.mark.parametrize("tag", ["", "  ", "a\nb", "x" * 201, "\x7ftombstone", "\ud800"])
def test_what_is_no_tag_is_refused(db: VectorDB, tag: str) -> None:
    doc_id = db.ingest_source(source("a", "# A\n\nSome words.\n"), tags=["x"]).document.doc_id
    with pytest.raises(ArgumentError, match="is not a name"):
        db.set_tags(doc_id, ["good", tag])
    assert tags_of(db, doc_id) == ("x",)


def test_a_document_that_is_not_there_is_said(db: VectorDB) -> None:
    with pytest.raises(DocumentNotFound):
        db.set_tags("it's", ["x"])  # nothing indexed at all
    db.ingest_source(source("a", "# A\n\nSome words.\n"))
    with pytest.raises(DocumentNotFound, match=r"There is no document \"it's\"\. Take a doc_id from search"):
        db.set_tags("it's", ["x"])


def test_search_finds_the_document_as_before_by_words_and_by_meaning(db: VectorDB) -> None:
    doc_id = db.ingest_source(source("a", "# Kettle\n\nThe kettle is on.\n")).document.doc_id
    db.ingest_source(source("b", "# Harbour\n\nThe kettle is off in the harbour.\n"))

    # Not the scores: BM25 of a row that was written anew is another until upkeep brings it into the index.
    def found(**options: object) -> list[list[str]]:
        modes = ("keyword", "vector", "hybrid")
        results = [db.search("kettle is on", mode=mode, **options) for mode in modes]  # type: ignore[arg-type]
        return [[hit.document.source for hit in result.hits] for result in results]

    before = found()
    db.set_tags(doc_id, ["kitchen"])
    assert found() == before
    assert found(tags=("kitchen",)) == [["a"]] * 3
    db.tidy()  # which gives the rows back to the indexes
    assert found() == before
    assert found(tags=("kitchen",)) == [["a"]] * 3


def test_nothing_is_embedded_for_it(tmp_path: Path) -> None:
    loader = CountingLoader()
    with words_db(tmp_path, load=loader) as db:
        doc_id = db.ingest_source(source("a", text("a", 1, 5))).document.doc_id
        embedded = len(loader.texts)
        db.set_tags(doc_id, ["x"])
        assert len(loader.texts) == embedded


def test_they_are_on_the_disk_when_the_call_returns(tmp_path: Path) -> None:
    synced: list[Path] = []
    settings = words_db(tmp_path).settings
    with VectorDB(settings, load=CountingLoader(), sync=synced.extend) as db:
        doc_id = db.ingest_source(source("a", text("a", 1, 5))).document.doc_id
        db._store.upkeep.is_paused = True
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        synced.clear()
        db.set_tags(doc_id, ["x"])
        new = {path for path in (tmp_path / "lance").rglob("*") if path.is_file()} - before
        assert new
        assert new <= set(synced)


def test_a_replacement_that_was_being_embedded_keeps_the_tags_set_meanwhile(tmp_path: Path) -> None:
    embedder = BlockingEmbedder()
    embedder.go.set()
    with words_db(tmp_path, load=use(embedder)) as db:
        doc_id = db.ingest_source(source("a", text("a", 1, 5)), tags=["old"]).document.doc_id
        embedder.go.clear()
        embedder.reached.clear()
        replacing = threading.Thread(target=lambda: db.ingest_source(source("a", text("a", 2, 3))))
        replacing.start()
        assert embedder.reached.wait(30)
        db.set_tags(doc_id, ["set meanwhile"])
        embedder.go.set()
        replacing.join(30)
        assert "version2" in db.get_document(doc_id).content
        assert tags_of(db, doc_id) == ("set meanwhile",)
        assert {tuple(row["tags"]) for row in rows_in(tmp_path)} == {("set meanwhile",)}
        assert tombstones(tmp_path) == 0


def test_a_replacement_that_brings_tags_of_its_own_has_them(tmp_path: Path) -> None:
    with words_db(tmp_path) as db:
        doc_id = db.ingest_source(source("a", text("a", 1, 5)), tags=["old"]).document.doc_id
        db.ingest_source(source("a", text("a", 2, 3)), tags=["own"])
        assert tags_of(db, doc_id) == ("own",)
        db.ingest_source(source("a", text("a", 3, 3)), tags=[])
        assert tags_of(db, doc_id) == ()


TAGGING = """
import sys
from pathlib import Path
from embedders import words_db
from stores import source, text

home, doc_id, who = sys.argv[1:]
with words_db(Path(home)) as db:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(12):
        if who == "replacer":
            db.ingest_source(source("a", text("a", n, 2 + n % 4)))
        else:
            db.set_tags(doc_id, [who, str(n)])
"""


def test_processes_that_set_tags_and_replace_leave_one_whole_document(tmp_path: Path) -> None:
    with words_db(tmp_path) as db:
        doc_id = db.ingest_source(source("a", text("a", 99, 3))).document.doc_id
        db.ingest_source(source("b", text("b", 1, 3)), tags=["b"])
        others = [spawn(TAGGING, tmp_path, doc_id, who) for who in ("replacer", "one", "two")]
        for process in others:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in others:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.close()
        assert [process.wait(120) for process in others] == [0, 0, 0]
        rows = [row for row in rows_in(tmp_path) if row["doc_id"] == doc_id]
        assert len(rows) == rows[0]["chunk_count"]
        (tags,) = {tuple(row["tags"]) for row in rows}
        assert tags in {("one", "11"), ("two", "11")}
        assert "version11" in db.get_document(doc_id).content
        assert tagged(db, "b") == ["b"]
        assert not any(finding.problem for finding in db.doctor())


def test_a_list_of_texts_is_quoted(db: VectorDB) -> None:
    assert filters.texts(["it's", "b"]) == "arrow_cast(make_array('it''s', 'b'), 'List(Utf8)')"
    assert filters.texts([]) == "arrow_cast(make_array(), 'List(Utf8)')"


def test_the_tags_of_a_file_stay_when_it_is_indexed_again_without_any(db: VectorDB, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A\n\nSome words.\n", encoding="utf-8")
    doc_id = db.ingest_file(str(path)).document.doc_id
    db.set_tags(doc_id, ["x"])
    path.write_text("# A\n\nOther words.\n", encoding="utf-8")
    assert db.ingest_file(str(path)).status == "replaced"
    assert tags_of(db, doc_id) == ("x",)


# --- the tools


def test_the_tools_tag_a_document_and_find_it_by_its_tags(stdio: Server, library: str) -> None:
    first = stdio.ok(
        "ingest_file", path=stdio.write("ferry.md", "# Ferry\n\nIt sails at nine.\n"), library=library
    )
    path = stdio.write("bus.md", "# Bus\n\nIt leaves at nine.\n")
    second = stdio.ok("ingest_file", path=path, library=library, tags=["travel"])
    answer = stdio.ok("set_tags", doc_id=first["doc_id"], tags=["travel", "sea", "sea"])
    assert answer == {
        "status": "tagged",
        "doc_id": first["doc_id"],
        "source": first["source"],
        "title": "Ferry",
        "library": library,
        "tags": ["travel", "sea"],
    }

    def ids(tool: str, **arguments: object) -> list[str]:
        answer = stdio.ok(tool, library=library, **arguments)
        return [each["doc_id"] for each in answer.get("results", answer.get("documents"))]

    for tool, arguments in (("list_documents", {}), ("search", {"query": "at nine"})):
        assert set(ids(tool, tags=["travel"], **arguments)) == {first["doc_id"], second["doc_id"]}
        assert ids(tool, tags=["sea", "travel"], **arguments) == [first["doc_id"]]
        assert ids(tool, tags=["sea", "bus"], **arguments) == []
        assert len(ids(tool, tags=None, **arguments)) == len(ids(tool, tags=[], **arguments)) == 2
    assert stdio.ok("set_tags", doc_id=first["doc_id"], tags=[])["tags"] == []
    assert ids("list_documents", tags=["sea"]) == []


def test_tags_may_come_as_json_and_bad_ones_are_said(stdio: Server, library: str) -> None:
    doc_id = stdio.ok("ingest_file", path=stdio.write("tram.md", "# Tram\n\nRails.\n"), library=library)[
        "doc_id"
    ]
    assert stdio.ok("set_tags", doc_id=doc_id, tags='["a", "b"]')["tags"] == ["a", "b"]
    assert "There is no document" in stdio.error("set_tags", doc_id="nobody", tags=["a"])
    assert "is not a name" in stdio.error("set_tags", doc_id=doc_id, tags=["a\nb"])
    for bad in (None, "a", [1], ["x"] * 101):
        assert "tags" in stdio.error("set_tags", doc_id=doc_id, tags=bad)
    assert "100 at most" in stdio.error("set_tags", doc_id=doc_id, tags=["x"] * 101)
    assert "tags" in stdio.error("set_tags", doc_id=doc_id)
    assert stdio.ok("list_documents", library=library, tags=["a", "b"])["count"] == 1


def test_status_tells_how_the_database_is(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with serving(home, folder=tmp_path) as server:
        empty = server.ok("status")
        assert (empty["model"], empty["document_count"], empty["size_bytes"]) == (None, 0, 0)
        assert empty["home"] == str(home)
        assert "Nothing has been indexed yet." in empty["notice"]
        assert not home.exists()
        done = server.ok("ingest_file", path=server.write("ferry.md", "# Ferry\n\nIt sails at nine.\n"))
        found = server.ok("status")
        assert (found["document_count"], found["chunk_count"], found["library_count"]) == (
            1,
            done["chunk_count"],
            1,
        )
        assert found["model"]["name"] == "minilm"
        assert found["model"]["dimensions"] == 384
        assert found["size_bytes"] > 0
        assert found["index"] == {"unindexed_chunks": 0, "has_vector_index": False, "unindexed_vectors": 0}
        assert "It takes none" in server.error("status", verbose=True)
        hints = {name: server.tools[name]["annotations"] for name in ("status", "set_tags")}
        assert hints["status"]["readOnlyHint"] is True
        assert (hints["set_tags"]["readOnlyHint"], hints["set_tags"]["idempotentHint"]) == (False, True)
