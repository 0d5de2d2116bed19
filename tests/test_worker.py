"""The converter process is killed, replaced and cleaned up after, and the server lives on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mcpvectordb.convert import Converter, Limits
from mcpvectordb.convert.formats import HTML, JSON
from mcpvectordb.convert.worker import Worker
from mcpvectordb.errors import ConversionError, Stopped
from mcpvectordb.models import Source

TESTS = Path(__file__).parent


@pytest.fixture
def bad(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A converter that does what it is told; with little time only where a test is about time."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    timeout_s = getattr(request, "param", 120)
    worker = Worker(Limits(timeout_s=timeout_s, memory_mb=256), module="bad_converter")
    yield worker
    worker.stop()


def told(worker: Worker, what: str) -> str:
    return worker.convert(JSON, what.encode(), "file.json").text


def error(worker: Worker, what: str) -> str:
    with pytest.raises(ConversionError) as caught:
        told(worker, what)
    return str(caught.value)


@pytest.mark.parametrize(
    ("bad", "what", "says"),
    [
        (5, "loop", "file.json took longer than 5 s to convert and was given up: split it, "),
        (120, "eat", "file.json needs more than 256 MB of memory to convert and was given up: split it, "),
        (120, "grow and abort", "file.json needs more than 256 MB of memory to convert and was given up: "),
        (120, "abort", "file.json made the converter crash, so it was not read: it may be damaged. "),
        (120, "die", "file.json made the converter crash, so it was not read: it may be damaged. "),
        (120, "flood", "file.json made the converter crash, so it was not read: it may be damaged. "),
    ],
    indirect=["bad"],
)
def test_a_document_that_takes_the_converter_down_is_one_error_and_the_next_is_read(
    bad: Worker, what: str, says: str
) -> None:
    before = told(bad, "fine").split()[0]
    assert error(bad, what).startswith(says)
    after = told(bad, "fine").split()[0]
    assert after != before
    assert not psutil.pid_exists(int(before))


def test_a_document_that_a_tired_converter_dies_of_is_tried_once_in_a_new_one(bad: Worker) -> None:
    first = told(bad, "fine").split()
    assert told(bad, "die unless fresh").split() == [told(bad, "fine").split()[0], "1"]
    assert told(bad, "fine").split()[0] != first[0]


def test_a_converter_that_one_file_has_filled_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    worker = Worker(Limits(memory_mb=512), module="bad_converter")
    try:
        pid = int(told(worker, "swell").split()[0])
        assert not psutil.pid_exists(pid)
        assert told(worker, "fine").split()[1] == "1"
    finally:
        worker.stop()


def test_temporary_files_go_with_the_converter_that_made_them(bad: Worker) -> None:
    folder = Path(bad.convert(JSON, b"litter", "file.json").title)
    assert [entry.read_bytes() for entry in folder.iterdir()] == [b"left behind"]
    error(bad, "die")
    assert not folder.exists()


def test_what_a_killed_server_left_is_removed_by_the_next_converter(bad: Worker) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    folder = Path(bad.convert(JSON, b"litter", "file.json").title)
    left = folder.parent / f"mcpvectordb-convert-{int(ended.stdout)}-abc"
    left.mkdir()
    error(bad, "die")
    told(bad, "fine")
    assert not left.exists()


def test_giving_up_ends_the_conversion_and_nothing_stays_running(bad: Worker) -> None:
    pid = int(told(bad, "fine").split()[0])

    def give_up() -> None:
        raise Stopped("enough")

    with pytest.raises(Stopped, match="enough"):
        bad.convert(JSON, b"loop", "file.json", give_up)
    assert not psutil.pid_exists(pid)
    assert told(bad, "fine")


def test_a_converter_ends_when_its_server_does() -> None:
    code = (
        "from mcpvectordb.convert.worker import Worker, Limits\n"
        "from mcpvectordb.convert.formats import HTML\n"
        "worker = Worker(Limits())\n"
        "worker.convert(HTML, b'<p>words</p>', 'a.html')\n"
        "import os; print(worker._process._child.pid, flush=True); os._exit(0)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    child = int(run.stdout)
    if psutil.pid_exists(child):
        psutil.Process(child).wait(5)
    assert not psutil.pid_exists(child)


def test_text_and_markdown_need_no_converter_process() -> None:
    me = psutil.Process(os.getpid())
    before = {child.pid for child in me.children()}
    converter = Converter()
    for name in ("a.txt", "a.md", "a.py"):
        converter.convert(Source(name=name, library="d", kind="file", data=b"words", file_name=name))
    assert {child.pid for child in me.children()} <= before


def test_a_real_file_that_needs_too_much_memory_is_given_up() -> None:
    """A table of 600,000 cells, which no library reads without holding all of it."""
    worker = Worker(Limits(memory_mb=256))
    try:
        row = "<tr>" + "".join(f"<td>cell {column}</td>" for column in range(10)) + "</tr>"
        with pytest.raises(ConversionError, match="needs more than 256 MB of memory"):
            worker.convert(HTML, f"<table>{row * 60_000}</table>".encode(), "a.html")
        assert worker.convert(HTML, b"<p>words</p>", "b.html").text == "words"
    finally:
        worker.stop()
