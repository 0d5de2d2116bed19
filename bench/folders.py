"""An unchanged folder of 10,000 files, against the least it could cost. Part of `make bench`.

The least is a scandir and stat of everything plus one read of the header columns. Both take turns in one
process that is warm. Times are printed and not asserted; it fails only where something does not work.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from mcpvectordb import embed, folders
from mcpvectordb.convert import is_supported
from mcpvectordb.models import Chunk, Document, document_uuid
from mcpvectordb.store import Entry, Store, filters

MODEL = embed.find_model("minilm")
FOLDERS, FILES = 200, 50
CHUNKS = 3
ROUNDS = 15
COLUMNS = ["source", "doc_id", "size", "mtime_ns", "created_at", "chunk_count"]
OPTIONS = folders.Options(is_supported=is_supported, max_bytes=50 * 1024 * 1024)
GITIGNORE = "*.log *.py[cod] __pycache__/ /build/ /dist/ .venv node_modules/ !keep.log docs/_build/** *~"
# A file written just now is never trusted.
OLD_NS = time.time_ns() - 3600 * 1_000_000_000


def make_files(root: Path) -> list[Path]:
    paths = [
        root / f"part {n // 20}" / f"folder {n}" / f"note {k}.md"
        for n in range(FOLDERS)
        for k in range(FILES)
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {path.name}\n", encoding="utf-8")
        os.utime(path, ns=(OLD_NS, OLD_NS))
    return paths


def entry(path: Path) -> Entry:
    document = Document(
        doc_id=document_uuid("default", str(path)),
        library="default",
        source=str(path),
        title=path.name,
        file_type="md",
        kind="file",
        content_hash="0" * 64,
        created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        chunk_count=CHUNKS,
        mtime_ns=OLD_NS,
        size=path.stat().st_size,
    )
    return Entry(
        document=document,
        chunks=[Chunk(index=n, content=f"{path.name} {n}", start=n) for n in range(CHUNKS)],
        embed_hashes=["0"] * CHUNKS,
        vectors=np.ones((CHUNKS, MODEL.dimensions), dtype=np.float32),
    )


def bare_walk(root: str) -> int:
    """A scandir and a stat of everything below root; how many files there are."""
    count, waiting = 0, [root]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    waiting.append(one.path)
                else:
                    one.stat(follow_symlinks=False)
                    count += 1
    return count


def medians(*calls: Callable[[], object]) -> list[float]:
    """Of calls that take turns, so that a busy moment of the machine hits all alike."""
    took: list[list[float]] = [[] for _ in calls]
    for n in range(ROUNDS + 1):
        for call, times in zip(calls, took, strict=True):
            started = time.perf_counter()
            call()
            if n:
                times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in took]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "files"
        paths = make_files(root)
        store = Store(Path(folder) / "db")
        for at in range(0, len(paths), 1000):
            store.write.replace(
                [entry(path) for path in paths[at : at + 1000]], {"name": MODEL.name, **MODEL.identity}
            )
        while not store.upkeep.run():
            time.sleep(0.1)
        table = store._connection.table()
        clause = f"{filters.where(library='default')} AND chunk_index = 0 AND kind = 'file'"

        def bare() -> None:
            assert bare_walk(str(root)) >= len(paths)
            read = table.search().where(clause).select(COLUMNS).limit(10_000_000).to_arrow()
            assert read.num_rows == len(paths)

        def ours() -> None:
            plan = folders.plan(root, OPTIONS, store.read.headers("default"))
            assert (plan.unchanged, plan.changed) == (len(paths), [])

        def report(what: str) -> None:
            walk, least, headers, whole = medians(
                lambda: bare_walk(str(root)), bare, lambda: store.read.headers("default"), ours
            )
            print(f"{len(paths):,} unchanged files, {what}")
            print(
                f"  bare walk {walk * 1000:.0f} ms, with a read of the header columns {least * 1000:.0f} ms"
            )
            print(f"  our headers {headers * 1000:.0f} ms, our plan {whole * 1000:.0f} ms")
            print(f"  {whole / least:.2f}x of the least (target 5x)", flush=True)

        report("no patterns")
        (root / ".gitignore").write_text(GITIGNORE.replace(" ", "\n"), encoding="utf-8")
        for part in root.glob("part */folder *"):
            if int(part.name.split()[-1]) % 4 == 0:
                (part / ".gitignore").write_text("*.tmp\n/cache/\n", encoding="utf-8")
        report("10 patterns above and two more in every fourth folder")
        if "--profile" in sys.argv:
            import cProfile

            cProfile.runctx("ours()", {"ours": ours}, {}, sort="tottime")
        store.close()


if __name__ == "__main__":
    main()
