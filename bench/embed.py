"""Embedding: the product against the bare session, memory against one text, the two runtimes side by side.

Prints a table and asserts no times. The full-size nomic has random weights: speed and memory are those of the
real one, quality cannot be measured here. It is made on the fly, and only where torch is installed:
`make bench-torch`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcpvectordb import embed
from mcpvectordb.embed.files import verified
from mcpvectordb.embed.origin import from_folder

ROOT = Path(__file__).resolve().parents[1]
CRANFIELD = ROOT.parent / "shared" / "data" / "retrieval" / "cranfield" / "corpus.jsonl.gz"
MB = 1024 * 1024
ROUNDS = 3
WORDS = ("wing", "layer", "flow", "keys", "harbour", "shipment", "letter", "pressure", "boundary", "model")
PREFIXES = embed.Choices(document_prefix="search_document: ", query_prefix="search_query: ")
# Reads a folder or a name, a file, a runtime and a workload from argv; prints what it took.
CHILD = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from embed import loaded, peak_mb, workload
embedder = loaded(*sys.argv[2:5])
texts = workload(sys.argv[5])
embedder.embed_query("first")
started = time.perf_counter()
embedder.embed_documents(texts)
print(json.dumps({"seconds": time.perf_counter() - started, "peak": peak_mb(), "texts": len(texts)}))
"""


def row(what: str, figure: str, ratio: str = "", target: str = "") -> None:
    print(f"{what:52} {figure:>16}  {ratio:>8}  {target}".rstrip(), flush=True)


def loaded(model: str, file: str, runtime: str) -> embed.Embedder:
    """An embedder of a model by name, or of one in a folder by its file."""
    if model in embed.MODELS:
        return embed.load(embed.MODELS[model], runtime)
    choices = embed.Choices(document_prefix="search_document: ", query_prefix="search_query: ", file=file)
    return embed.load(from_folder(Path(model), choices, runtime), runtime)


def peak_mb() -> float:
    """The most memory this process has had."""
    if os.name == "nt":
        import psutil

        return psutil.Process().memory_info().peak_wset / MB
    status = Path("/proc/self/status")
    if status.is_file():
        # Not getrusage, whose peak a child takes over from the process that started it.
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if "VmHWM" in line)
        return int(line.split()[1]) / 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB


def workload(name: str) -> list[str]:
    draw = random.Random(name)
    match name:
        case "one of 256":
            return [" ".join(draw.choices(WORDS, k=245))]
        case "one of 8000":
            return [" ".join(draw.choices(WORDS, k=8000))]
        case "10000 short":
            return [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(10_000)]
        case "short":
            return [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(200)]
        case _:
            return [" ".join(draw.choices(WORDS, k=245)) for _ in range(int(name))]


def mixed(count: int) -> list[str]:
    """Texts of Cranfield of all lengths, or shuffled words where it is not at hand."""
    if CRANFIELD.is_file():
        with gzip.open(CRANFIELD, "rt", encoding="utf-8") as file:
            found = [text for line in file if (text := json.loads(line)["text"].strip())]
        return [text[: 40 + (number * 97) % 1500] for number, text in enumerate(found[:count])]
    return [" ".join(random.Random(n).choices(WORDS, k=5 + n * 7 % 240)) for n in range(count)]


def in_child(model: str, file: str, runtime: str, work: str) -> dict[str, Any]:
    arguments = (str(Path(__file__).parent), model, file, runtime, work)
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return json.loads(ended.stdout.splitlines()[-1])


def bare(model: embed.Model, threads: int = 0) -> Callable[[list[str]], None]:
    """The session alone, one text after the other on all cores: what anybody would write first."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(verified(model, "tokenizer")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_tokens)
    options = onnxruntime.SessionOptions()
    # As the product's session: on a busy machine threads that spin between runs take three times as long.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = threads
    path = str(verified(model, "model"))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]

    def run(texts: list[str]) -> None:
        for text in texts:
            encoding = tokenizer.encode(model.document_prefix + text)
            ids = np.asarray([encoding.ids])
            given = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            output = session.run(None, {name: given[name] for name in names})[0]
            vector = output[0].mean(axis=0) if output.ndim == 3 else output[0]
            vector / np.linalg.norm(vector)

    return run


def bench_overhead(name: str, model: embed.Model, texts: list[str]) -> None:
    embedder, alone = embed.load(model), bare(model)
    embedder.embed_documents(texts[:4])
    alone(texts[:4])
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(ROUNDS):  # in turns, so that a busy moment hits both
        for call, took in ((embedder.embed_documents, ours), (alone, theirs)):
            started, used = time.perf_counter(), time.process_time()
            call(texts)
            took.append((time.perf_counter() - started, time.process_time() - used))
    (product, busy), (session, session_busy) = (
        [statistics.median(part) for part in zip(*took, strict=True)] for took in (ours, theirs)
    )
    row(f"{name}: bare session, {len(texts)} mixed texts", f"{len(texts) / session:.1f} texts/s")
    row(
        f"{name}: the product on the same",
        f"{len(texts) / product:.1f} texts/s",
        f"{product / session:.2f}",
        "1.05",
    )
    # On a machine that others use too, only this one tells the truth.
    row(f"{name}:   in processor time", f"{busy:.2f} s", f"{busy / session_busy:.2f}", "1.05")


def bench_query_beside(name: str, model: embed.Model, texts: list[str]) -> None:
    embedder = embed.load(model)
    query = "how often do the keys have to be rotated?"
    embedder.embed_query(query)

    def asked(count: int) -> float:
        times: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            embedder.embed_query(query)
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    alone = asked(20)
    over = threading.Event()

    def bulk() -> None:
        while not over.is_set():
            embedder.embed_documents(texts)

    working = threading.Thread(target=bulk)
    working.start()
    beside = asked(20)
    over.set()
    started = time.perf_counter()
    working.join()
    rest = time.perf_counter() - started
    row(f"{name}: a query alone, p50", f"{alone * 1000:.1f} ms")
    row(f"{name}: a query beside a bulk batch, p50", f"{beside * 1000:.1f} ms", f"{beside / alone:.1f}")
    row(f"{name}:   (what was left of the batch then)", f"{rest * 1000:.0f} ms")


def bench_memory(name: str, model: str, file: str, runtime: str, works: list[str]) -> None:
    one = in_child(model, file, runtime, "one of 256")["peak"]
    row(f"{name}: peak, one text of 256 tokens", f"{one:.0f} MB")
    for work in works:
        peak = in_child(model, file, runtime, work)["peak"]
        row(f"{name}: peak, {work}", f"{peak:.0f} MB", f"{peak / one:.2f}")


def bench_nomic() -> None:
    if find_spec("torch") is None or find_spec("onnxscript") is None:
        print("\nFull-size nomic is left out: torch is not installed here. `make bench-torch` has it.")
        return
    sys.path.insert(0, str(ROOT / "scripts"))
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from random_nomic import make

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name) / "nomic"
        make(folder, vocab_size=30528)
        fp32, int8 = "onnx/model.onnx", "onnx/model_quantized.onnx"
        quantize_dynamic(folder / fp32, folder / int8, weight_type=QuantType.QInt8)
        print("\nnomic-embed-text-v1.5 with random weights, each in a process of its own")
        for what, file, runtime in (
            ("int8, onnx", int8, "onnx"),
            ("fp32, onnx", fp32, "onnx"),
            ("fp32, sentence-transformers", fp32, "sentence-transformers"),
        ):
            for work in ("12", "short"):
                done = in_child(str(folder), file, runtime, work)
                label = "256 tokens" if work != "short" else "3-12 words"
                row(
                    f"{what}: {done['texts']} texts of {label}",
                    f"{done['texts'] / done['seconds']:.1f} texts/s",
                    "",
                    f"peak {done['peak']:.0f} MB",
                )
        for what, file in (("nomic int8", int8), ("nomic fp32", fp32)):
            choices = embed.Choices(
                document_prefix=PREFIXES.document_prefix, query_prefix=PREFIXES.query_prefix, file=file
            )
            model = from_folder(folder, choices, "onnx")
            bench_overhead(what, model, mixed(24))
        bench_memory("nomic int8", str(folder), int8, "onnx", ["one of 8000", "short"])


def main() -> None:
    row("what", "figure", "ratio", "target")
    minilm = embed.MODELS["minilm"]
    bench_overhead("MiniLM", minilm, mixed(120))
    bench_query_beside("MiniLM", minilm, mixed(120))
    bench_memory("MiniLM", "minilm", "", "onnx", ["one of 8000", "10000 short"])
    bench_nomic()


if __name__ == "__main__":
    main()
