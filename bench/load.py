"""Many agents at once: kb_search through the gateway beside a running ingest, 64 callers against 4.

Real processes on loopback, each caller with an MCP client of its own. What is printed are ratios: throughput
of 64 callers over that of 4 (at least .8), p95 over p50 (at most 3), and how much memory the engine and the
gateway have gained between second 10 and second 30 (at most 10 %). The callers run on the same cores as what
they measure.

python bench/load.py            30 s of 64 callers
python bench/load.py --short    a tenth of that, to see that it runs; its ratios say little
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from mcp.client.client import Client

from mcpvectordb.models import Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB

FEW, MANY = 4, 64
SECONDS = 30.0
STEADY_S = 10.0
DOCUMENTS = 300
QUERIES = 97
LEAST_THROUGHPUT, MOST_SPREAD, MOST_GROWTH = 0.8, 3.0, 0.10
PATIENCE_S = 300.0
_THINGS = ("tea", "tar", "rope", "varnish", "oars", "sails", "letters", "lamps", "maps", "salt")


@dataclass
class Measured:
    callers: int
    seconds: float
    latencies_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    memory_mb: list[tuple[float, float]] = field(default_factory=list)  # at which second, how much
    ingested: int = 0
    cpu_s: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of the engine, the gateway and the callers

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.seconds

    def percentile(self, percent: int) -> float:
        return statistics.quantiles(self.latencies_s, n=100)[percent - 1]

    def with_more(self, other: Measured) -> Measured:
        """Both as one, for a figure that other programs disturb less."""
        return Measured(
            callers=self.callers,
            seconds=self.seconds + other.seconds,
            latencies_s=[*self.latencies_s, *other.latencies_s],
            errors=[*self.errors, *other.errors],
            ingested=self.ingested + other.ingested,
            cpu_s=(
                self.cpu_s[0] + other.cpu_s[0],
                self.cpu_s[1] + other.cpu_s[1],
                self.cpu_s[2] + other.cpu_s[2],
            ),
        )

    def growth(self) -> float:
        """Of the memory, from second 10 (or a third) to the end; of three looks each the middle one."""
        steady = min(STEADY_S, self.seconds / 3)
        after = [mb for at, mb in self.memory_mb if at >= steady]
        return statistics.median(after[-3:]) / statistics.median(after[:3]) - 1


@contextmanager
def running(*command: str, log: Path, **settings: str) -> Iterator[tuple[str, int]]:
    """A server on a free port: its address and its process."""
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("KB_", "MCPVECTORDB_"))
    }
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcpvectordb", *command, "--port", "0"],
            env={**plain, **settings},
            stdin=subprocess.DEVNULL,
            stderr=stream,
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while not (found := re.search(r"Serving .* at (http://\S+)", log.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        yield found[1], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def text_of(number: int) -> str:
    lines = [
        f"Shipment {number * 7919} left harbour {(number + line) * 31 % 997} with {number % 13} crates of "
        f"{_THINGS[(number + line) % 10]} and {line} letters home, signed by captain {number * line % 89}."
        for line in range(12)
    ]
    return f"# Shipment {number}\n\n" + "\n\n".join(lines)


def query_of(number: int) -> str:
    shipment = number * 37 % DOCUMENTS
    return f"who signed for the {_THINGS[number % 10]} of shipment {shipment} in harbour {number % 997}"


def fill(home: Path, count: int) -> None:
    """A database with so many documents, made in bulk before there is an engine."""
    sources = (
        Source(
            name=f"shipments/{number}.md",
            library="kb",
            kind="note",
            data=text_of(number).encode(),
            file_name="text.md",
        )
        for number in range(count)
    )
    with VectorDB(Settings.model_validate({"home": home, "model": "minilm"})) as db:
        for _ in db.ingest_sources(sources):
            pass


def ingest(engine: str, first: int, stop: threading.Event) -> int:
    """Add one note after the other until stop; how many were done."""
    done = 0
    with httpx.Client(base_url=f"{engine}/api/v1", timeout=PATIENCE_S, trust_env=False) as client:
        waiting: list[str] = []
        for number in itertools.count(first):
            if stop.is_set():
                break
            answer = client.post("/jobs", json={"text": text_of(number), "tags": [f"harbour:{number % 7}"]})
            answer.raise_for_status()
            waiting.append(answer.json()["job_id"])
            # A few ahead, so that the engine is never without work.
            while len(waiting) > 3:
                done += wait(client, waiting.pop(0), stop)
    return done


def wait(client: httpx.Client, job_id: str, stop: threading.Event) -> int:
    while not stop.is_set():
        job = client.get(f"/jobs/{job_id}").raise_for_status().json()
        if job["status"] == "done":
            return 1
        if job["status"] not in ("queued", "running"):
            raise SystemExit(f"An ingest failed: {job}")
        time.sleep(0.05)
    return 0


def resident_mb(pids: list[int]) -> float:
    """Of the processes and all they have started."""
    total = 0
    for pid in pids:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            try:
                total += one.memory_info().rss
            except psutil.NoSuchProcess:
                continue
    return total / 1024 / 1024


def cpu_s(pid: int) -> float:
    """What a process has used of the processors; of those it has started, what they did before they ended."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


async def measure(gateway: str, callers: int, seconds: float, pids: list[int]) -> Measured:
    measured = Measured(callers=callers, seconds=seconds)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(gateway)) for _ in range(callers)]
        before = [cpu_s(pid) for pid in (*pids, os.getpid())]
        started = time.perf_counter()
        until = started + seconds

        async def call(number: int, client: Client) -> None:
            turn = 0
            while (asked := time.perf_counter()) < until:
                turn += 1
                query = query_of((number * 31 + turn) % QUERIES)
                result = await client.call_tool("kb_search", {"query": query, "top": 5})
                found = result.structured_content or {}
                if result.is_error or not found.get("results"):
                    measured.errors.append(str(found)[:200])
                measured.latencies_s.append(time.perf_counter() - asked)

        async def watch() -> None:
            while not is_over:
                now = time.perf_counter()
                mb = await asyncio.to_thread(resident_mb, pids)
                measured.memory_mb.append((now - started, mb))
                await asyncio.sleep(min(1.0, seconds / 20))

        is_over = False
        watching = asyncio.create_task(watch())
        await asyncio.gather(*(call(number, client) for number, client in enumerate(clients)))
        measured.seconds = time.perf_counter() - started
        after = [cpu_s(pid) for pid in (*pids, os.getpid())]
        engine_s, gateway_s, callers_s = (late - early for late, early in zip(after, before, strict=True))
        measured.cpu_s = (engine_s, gateway_s, callers_s)
        is_over = True
        await watching
    return measured


def beside_an_ingest(
    engine: str, gateway: str, callers: int, seconds: float, pids: list[int], first: int
) -> Measured:
    stop = threading.Event()
    done: list[int] = []
    beside = threading.Thread(target=lambda: done.append(ingest(engine, first, stop)), daemon=True)
    beside.start()
    try:
        measured = asyncio.run(measure(gateway, callers, seconds, pids))
    finally:
        stop.set()
        beside.join(PATIENCE_S)
    measured.ingested = sum(done)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="3 s in place of 30, on fewer documents")
    short = parser.parse_args().short
    seconds, documents = (SECONDS / 10, DOCUMENTS // 10) if short else (SECONDS, DOCUMENTS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        started = time.perf_counter()
        fill(home / "data", documents)
        print(f"{documents} documents indexed in {time.perf_counter() - started:.0f} s", flush=True)
        settings = {"MCPVECTORDB_HOME": str(home / "data"), "MCPVECTORDB_MODEL": "minilm"}
        with (
            running("engine", log=home / "engine.log", **settings) as (engine, engine_pid),
            running(
                "kb", log=home / "gateway.log", KB_ENGINE_URL=engine, KB_STAGING=str(home / "staging")
            ) as (gateway, gateway_pid),
        ):
            pids = [engine_pid, gateway_pid]
            # Everything is imported, loaded and opened before anything is measured.
            asyncio.run(measure(gateway, FEW, seconds / 5, pids))
            # The few before and after the many: what else this machine does changes by the minute.
            few = beside_an_ingest(engine, gateway, FEW, seconds / 2, pids, 1_000_000)
            many = beside_an_ingest(engine, gateway, MANY, seconds, pids, 2_000_000)
            few = few.with_more(beside_an_ingest(engine, gateway, FEW, seconds / 2, pids, 3_000_000))
    for one in (few, many):
        print(
            f"{one.callers:3} callers: {one.per_second:6.1f} searches/s, "
            f"p50 {one.percentile(50) * 1000:6.0f} ms, p95 {one.percentile(95) * 1000:6.0f} ms, "
            f"{len(one.errors)} errors, {one.ingested / one.seconds:.1f} notes/s indexed beside them"
        )
        engine_ms, gateway_ms, callers_ms = (1000 * cpu / len(one.latencies_s) for cpu in one.cpu_s)
        print(
            f"     processor time for each search: engine {engine_ms:.0f} ms (the ingest included), "
            f"gateway {gateway_ms:.0f} ms, callers {callers_ms:.0f} ms"
        )
    throughput = many.per_second / few.per_second
    spread = many.percentile(95) / many.percentile(50)
    growth = many.growth()
    checks = (
        (
            "throughput of 64 over that of 4",
            f"{throughput:.2f}",
            f"≥ {LEAST_THROUGHPUT}",
            throughput >= LEAST_THROUGHPUT,
        ),
        ("p95 over p50", f"{spread:.2f}", f"≤ {MOST_SPREAD}", spread <= MOST_SPREAD),
        ("memory gained", f"{growth:+.1%}", f"≤ {MOST_GROWTH:.0%}", growth <= MOST_GROWTH),
        ("errors", str(len(few.errors) + len(many.errors)), "0", not few.errors and not many.errors),
    )
    for name, value, wanted, is_kept in checks:
        print(f"{name}: {value} ({wanted}){'' if is_kept else '   <-- not kept'}")
    print(f"memory at the end: {many.memory_mb[-1][1]:.0f} MB")
    for said in (*few.errors, *many.errors)[:3]:
        print(said)
    if not short and not all(is_kept for *_, is_kept in checks):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
