"""One of several processes that ingest, replace, delete, search and tidy one database at the same time.

Prints what was acknowledged, a line each. Run by test_processes.py as `python mixing.py HOME NUMBER STEPS`.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from embedders import words_db
from mcpvectordb.models import document_uuid
from mcpvectordb.vectordb import VectorDB
from stores import source, text

SHARED = ("shared1", "shared2")
OWN = 4


def mix(db: VectorDB, number: int, steps: int) -> None:
    chance = random.Random(number)
    stored: set[str] = set()
    for step in range(steps):
        version, parts = number * 1000 + step, chance.randint(1, 4)
        name = f"own{number}-{step % OWN}"
        # A fixed mix: every process does the same kinds of things in the same order, to documents of its own
        # and to two that all of them replace.
        match step % 8:
            case 3 | 7:
                name = SHARED[step // 4 % 2]
                db.ingest_source(source(name, text(name, version, parts)))
                say("stored", name, [version, parts])
            case 5 if name in stored:
                db.delete_document(document_uuid("default", name))
                stored.discard(name)
                say("deleted", name, None)
            case _:
                db.ingest_source(source(name, text(name, version, parts)))
                stored.add(name)
                say("stored", name, [version, parts])
        if step % 3 == 0:
            check_reads(db)
        if step % 10 == 6 + number % 4:
            db.tidy()


def check_reads(db: VectorDB) -> None:
    """Whatever others do meanwhile, what is read is of one version and whole."""
    for document in db.list_documents(limit=100).documents:
        hits = db.search(f"part of {document.source}", top_k=3).hits
        assert all(hit.chunk.content for hit in hits)
    for name in SHARED:
        hits = db.search(name, mode="keyword", top_k=50).hits
        said = [
            hit.chunk.content.split("version")[1].split(".")[0]
            for hit in hits
            if "version" in hit.chunk.content
        ]
        assert all(said), said


def say(what: str, name: str, version: object) -> None:
    print(json.dumps([what, name, version]), flush=True)


if __name__ == "__main__":
    with words_db(Path(sys.argv[1])) as opened:
        opened.list_documents()
        print("ready", flush=True)
        sys.stdin.readline()
        mix(opened, int(sys.argv[2]), int(sys.argv[3]))
