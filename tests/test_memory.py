"""Freed memory goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading

import pytest

from mcpvectordb import memory

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what was freed")

# Blocks are freed between others that stay, as while a table is written; the first that is freed is large,
# and makes glibc keep all of up to its size.
HELD = """
import sys
import psutil
from contextlib import nullcontext
from mcpvectordb import memory

def held_mb():
    return psutil.Process().memory_info().rss / 2**20

with memory.sparing() if sys.argv[1] == "sparing" else nullcontext():
    bytearray(31 * 2**20)
    before = held_mb()
    blocks = [bytearray(300_000) for _ in range(600)]
    for place in range(len(blocks)):
        if place % 10:
            blocks[place] = b""
    print(held_mb() - before)
memory.give_back()
print(held_mb() - before)
"""


def held_mb(how: str) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", HELD, how], capture_output=True, text=True, check=True)
    at_once, in_the_end = map(float, done.stdout.split())
    return at_once, in_the_end


def test_large_work_holds_no_more_than_it_needs() -> None:
    at_once, _ = held_mb("sparing")
    assert at_once < 40
    at_once, in_the_end = held_mb("as usual")
    assert at_once > 120
    assert in_the_end < 40


def test_large_works_beside_each_other_are_sparing_until_the_last_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[int, int]] = []
    trims: list[int] = []

    class Libc:
        """Writes down what it is told, instead of changing how the tests' own process keeps its memory."""

        mallopt = staticmethod(lambda name, size: told.append((name, size)))
        malloc_trim = staticmethod(trims.append)

    monkeypatch.setattr(memory, "_glibc", Libc)
    second, over = threading.Event(), threading.Event()

    def other() -> None:
        with memory.sparing():
            second.set()
            over.wait(30)

    beside = threading.Thread(target=other)
    with memory.sparing():
        beside.start()
        assert second.wait(30)
    assert set(told) == set(memory._SPARING) and not trims
    over.set()
    beside.join(30)
    assert told[-2:] == list(memory._USUAL) and trims == [0]
