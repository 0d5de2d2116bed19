"""The command line as people and scripts meet it: real processes, their streams, their exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from embedders import words_db
from mcpvectordb.models import Source, document_uuid
from mcpvectordb.server import build_server
from mcpvectordb.vectordb import VectorDB
from stores import source, text
from support import PATIENCE_S, environment, long_text, wait_until

needs_terminal = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
# Moves the cursor, sets the window's title, fakes a line of ours, turns the direction of writing.
HOSTILE = "a\x1b[2Jb\x9b31m\x1b]0;owned\x07\r\n1. fake\u202egnp.exe\u2028end"
HOSTILE_TEXT = (
    "# Harbour\r\n\r\nThe café \x1b[31mis red\x1b[0m at 向量 nine.\r\n\tIndented.\u2028End without a line end"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a document in each of two libraries, and one whose name and text are hostile."""
    home = tmp_path_factory.mktemp("cli").resolve() / "home"
    with words_db(home) as db:
        db.ingest_source(
            source("a", text("a", 1, 3)), tags=["x", "y"], metadata={"year": 2024, "n": {"m": 1}}
        )
        db.ingest_source(source("b", text("b", 1, 2), library="papers"), tags=["x"])
        hostile = Source(
            name=HOSTILE, library="odd", kind="text", data=HOSTILE_TEXT.encode(), file_name=f"{HOSTILE}.txt"
        )
        db.ingest_source(hostile)
    return home


def run(home: Path, *arguments: str, stdin: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "mcpvectordb", *arguments],
        env=environment(home, **settings),
        input=stdin.encode(errors="surrogateescape"),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    stdout, stderr = (
        stream.decode(settings.get("PYTHONIOENCODING", "utf-8")) for stream in (done.stdout, done.stderr)
    )
    return subprocess.CompletedProcess(arguments, done.returncode, stdout, stderr)


def ok(home: Path, *arguments: str, **settings: str) -> str:
    done = run(home, *arguments, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _on_terminal(environ: dict[str, str]) -> dict[str, str]:
    """Without what says more of a terminal than the terminal itself: other tests' libraries set it."""
    return {name: value for name, value in environ.items() if name not in ("COLUMNS", "LINES")} | {
        "TERM": "xterm"
    }


def on_terminal(home: Path, *arguments: str, columns: int = 60, typed: bytes = b"") -> tuple[int, str]:
    """Run a command with all its streams on a terminal of that width; its exit code and what was seen."""
    import fcntl
    import pty
    import struct
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpvectordb", *arguments],
        env=_on_terminal(environment(home)),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # what Linux says of a terminal that nobody holds open any more
            break
        if not part:
            break
        seen += part
        if typed and b"Ctrl-D" in seen:
            os.write(ours, typed)
            typed = b""
    os.close(ours)
    return process.wait(timeout=PATIENCE_S), seen.decode().replace("\r\n", "\n")


def tool(home: Path, name: str, arguments: Mapping[str, Any]) -> Any:
    """What the MCP tool of that name answers."""

    async def call(db: VectorDB) -> Any:
        async with Client(build_server(db)) as client:
            return (await client.call_tool(name, dict(arguments))).structured_content

    with words_db(home) as db:
        return asyncio.run(call(db))


@pytest.mark.parametrize(
    ("command", "name", "arguments"),
    [
        (
            ("search", "version1", "-n", "3", "--mode", "keyword", "--filter", "metadata.year=2024"),
            "search",
            {"query": "version1", "top_k": 3, "mode": "keyword", "filter": {"metadata.year": 2024}},
        ),
        (("list", "--limit", "2"), "list_documents", {"limit": 2}),
        (("list", "--library", "none"), "list_documents", {"library": "none"}),
        (("list", "--tag", "x", "--tag", "y"), "list_documents", {"tags": ["x", "y"]}),
        (("libraries",), "list_libraries", {}),
        (("status",), "status", {}),
        (
            ("get", document_uuid("odd", HOSTILE), "--offset", "2", "--max-chars", "30"),
            "get_document",
            {"doc_id": document_uuid("odd", HOSTILE), "offset": 2, "max_chars": 30},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_json_is_what_the_tool_of_the_same_name_answers(
    home: Path, command: tuple[str, ...], name: str, arguments: dict[str, Any]
) -> None:
    done = run(home, *command, "--json")
    assert json.loads(done.stdout) == tool(home, name, arguments)
    assert done.stderr == ""
    assert done.stdout.replace("\n", "").isprintable()


def test_results_go_to_stdout_and_talk_to_stderr(home: Path) -> None:
    found = run(home, "search", "part 2 of a", "-n", "2", "--library", "default", "--mode", "keyword")
    first = found.stdout.splitlines()
    assert first[0].startswith("1. Part 0 of a > Part 2 of a")
    assert first[1] == "   a"
    assert first[2].startswith(f"   {document_uuid('default', 'a')}  ")
    assert "Words follow one another here. Words follow" in first[3]
    assert found.stderr == ""
    nothing = run(home, "search", "version1", "--library", "none", "--mode", "keyword")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "There is no library 'none'. The libraries are: default, odd, papers.\n"
    page = run(home, "list", "--tag", "x", "-n", "1")
    assert len(page.stdout.splitlines()) == 3
    assert page.stderr == "1 of 2 documents; go on with --offset 1.\n"
    assert ok(home, "libraries").splitlines()[1] == "odd      1 document  1 passage"


def test_tags_and_filters_narrow_a_search(home: Path) -> None:
    def sources(*options: str) -> set[str]:
        found = json.loads(ok(home, "search", "version1", "--mode", "keyword", "--json", *options))
        return {one["source"] for one in found["results"]}

    assert sources() == {"a", "b"}
    assert sources("--tag", "x", "--tag", "y") == {"a"}
    assert sources("--filter", "library=papers") == {"b"}
    assert sources("--filter", '{"metadata.n.m": 1, "file_type": "md"}') == {"a"}
    assert sources("--filter", "metadata.year=2024", "--filter", "library=papers") == set()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("get", "nothing"), 1, "Error: There is no document 'nothing'."),
        (("get", "a\x1b[2Jb"), 1, "Error: There is no document 'a\\x1b[2Jb'."),
        (("search", " "), 1, "Error: The query is empty."),
        (("search", "x", "--filter", "filetype=md"), 1, "Did you mean 'file_type'?"),
        (("search", "x", "--filter", "md"), 2, "neither a JSON object nor key=value"),
        (("search", "x", "--filter", '{"page": '), 2, "is not JSON"),
        (("search", "x", "--filter", '{"page": ' + "[" * 50_000), 2, "It is nested too deep. Flatten it."),
        (("search", "x", "--filter", "page=Infinity"), 1, "'page' wants an integer, not a string."),
        (("search", "x", "--filter", "page=1e999"), 1, "'page' wants an integer, not a string."),
        (("search", "x", "-n", "0"), 2, "0 is not in the range"),
        (("serch", "x"), 2, "No such command 'serch'"),
        (("list", "--libary", "x"), 2, "No such option"),
    ],
)
def test_what_goes_wrong_is_one_sentence_on_stderr_with_its_exit_code(
    home: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = run(home, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_setting_stops_a_command(home: Path) -> None:
    done = run(home, "list", MCPVECTORDB_HOMME="x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: There is no setting MCPVECTORDB_HOMME. Did you mean MCPVECTORDB_HOME?\n"


def test_deleting_many_goes_on_after_a_bad_one_and_its_code_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with words_db(home) as db:
        for name in "abc":
            db.ingest_source(source(name, text(name, 1, 1)))
    ids = [document_uuid("default", name) for name in "abc"]
    some = run(home, "delete", ids[0], "nothing", ids[1], "--json")
    assert some.returncode == 3
    lines = [json.loads(line) for line in some.stdout.splitlines()]
    assert [line["status"] for line in lines] == ["deleted", "error", "deleted"]
    assert lines[0] == {"status": "deleted", "doc_id": ids[0], "deleted_chunks": lines[0]["deleted_chunks"]}
    assert some.stderr == f"Error: {lines[1]['error']}\n"
    assert run(home, "delete", "nothing", ids[0]).returncode == 1
    assert ok(home, "delete", ids[2], ids[2]).startswith(f"deleted  {ids[2]}  ")
    assert json.loads(ok(home, "list", "--json"))["total"] == 0


def test_tags_are_shown_set_and_cleared(tmp_path: Path) -> None:
    home, doc_id = tmp_path / "home", document_uuid("default", "a")
    with words_db(home) as db:
        db.ingest_source(source("a", text("a", 1, 1)), tags=["x"])
    assert ok(home, "tags", doc_id) == "x\n"
    assert ok(home, "tags", doc_id, "draft", "2026") == "draft\n2026\n"
    assert json.loads(ok(home, "list", "--tag", "2026", "--json"))["total"] == 1
    cleared = json.loads(ok(home, "tags", doc_id, "--clear", "--json"))
    assert cleared == tool(home, "set_tags", {"doc_id": doc_id, "tags": []})
    assert json.loads(ok(home, "tags", doc_id, "--json")) == {**cleared, "status": "unchanged"}
    assert run(home, "tags", doc_id, "x", "--clear").returncode == 2
    assert run(home, "tags", "nothing", "x").returncode == 1


def test_a_text_goes_into_a_pipe_as_it_was_indexed(home: Path) -> None:
    with words_db(home) as db:
        content = db.get_document(document_uuid("odd", HOSTILE)).content
    assert "\x1b" in content
    assert ok(home, "get", document_uuid("odd", HOSTILE)) == content
    part = run(home, "get", document_uuid("odd", HOSTILE), "--offset", "2", "--max-chars", "7")
    assert part.stdout == content[2:9]
    assert part.stderr == f"There is more: go on with --offset 9 of {len(content)}.\n"


@needs_terminal
@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("search", "harbour cafe", "--mode", "keyword"),
        ("get", document_uuid("odd", HOSTILE)),
        ("list", "--json"),
        ("delete", HOSTILE),
        ("search", "x", "--filter", f"{HOSTILE}=1"),
    ],
    ids=lambda arguments: " ".join(arguments[:1]),
)
def test_no_document_can_play_with_the_terminal(home: Path, arguments: tuple[str, ...]) -> None:
    _, seen = on_terminal(home, *arguments, columns=400)
    assert "x1b" in seen or "u001b" in seen
    assert not [char for char in seen if char not in "\n\t" and not char.isprintable()]
    assert not [line for line in seen.splitlines() if line.startswith("1. fake")]


@needs_terminal
def test_lines_are_cut_to_the_width_of_the_terminal(home: Path) -> None:
    code, seen = on_terminal(
        home, "search", "part 1", "--mode", "keyword", "--library", "default", columns=50
    )
    assert code == 0
    lines = seen.splitlines()
    assert max(map(len, lines)) <= 50
    # Title, source, id and score, and three lines of each of the five passages.
    assert len(lines) == 5 * 6
    assert lines[5].endswith("…")


@needs_terminal
def test_the_server_on_a_terminal_says_what_it_is_and_how_to_connect_a_client(home: Path) -> None:
    code, seen = on_terminal(home, columns=200, typed=b"\x04")
    assert code == 0
    assert "claude mcp add mcpvectordb" in seen
    assert "mcpvectordb --help" in seen


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C cannot be sent to one process")
def test_ctrl_c_ends_the_server_though_its_stdin_stays_open(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpvectordb"],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait(timeout=PATIENCE_S)
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_a_command_quietly(tmp_path: Path, unbuffered: str) -> None:
    home = tmp_path / "home"
    with words_db(home) as db:
        db.ingest_source(source("long", text("long", 1, 400)))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpvectordb", "get", document_uuid("default", "long")],
        env=environment(home, PYTHONUNBUFFERED=unbuffered),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(10) == b"## Part 0 "
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=PATIENCE_S) == 141


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes streams")
@pytest.mark.parametrize(
    ("closed", "shown"), [(">&-", ""), ("2>&-", "default"), ("<&-", "default"), ("<&- >&- 2>&-", "")]
)
def test_a_stream_that_is_closed_from_the_start_is_no_reason_to_fail(
    home: Path, closed: str, shown: str
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "mcpvectordb", "libraries"],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(shown)
    assert bool(done.stdout) == bool(shown)


@pytest.mark.skipif(os.name == "nt", reason="no such pipes")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["search", "--help"]])
def test_help_that_nobody_reads_ends_quietly_too(home: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mcpvectordb", *arguments],
            env=environment(home),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full here")
@pytest.mark.parametrize("arguments", [["libraries"], ["--help"], ["--version"], ["search", "--help"]])
def test_a_full_disk_is_said_of_the_output(home: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mcpvectordb", *arguments],
            env=environment(home),
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "Error: The output cannot be written: No space left on device.\n",
    )


def test_a_stream_that_lacks_a_character_shows_its_number_and_json_stays_json(home: Path) -> None:
    options = ("search", "harbour", "--library", "odd", "--mode", "keyword")
    assert r"\u5411" in ok(home, *options, PYTHONIOENCODING="latin-1")
    as_json = ok(home, *options, "--json", PYTHONIOENCODING="latin-1")
    assert as_json.isascii()
    assert json.loads(as_json) == json.loads(ok(home, *options, "--json"))


def test_a_command_that_writes_does_the_upkeep_that_is_due(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with words_db(home) as db:
        db.ingest_source(source("a", text("a", 1, 1)))
    with words_db(home) as db:
        db._store.upkeep.is_paused = True  # as a process that ends before its thread has looked
        db.ingest_source(source("b", text("b", 1, 600)))
        before = db.status()
        assert before is not None
        assert before.unindexed_passages > 500
    ok(home, "delete", document_uuid("default", "a"))
    with words_db(home) as db:
        after = db.status()
        assert after is not None
        assert after.unindexed_passages == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder").resolve()
    (folder / "deep").mkdir()
    for name in ("one.md", "two.md", "deep/three.md", "broken.docx", "left out.txt", ".hidden"):
        (folder / name).write_text(f"# About {name}\n\nThe harbour.\n", encoding="utf-8")
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 this is no archive")
    return folder


def test_many_are_ingested_past_the_bad_ones_and_its_code_says_so(tmp_path: Path, folder: Path) -> None:
    home, note = tmp_path / "home", tmp_path / "note.md"
    note.write_text("# A note\n\nTea.\n", encoding="utf-8")
    given = (str(note), str(tmp_path / "missing.md"), str(folder), "--exclude", "left out.txt")
    first = run(home, "ingest", *given, "--tag", "t", "--metadata", '{"year": 2024}')
    assert first.returncode == 3
    lines = first.stdout.splitlines()
    assert (
        lines[0] == f"indexed   {document_uuid('default', str(note.resolve()))}  1 passage  {note.resolve()}"
    )
    assert [line.split()[0] for line in lines[1:4]] == ["indexed"] * 3
    assert lines[4] == (
        f"{folder}: 3 indexed, 0 replaced, 1 failed, 0 unchanged; passed over: 1 excluded, 1 hidden"
    )
    errors = first.stderr.splitlines()
    assert [line.split(":")[0] for line in errors] == ["Error", "Error"]
    assert "missing.md" in errors[0]
    assert str(folder / "broken.docx") in errors[1]
    again = run(home, "ingest", *given, "--json")
    assert again.returncode == 3
    one, none, many = (json.loads(line) for line in again.stdout.splitlines())
    assert one == tool(home, "ingest_file", {"path": str(note)})
    assert one["status"] == "skipped"
    assert none == {"status": "error", "error": errors[0].removeprefix("Error: "), "source": given[1]}
    assert many == tool(home, "ingest_folder", {"folder": str(folder), "exclude": ["left out.txt"]})
    assert (many["unchanged"], many["failed"]) == (3, 1)
    assert json.loads(ok(home, "jobs", "--json")) == tool(home, "jobs", {})
    assert {
        one["metadata"]["year"] for one in json.loads(ok(home, "list", "--tag", "t", "--json"))["documents"]
    } == {2024}


def test_a_text_from_stdin_is_named_by_an_option(tmp_path: Path) -> None:
    home = tmp_path / "home"
    text = "# Tide\n\nHöchststand um neun.\n"
    first = run(home, "ingest", "-", "--source", "tide", "--json", stdin=text)
    assert (first.returncode, first.stderr) == (0, "")
    stored = json.loads(first.stdout)
    assert (stored["status"], stored["source"], stored["title"]) == ("indexed", "tide", "Tide")
    assert ok(home, "get", stored["doc_id"]) == text
    assert run(home, "ingest", "-", stdin=text).returncode == 2
    refused = run(home, "ingest", "-", "--source", "tide", stdin="\udcff")
    assert (refused.returncode, "is not UTF-8 text" in refused.stderr) == (1, True)


@contextmanager
def working(home: Path, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that has begun to ingest what takes long."""
    path.write_text(long_text(1000), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpvectordb", "ingest", str(path), str(path.with_name("next.md"))],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        # Whoever runs the tests in the background has told its children to overhear Ctrl-C.
        preexec_fn=None if os.name == "nt" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        with words_db(home) as db:
            wait_until(lambda: bool(db.jobs(status="running").jobs))
        yield process
    finally:
        process.kill()
        process.wait(timeout=PATIENCE_S)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C cannot be sent to one process")
def test_ctrl_c_gives_up_the_work_and_says_what_is_left_of_it(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path.resolve() / "long.md"
    with words_db(home) as db:
        path.write_text("# As it was", encoding="utf-8")
        db.ingest_file(str(path))
    with working(home, path) as process:
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines() == [
        "Interrupted: giving up at the next step. Ctrl-C again ends at once.",
        f"{path} is cancelled: nothing of it was stored, and what was there before is as it was.",
        "1 of 2 were not begun.",
    ]
    assert ok(home, "get", document_uuid("default", str(path))) == "# As it was"
    assert [job["status"] for job in json.loads(ok(home, "jobs", "--json"))["jobs"]] == ["cancelled", "done"]


def test_a_job_can_be_seen_and_cancelled_from_another_command(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path.resolve() / "long.md"
    with working(home, path) as process:
        (job,) = json.loads(ok(home, "jobs", "--status", "running", "--json"))["jobs"]
        assert (job["source"], job["kind"]) == (str(path), "file")
        shown = ok(home, "jobs", job["job_id"])
        assert shown.startswith(f"{job['job_id']}  ")
        assert "  running " in shown
        assert ok(home, "jobs", "--cancel", job["job_id"]).startswith(f"{job['job_id']}  ")
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert stderr.startswith(f"Error: The ingest of {path} was cancelled")
    unknown = run(home, "jobs", "nothing")
    assert (unknown.returncode, unknown.stdout) == (1, "")
