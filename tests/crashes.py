"""A writer that is killed at random points, and what must be true of its database afterwards.

The tests do this ten times; `make soak` does it a hundred times (`python tests/crashes.py 100`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from embedders import words_db
from mcpvectordb.errors import DocumentNotFound
from mcpvectordb.models import document_uuid
from mcpvectordb.vectordb import VectorDB
from stores import rows_in, source, spawn, text, tombstones

NAMES = [f"document{n}" for n in range(8)]
MOST_PARTS = 6

Version = tuple[int, int]  # its number and its parts


def write_until_killed(home: Path, seed: int) -> None:
    """The child: replace, delete and tidy, saying on stdout what begins and what is acknowledged."""
    chance = random.Random(seed)
    with words_db(home) as db:
        for version in range(seed * 1000, seed * 1000 + 1000):
            name = chance.choice(NAMES)
            doc_id = document_uuid("default", name)
            if version % 10 == 9:
                say("begin", None, None)
                db.tidy()
                say("done", None, None)
            elif version % 10 == 4 and db.list_documents().total > 3:
                say("begin", name, None)
                with contextlib.suppress(DocumentNotFound):
                    db.delete_document(doc_id)
                say("done", name, None)
            else:
                parts = chance.randint(1, MOST_PARTS)
                say("begin", name, (version, parts))
                db.ingest_source(source(name, text(name, version, parts)))
                say("done", name, (version, parts))


def say(step: str, name: str | None, version: Version | None) -> None:
    print(json.dumps([step, name, version]), flush=True)


@dataclass
class Ledger:
    """What was acknowledged, and what was under way when the writer died."""

    stored: dict[str, Version | None] = field(default_factory=dict[str, "Version | None"])
    begun: dict[str, Version | None] = field(default_factory=dict[str, "Version | None"])

    def read(self, line: str) -> None:
        step, name, version = json.loads(line)
        if name is None:
            return
        found = tuple(version) if version else None
        if step == "begin":
            self.begun = {name: found}
        else:
            self.stored[name] = found
            self.begun = {}


def kill_once(home: Path, ledger: Ledger, seed: int) -> None:
    """Start a writer, kill it at a random moment, and note what it had acknowledged until then."""
    process = spawn(Path(__file__), "--write", home, seed)
    assert process.stdout is not None
    ledger.read(process.stdout.readline())  # it works; from here on any moment will do
    killer = threading.Timer(random.Random(seed).uniform(0.0, 1.5), process.kill)
    killer.start()
    for line in process.stdout:
        if line.endswith("\n"):  # the last one may be cut off
            ledger.read(line)
    killer.join()
    process.wait()
    if os.name == "posix" and process.returncode != -signal.SIGKILL:
        raise AssertionError(f"the writer ended by itself, with {process.returncode}")


def check(home: Path, ledger: Ledger) -> int:
    """Hold the database against the ledger, then let the next write heal it; how many rows that removed."""
    with words_db(home) as db:
        for name in NAMES:
            found = stored_text(db, name)
            possible = {ledger.stored.get(name)}
            if name in ledger.begun:
                possible.add(ledger.begun[name])
            is_one = [version for version in possible if found == (text(name, *version) if version else None)]
            assert len(is_one) == 1, f"{name} is none of {possible}: {found and found[:200]!r}"
            ledger.stored[name] = is_one[0]
        ledger.begun = {}
        kept = {name: version for name, version in ledger.stored.items() if version}
        assert {document.source for document in db.list_documents(limit=100).documents} == kept.keys()
        for mode in ("hybrid", "keyword", "vector"):
            for name, (version, _) in kept.items():
                hits = db.search(f"{name} version{version}", mode=mode, top_k=3).hits
                assert hits or mode == "keyword"
                for hit in hits:
                    whole = text(hit.document.source, *kept[hit.document.source])
                    assert hit.chunk.content == whole[hit.chunk.start : hit.chunk.end]
        left = tombstones(home)
        db.ingest_source(source("healer", f"This write heals. {time.time_ns()}"))
        assert tombstones(home) == 0
        documents = db.list_documents(limit=100).documents
        assert len(rows_in(home)) == sum(document.chunk_count for document in documents)
        db.delete_document(document_uuid("default", "healer"))
    return left


def stored_text(db: VectorDB, name: str) -> str | None:
    try:
        return db.get_document(document_uuid("default", name)).content
    except DocumentNotFound:
        return None


def survive(home: Path, kills: int, first_seed: int = 1) -> int:
    """Kill so many writers one after another; how many hidden rows were healed in all."""
    ledger, healed = Ledger(), 0
    for seed in range(first_seed, first_seed + kills):
        kill_once(home, ledger, seed)
        healed += check(home, ledger)
        print(f"writer {seed - first_seed + 1} of {kills} killed, {healed} hidden rows healed", flush=True)
    return healed


def main() -> None:
    if sys.argv[1] == "--write":
        write_until_killed(Path(sys.argv[2]), int(sys.argv[3]))
        return
    kills = int(sys.argv[1])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        healed = survive(Path(folder) / "home", kills, first_seed=random.randrange(10**6))
    print(
        f"{kills} writers killed: nothing lost, nothing torn; {healed} hidden rows healed by the next write."
    )


if __name__ == "__main__":
    main()
