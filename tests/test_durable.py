"""Acknowledged means on the disk: what was handed to the sync function, against a walk of what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from embedders import WordEmbedder
from mcpvectordb.models import document_uuid
from mcpvectordb.settings import Settings
from mcpvectordb.store import durable
from mcpvectordb.vectordb import VectorDB
from stores import source, table_folder, text


class Recorder:
    """Syncs nothing, and remembers what it was given and which versions there were then."""

    def __init__(self) -> None:
        self.given: set[Path] = set()
        self.versions: list[set[str]] = []
        self.home: Path | None = None

    def __call__(self, paths: Sequence[Path]) -> None:
        self.given.update(paths)
        if self.home is not None and (self.home / "database.json").exists():
            versions = (table_folder(self.home) / "_versions").glob("*.manifest")
            self.versions.append({path.name for path in versions})


def walk(folder: Path) -> dict[Path, tuple[object, ...]]:
    """Every file with its size, time and identity, and every folder with the names in it."""
    found: dict[Path, tuple[object, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            found[path] = tuple(sorted(entry.name for entry in path.iterdir() if not is_lock(entry)))
        elif not is_lock(path):
            info = path.stat()
            found[path] = (info.st_size, info.st_mtime_ns, info.st_ino)
    return found


def is_lock(path: Path) -> bool:
    """Locks and the times of the last upkeep: nothing is lost with them. SQLite syncs its own files."""
    names = ("write.lock", "upkeep.lock", "readers.lock", "work.lock", "upkeep.json", "jobs")
    return path.name in names or path.name.startswith("jobs.sqlite")


def changed(before: dict[Path, tuple[object, ...]], folder: Path) -> set[Path]:
    return {path for path, state in walk(folder).items() if before.get(path) != state}


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def db(tmp_path: Path, recorder: Recorder) -> Iterator[VectorDB]:
    home = tmp_path / "new" / "folders" / "home"
    with VectorDB(Settings(home=home), load=WordEmbedder, sync=recorder) as db:
        yield db


def test_every_file_and_folder_a_write_changes_is_on_the_disk_before_it_is_acknowledged(
    db: VectorDB, recorder: Recorder, tmp_path: Path
) -> None:
    doc_id = document_uuid("default", "a")
    for write in (
        lambda: db.ingest_source(source("a", text("a", 1, 3))),  # makes the folders, the table, its indexes
        lambda: db.ingest_source(source("b", text("b", 1, 1))),
        lambda: db.ingest_source(source("a", text("a", 2, 1))),  # shorter, with rows to remove
        lambda: db.delete_document(doc_id),
        db.tidy,
    ):
        before = walk(tmp_path)
        recorder.given.clear()
        write()
        missed = changed(before, tmp_path) - recorder.given
        assert not missed


def test_what_another_process_wrote_is_synced_with_the_next_commit(
    db: VectorDB, recorder: Recorder, tmp_path: Path
) -> None:
    """A commit names files of other writers, who may have died before they synced them."""
    db.ingest_source(source("a", text("a", 1, 1)))
    before = walk(tmp_path)
    with VectorDB(db.settings, load=WordEmbedder, sync=lambda paths: None) as careless:
        careless.ingest_source(source("b", text("b", 1, 1)))
    recorder.given.clear()
    db.ingest_source(source("c", text("c", 1, 1)))
    assert not changed(before, tmp_path) - recorder.given


def test_reading_syncs_nothing(db: VectorDB, recorder: Recorder) -> None:
    db.ingest_source(source("a", text("a", 1, 1)))
    recorder.given.clear()
    assert db.search("version1").hits
    assert db.list_documents().total == 1
    assert not recorder.given


def test_upkeep_syncs_its_new_files_before_any_old_version_goes(db: VectorDB, recorder: Recorder) -> None:
    for n in range(5):
        db.ingest_source(source(f"text {n}", text(f"text {n}", 1, 1)))
    home = db.settings.home
    db._store.upkeep.keep_s = 0.0
    old = {path.name for path in (table_folder(home) / "_versions").glob("*.manifest")}
    compacted_before = set((table_folder(home) / "data").iterdir())
    recorder.given.clear()
    recorder.home = home
    db.tidy()
    assert not old & {path.name for path in (table_folder(home) / "_versions").glob("*.manifest")}
    new = set((table_folder(home) / "data").iterdir()) - compacted_before
    assert new
    assert new <= recorder.given
    # The first time anything was synced all the old versions were still there.
    assert old <= recorder.versions[0]


def test_ten_minutes_of_versions_are_kept(db: VectorDB) -> None:
    for n in range(5):
        db.ingest_source(source(f"text {n}", text(f"text {n}", 1, 1)))
    folder = table_folder(db.settings.home) / "_versions"
    before = {path.name for path in folder.glob("*.manifest")}
    db.tidy()
    assert before < {path.name for path in folder.glob("*.manifest")}
    assert db._store.upkeep.keep_s >= timedelta(minutes=10).total_seconds()


def test_the_real_sync_takes_files_folders_and_what_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text", encoding="utf-8")
    durable.sync([file, tmp_path, tmp_path / "gone"])
