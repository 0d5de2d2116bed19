"""What a loss of power, a bad or full disk, or a pulled plug does to the database, and how it goes on."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from embedders import words_db
from mcpvectordb.errors import StoreError
from mcpvectordb.store import recovery
from mcpvectordb.vectordb import VectorDB
from stores import (
    listing,
    newest_data_file,
    newest_manifest,
    rows_in,
    source,
    spawn,
    table_folder,
    table_in,
    text,
    until,
)
from support import wait_until

OLD = text("old", 1, 3)
NEW = text("new", 1, 3)
# Writes a document that does not fit, then one that does. The limit is on the size of any one file, which is
# as near to a full disk as a process can be brought without one.
WRITES_TOO_MUCH = """
import resource, sys
from pathlib import Path
from embedders import words_db
from mcpvectordb.errors import StoreError
from stores import source, text

db = words_db(Path(sys.argv[1]))
assert db.list_documents().total == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
try:
    db.ingest_source(source("large", text("large", 1, 60)))
except StoreError as exc:
    print(exc)
print([hit.document.source for hit in db.search("old version1").hits[:1]])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(db.ingest_source(source("large", text("large", 1, 60))).status)
db.close()
"""


# Has no file handles left while it opens the database, then has them again.
HAS_NO_HANDLES = """
import os, resource, sys
from pathlib import Path
from embedders import words_db
from mcpvectordb.errors import StoreError

Path(sys.argv[1]).exists()
with words_db(Path(sys.argv[1])) as db:
    db.list_documents()  # everything is imported
db = words_db(Path(sys.argv[1]))
db._store._connection.database()
db._store._connection._connected()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
try:
    db.list_documents()
except StoreError as exc:
    message = str(exc)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(message)
print(db.list_documents().total)
"""


# Is killed when it goes back to an older version, before or after the step that is named.
DIES_GOING_BACK = """
import os, shutil, sys
from pathlib import Path
import lancedb.table
from embedders import words_db

step, when = sys.argv[2:]
owner = {"move": shutil, "restore": lancedb.table.LanceTable, "copy2": shutil}[step]
real = getattr(owner, step)

def die(*arguments):
    if when == "after":
        real(*arguments)
    os._exit(9)

setattr(owner, step, die)
with words_db(Path(sys.argv[1])) as db:
    db.list_documents()
"""


# Root may write everywhere, so it becomes somebody else first, once everything is imported.
MAY_ONLY_READ = """
import os, sys
from pathlib import Path
from embedders import words_db
from mcpvectordb.errors import StoreError
from stores import source

with words_db(Path(sys.argv[1])) as db:
    db.search("old")
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with words_db(Path(sys.argv[1])) as db:
    doc_id = db.list_documents().documents[0].doc_id
    for write in (lambda: db.ingest_source(source("a", "Text.")), lambda: db.delete_document(doc_id)):
        try:
            write()
        except StoreError as exc:
            print(exc)
    print(sorted(document.source for document in db.list_documents().documents))
    print(bool(db.search("old version1").hits))
    print(db.status().documents)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


def two_commits(home: Path) -> None:
    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
        db.ingest_source(source("new", NEW))


def contents(db: VectorDB) -> dict[str, str]:
    documents = db.list_documents().documents
    return {document.source: db.get_document(document.doc_id).content for document in documents}


def cut(path: Path, keep: float) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)])


def zero_tail(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:-64] + bytes(64))


def turn_a_bit(path: Path) -> None:
    """Of what a file says at its end about where the rest of it begins."""
    raw = bytearray(path.read_bytes())
    raw[-9 if path.suffix == ".manifest" else -33] ^= 0x40
    path.write_bytes(raw)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: cut(path, 0.0),
    "half": lambda path: cut(path, 0.5),
    "zero tail": zero_tail,
    "all zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "turned bit": turn_a_bit,
}


def test_a_write_between_two_looks_is_no_damage(home: Path) -> None:
    class WrittenTo:
        """A table to which another process writes right before its rows are counted."""

        def __init__(self) -> None:
            self.table = table_in(home)
            self.writes = 0

        def __getattr__(self, name: str) -> object:
            if name == "count_rows" and not self.writes:
                self.writes += 1
                with words_db(home) as db:
                    db.ingest_source(source("between", "Written between the two."))
                self.table.checkout_latest()
            return getattr(self.table, name)

    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
    table = WrittenTo()
    assert (recovery.problem_of(table), table.writes) == ("", 1)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("newest", [newest_data_file, newest_manifest])
def test_a_damaged_newest_version_is_set_aside_and_the_one_before_it_restored(
    home: Path, newest: Callable[[Path], Path], damage: str
) -> None:
    two_commits(home)
    path = newest(home)
    DAMAGES[damage](path)
    with words_db(home) as db:
        page = db.list_documents()
        assert contents(db) == {"old": OLD}
        assert page.notice.startswith("The database was damaged (")
        assert "its newest good version was restored" in page.notice
        assert db.search("old version1").notice == page.notice
        assert db.search("old version1").hits
        assert db.ingest_source(source("new", NEW)).status == "indexed"
        assert contents(db) == {"old": OLD, "new": NEW}
    with words_db(home) as db:
        assert contents(db) == {"old": OLD, "new": NEW}
        assert db.list_documents().notice == ""
    (recovered,) = recovery.past(home)
    assert recovered.rows_after == len([row for row in rows_in(home) if row["source"] == "old"])
    kept = {file.name for file in (home / "damaged").rglob("*") if file.is_file()}
    assert {path.name, recovery.NOTE} <= kept


def test_a_data_file_that_is_gone_is_damage_too(home: Path) -> None:
    two_commits(home)
    newest_data_file(home).unlink()
    with words_db(home) as db:
        assert contents(db) == {"old": OLD}
        assert "was damaged" in db.list_documents().notice


def test_a_newest_version_whose_list_of_indexes_cannot_be_read_is_set_aside(home: Path) -> None:
    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
        db.ingest_source(source("new", NEW))
        wait_until(db.tidy)
    path = newest_manifest(home)
    raw = path.read_bytes()
    third = len(raw) // 3
    path.write_bytes(raw[:third] + bytes(third) + raw[2 * third :])
    with words_db(home) as db:
        assert contents(db) == {"old": OLD, "new": NEW}
        assert "was damaged" in db.list_documents().notice
        assert db.search("new version1").mode == "hybrid"
        wait_until(db.tidy)
    assert list((home / "damaged").rglob(path.name))


@pytest.mark.parametrize(
    ("newest", "step", "when"),
    [
        (newest_manifest, "move", "before"),
        (newest_manifest, "move", "after"),
        (newest_data_file, "restore", "before"),
        (newest_data_file, "restore", "after"),
        (newest_data_file, "copy2", "after"),
    ],
)
def test_going_back_that_was_cut_off_is_done_to_its_end_and_told(
    home: Path, newest: Callable[[Path], Path], step: str, when: str
) -> None:
    two_commits(home)
    cut(newest(home), 0.5)
    assert spawn(DIES_GOING_BACK, home, step, when).wait(60) == 9
    with words_db(home) as db:
        assert contents(db) == {"old": OLD}
        assert "its newest good version was restored" in db.list_documents().notice
        assert db.ingest_source(source("new", NEW)).status == "indexed"
    with words_db(home) as db:
        assert (contents(db), db.list_documents().notice) == ({"old": OLD, "new": NEW}, "")
    assert len(recovery.past(home)) == 1


def test_where_the_damaged_version_could_not_be_read_nobody_says_how_much_is_missing(home: Path) -> None:
    with words_db(home) as db:
        for name in ("old", "new", "newer"):
            db.ingest_source(source(name, OLD.replace("old", name)))
    cut(newest_data_file(home), 0.0)  # of the last
    cut(newest_manifest(home), 0.5)
    (second, *_) = sorted((table_folder(home) / "data").iterdir(), key=lambda path: -path.stat().st_mtime_ns)[
        1:
    ]
    cut(second, 0.0)
    with words_db(home) as db:
        assert list(contents(db)) == ["old"]
        assert "what was written last may be missing" in db.list_documents().notice


def test_the_next_process_finds_nothing_wrong_any_more(home: Path) -> None:
    two_commits(home)
    cut(newest_data_file(home), 0.0)
    with words_db(home) as db:
        assert contents(db) == {"old": OLD}
    before = listing(home)
    with words_db(home) as db:
        assert (contents(db), db.list_documents().notice) == ({"old": OLD}, "")
    assert listing(home) == before


def test_where_no_version_reads_whole_nothing_is_touched(home: Path) -> None:
    two_commits(home)
    for path in (table_folder(home) / "data").iterdir():
        cut(path, 0.5)
    before = listing(home / "lance")
    with (
        words_db(home) as db,
        pytest.raises(StoreError, match=r"no version of it reads whole .*doctor --fix"),
    ):
        db.list_documents()
    assert listing(home / "lance") == before


def test_where_no_version_can_be_opened_nothing_is_touched(home: Path) -> None:
    two_commits(home)
    for path in (table_folder(home) / "_versions").glob("*.manifest"):
        cut(path, 0.5)
    before = listing(home / "lance")
    with words_db(home) as db, pytest.raises(StoreError, match="cannot be opened"):
        db.list_documents()
    assert listing(home / "lance") == before


def test_damage_done_while_running_is_mended_by_the_call_that_meets_it(home: Path) -> None:
    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
        db.ingest_source(source("new", NEW))
        cut(newest_data_file(home), 0.0)
        with words_db(home) as reader:
            assert contents(reader) == {"old": OLD}
        assert contents(db) == {"old": OLD}


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("search_text", "empty"),
        ("search_text", "zero tail"),
        ("search_text", "turned bit"),
        ("exact_text", "missing"),
        ("id", "half"),
        ("document_id", "empty"),
        ("library", "missing"),
        ("library", "zero tail"),
        ("library", "turned bit"),
        ("tags", "half"),
    ],
)
def test_a_damaged_index_is_done_without_and_made_again(
    home: Path, column: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    two_commits(home)
    (uuid,) = [index.index_uuid for index in table_in(home).list_indices() if index.columns == [column]]
    files = sorted((table_folder(home) / "_indices" / uuid).iterdir())
    if damage == "missing":
        shutil.rmtree(files[0].parent)
    else:
        DAMAGES[damage](files[0])
    with words_db(home) as db:
        found = db.search("part of new version1", top_k=50)
        assert found.mode == "hybrid"
        assert {hit.document.source for hit in found.hits} == {"old", "new"}
        assert f"the index {column}_idx is damaged: it is dropped and will be made again" in caplog.text
        assert contents(db) == {"old": OLD, "new": NEW}
        until(lambda: not db.search("version1", mode="keyword").notice)
        assert db.search("parts", mode="keyword", library="default").hits
    (index,) = [index for index in table_in(home).list_indices() if index.columns == [column]]
    assert (index.index_uuid != uuid, index.num_unindexed_rows) == (True, 0)


def test_a_folder_that_goes_away_while_running_is_an_error_and_comes_back_whole(
    home: Path, tmp_path: Path
) -> None:
    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
        home.rename(tmp_path / "unplugged")
        expected = (
            f"The database in {home} is gone. Put the folder back, or start the program again "
            "to begin a new one."
        )
        for call in (
            lambda: db.search("old"),
            db.list_libraries,
            lambda: db.ingest_source(source("new", NEW)),
        ):
            with pytest.raises(StoreError) as caught:
                call()
            assert str(caught.value) == expected
        assert not home.exists()
        (tmp_path / "unplugged").rename(home)
        assert contents(db) == {"old": OLD}
        assert db.ingest_source(source("new", NEW)).status == "indexed"


def test_a_home_that_is_a_file_is_an_error_and_not_an_empty_database(home: Path) -> None:
    home.write_text("not a folder", encoding="utf-8")
    with words_db(home) as db:
        for call in (db.list_documents, db.status, lambda: db.ingest_source(source("new", NEW))):
            with pytest.raises(StoreError, match=r"cannot be read: Not a directory. Check MCPVECTORDB_HOME"):
                call()


@pytest.mark.parametrize("lost", ["lance", "table"])
def test_a_table_that_is_gone_is_an_error_and_never_an_empty_database(
    home: Path, tmp_path: Path, lost: str
) -> None:
    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
        place = home / "lance" if lost == "lance" else table_folder(home)
        name = table_folder(home).name
        place.rename(tmp_path / "away")
        before = listing(home)
        expected = (
            f"The table of the database in {home} is gone. Put the folder lance/{name} back, "
            "or restore a backup."
        )
        with words_db(home) as later:
            for call in (
                db.list_documents,
                db.list_documents,
                db.list_libraries,
                lambda: db.ingest_source(source("new", NEW)),
                later.list_documents,
                later.status,
                lambda: later.ingest_source(source("new", NEW)),
                lambda: later.search("old"),
            ):
                with pytest.raises(StoreError) as caught:
                    call()
                assert str(caught.value) == expected
        assert listing(home) == before
        (tmp_path / "away").rename(place)
        assert contents(db) == {"old": OLD}
        assert db.ingest_source(source("new", NEW)).status == "indexed"


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on a file's size there")
def test_a_full_disk_is_an_error_that_leaves_the_old_data_and_goes_on_once_there_is_room(home: Path) -> None:
    with words_db(home) as db:
        db.ingest_source(source("old", OLD))
    process = spawn(WRITES_TOO_MUCH, home)
    lines = process.communicate(timeout=120)[0].splitlines()
    assert lines == [
        f"Cannot write to {home}: the disk is full. Make room and try again.",
        "['old']",
        "indexed",
    ]
    with words_db(home) as db:
        assert contents(db) == {"old": OLD, "large": text("large", 1, 60)}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are not counted there")
def test_a_system_that_refuses_to_read_is_no_damage_and_nothing_is_set_back(home: Path) -> None:
    two_commits(home)
    before = listing(home / "lance")
    process = spawn(HAS_NO_HANDLES, home)
    message, total = process.communicate(timeout=120)[0].splitlines()
    assert "Too many open files" in message
    assert total == "2"
    assert listing(home / "lance") == before
    assert not (home / "damaged").exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions are another thing there")
def test_a_folder_that_may_only_be_read_is_searched_and_says_why_it_is_not_written() -> None:
    # Not in pytest's own folder: root's may not be entered by anybody else.
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        place.chmod(0o755)
        home = place / "home"
        two_commits(home)
        before = listing(home)
        folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
        files = [path for path in home.rglob("*") if path.is_file()]
        for path in (*folders, *files):
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            said = spawn(MAY_ONLY_READ, home).communicate(timeout=120)[0].splitlines()
        finally:
            for path in folders:
                path.chmod(0o755)
        refused = f"Cannot write to {home}: Permission denied. Check the folder."
        assert said == [refused, refused, "['new', 'old']", "True", "2"]
        assert listing(home) == before
