"""A model that nobody uses leaves memory, and comes back with the next call."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from embedders import WordEmbedder
from mcpvectordb.embed.idle import IdleEmbedder
from mcpvectordb.models import Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
from support import PATIENCE_S, wait_until


class ClosingEmbedder(WordEmbedder):
    """Knows how often it was closed, and waits in the middle of a batch when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0
        self.reached = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.reached.set()
        assert self.go.wait(PATIENCE_S)
        return super().embed_documents(texts)

    def close(self) -> None:
        self.closed += 1


def test_a_model_is_dropped_once_it_has_been_idle_and_each_time_again() -> None:
    inner = ClosingEmbedder()
    embedder = IdleEmbedder(inner, 0.05)
    for times in (1, 2, 3):
        embedder.embed_query("keys")
        wait_until(lambda times=times: inner.closed == times)


def test_a_model_in_use_is_not_dropped_however_long_it_takes() -> None:
    inner = ClosingEmbedder()
    inner.go.clear()
    embedder = IdleEmbedder(inner, 0.05)
    working = threading.Thread(target=lambda: embedder.embed_documents(["a long one"]))
    working.start()
    assert inner.reached.wait(PATIENCE_S)
    embedder.embed_query("a query beside it")
    assert not threading.Event().wait(0.3)  # several times the idle time
    assert inner.closed == 0
    inner.go.set()
    working.join(PATIENCE_S)
    wait_until(lambda: inner.closed == 1)


def test_zero_keeps_the_model() -> None:
    inner = ClosingEmbedder()
    embedder = IdleEmbedder(inner, 0)
    before = set(threading.enumerate())  # the watchers of the tests before may not have ended yet
    embedder.embed_query("keys")
    assert not [one for one in threading.enumerate() if one.name == "model-idle" and one not in before]
    embedder.close()
    assert inner.closed == 1


def test_the_real_model_comes_back_with_the_next_search(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=tmp_path / "db", model="minilm", model_idle_s=0.1)
    note = Source(name="a", library="default", kind="text", data=b"Rotate the keys.", file_name="a.txt")
    with caplog.at_level(logging.INFO), VectorDB(settings) as db:
        db.ingest_source(note)
        wait_until(lambda: "the model minilm was dropped" in caplog.text)
        caplog.clear()
        assert db.search("keys", mode="vector").hits
        wait_until(lambda: "the model minilm was dropped" in caplog.text)


def test_what_a_dropped_model_held_goes_back_to_the_system() -> None:
    """Of what loading MiniLM takes, more goes than its file weighs; the libraries stay."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("only Linux tells a process its own peak")
    code = (
        "import threading; from mcpvectordb import embed; from mcpvectordb.embed.idle import IdleEmbedder;"
        "model = IdleEmbedder(embed.load(embed.find_model('minilm')), 0.1);"
        "model.embed_documents(['wing ' * 200] * 4);"
        "[thread.join() for thread in threading.enumerate() if thread.name == 'model-idle'];"
        "lines = dict(line.split(':') for line in open('/proc/self/status'));"
        "print(*(int(lines[name].split()[0]) // 1024 for name in ('VmHWM', 'VmRSS')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, left = map(int, ended.stdout.split())
    assert peak - left > 30, ended.stdout
