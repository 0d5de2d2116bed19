"""A writer that dies leaves every acknowledged document whole. See crashes.py for what is held."""

from __future__ import annotations

from pathlib import Path

import crashes
from embedders import words_db
from stores import source, table_folder, table_in, text
from support import wait_until


def test_ten_killed_writers_lose_and_tear_nothing(tmp_path: Path) -> None:
    crashes.survive(tmp_path / "home", kills=10)


def test_files_of_a_killed_writer_that_no_version_names_are_cleared_away(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with words_db(home) as db:
        db.ingest_source(source("a", text("a", 1, 2)))
        left = table_folder(home) / "data" / "0000000000000000000000000000000000000000000000000000.lance"
        left.write_bytes(b"half of a file")
        rows = table_in(home).count_rows()
        # Until there is an old version to remove nothing is looked for; ten minutes are kept.
        db._store.upkeep.keep_s = 0.0
        db.ingest_source(source("b", text("b", 1, 1)))
        wait_until(db.tidy)
        assert not left.exists()
        assert db.list_documents().total == 2
        assert table_in(home).count_rows() > rows
