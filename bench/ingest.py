"""Ingesting: a folder against what its parts take, memory with long documents, answers meanwhile.

Prints a table and asserts no times; it fails only where something does not work. Part of `make bench`.

    python bench/ingest.py --only folder|memory|answers
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import openpyxl
import psutil
from bench import CheapEmbedder, fresh, ms, row, texts_of, timed
from convert import OFFICE, Peak, package
from embed import bare
from mcp import StdioServerParameters
from mcp.client.client import Client

from mcpvectordb import embed, sources
from mcpvectordb.convert import Converter, Limits
from mcpvectordb.ingest import Request
from mcpvectordb.ingest.bulk import GROUP_DOCUMENTS
from mcpvectordb.ingest.drafts import Draft, draft_of, limits_for
from mcpvectordb.settings import Settings
from mcpvectordb.store import Store
from mcpvectordb.work import Work

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import pdfs

MODEL = embed.find_model("minilm")
ROUNDS = 3
# A document of each format has so many abstracts.
ABSTRACTS = 4
MB = 1024 * 1024
TEXT_MB = (5, 20)
PAGES = 1000
ASKED = 30
LIMITS = Limits(timeout_s=120, memory_mb=512, text_mb=25)


def text_file(path: Path, texts: Sequence[str]) -> None:
    path.write_text("\n\n".join(texts), encoding="utf-8")


def markdown_file(path: Path, texts: Sequence[str]) -> None:
    path.write_text("\n\n".join(f"## Part {n}\n\n{text}" for n, text in enumerate(texts)), encoding="utf-8")


def page_file(path: Path, texts: Sequence[str]) -> None:
    body = "".join(f"<h2>Part {n}</h2><p>{html.escape(text)}</p>" for n, text in enumerate(texts))
    path.write_text(f"<html><body><nav>Home</nav><main>{body}</main></body></html>", encoding="utf-8")


def word_file(path: Path, texts: Sequence[str]) -> None:
    body = "".join(f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>" for text in texts)
    names = f'xmlns:w="{OFFICE}wordprocessingml/2006/main"'
    document = f"<w:document {names}><w:body>{body}</w:body></w:document>"
    path.write_bytes(package("word/document.xml", {"word/document.xml": [document.encode()]}))


def workbook_file(path: Path, texts: Sequence[str]) -> None:
    book = openpyxl.Workbook()
    for number, text in enumerate(texts):
        for sentence in text.split(". "):
            book.worksheets[0].append([number, len(sentence), sentence])
    book.save(path)


def pdf_file(path: Path, texts: Sequence[str]) -> None:
    path.write_bytes(pdfs.pdf(*(pdfs.Page().lines(60, 720, wrapped(text)) for text in texts)))


def wrapped(text: str, width: int = 90) -> list[str]:
    plain = text.encode("ascii", "replace").decode()
    return [plain[start : start + width] for start in range(0, min(len(plain), width * 50), width)]


FORMATS: dict[str, Callable[[Path, Sequence[str]], None]] = {
    "txt": text_file,
    "md": markdown_file,
    "html": page_file,
    "docx": word_file,
    "xlsx": workbook_file,
    "pdf": pdf_file,
}


def make_folder(folder: Path, texts: Sequence[str]) -> list[Path]:
    """Documents of all formats in turn, each of some abstracts that no other has."""
    folder.mkdir(parents=True)
    made: list[Path] = []
    for number, start in enumerate(range(0, len(texts), ABSTRACTS)):
        ending = list(FORMATS)[number % len(FORMATS)]
        path = folder / f"{number:03}.{ending}"
        FORMATS[ending](path, texts[start : start + ABSTRACTS])
        made.append(path)
    return made


def processor_s(work: Callable[[], object]) -> float:
    """Processor time of this process and its children, the converter's among them."""

    def spent() -> float:
        children = sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children())
        return time.process_time() + children

    before = spent()
    work()
    return spent() - before


def parts_of(paths: Iterable[Path], home: Path) -> dict[str, float]:
    """What converting, embedding and writing take, each alone and the session on one thread."""
    converter, embedder = Converter(LIMITS), embed.load(MODEL)
    wanted = [Request(source=sources.read_file(str(path), library="bench", max_file_mb=50)) for path in paths]
    warm = list({request.source.file_name[-4:]: request for request in wanted}.values())
    for request in warm:
        converter.convert(request.source)
    session = bare(MODEL, threads=1)
    session(["A text that warms the model up."])
    took: dict[str, float] = {}
    converted: list[Any] = []
    took["convert"] = processor_s(lambda: converted.extend(converter.convert(one.source) for one in wanted))
    converter.stop()

    def cut() -> list[Draft]:
        limits = limits_for(embedder, Settings(home=home).chunk_tokens)
        return [
            draft_of(request, None, found, embedder, limits, Work())
            for request, found in zip(wanted, converted, strict=True)
        ]

    drafts = cut()
    took["cut"] = processor_s(cut)
    texts = [passage.embedded for draft in drafts for passage in draft.passages]
    took["embed"] = processor_s(lambda: session(texts))
    for draft in drafts:
        for key in draft.hashes:
            draft.spool.add(key, embedder.embed_query("A vector of any text."))
    entries = [draft.entry() for draft in drafts]
    record = {"name": MODEL.name, **MODEL.identity}
    store = Store(home)
    store.write.replace(entries[:1], record)  # makes the table and its indexes

    def write() -> None:
        for start in range(1, len(entries), GROUP_DOCUMENTS):
            store.write.replace(entries[start : start + GROUP_DOCUMENTS], record)

    took["write"] = processor_s(write)
    store.close()
    return took


def bench_folder(folder: Path) -> None:
    paths = make_folder(folder / "files", texts_of("corpus", 360))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    warm = make_folder(folder / "warm", [f"A text of few words, number {n}." for n in range(24)])
    walls: list[float] = []
    parts: list[dict[str, float]] = []
    for number in range(ROUNDS):  # in turns, so that a busy moment hits both
        with fresh() as db:
            assert db.ingest_folder(str(warm[0].parent)).count("indexed") == len(warm)
            walls.append(timed(lambda db=db: db.ingest_folder(str(paths[0].parent))))
            documents = db.list_documents(limit=1000)
            assert documents.total == len(paths) + len(warm), documents.total
        parts.append(parts_of(paths, folder / f"home {number}"))
    wall = statistics.median(walls)
    row(f"a folder of {len(paths)} files of {len(FORMATS)} formats", f"{wall:.2f} s")
    spent = {name: statistics.median(one[name] for one in parts) for name in parts[0]}
    for name, seconds in spent.items():
        row(f"  processor time, {name} alone", f"{seconds:.2f} s")
    least = (sum(spent.values()) - spent["cut"]) / cores
    row(f"  convert, embed and write over {cores} cores", f"{least:.2f} s", f"{wall / least:.2f}", "<= 1.4")


# Indexes one file, with vectors that cost nothing: what is looked at is memory.
INDEXER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ingest import CountingEmbedder
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
embedders = []
def load(model, runtime):
    embedders.append(CountingEmbedder(model, runtime))
    return embedders[-1]
with VectorDB(Settings(home=Path(sys.argv[2]), model="minilm"), load=load) as db:
    done = db.ingest_file(sys.argv[3])
    assert done.status == "indexed", done
    print(embedders[-1].count, flush=True)
    sys.stdin.readline()
    while not db.tidy():
        pass
"""


class CountingEmbedder(CheapEmbedder):
    """Counts the texts that reach it."""

    def __init__(self, model: embed.Model, runtime: str) -> None:
        super().__init__(model, runtime)
        self.count = 0

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.count += len(texts)
        return super().embed_documents(texts)


def peaks_of(path: Path, home: Path) -> tuple[float, float, int]:
    """The most memory that indexing a file takes, the converter's included, and the most with the upkeep that
    comes after it; and how many texts were embedded."""
    command = [sys.executable, "-c", INDEXER, str(Path(__file__).parent), str(home), str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8") as process:
        assert process.stdin and process.stdout
        with Peak(process.pid) as indexing:
            count = int(process.stdout.readline())
        with Peak(process.pid) as after:
            process.stdin.close()
            process.wait()
    assert process.returncode == 0
    return indexing.both, max(indexing.both, after.both), count


def bench_memory(folder: Path) -> None:
    abstracts = texts_of("corpus", 1400)
    first: list[float] = []

    def one(what: str, path: Path) -> None:
        indexing, with_upkeep, count = peaks_of(path, folder / f"home of {path.name}")
        first.append(indexing)
        ratio = f"{indexing / first[0]:.2f}" if first[1:] else ""
        row(f"peak with {what}", f"{indexing:.0f} MB", ratio, f"<= 1.2, 1500 MB; {count:,} texts embedded")
        row("  with the upkeep after it", f"{with_upkeep:.0f} MB")

    for size in TEXT_MB:
        path = folder / f"{size}.txt"
        with path.open("w", encoding="utf-8") as file:
            number = 0
            while file.tell() < size * MB:
                # No passage twice: its vector would be taken from the first.
                text = abstracts[number % len(abstracts)].replace(". ", f" ({number}). ")
                file.write(f"Text {number}. {text}\n\n")
                number += 1
        one(f"{size} MB of text", path)
    book = folder / "book.pdf"
    pdf_file(book, [f"Page {n}. {abstracts[n % len(abstracts)]}" for n in range(PAGES)])
    one(f"a PDF of {PAGES:,} pages", book)


async def asked(client: Client, queries: Sequence[str]) -> tuple[list[float], list[float]]:
    """Seconds of searches and of tools/list."""
    searches: list[float] = []
    lists: list[float] = []
    for query in queries:
        started = time.perf_counter()
        found = await client.call_tool("search", {"query": query})
        searches.append(time.perf_counter() - started)
        assert not found.is_error and found.structured_content, found
        assert found.structured_content["mode"] == "hybrid", found.structured_content
        started = time.perf_counter()
        assert (await client.list_tools()).tools
        lists.append(time.perf_counter() - started)
    return searches, lists


async def answers(folder: Path) -> None:
    texts = texts_of("corpus", 1400)
    many, few = folder / "many", folder / "few"
    make_folder(few, texts[:400])
    make_folder(many, texts[400:])
    ours = {"MCPVECTORDB_HOME": str(folder / "home"), "MCPVECTORDB_MODEL": MODEL.name}
    waits = {"MCPVECTORDB_CALL_TIMEOUT_S": "5", "MCPVECTORDB_LOG_LEVEL": "WARNING"}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mcpvectordb"], env={**os.environ, **ours, **waits}
    )
    queries = texts_of("queries", ASKED)
    async with Client(server) as client:

        async def call(tool: str, **arguments: object) -> dict[str, Any]:
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer
            return answer.structured_content or {}

        async def status_of(job_id: str) -> str:
            return json.loads(json.dumps(await call("jobs", job_id=job_id)))["jobs"][0]["status"]

        first = await call("ingest_folder", folder=str(few))
        while await status_of(first["job_id"]) != "done":
            await asyncio.sleep(0.2)
        await asked(client, queries[:5])
        idle, idle_lists = await asked(client, queries)
        job = (await call("ingest_folder", folder=str(many)))["job_id"]
        busy, busy_lists = await asked(client, queries)
        is_over = await status_of(job) != "running"
        await call("cancel_job", job_id=job)
    row("search while nothing goes on, p50", ms(statistics.median(idle)))
    ratio = statistics.median(busy) / statistics.median(idle)
    row("search beside a folder's ingest, p50", ms(statistics.median(busy)), f"{ratio:.1f}", "<= 3")
    row("tools/list while nothing goes on, p50", ms(statistics.median(idle_lists)))
    row("tools/list beside a folder's ingest, p50", ms(statistics.median(busy_lists)))
    if is_over:
        print("  (the ingest ended before the last search: the machine is too fast for this folder)")


def main() -> None:
    benches: dict[str, Callable[[Path], None]] = {
        "folder": bench_folder,
        "memory": bench_memory,
        "answers": lambda folder: asyncio.run(answers(folder)),
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=list(benches))
    only = parser.parse_args().only
    row("what", "figure", "ratio", "target")
    for name, bench in benches.items():
        if only in (None, name):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                bench(Path(folder).resolve())


if __name__ == "__main__":
    main()
