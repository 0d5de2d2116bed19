"""Changing a database's model: from the stored text, while it serves, without losing a write."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from filelock import FileLock
from numpy.typing import NDArray

from embedders import WordEmbedder
from mcpvectordb.embed import MODELS, Choices, Embedder, Model, load, record
from mcpvectordb.embed.origin import from_folder
from mcpvectordb.errors import EmbedderMismatch, EmbeddingError, QueryError, StoreBusy, StoreError
from mcpvectordb.models import Source
from mcpvectordb.settings import Settings
from mcpvectordb.store import Store
from mcpvectordb.store.locks import upkeep_lock
from mcpvectordb.vectordb import VectorDB
from support import PATIENCE_S, environment, long_text, wait_until
from test_models import run

TINY = Path(__file__).parent / "data" / "tiny-nomic"
PREFIXES = {"model_document_prefix": "search_document: ", "model_query_prefix": "search_query: "}
TO_TINY = {
    "MCPVECTORDB_MODEL_DOCUMENT_PREFIX": PREFIXES["model_document_prefix"],
    "MCPVECTORDB_MODEL_QUERY_PREFIX": PREFIXES["model_query_prefix"],
}


class SlowEmbedder(WordEmbedder):
    """Sets `reached` at the first document, then waits for `go`; counts words like its base."""

    def __init__(self, model: Model, runtime: str, reached: threading.Event, go: threading.Event) -> None:
        super().__init__(model, runtime)
        self.reached = reached
        self.go = go

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.model.name == "minilm":
            return super().embed_documents(texts)
        self.reached.set()
        assert self.go.wait(PATIENCE_S)
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.model.dimensions, dtype=np.float32)
        vector[len(text) % self.model.dimensions] = 1.0
        return vector


def note(name: str, text: str) -> Source:
    return Source(name=name, library="default", kind="text", data=text.encode(), file_name=f"{name}.md")


def opened(
    home: Path, load: Callable[[Model, str], Embedder] = load, model: str = "auto", **settings: Any
) -> VectorDB:
    given = {"home": home, "model": model, **settings}
    environ = {"HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    return VectorDB(Settings.model_validate(given), load=load, environ=environ)


def texts(db: VectorDB) -> dict[str, str]:
    page = db.list_documents(limit=1000)
    return {document.source: db.get_document(document.doc_id).content for document in page.documents}


def rows(home: Path) -> dict[str, dict[str, Any]]:
    table = lancedb.connect(home / "lance").open_table(kept(home)["table"])
    return {row["id"]: row for row in table.search().limit(1000).to_list()}


def kept(home: Path) -> dict[str, Any]:
    return json.loads((home / "database.json").read_text(encoding="utf-8"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A database of three documents, made with the offline model."""
    home = tmp_path / "db"
    with opened(home, model="minilm") as db:
        db.ingest_source(note("keys", "# Keys\n\nRotate the signing keys.\n\n## Steps\n\n" + long_text(4)))
        db.ingest_source(note("bread", "Stir the flour with water and leave it for an hour."))
        db.ingest_source(
            note("tables", "# Prices\n\n| who | price |\n|---|---|\n" + "| adults | 9 |\n" * 200)
        )
    return home


def test_every_document_has_the_vectors_that_an_ingest_gives_it(home: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    with opened(home) as db, opened(fresh, model=str(TINY), **PREFIXES) as other:
        before = texts(db)
        for source, text in before.items():
            other.ingest_source(note(source, text))
    with opened(home, **PREFIXES, model="minilm") as db:
        done = db.reindex(str(TINY))
    assert done.documents == 3
    assert kept(home)["model"]["dimensions"] == 32
    with opened(home) as db:
        assert texts(db) == before
        assert db.search("signing keys", mode="vector").hits
    # An embed_hash is the model and the exact text that was embedded, context and prefix included.
    found, expected = rows(home), rows(fresh)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert (row["start"], row["embed_hash"]) == (expected[key]["start"], expected[key]["embed_hash"])
        assert np.allclose(row["vector"], expected[key]["vector"], atol=1e-5)


def test_chunks_that_the_new_model_can_read_stay_as_they_were(home: Path) -> None:
    with opened(home) as db:
        before = {hit.chunk for hit in db.search("keys shipment flour price", mode="keyword", top_k=100).hits}
    with opened(home, **PREFIXES, model="minilm") as db:
        db.reindex(str(TINY))
    with opened(home) as db:
        after = {hit.chunk for hit in db.search("keys shipment flour price", mode="keyword", top_k=100).hits}
        # The tiny model's tokens are its own, so long texts are cut elsewhere; a short one stays.
        bread = db.search("flour", mode="keyword").hits[0].chunk
    assert bread in before & after


def test_the_same_tokens_give_the_same_chunks_and_pages(tmp_path: Path) -> None:
    # Another model of the same tokenizer: MiniLM's vectors cut by a longer prefix.
    home = tmp_path / "db"
    with opened(home, load=WordEmbedder, model="minilm") as db:
        db.ingest_source(note("long", "# Harbour\n\n" + long_text(12)))
        before = [hit.chunk for hit in db.search("shipment", mode="keyword", top_k=100).hits]
    reached, go = threading.Event(), threading.Event()
    go.set()
    with opened(home, load=lambda m, r: SlowEmbedder(m, r, reached, go), model="minilm", **PREFIXES) as db:
        db.reindex(str(TINY))
    with opened(home, load=lambda m, r: SlowEmbedder(m, r, reached, go)) as db:
        after = [hit.chunk for hit in db.search("shipment", mode="keyword", top_k=100).hits]
    assert len(before) > 3
    assert sorted(after, key=lambda c: c.index) == sorted(before, key=lambda c: c.index)


def test_a_model_that_reads_less_gets_shorter_chunks(tmp_path: Path) -> None:
    home = tmp_path / "db"
    with opened(home, model=str(TINY), chunk_tokens=512, **PREFIXES) as db:
        db.ingest_source(note("long", "# Harbour\n\n" + long_text(12)))
        before = texts(db)
    with opened(home, chunk_tokens=512) as db:
        db.reindex("minilm")
        assert texts(db) == before
        embedder = load(MODELS["minilm"])
        hits = db.search("shipment", mode="vector", top_k=100).hits
        assert hits
        assert all(embedder.count_tokens(hit.chunk.content) <= 254 for hit in hits)


def test_the_old_vectors_serve_and_what_is_written_meanwhile_is_not_lost(home: Path) -> None:
    reached, go = threading.Event(), threading.Event()

    def slow(model: Model, runtime: str) -> Embedder:
        return SlowEmbedder(model, runtime, reached, go)

    with opened(home, load=slow, model="minilm", **PREFIXES) as db, opened(home, load=slow) as other:
        errors: list[Exception] = []

        def work() -> None:
            try:
                db.reindex(str(TINY))
            except Exception as exc:  # noqa: BLE001 - shown by the test's own thread
                errors.append(exc)

        working = threading.Thread(target=work)
        working.start()
        assert reached.wait(PATIENCE_S)
        assert other.search("flour").mode == "hybrid"
        assert other.ingest_source(note("new", "Written while it was re-indexed.")).status == "indexed"
        assert other.ingest_source(note("keys", "# Keys\n\nAnother version.")).status == "replaced"
        (bread,) = [d for d in other.list_documents().documents if d.source == "bread"]
        other.delete_document(bread.doc_id)
        expected = texts(other)
        go.set()
        working.join(PATIENCE_S)
        assert not errors
        # The same objects go on with the new model, without being told.
        assert texts(other) == texts(db) == expected
        assert other.search("version", mode="vector").hits
        assert other.ingest_source(note("later", "Written afterwards.")).status == "indexed"
    assert expected.keys() == {"new", "keys", "tables"}
    assert kept(home)["model"]["dimensions"] == 32
    assert [path.name for path in (home / "lance").iterdir()] == [f"{kept(home)['table']}.lance"]


def test_an_ingest_that_began_before_the_flip_is_embedded_again_with_the_new_model(home: Path) -> None:
    reached, go = threading.Event(), threading.Event()

    class Waiting(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if self.model.name == "minilm":
                reached.set()
                assert go.wait(PATIENCE_S)
            return SlowEmbedder(self.model, "onnx", reached, go).embed_documents(texts)

        def embed_query(self, text: str) -> NDArray[np.float32]:
            return SlowEmbedder(self.model, "onnx", reached, go).embed_query(text)

    with (
        opened(home, load=Waiting) as writer,
        opened(home, load=SlowLoader(), model="minilm", **PREFIXES) as db,
    ):
        statuses: list[str] = []
        writing = threading.Thread(
            target=lambda: statuses.append(writer.ingest_source(note("late", "Late.")).status)
        )
        writing.start()
        assert reached.wait(PATIENCE_S)
        db.reindex(str(TINY))
        go.set()
        writing.join(PATIENCE_S)
        assert statuses == ["indexed"]
        assert "late" in texts(db)


class SlowLoader:
    """A `load` whose embedders never wait."""

    def __call__(self, model: Model, runtime: str) -> Embedder:
        go = threading.Event()
        go.set()
        return SlowEmbedder(model, runtime, threading.Event(), go)


def test_an_interrupted_reindexing_goes_on_where_it_stopped(tmp_path: Path) -> None:
    home = tmp_path / "db"
    with opened(home, load=SlowLoader(), model="minilm") as db:
        for number in range(100):
            db.ingest_source(note(f"note {number}", f"Note number {number}."))
    embedded: list[str] = []

    class Failing(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if len(embedded) >= 80:
                raise EmbeddingError("The power is gone.")
            embedded.extend(texts)
            return SlowLoader()(self.model, "onnx").embed_documents(texts)

    with opened(home, load=Failing, model="minilm", **PREFIXES) as db:
        with pytest.raises(EmbeddingError, match="power"):
            db.reindex(str(TINY))
        assert db.search("note", mode="keyword").hits
    assert kept(home)["model"]["name"] == "minilm"
    with opened(home, load=SlowLoader(), model="minilm", **PREFIXES) as db:
        done = db.reindex(str(TINY))
        assert len(texts(db)) == 100
    # The 64 documents of the first commit were not embedded again.
    assert done.documents == 36


def test_two_reindexings_at_once_are_one_too_many(home: Path) -> None:
    reached, go = threading.Event(), threading.Event()
    with (
        opened(home, load=lambda m, r: SlowEmbedder(m, r, reached, go), model="minilm", **PREFIXES) as db,
        opened(home, load=SlowLoader(), model="minilm", **PREFIXES) as other,
    ):
        working = threading.Thread(target=lambda: db.reindex(str(TINY)))
        working.start()
        assert reached.wait(PATIENCE_S)
        with pytest.raises(StoreBusy, match="Another process is re-indexing"):
            other.reindex(str(TINY))
        go.set()
        working.join(PATIENCE_S)
    wait_until(lambda: kept(home)["model"]["dimensions"] == 32)


def test_a_reindexing_that_was_asked_for_before_another_one_ended_leaves_its_table_alone(home: Path) -> None:
    late = Store(home)
    second = late.second_table()
    assert late.database() is not None
    with opened(home, load=SlowLoader(), model="minilm", **PREFIXES) as db:
        expected = texts(db)
        db.reindex(str(TINY))
        with second.opened(record(MODELS["minilm"])):
            assert texts(db) == expected
    with opened(home, load=SlowLoader()) as db:
        assert texts(db) == expected


def test_whoever_opens_a_database_while_it_is_reindexed_finds_it_whole(home: Path) -> None:
    found: list[object] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            with opened(home, load=SlowLoader()) as reader:
                try:
                    found.append((reader.list_documents().total, reader.list_documents().notice))
                except StoreError as exc:
                    found.append(str(exc))

    with (
        ThreadPoolExecutor(2) as pool,
        opened(home, load=SlowLoader(), **PREFIXES) as to_tiny,
        opened(home, load=SlowLoader()) as to_minilm,
    ):
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for _ in range(6):
                to_tiny.reindex(str(TINY))
                to_minilm.reindex("minilm")
        finally:
            over.set()
    assert [task.exception() for task in looking] == [None, None]
    assert set(found) == {(3, "")}
    assert not (home / "damaged").exists()


def test_whoever_looks_after_a_database_while_it_is_reindexed_finds_nothing_broken(home: Path) -> None:
    over = threading.Event()

    def look(call: Callable[[VectorDB], object]) -> set[object]:
        found: set[object] = set()
        with opened(home, load=SlowLoader()) as db:
            while not over.is_set():
                found.add(call(db))
        return found

    def findings(db: VectorDB) -> tuple[str, ...]:
        return tuple(each.problem for each in db.doctor() if each.check in ("indexes", "files", "documents"))

    with (
        ThreadPoolExecutor(2) as pool,
        opened(home, load=SlowLoader(), **PREFIXES) as to_tiny,
        opened(home, load=SlowLoader()) as to_minilm,
    ):
        looking = [pool.submit(look, call) for call in (findings, VectorDB.tidy)]
        try:
            for _ in range(2):
                to_tiny.reindex(str(TINY))
                to_minilm.reindex("minilm")
        finally:
            over.set()
    assert looking[0].result() == {("", "", "")}
    assert looking[1].result() <= {True, False}
    assert [path.name for path in (home / "lance").iterdir()] == [f"{kept(home)['table']}.lance"]


def test_the_old_table_goes_once_no_upkeep_makes_files_in_it(home: Path) -> None:
    before = home / "lance" / f"{kept(home)['table']}.lance"
    with opened(home, load=SlowLoader(), model="minilm", **PREFIXES) as db, ThreadPoolExecutor(1) as pool:
        with upkeep_lock(home):
            working = pool.submit(db.reindex, str(TINY))
            wait_until(lambda: kept(home)["model"]["dimensions"] == 32)
            with pytest.raises(TimeoutError):
                working.result(timeout=0.3)
            assert before.is_dir()
        assert working.result(timeout=PATIENCE_S).documents == 3
    assert not before.exists()


def test_a_table_that_a_killed_reindexing_left_is_told_and_removed_and_no_other(home: Path) -> None:
    live = home / "lance" / f"{kept(home)['table']}.lance"
    begun, left = live.with_name("chunks-begun.lance"), live.with_name("chunks-left.lance")
    for copy in (begun, left):
        shutil.copytree(live, copy)
    (home / "reindex.json").write_text(json.dumps({"table": begun.stem, "model": {}}), encoding="utf-8")
    with opened(home, load=SlowLoader()) as db:
        with FileLock(home / "reindex.lock"):
            assert not [each for each in db.doctor() if each.check == "left-over tables" and each.problem]
        (told,) = [each for each in db.doctor(fix=True) if each.check == "left-over tables"]
        assert (told.problem[:19], told.fixed) == ("1 tables were left ", True)
        assert db.list_documents().total == 3
    assert {path.name for path in live.parent.iterdir()} == {live.name, begun.name}


@pytest.mark.parametrize("torn", ["data", "_versions"])
def test_an_interrupted_reindexing_does_without_what_a_loss_of_power_has_torn(
    tmp_path: Path, torn: str
) -> None:
    home = tmp_path / "db"
    with opened(home, load=SlowLoader(), model="minilm") as db:
        list(db.ingest_sources(note(f"note {n}", f"Note number {n}.") for n in range(150)))
        expected = texts(db)
    embedded: list[str] = []

    class Failing(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if len(embedded) >= 140:
                raise EmbeddingError("The power is gone.")
            embedded.extend(texts)
            return SlowLoader()(self.model, "onnx").embed_documents(texts)

    with opened(home, load=Failing, model="minilm", **PREFIXES) as db, pytest.raises(EmbeddingError):
        db.reindex(str(TINY))
    begun = json.loads((home / "reindex.json").read_text(encoding="utf-8"))["table"]
    files = (home / "lance" / f"{begun}.lance" / torn).glob("*.[lm]an*")
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-20])
    with opened(home, load=SlowLoader(), model="minilm", **PREFIXES) as db:
        done = db.reindex(str(TINY))
        assert (texts(db), db.list_documents().notice) == (expected, "")
    assert kept(home)["model"]["dimensions"] == 32
    # The first commit of 64 documents was whole.
    assert done.documents == 150 - 64


def test_nothing_indexed_is_nothing_to_reindex(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db, pytest.raises(QueryError, match="Nothing has been indexed"):
        db.reindex("minilm")


def test_reindexing_ends_the_notice_of_a_fallback_also_to_the_same_model(tmp_path: Path) -> None:
    home = tmp_path / "db"
    with opened(home) as db:
        assert "offline model" in db.ingest_source(note("a", "Rotate the keys.")).notice
        assert db.reindex("minilm").documents == 0
        assert db.search("keys").notice == ""


def test_the_command_reindexes_with_a_bar_on_stderr(home: Path, tmp_path: Path) -> None:
    settings = {"HF_HOME": str(tmp_path / "hf"), **TO_TINY}
    ended = run(tmp_path, "reindex", "--model", str(TINY), **settings)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    assert "3 documents" in ended.stderr
    assert "MCPVECTORDB_MODEL is still minilm" in ended.stderr
    again = run(tmp_path, "reindex", "--model", str(TINY), MCPVECTORDB_MODEL="auto", **settings)
    assert again.returncode == 0
    assert "Nothing had to be embedded" in again.stderr
    with opened(home, model="minilm") as db, pytest.raises(EmbedderMismatch, match="reindex --model minilm"):
        db.search("keys", mode="vector")


def test_the_tiny_model_is_what_its_folder_says() -> None:
    choices = Choices(document_prefix="search_document: ", query_prefix="search_query: ")
    assert from_folder(TINY, choices, "onnx").dimensions == 32
    assert sum(path.stat().st_size for path in TINY.rglob("*") if path.is_file()) < 1_000_000
    assert environment(TINY)["MCPVECTORDB_MODEL"] == "minilm"
    assert sys.version_info >= (3, 11)
