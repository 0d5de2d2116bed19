"""What the tests of the database on disk share: sources, child processes, and a look at the table itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb

from mcpvectordb.models import Source
from mcpvectordb.store.locks import Readers
from mcpvectordb.store.schema import TOMBSTONE

TESTS = Path(__file__).parent


def source(name: str, content: str, library: str = "default") -> Source:
    return Source(name=name, library=library, kind="text", data=content.encode(), file_name=f"{name}.md")


def text(name: str, version: int, parts: int) -> str:
    """A document that tells its own name and version in each of its parts, of a passage or more each."""
    filler = "Words follow one another here. " * 60
    return "".join(
        f"## Part {n} of {name}\n\nThis is {name} in version{version}. {filler}\n\n" for n in range(parts)
    )


def until(is_so: Callable[[], bool], patience_s: float = 30.0) -> None:
    """Wait for what happens in the background."""
    give_up = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def spawn(script: Path | str, *arguments: object, **settings: str) -> subprocess.Popen[str]:
    """A Python process that can import the tests' helpers; script is a file or code."""
    what = [str(script)] if isinstance(script, Path) else ["-c", script]
    return subprocess.Popen(
        [sys.executable, *what, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(TESTS), "LANCEDB_LOG": "error"} | settings,
    )


def table_folder(home: Path) -> Path:
    name = json.loads((home / "database.json").read_text(encoding="utf-8"))["table"]
    return home / "lance" / f"{name}.lance"


def table_in(home: Path) -> Any:
    return lancedb.connect(home / "lance").open_table(table_folder(home).stem)


def tombstones(home: Path) -> int:
    """How many hidden rows there are; none where a writer was killed before its first rows."""
    if not (home / "database.json").exists() or not (table_folder(home) / "_versions").exists():
        return 0
    with Readers(home).reading():
        return table_in(home).count_rows(f"library = '{TOMBSTONE}'")


def rows_in(home: Path) -> list[dict[str, Any]]:
    """Every row of the table, in order, without the time it was written at."""
    with Readers(home).reading():  # as our own reads do, or the upkeep of a running process may come between
        rows = table_in(home).to_arrow().drop_columns(["created_at"]).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def newest_data_file(home: Path) -> Path:
    return max((table_folder(home) / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def newest_manifest(home: Path) -> Path:
    # The engine counts the names of its versions' files down, so that the newest comes first.
    return min((table_folder(home) / "_versions").glob("*.manifest"), key=lambda path: path.name)
