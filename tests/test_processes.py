"""Several processes on one database, as every window of a client starts its own server."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from embedders import words_db
from mcpvectordb.errors import StoreBusy
from mcpvectordb.models import document_uuid
from mixing import SHARED
from stores import TESTS, rows_in, source, spawn, table_folder, table_in, text
from support import wait_until

PROCESSES = 4
STEPS = 24
HOLDS_THE_LOCK = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("ready", flush=True)
    sys.stdin.readline()
"""
REPLACES = """
import sys
from pathlib import Path
from embedders import words_db
from stores import source, text
with words_db(Path(sys.argv[1])) as db:
    db.list_documents()
    print("ready", flush=True)
    sys.stdin.readline()
    print(db.ingest_source(source("a", text("a", int(sys.argv[2]), int(sys.argv[3])))).status)
"""


def go(processes: list) -> list[str]:
    """Let them loose at once when all are ready; what each of them said after that."""
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * len(processes)
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said


def test_four_processes_that_mix_everything_leave_what_they_acknowledged_row_for_row(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = go([spawn(TESTS / "mixing.py", home, number, STEPS) for number in range(PROCESSES)])
    acknowledged = [json.loads(line) for lines in said for line in lines.splitlines()]
    # A document of one process is as that process left it; a shared one is some version of somebody, whole.
    last = {name: version for what, name, version in acknowledged if name not in SHARED}
    versions = {name: [v for _, n, v in acknowledged if n == name] for name in SHARED}
    with words_db(home) as db:
        for name in SHARED:
            content = db.get_document(document_uuid("default", name)).content
            last[name] = next(v for v in versions[name] if text(name, *v) == content)
    expected = tmp_path / "expected"
    with words_db(expected) as db:
        for name, version in last.items():
            if version is not None:
                db.ingest_source(source(name, text(name, *version)))
    assert rows_in(home) == rows_in(expected)


@pytest.mark.parametrize("parts", [(3, 3), (1, 4)], ids=["the same", "different versions"])
def test_two_processes_that_ingest_one_new_source_make_one_document(
    tmp_path: Path, parts: tuple[int, int]
) -> None:
    home = tmp_path / "home"
    versions = (1, 1) if parts[0] == parts[1] else (1, 2)
    said = go([spawn(REPLACES, home, v, p) for v, p in zip(versions, parts, strict=True)])
    # The same bytes at the same time are one job, whose result both give.
    allowed = [["indexed", "replaced"], ["indexed", "skipped"]]
    if versions[0] == versions[1] and parts[0] == parts[1]:
        allowed.append(["indexed", "indexed"])
    assert sorted(line.strip() for line in said) in allowed
    with words_db(home) as db:
        (document,) = db.list_documents().documents
        content = db.get_document(document.doc_id).content
    assert content in [text("a", v, p) for v, p in zip(versions, parts, strict=True)]
    assert table_in(home).count_rows() == document.chunk_count


def test_a_waiting_writer_says_so_gives_up_in_time_and_no_reader_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    caplog.set_level(logging.INFO)
    with words_db(home, lock_timeout_s=0.2) as db:
        document = db.ingest_source(source("a", "First version.")).document
        process = spawn(HOLDS_THE_LOCK, home / "write.lock")
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            for write in (
                lambda: db.ingest_source(source("b", "Second.")),
                lambda: db.delete_document(document.doc_id),
            ):
                caplog.clear()
                with pytest.raises(StoreBusy) as caught:
                    write()
                expected = "Another process has been writing for 0.2 s. Try again in a moment."
                assert str(caught.value) == expected
                assert "waiting up to 0.2 s for another process that is writing" in caplog.text
            assert db.get_document(document.doc_id).content == "First version."
            assert db.search("first").hits
        finally:
            process.communicate("\n", timeout=10)
        assert db.ingest_source(source("b", "Second.")).status == "indexed"


def test_a_handle_made_stale_by_another_processs_clean_up_recovers_by_itself(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with words_db(home) as reader, words_db(home) as other:
        for n in range(4):
            other.ingest_source(source(f"text {n}", text(f"text {n}", 1, 1)))
        assert reader.list_documents().total == 4
        # The files that the reader's handle knows are all gone after this.
        other._store.upkeep.keep_s = 0.0
        before = set((table_folder(home) / "data").iterdir())
        wait_until(other.tidy)
        assert not before & set((table_folder(home) / "data").iterdir())
        assert reader.list_documents().total == 4
        assert reader.search("text 2 version1").hits
        assert reader.get_document(document_uuid("default", "text 3")).content == text("text 3", 1, 1)
        assert reader.ingest_source(source("text 1", text("text 1", 2, 1))).status == "replaced"


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be removed there")
def test_a_query_on_a_pinned_version_whose_files_are_gone_opens_the_table_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with words_db(home) as db:
        db.ingest_source(source("a", text("a", 1, 1)))
        db.ingest_source(source("b", text("b", 1, 1)))
        connection = db._store._connection
        stale = connection.table()
        stale.checkout(stale.version)  # as if in the middle of a call
        with words_db(home) as other:
            other._store.upkeep.keep_s = 0.0
            wait_until(other.tidy)
        assert connection._table is stale
        assert db.list_documents().total == 2
        assert connection._table is not stale
