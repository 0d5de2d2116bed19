"""Speed and size, as ratios from one run: a figure means something only beside another of the same machine.

Prints a table and asserts no times; it fails only where something does not work. Run it with `make bench`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from mcpvectordb import embed
from mcpvectordb.models import Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB

CRANFIELD = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval" / "cranfield"
MODEL = "minilm"
SPAWNS = 7
FIRST_SEARCHES = 3
MB = 1024 * 1024
QUERY = "what similarity laws must be obeyed when constructing aeroelastic models"
BARE_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run()
"""
# Both read the home, the model and the query from argv. The parts run one after another as they are needed;
# the product runs the legs side by side, so the whole may take less than the sum.
FIRST_SEARCH_PARTS = """
import json, sys, time
marks = [("", time.perf_counter())]
def mark(what):
    marks.append((what, time.perf_counter()))
import lancedb, lancedb.query, pyarrow
mark("import lancedb and pyarrow")
from pathlib import Path
from mcpvectordb import embed, search
from mcpvectordb.store import Store, filters
store = Store(Path(sys.argv[1]))
mark("import the core")
store._connection.table()
mark("open the table")
import onnxruntime, tokenizers
mark("import onnxruntime and tokenizers")
embedder = embed.load(embed.find_model(sys.argv[2]))
embedder.count_tokens("keys"), embedder._load_session()
mark("check and load the model")
vector = embedder.embed_query(sys.argv[3])
mark("embed the query")
store.read.keyword_leg(sys.argv[3], filters.where(), 100)
mark("keyword leg")
near = store.read.vector_leg(vector, filters.where(), 100)
mark("vector leg")
assert store.read.passages(near.ids[:5])
mark("read the winners")
print(json.dumps({what: at - before for (_, before), (what, at) in zip(marks, marks[1:])}))
"""
FIRST_SEARCH_WHOLE = """
import sys, time
started = time.perf_counter()
from pathlib import Path
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
found = VectorDB(Settings(home=Path(sys.argv[1]), model=sys.argv[2])).search(sys.argv[3])
took = time.perf_counter() - started
assert found.mode == "hybrid" and found.hits, found
print(took)
"""


def row(what: str, figure: str, ratio: str = "", target: str = "") -> None:
    print(f"{what:46} {figure:>14}  {ratio:>8}  {target}".rstrip(), flush=True)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def texts_of(part: str, count: int) -> list[str]:
    """Texts of Cranfield ("corpus" or "queries"), or shuffled words where it is not at hand."""
    if CRANFIELD.is_dir():
        with gzip.open(CRANFIELD / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [text for line in file if (text := json.loads(line)["text"].strip())][:count]
    words = 150 if part == "corpus" else 8
    return [" ".join(random.Random(n).choices(QUERY.split(), k=words)) + f" {n}." for n in range(count)]


def fill(db: VectorDB, texts: Sequence[str]) -> int:
    """Ingest the texts as a document each; how many passages they made."""
    sources = [
        Source(name=f"{n}.txt", library="bench", kind="text", data=text.encode(), file_name=f"{n}.txt")
        for n, text in enumerate(texts)
    ]
    return sum(done.document.chunk_count for done in db.ingest_sources(sources))


@contextmanager
def fresh(load: Callable[[embed.Model, str], embed.Embedder] = embed.load) -> Iterator[VectorDB]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        VectorDB(Settings(home=Path(home), model=MODEL), load=load) as db,
    ):
        yield db


def environment(folder: Path) -> dict[str, str]:
    """For child processes: all bytecode is cached in folder, ours like the SDK's, as after an installation.

    A checkout may have none (PYTHONDONTWRITEBYTECODE), and would be compiled anew at every start.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ours = {"MCPVECTORDB_HOME": str(folder / "home"), "MCPVECTORDB_LOG_LEVEL": "WARNING"}
    return kept | ours | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def spawn(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Seconds from the start of a server to its answer to tools/list, and its memory then, in MB."""
    info = {"name": "bench", "version": "1"}
    offer = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": offer},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    answer: dict[str, Any] = {}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(folder), encoding="utf-8"
    )
    try:
        assert process.stdin and process.stdout
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            if "id" in message:
                answer = json.loads(process.stdout.readline())
        took = time.perf_counter() - started
        assert answer["result"]["tools"], answer
        memory = psutil.Process(process.pid).memory_info().rss / MB
        process.stdin.close()
        process.wait(timeout=30)
        return took, memory
    finally:
        process.kill()


def bench_spawn(folder: Path) -> None:
    script = folder / "bare_server.py"
    script.write_text(BARE_SERVER, encoding="utf-8")
    commands = {"bare": [sys.executable, str(script)], "ours": [sys.executable, "-m", "mcpvectordb"]}
    runs: dict[str, list[tuple[float, float]]] = {"bare": [], "ours": []}
    for number in range(SPAWNS + 1):
        for name, command in commands.items():
            result = spawn(command, folder)
            if number:  # the first of each fills the caches
                runs[name].append(result)
    for part, what, show in ((0, "spawn to tools/list", ms), (1, "memory then", lambda mb: f"{mb:.0f} MB")):
        bare, ours = (statistics.median(run[part] for run in runs[name]) for name in ("bare", "ours"))
        row(f"{what}, bare server of the SDK", show(bare))
        row(f"{what}, ours", show(ours), f"{ours / bare:.2f}", "<= 1.3 x bare")


def bench_first_search(folder: Path) -> None:
    with fresh() as db:
        fill(db, texts_of("corpus", 30))
        arguments = (str(db.settings.home), MODEL, QUERY)

        def output(script: str) -> Any:
            command = [sys.executable, "-c", script, *arguments]
            child = subprocess.run(
                command, stdout=subprocess.PIPE, check=True, timeout=120, env=environment(folder)
            )
            return json.loads(child.stdout)

        output(FIRST_SEARCH_PARTS)  # fills the caches
        # In turns, so that a busy moment of the machine hits both alike.
        pairs = [(output(FIRST_SEARCH_WHOLE), output(FIRST_SEARCH_PARTS)) for _ in range(FIRST_SEARCHES)]
    whole = statistics.median(found for found, _ in pairs)
    parts = {what: statistics.median(found[what] for _, found in pairs) for what in pairs[0][1]}
    total = sum(parts.values())
    row("first search in a fresh process", ms(whole), f"{whole / total:.2f}")
    row("  the sum of its parts", ms(total))
    for what, took in parts.items():
        row(f"    {what}", ms(took), f"{took / total:.0%}")


class CheapEmbedder:
    """The same direction for every text; tokens are words."""

    special_tokens = 2

    def __init__(self, model: embed.Model, _runtime: str) -> None:
        self.model = model

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), self.model.dimensions), dtype=np.float32)

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]

    def close(self) -> None:
        pass


def bench_unchanged(folder: Path) -> None:
    file = folder / "large.txt"
    file.write_text("\n\n".join(texts_of("corpus", 1400) * 2)[:MB], encoding="utf-8")
    # Embedding a megabyte takes a while and is not what is measured, so the vectors are cheap ones.
    with fresh(CheapEmbedder) as db:
        assert db.ingest_file(str(file)).status == "indexed"
        assert db.ingest_file(str(file)).status == "skipped"
        calls, hashes = [], []
        for _ in range(20):
            calls.append(timed(lambda: db.ingest_file(str(file))))
            hashes.append(timed(lambda: hashlib.sha256(file.read_bytes()).hexdigest()))
    call, hashing = statistics.median(calls), statistics.median(hashes)
    row(f"read and hash {file.stat().st_size / MB:.1f} MB", ms(hashing))
    row("re-ingest of it unchanged", ms(call), f"{call / hashing:.1f}")


def bench_throughput() -> None:
    texts = [text[:400] for text in texts_of("corpus", 100)]
    model = embed.load(embed.find_model(MODEL))
    model.embed_documents(texts[:4])
    bare = timed(lambda: model.embed_documents(texts))
    with fresh() as db:
        fill(db, ["a document that loads the model and makes the table"])
        took = timed(lambda: fill(db, texts))
    row(f"bare model, {len(texts)} short texts", f"{len(texts) / bare:.0f} texts/s")
    row(f"ingest of {len(texts)} short documents", f"{len(texts) / took:.0f} docs/s", f"{took / bare:.2f}")


def bench_warm_search() -> None:
    asked = texts_of("queries", 60)
    model = embed.load(embed.find_model(MODEL))
    with fresh() as db:
        passages = fill(db, texts_of("corpus", 1400))
        for query in asked[:5]:
            assert db.search(query).mode == "hybrid"
            model.embed_query(query)
        searches = [timed(lambda query=query: db.search(query)) for query in asked]
        embeds = [timed(lambda query=query: model.embed_query(query)) for query in asked]
    search, alone = statistics.median(searches), statistics.median(embeds)
    row("embedding a query, p50", ms(alone))
    row(f"warm hybrid search, p50 of {passages} passages", ms(search), f"{search / alone:.1f}")
    row("  p95", ms(statistics.quantiles(searches, n=20)[-1]))


def main() -> None:
    row("what", "figure", "ratio", "target")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        bench_spawn(Path(name))
        bench_first_search(Path(name))
        bench_unchanged(Path(name))
        bench_throughput()
        bench_warm_search()


if __name__ == "__main__":
    main()
