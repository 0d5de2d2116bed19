"""The store as it grows: ratios from one run, and where the time goes. Part of `make bench`.

    python bench/store.py           a short run, some minutes
    python bench/store.py --full    the promised sizes: 1,000 ingests, 200,000 passages, 100,000 documents

Vectors are of the real model where recall and upkeep are measured, and synthetic where only size matters.
It asserts no times; it fails only where something does not work.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from mcpvectordb import embed
from mcpvectordb.models import Chunk, Document, Source, document_uuid
from mcpvectordb.search import search
from mcpvectordb.settings import Settings
from mcpvectordb.store import Entry, Store, filters, indexes
from mcpvectordb.vectordb import VectorDB

RETRIEVAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval"
MODEL = embed.find_model("minilm")
IDENTITY = {"name": MODEL.name, **MODEL.identity}
LIBRARIES = 10
MB = 1024 * 1024
MEMORY_PROBE = """
import sys
from pathlib import Path
import psutil
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB

with VectorDB(Settings(home=Path(sys.argv[1]), model="minilm")) as db:
    for n in range(6):
        assert db.search(f"boundary layer flow {n}").mode == "hybrid"
        assert db.search(f"boundary layer flow {n}", library=f"library {n}").mode == "hybrid"
        assert db.search(f"boundary layer flow {n}", filter={"file_type": "txt", "kind": "text"}).hits
    table = db._store._connection.table()
    vector = db._embed_query("boundary layer")
    for n in range(6):  # exact over every row, as before there is an index
        table.search(vector, vector_column_name="vector").bypass_vector_index().limit(100).to_list()
    info = psutil.Process().memory_info()
    print(info.rss)
"""


def row(what: str, figure: str, ratio: str = "", target: str = "") -> None:
    print(f"{what:58} {figure:>12}  {ratio:>7}  {target}".rstrip(), flush=True)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def pair(
    ours: Callable[[int], object], bare: Callable[[int], object], times: int = 15
) -> tuple[float, float]:
    """The medians of two calls that take turns, so that a busy moment of the machine hits both alike."""
    ours(0), bare(0)
    took = [(timed(lambda n=n: ours(n)), timed(lambda n=n: bare(n))) for n in range(1, times + 1)]
    return statistics.median(a for a, _ in took), statistics.median(b for _, b in took)


def settle(store: Store) -> None:
    """Do the upkeep now, also where the background has begun it."""
    while not store.upkeep.run():
        time.sleep(0.1)


def p50(call: Callable[[int], object], times: int = 15) -> float:
    call(0)
    return statistics.median(timed(lambda n=n: call(n)) for n in range(1, times + 1))


def corpus(names: Sequence[str] = ("cranfield",)) -> list[str]:
    """Texts of public collections, or shuffled words where they are not at hand."""
    found: list[str] = []
    for name in names:
        path = RETRIEVAL / name / "corpus.jsonl.gz"
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                found += [text for line in file if (text := json.loads(line)["text"].strip())]
    words = (
        "flow",
        "layer",
        "wing",
        "shock",
        "heat",
        "boundary",
        "pressure",
        "model",
        "theory",
        "plate",
        "jet",
    )
    return found or [" ".join(random.Random(n).choices(words, k=120)) + f" {n}" for n in range(2000)]


def size_of(folder: Path) -> tuple[int, int]:
    """How many files, and how many bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def source(name: str, text: str) -> Source:
    return Source(name=name, library="bench", kind="text", data=text.encode(), file_name=f"{name}.txt")


def bench_single_ingests(home: Path, count: int) -> None:
    texts = [text[:600] for text in corpus(("cranfield", "npl"))]
    texts = [texts[n % len(texts)] + f" Number {n}." for n in range(count)]
    asked = [" ".join(text.split()[3:9]) for text in texts[:40]]
    with VectorDB(Settings(home=home, model="minilm")) as db:
        took = [timed(lambda n=n: db.ingest_source(source(f"{n}", texts[n]))) for n in range(11)]
        few = p50(lambda n: db.search(asked[n % 10]), 20)
        took += [timed(lambda n=n: db.ingest_source(source(f"{n}", texts[n]))) for n in range(11, count)]
        busy = db._store.upkeep.spent_s
        files, size = size_of(home)
        after = p50(lambda n: db.search(asked[n]), 20)
        upkeep = db._store.upkeep
        row(f"one-document ingest, median of the first 10 of {count}", ms(statistics.median(took[1:11])))
        last = statistics.median(took[-10:])
        row("  of the last 10", ms(last), f"{last / statistics.median(took[1:11]):.2f}", "<= 2")
        row(
            "  upkeep in all, of the time of the ingests",
            f"{busy:.1f} s",
            f"{busy / sum(took):.1%}",
            "<= 10 %",
        )
        row("  files and size right after", f"{files}", f"{size / MB:.1f} MB")
        settle(db._store)
        settled = p50(lambda n: db.search(asked[n]), 20)
        upkeep.keep_s = 0.0  # as ten minutes later
        db.ingest_source(source("one more", "One more text."))
        settle(db._store)
        kept_files, kept = size_of(home)
        row("  files and size once the ten minutes are over", f"{kept_files}", f"{kept / MB:.1f} MB")
        row("  search p50 with 11 documents", ms(few))
        row("  search p50 right after the last ingest", ms(after), f"{after / few:.2f}", "<= 2")
        row("  search p50 after a full compaction", ms(settled), f"{settled / few:.2f}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        with VectorDB(Settings(home=Path(name), model="minilm"), load=SameVectors) as fresh:
            list(fresh.ingest_sources(source(f"{n}", text) for n, text in enumerate(texts)))
            fresh._store.upkeep.keep_s = 0.0
            settle(fresh._store)
            _, compact = size_of(Path(name))
        row("  the same in one bulk ingest, fully compacted", "", f"{compact / MB:.1f} MB")
        row("  size right after, against that", "", f"{size / compact:.2f}", "<= 3 after 1,000")
        row("  size ten minutes later, against that", "", f"{kept / compact:.2f}", "<= 3")


class SameVectors:
    """The same direction for every text: where time and size are measured, not meaning."""

    special_tokens = 2

    def __init__(self, model: embed.Model, _runtime: str) -> None:
        self.model = model

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed_documents(self, texts: Sequence[str]) -> Any:
        vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), self.model.dimensions))
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]

    def close(self) -> None:
        pass


def bench_sync(folder: Path, count: int) -> None:
    """The price of a write that survives a loss of power: commits with the sync and without, in turns."""
    homes = {"with": folder / "synced", "without": folder / "unsynced"}
    took: dict[str, list[float]] = {"with": [], "without": []}
    dbs = {
        "with": VectorDB(Settings(home=homes["with"]), load=SameVectors),
        "without": VectorDB(Settings(home=homes["without"]), load=SameVectors, sync=lambda paths: None),
    }
    for n in range(count + 1):
        for name, db in dbs.items():
            seconds = timed(lambda db=db, n=n: db.ingest_source(source(f"{n}", f"A short text, number {n}.")))
            if n:
                took[name].append(seconds)
    for db in dbs.values():
        db.close()
    bare, synced = statistics.median(took["without"]), statistics.median(took["with"])
    row("commit of a short document, without fsync", ms(bare))
    row("  with fsync of its files and folders", ms(synced), f"{synced / bare:.2f}")


def bench_recall(home: Path, count: int) -> None:
    """The product's own vector index against an exact search, on vectors of the real model."""
    texts = [text[:300] for text in corpus(("npl", "cacm", "cisi", "cranfield"))]
    pieces = list(
        dict.fromkeys(part for text in texts for part in (text[:150], text[150:]) if len(part) > 60)
    )
    model = embed.load(MODEL)
    vectors = model.embed_documents(pieces[: count + 100])
    asked, stored = vectors[-100:], vectors[:-100]
    store = Store(home)
    fill(store, 0, stored, per_document=1, texts=pieces)
    settle(store)
    table = store._connection.table()
    build = timed(lambda: indexes.make_vector_index(table))
    hits, exact_s, index_s = [], [], []
    for vector in asked:
        exact = (
            table.search(vector, vector_column_name="vector").distance_type("cosine").bypass_vector_index()
        )
        started = time.perf_counter()
        want = [found["id"] for found in exact.select(["id", "_distance"]).limit(10).to_list()]
        exact_s.append(time.perf_counter() - started)
        started = time.perf_counter()
        got = store.read.vector_leg(vector, filters.where(), 100).ids[:10]
        index_s.append(time.perf_counter() - started)
        hits.append(len(set(want) & set(got)) / len(want))
    row(f"vector index on {len(stored)} MiniLM vectors, built in", f"{build:.1f} s")
    row("  recall@10 against exact, 100 queries", f"{statistics.mean(hits):.3f}", "", ">= 0.95")
    exact_p50, index_p50 = statistics.median(exact_s), statistics.median(index_s)
    row(
        "  exact p50 / with the index p50 (depth 100)",
        ms(exact_p50),
        f"{index_p50 / exact_p50:.2f}",
        ms(index_p50),
    )
    store.close()


def documents(first: int, vectors: Any, per_document: int, texts: Sequence[str]) -> Iterator[Entry]:
    now = datetime.now(UTC)
    for n in range(len(vectors) // per_document):
        number = first + n
        library = f"library {number % LIBRARIES}" if number % 100 else "rare"
        name = f"document {number}"
        chunks, start = [], 0
        for index in range(per_document):
            content = texts[(number * per_document + index) % len(texts)]
            chunks.append(Chunk(index=index, content=content, start=start))
            start += len(content)
        document = Document(
            doc_id=document_uuid(library, name),
            library=library,
            source=name,
            title=name,
            file_type="txt",
            kind="text",
            content_hash=f"{number:064x}",
            created_at=(now + timedelta(microseconds=number)).isoformat(timespec="microseconds"),
            chunk_count=per_document,
        )
        yield Entry(
            document=document,
            chunks=chunks,
            embed_hashes=[f"{number}-{index}" for index in range(per_document)],
            vectors=vectors[n * per_document : (n + 1) * per_document],
        )


def fill(store: Store, first: int, vectors: Any, *, per_document: int, texts: Sequence[str]) -> None:
    waiting: list[Entry] = []
    for entry in documents(first, vectors, per_document, texts):
        waiting.append(entry)
        if len(waiting) * per_document >= 4000:
            store.write.replace(waiting, IDENTITY)
            waiting = []
    if waiting:
        store.write.replace(waiting, IDENTITY)


def clustered(count: int, seed: int) -> Any:
    """Directions in clumps, as those of real texts are."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((400, MODEL.dimensions))
    vectors = centres[chance.integers(0, 400, count)] + 0.6 * chance.standard_normal(
        (count, MODEL.dimensions)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def bare_search(table: Any, vector: Any, query: str, where: str | None, has_index: bool) -> None:
    """What the engine itself needs for the same answer: two legs side by side, then the winners' rows."""
    from lancedb.query import MatchQuery

    def near() -> list[Any]:
        found = table.search(vector, vector_column_name="vector").distance_type("cosine")
        found = indexes.nearest(found) if has_index else found
        found = found.where(where, prefilter=True) if where else found
        return found.select(["id", "_distance"]).limit(100).to_list()

    def words() -> list[Any]:
        found = table.search(MatchQuery(query, "search_text"), query_type="fts")
        found = found.where(where, prefilter=True) if where else found
        return found.select(["id", "_score"]).limit(100).to_list()

    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(words)
        ids = [found["id"] for found in near()[:3] + running.result()[:2]]
    listed = ", ".join(f"'{key}'" for key in ids)
    table.search().where(f"id IN ({listed})").select(["id", "content", "source", "title"]).limit(5).to_list()


def bench_scale(home: Path, sizes: Sequence[int]) -> None:
    texts = [text[:500] for text in corpus(("cranfield", "cacm", "cisi"))]
    asked = [" ".join(texts[n * 7 % len(texts)].split()[2:8]) for n in range(40)]
    near = clustered(40, seed=99)
    clauses = {"no filter": None, "one library of ten": "library 3", "one library of a hundredth": "rare"}
    store, stored = Store(home), 0
    first: dict[str, float] = {}
    single: dict[str, float] = {}
    for size in sizes:
        took = timed(
            lambda size=size, stored=stored: fill(
                store, stored // 2, clustered(size - stored, seed=size), per_document=2, texts=texts
            )
        )
        stored = size
        settle(store)
        table = store._connection.table()
        has_index = indexes.has_vector_index(table)
        row(
            f"{size} passages in {size // 2} documents",
            f"{took:.0f} s",
            "",
            "vector index" if has_index else "exact",
        )
        for name, library in clauses.items():
            clause, where = filters.where(library=library), f"library = '{library}'" if library else None

            def ours_of(n: int, clause: str = clause) -> object:
                return search(store, lambda _: near[n], asked[n], clause=clause, top_k=5, mode="hybrid")

            def bare_of(n: int, where: str | None = where, table: Any = table, has_index: bool = has_index):
                bare_search(table, near[n], asked[n], where, has_index)

            ours, bare = pair(ours_of, bare_of)
            first.setdefault(name, ours)
            row(f"  hybrid search, {name}", ms(ours), f"{ours / first[name]:.2f}", "<= 3 x the smallest size")
            row("    bare LanceDB calls", ms(bare), f"{ours / bare:.2f}", "ours <= 2 x bare")
        if has_index or size == sizes[-1]:
            legs(store, near, asked)
        for what, figure in lists_and_documents(store, size // 2).items():
            single.setdefault(what, figure)
            goal = "<= 300 ms" if "list" in what else "<= 5 x the smallest size"
            row(f"  {what}", ms(figure), f"{figure / single[what]:.2f}", goal)
    store.close()
    probe = subprocess.run(
        [sys.executable, "-c", MEMORY_PROBE, str(home)], stdout=subprocess.PIPE, check=True, env=os.environ
    )
    row(
        "  memory of a process that has searched all that", f"{int(probe.stdout) / MB:.0f} MB", "", "< 800 MB"
    )


def legs(store: Store, near: Any, asked: Sequence[str]) -> None:
    """Where the time of a search goes."""
    clause = filters.where()
    vector = p50(lambda n: store.read.vector_leg(near[n], clause, 100))
    words = p50(lambda n: store.read.keyword_leg(asked[n], clause, 100))
    ids = store.read.vector_leg(near[0], clause, 100).ids[:5]
    winners = p50(lambda n: store.read.passages(ids))
    row("    of it: vector leg / keyword leg / winners", f"{ms(vector)}", ms(words), ms(winners))


def lists_and_documents(store: Store, count: int) -> dict[str, float]:
    """Lists, and what is done to one document of twenty passages."""
    last_page = max(0, min(999, count // 20 - 1))

    def entry(version: int, parts: int = 20) -> Entry:
        (one,) = documents(
            10**9, clustered(parts, seed=version), parts, [f"Version {version} of a text. " * 20]
        )
        return one

    def replace(version: int) -> None:
        store.write.replace([entry(version)], IDENTITY)

    replace(0)
    doc_id = entry(0).document.doc_id
    figures = {
        "list_documents, first page": p50(
            lambda _: store.read.documents(library=None, tags=(), limit=20, offset=0), 7
        ),
        f"list_documents, page {last_page + 1}": 0.0,
        "list_libraries": p50(lambda _: store.read.libraries(), 7),
        "get_document of 20 passages": p50(lambda _: store.read.text(doc_id), 7),
        "replace of 20 passages": p50(replace, 7),
    }
    figures[f"list_documents, page {last_page + 1}"] = p50(
        lambda _: store.read.documents(library=None, tags=(), limit=20, offset=20 * last_page), 7
    )
    deletes: list[float] = []
    for version in range(5):
        replace(100 + version)
        deletes.append(timed(lambda: store.write.delete(doc_id)))
    figures["delete_document of 20 passages"] = statistics.median(deletes)
    return {
        what.split(", page")[0] + (", thousandth page" if ", page" in what else ""): f
        for what, f in figures.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", choices=["sync", "ingests", "recall", "scale"])
    options = parser.parse_args()
    full = options.full
    row("what", "figure", "ratio", "target")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        parts: dict[str, Callable[[], None]] = {
            "sync": lambda: bench_sync(folder, 60 if full else 20),
            "ingests": lambda: bench_single_ingests(folder / "ingests", 1000 if full else 200),
            "recall": lambda: bench_recall(folder / "recall", 20_000 if full else 3000),
            "scale": lambda: bench_scale(
                folder / "scale", (10_000, 50_000, 200_000) if full else (2000, 10_000)
            ),
        }
        for part, run in parts.items():
            if options.only in (None, part):
                run()


if __name__ == "__main__":
    main()
