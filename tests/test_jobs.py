"""Jobs: work that outlives its call and its process, and can be cancelled."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from embedders import BlockingEmbedder, WordEmbedder, use, words_db
from mcpvectordb.embed import MODELS, Model
from mcpvectordb.errors import ConversionError, JobCancelled, JobNotFound, JobsDamaged, Stopped
from mcpvectordb.jobs.database import JobsDatabase
from mcpvectordb.models import Job, Source
from mcpvectordb.store import Disk
from mcpvectordb.vectordb import VectorDB
from support import PATIENCE_S, Server, environment, long_text, serving, wait_until
from webserver import Connection, web_server

OLD = 1_700_000_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return written(tmp_path.resolve() / "notes.md", "# Notes\n\nThe first version speaks of apples.\n")


def written(path: Path, text: str) -> Path:
    """A file that was not written just now: the time of one that was is not kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (OLD, OLD))
    return path


def states(db: VectorDB) -> list[str]:
    return [job.status for job in db.jobs().jobs]


def only_job(db: VectorDB) -> Job:
    (job,) = db.jobs().jobs
    return job


class SlowEmbedder(WordEmbedder):
    """Waits for `go` before each step but the first; `steps` counts those begun, `passed` those let go."""

    def __init__(self, model: Model = MODELS["minilm"], runtime: str = "onnx") -> None:
        super().__init__(model, runtime)
        self.steps = self.passed = 0
        self.go = threading.Semaphore(1)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.steps += 1
        assert self.go.acquire(timeout=PATIENCE_S)
        self.passed += 1
        return super().embed_documents(texts)


# --- what becomes of a job


def test_a_job_that_is_done_says_what_came_of_it(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        document = db.ingest_file(str(notes), library="work").document
        job = only_job(db)
    assert (job.status, job.kind, job.source, job.library) == ("done", "file", str(notes), "work")
    assert (job.doc_id, job.document_id) == (document.doc_id, document.document_id)
    assert job.result == {
        "outcome": "indexed",
        "document_id": document.document_id,
        "title": "Notes",
        "chunk_count": 1,
        "notice": "",
    }
    assert (job.progress, job.error, job.attempts) == (1.0, "", 1)


def test_what_is_known_and_unchanged_makes_no_job(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
        before = db.jobs().total
        assert db.ingest_file(str(notes)).status == "skipped"
        assert db.jobs().total == before == 1


def test_looking_for_jobs_where_there_never_was_one_makes_no_file(home: Path) -> None:
    with words_db(home) as db:
        assert (db.jobs().jobs, db.jobs().total) == ((), 0)
        with pytest.raises(JobNotFound, match="There is no job 'x'"):
            db.job("x")
        db.serve_jobs()
    assert not home.exists()


def test_a_job_that_fails_says_why_and_leaves_the_old_version(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
        notes.write_bytes(b"\x00\x01\x02" * 400)
        with pytest.raises(ConversionError) as refused:
            db.ingest_file(str(notes))
        assert [job.error for job in db.jobs(status="failed").jobs] == [str(refused.value)]
        assert db.search("apples").hits


def test_a_number_of_a_job_that_is_not_text_is_of_no_job(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
        with pytest.raises(JobNotFound, match="There is no job"):
            db.job("caf\udce9")


def test_jobs_are_listed_newest_first_and_by_state(home: Path, tmp_path: Path) -> None:
    with words_db(home) as db:
        for name in ("a", "b", "c"):
            db.ingest_text(f"Text {name}.", name)
        with pytest.raises(ConversionError):
            db.ingest_text("   ", "blank")
        assert [job.source for job in db.jobs().jobs] == ["blank", "c", "b", "a"]
        page = db.jobs(status="done", limit=1, offset=1)
        assert ([job.source for job in page.jobs], page.total) == (["b"], 3)
        assert db.status().jobs == {"done": 3, "failed": 1}  # type: ignore[union-attr]


def test_the_same_work_asked_for_twice_is_one_job(home: Path, notes: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db:
        first = db.begin.file(str(notes))
        assert embedder.reached.wait(PATIENCE_S)
        again = db.begin.file(str(notes))
        other = db.begin.file(str(notes), tags=["other"])
        assert again.job_id == first.job_id != other.job_id
        embedder.go.set()
        assert first.result(PATIENCE_S) == again.result(PATIENCE_S)
        assert other.result(PATIENCE_S).status == "skipped"
        assert "refresh" in other.result().notice


def test_a_text_is_a_document_under_the_name_it_is_given(home: Path) -> None:
    with words_db(home) as db:
        first = db.ingest_text("Plain words about pears.", "report.pdf", tags=["a"])
        assert (first.document.title, first.document.kind, first.document.file_type) == (
            "report.pdf",
            "text",
            "md",
        )
        second = db.ingest_text("# Heading\n\nOther words.", "report.pdf")
        assert (second.status, second.document.title, second.document.tags) == ("replaced", "Heading", ("a",))
        assert db.list_documents().total == 1


@pytest.mark.parametrize(
    "text", ["%PDF-1.7 is how it begins.", r"{\rtf1 is how it begins", "<?xml version='1.0'?><a/>"]
)
def test_a_text_is_a_text_whatever_it_begins_with(home: Path, text: str) -> None:
    with words_db(home) as db:
        document = db.ingest_text(text, "beginnings").document
        assert db.get_document(document.doc_id).content == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The text is empty: there is nothing to index."),
        (" \n", "The text holds only blank lines: there is nothing to index."),
        ("\u200b", "The text holds no text: there is nothing to index."),
        ("\x00", "The text looks like a binary file"),
    ],
)
def test_a_text_without_words_is_refused_by_no_name_but_its_own(home: Path, text: str, says: str) -> None:
    with words_db(home) as db, pytest.raises(ConversionError, match=says):
        db.ingest_text(text, "blank")


# --- cancelling


def test_a_job_cancelled_while_it_embeds_leaves_the_old_version(home: Path, notes: Path) -> None:
    embedder = SlowEmbedder()
    with words_db(home, load=use(embedder)) as db:
        db.ingest_file(str(notes))
        written(notes, long_text(60))
        task = db.begin.file(str(notes))
        wait_until(lambda: embedder.steps == 2)
        assert task.job_id is not None
        db.cancel_job(task.job_id)
        for _ in range(100):
            embedder.go.release()
        with pytest.raises(JobCancelled, match="cancelled"):
            task.result(PATIENCE_S)
        assert db.job(task.job_id).status == "cancelled"
        assert db.search("apples").hits
        assert not (home / "jobs").exists() or not any((home / "jobs").iterdir())


def test_a_job_that_waits_is_cancelled_at_once(home: Path, notes: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db:
        db.begin.file(str(notes))
        assert embedder.reached.wait(PATIENCE_S)
        waiting = db.begin.text("Some words.", "waiting")
        waiting.cancel()
        with pytest.raises(JobCancelled):
            waiting.result(PATIENCE_S)
        embedder.go.set()


def test_a_job_is_given_up_only_when_nobody_waits_for_it_any_more(home: Path, notes: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db:
        first, second = db.begin.file(str(notes)), db.begin.file(str(notes))
        assert embedder.reached.wait(PATIENCE_S)
        first.leave()
        embedder.go.set()
        assert second.result(PATIENCE_S).status == "indexed"


def test_another_process_may_cancel_a_job(home: Path, notes: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db, words_db(home) as other:
        task = db.begin.file(str(notes))
        assert embedder.reached.wait(PATIENCE_S)
        job = only_job(other)
        assert job.status == "running"
        other.cancel_job(job.job_id)
        wait_until(lambda: db.begin.runner.is_cancelled(job.job_id))
        embedder.go.set()
        with pytest.raises(JobCancelled):
            task.result(PATIENCE_S)
        assert only_job(other).status == "cancelled"


def test_a_cancelled_job_whose_process_was_killed_before_it_stopped_has_ended(
    home: Path, notes: Path
) -> None:
    kill_in_mid_job(home, notes, cancelled=True)
    with words_db(home) as server:
        assert only_job(server).status == "running"
        server.serve_jobs()
        wait_until(lambda: only_job(server).status == "cancelled")
        assert server.list_documents().total == 0


def test_nobody_waits_for_ever_for_a_cancelled_job_of_a_killed_process(home: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as running, words_db(home) as waiting:
        running.begin.text("Words about quinces.", "quinces")
        assert embedder.reached.wait(PATIENCE_S)
        joined = waiting.begin.text("Words about quinces.", "quinces")
        set_jobs(home, "cancel = 1, owner = 'killed', lease_until = 1")
        with pytest.raises(JobCancelled):
            joined.result(PATIENCE_S)
        embedder.go.set()


def test_a_program_that_ends_before_its_cancelled_job_has_stopped_leaves_nothing_of_it(home: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db:
        task = db.begin.text("Words about quinces.", "quinces")
        assert embedder.reached.wait(PATIENCE_S)
        task.cancel()
        db.stop()
        assert not db.give_back(timeout_s=0)
        with words_db(home) as other:
            assert only_job(other).status == "cancelled"
        assert not any((home / "jobs").iterdir())
        embedder.go.set()


def test_a_lease_from_before_the_clock_was_set_back_keeps_no_job(home: Path, notes: Path) -> None:
    kill_in_mid_job(home, notes)
    set_jobs(home, f"lease_until = {time.time() + 24 * 3600}")
    with words_db(home) as server:
        server.serve_jobs()
        wait_until(lambda: only_job(server).status == "done")


# --- whose turn it is


def test_one_process_waits_for_a_job_that_another_runs(home: Path, notes: Path) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db, words_db(home) as other:
        task = db.begin.file(str(notes))
        assert embedder.reached.wait(PATIENCE_S)
        joined = other.begin.file(str(notes))
        assert joined.job_id == task.job_id
        embedder.go.set()
        assert task.result(PATIENCE_S).document == joined.result(PATIENCE_S).document
        assert db.jobs().total == 1


def test_a_single_document_goes_ahead_of_a_folder_here_and_elsewhere(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    written(folder / "long.md", "".join(f"# Part {n}\n\nWords of part {n}.\n\n" for n in range(3000)))
    embedder = SlowEmbedder()
    with words_db(home, load=use(embedder)) as db, words_db(home) as other:
        running = db.begin.folder(str(folder))
        wait_until(lambda: embedder.steps == 2)
        here, elsewhere = db.begin.text("Here.", "here"), other.begin.text("Elsewhere.", "elsewhere")
        while not (here.done() and elsewhere.done()):
            # The folder would take many more steps.
            assert embedder.passed < 40
            before = embedder.passed
            embedder.go.release()
            wait_until(lambda before=before: embedder.passed > before or (here.done() and elsewhere.done()))
        assert not running.done()
        for _ in range(100):
            embedder.go.release()
        assert running.result(PATIENCE_S).count("indexed") == 1


# --- processes that end


def test_a_program_that_ends_gives_its_jobs_back_and_a_server_takes_them_over(
    home: Path, notes: Path
) -> None:
    embedder = BlockingEmbedder()
    with words_db(home, load=use(embedder)) as db:
        task = db.begin.text("Words about quinces.", "quinces", metadata={"year": 2024}, tags=["fruit"])
        assert embedder.reached.wait(PATIENCE_S)
        db.stop()
        embedder.go.set()
        with pytest.raises(Stopped):
            task.result(PATIENCE_S)
    with words_db(home) as short:
        assert only_job(short).status == "queued"  # a short command leaves it alone
    with words_db(home) as server:
        server.serve_jobs()
        wait_until(lambda: only_job(server).status == "done")
        (hit,) = server.search("quinces").hits
        assert (hit.document.tags, hit.document.metadata) == (("fruit",), {"year": 2024})
        assert not any((home / "jobs").iterdir())


KILLED = """
import os, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from embedders import BlockingEmbedder, use, words_db
embedder = BlockingEmbedder()
db = words_db(Path(sys.argv[1]), load=use(embedder))
db.begin.file(sys.argv[2])
assert embedder.reached.wait(30)
os._exit(9)
"""


def set_jobs(home: Path, what: str) -> None:
    """As if that had happened to every job that has not ended."""
    with sqlite3.connect(home / "jobs.sqlite") as db:
        db.execute(f"UPDATE jobs SET {what} WHERE status IN ('queued', 'running')")


def kill_in_mid_job(home: Path, notes: Path, *, cancelled: bool = False) -> None:
    """A process begins a job and is killed; the time of its lease is over."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(home), str(notes), str(Path(__file__).parent)],
        timeout=PATIENCE_S,
        env=environment(home),
        check=False,
    )
    assert done.returncode == 9
    set_jobs(home, f"lease_until = 1, cancel = {int(cancelled)}")


def test_the_job_of_a_process_that_was_killed_is_taken_over_once_its_lease_is_over(
    home: Path, notes: Path
) -> None:
    kill_in_mid_job(home, notes)
    with words_db(home) as server:
        assert only_job(server).status == "running"
        server.serve_jobs()
        wait_until(lambda: only_job(server).status == "done")
        assert only_job(server).attempts == 2
        assert server.search("apples").hits


def test_a_job_that_ends_every_process_that_runs_it_is_given_up(home: Path, notes: Path) -> None:
    kill_in_mid_job(home, notes)
    for _ in range(2):
        set_jobs(home, "attempts = attempts + 1")  # the next one runs the same job
    with words_db(home) as server:
        server.serve_jobs()
        wait_until(lambda: only_job(server).status == "failed")
        assert "interrupted 3 times" in only_job(server).error


def test_whoever_asks_again_for_what_a_killed_process_left_gets_it_done(home: Path, notes: Path) -> None:
    kill_in_mid_job(home, notes)
    with words_db(home) as short:
        assert short.ingest_file(str(notes)).document.title == "Notes"
        assert only_job(short).status == "done"


def test_a_newer_jobs_file_is_refused_untouched(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
    with sqlite3.connect(home / "jobs.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with words_db(home) as newer, pytest.raises(Exception, match="newer mcpvectordb"):
        newer.ingest_text("More.", "more")


def test_doctor_finds_what_ended_jobs_left_behind_and_removes_it(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
        left = home / "jobs" / "0123"
        left.mkdir(parents=True)
        (left / "content").write_bytes(b"left")
        os.utime(left, (OLD, OLD))
        (found,) = [one for one in db.doctor() if one.check == "left-over job files"]
        assert "1 jobs" in found.problem
        (found,) = [one for one in db.doctor(fix=True) if one.check == "left-over job files"]
        assert found.fixed
        assert not left.exists()


def test_a_jobs_file_that_is_damaged_stops_no_reading_and_doctor_sets_it_aside(
    home: Path, notes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
    (home / "jobs.sqlite").write_bytes(b"no database at all" * 100)
    with words_db(home) as db:
        assert db.search("apples").hits
        status = db.status()
        assert status is not None
        assert (status.documents, status.jobs) == (1, {})
        assert "jobs.sqlite are damaged" in status.notice
    assert not caplog.records  # a program that ran no job has none to give back
    with words_db(home) as db:
        with pytest.raises(JobsDamaged, match="doctor --fix"):
            db.ingest_text("More.", "more")
        (found,) = [one for one in db.doctor() if one.check == "jobs"]
        assert "damaged" in found.problem
        (found,) = [one for one in db.doctor(fix=True) if one.check == "jobs"]
        assert found.fixed
        assert db.ingest_text("More.", "more").status == "indexed"
    (aside,) = (home / "damaged").glob("jobs-*/jobs.sqlite")
    assert aside.read_bytes().startswith(b"no database")


def test_doctor_leaves_the_jobs_of_a_newer_program_alone(home: Path, notes: Path) -> None:
    with words_db(home) as db:
        db.ingest_file(str(notes))
    with sqlite3.connect(home / "jobs.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with words_db(home) as older:
        (found,) = [one for one in older.doctor(fix=True) if one.check == "jobs"]
        assert "newer mcpvectordb" in found.problem
        assert not found.fixed
    assert (home / "jobs.sqlite").exists()


# --- over the protocol


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "db", folder=tmp_path.resolve(), MCPVECTORDB_CALL_TIMEOUT_S="1") as running:
        # With the model loaded and the database open, only long work is late.
        running.ok_in_time("ingest_text", content="A first text.", source="first")
        yield running


def test_a_call_that_takes_too_long_answers_processing_with_every_field_and_the_job_goes_on(
    server: Server,
) -> None:
    path = server.write("long.txt", long_text(150))
    late = server.ok("ingest_file", path=path)
    assert (late["status"], late["source"], late["library"]) == ("processing", path, "default")
    assert late["chunk_count"] == 0
    assert 0 <= late["progress"] < 1
    assert "goes on" in late["notice"]
    (job,) = server.ok("jobs", job_id=late["job_id"])["jobs"]
    assert (job["kind"], job["doc_id"]) == ("file", late["doc_id"])
    wait_until(lambda: server.ok("jobs", job_id=late["job_id"])["jobs"][0]["status"] == "done")
    (job,) = server.ok("jobs", job_id=late["job_id"])["jobs"]
    assert job["chunk_count"] > 100
    assert (job["outcome"], job["title"], job["progress"]) == ("indexed", "long.txt", 1)
    assert server.ok("jobs", status="running")["jobs"] == []


def test_cancel_job_stops_what_goes_on(server: Server) -> None:
    path = server.write("long.txt", long_text(400))
    job_id = server.ok("ingest_file", path=path)["job_id"]
    server.ok("cancel_job", job_id=job_id)
    wait_until(lambda: server.ok("jobs", job_id=job_id)["jobs"][0]["status"] == "cancelled")
    assert server.ok("list_documents")["total"] == 1


def test_a_call_that_its_client_cancels_takes_its_job_with_it(tmp_path: Path) -> None:
    with serving(tmp_path / "db", folder=tmp_path.resolve()) as server:
        path = server.write("long.txt", long_text(400))
        call = server.begin_call("ingest_file", {"path": path})
        wait_until(lambda: bool(server.ok("jobs", status="running")["jobs"]))
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        wait_until(lambda: bool(server.ok("jobs", status="cancelled")["jobs"]))
        assert server.ok("list_documents")["total"] == 0


def test_a_call_that_is_cancelled_while_it_fetches_fetches_no_more_unless_another_waits_for_it(
    tmp_path: Path,
) -> None:
    hung_up = threading.Event()

    def drip(connection: Connection) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n")
        try:
            connection.drip(itertools.repeat(b"word "))
        except OSError:
            hung_up.set()

    settings = {"MCPVECTORDB_URL_ALLOW": "127.0.0.1", "MCPVECTORDB_URL_TIMEOUT_S": "600"}
    with web_server() as web, serving(tmp_path / "db", **settings) as server:
        url = web.put("/slow.txt", drip)
        calls = [server.begin_call("ingest_url", {"url": url}) for _ in range(2)]
        wait_until(lambda: bool(web.requests))
        server.ok("list_libraries")  # both calls have been read
        for call in calls:
            assert not hung_up.is_set()
            server.send(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}
            )
            server.ok("list_libraries")
        wait_until(hung_up.is_set)
        assert server.ok("jobs")["total"] == 0
        assert len(web.requests) == 1


def test_a_client_that_goes_away_in_mid_call_has_its_work_done_by_the_next_server(tmp_path: Path) -> None:
    with serving(tmp_path / "db", folder=tmp_path.resolve()) as server:
        path = server.write("long.txt", long_text(60))
        server.begin_call("ingest_file", {"path": path})
        wait_until(lambda: bool(server.ok("jobs", status="running")["jobs"]))
    with serving(tmp_path / "db") as server:
        wait_until(lambda: bool(server.ok("jobs", status="done")["jobs"]))
        assert [job["source"] for job in server.ok("jobs")["jobs"]] == [path]
        assert server.ok("list_documents")["total"] == 1


def test_progress_of_an_ingest_is_told_and_only_ever_grows(tmp_path: Path) -> None:
    with serving(tmp_path / "db", folder=tmp_path.resolve()) as server:
        path = server.write("long.txt", long_text(40))
        call = {"name": "ingest_file", "arguments": {"path": path}, "_meta": {"progressToken": "p"}}
        assert server.finish_call(server.begin("tools/call", call), "ingest_file")["status"] == "indexed"
        messages = [json.loads(line) for line in server.stdout_lines]
        told = [one["params"] for one in messages if one.get("method") == "notifications/progress"]
    assert any("embedding" in one["message"] for one in told)
    numbers = [one["progress"] for one in told]
    assert numbers == sorted(set(numbers))


def test_the_log_of_the_jobs_stays_small(home: Path) -> None:
    with words_db(home) as db:
        for number in range(120):
            db.ingest_source(Source(name=f"{number}", library="d", kind="text", data=b"a", file_name="a"))
        log = home / "jobs.sqlite-wal"
        assert 0 < log.stat().st_size < 800_000


def test_several_that_begin_the_first_job_at_once_all_begin_it(home: Path) -> None:
    together = threading.Barrier(4)

    def begin(folder: Path) -> int:
        jobs = JobsDatabase(folder, Disk())
        together.wait(PATIENCE_S)
        try:
            with jobs.changing(create=True) as db:
                return db.execute("SELECT count(*) FROM jobs").fetchone()[0]
        finally:
            jobs.close()

    # One time in twelve they met, when nobody waited for the others.
    with ThreadPoolExecutor(4) as threads:
        for number in range(60):
            assert list(threads.map(begin, [home / str(number)] * 4)) == [0] * 4


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("jobs", {"job_id": "none"}, "There is no job 'none'"),
        ("cancel_job", {"job_id": "none"}, "There is no job 'none'"),
        ("jobs", {"status": "finished"}, "one of"),
        ("ingest_text", {"content": "words"}, "'source'"),
        ("ingest_text", {"content": "", "source": "x"}, "content"),
        ("ingest_text", {"content": "x", "source": "a\nb"}, "not a name"),
    ],
)
def test_bad_arguments_are_answered_in_a_sentence(
    stdio: Server, tool: str, arguments: dict[str, object], says: str
) -> None:
    assert says in stdio.error(tool, **arguments)
