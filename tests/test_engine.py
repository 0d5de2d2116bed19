"""The engine's HTTP API beyond the contract's scenarios: borders, libraries, stored files, crashes, keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from httpserver import HttpServer
from knowledge import API, ENGINE_KEY, api, ended, engine_process, killed, serving_engine
from mcpvectordb.engine.http import sweep_until
from mcpvectordb.settings import Settings
from mcpvectordb.store import WorkLock
from mcpvectordb.stored import safe_name
from mcpvectordb.vectordb import VectorDB
from support import PATIENCE_S, Json, environment, long_text, wait_until

NOBODY = 2**52 + 1


@pytest.fixture(scope="module")
def client(engine: HttpServer) -> Iterator[httpx.Client]:
    with api(engine) as one:
        yield one


def posted(client: httpx.Client, **body: Any) -> Json:
    answer = client.post(f"{API}/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def sent(client: httpx.Client, name: str, data: bytes, tags: list[str] | None = None) -> Json:
    fields = {} if tags is None else {"tags": json.dumps(tags)}
    answer = client.post(f"{API}/jobs", files={"file": (name, data)}, data=fields)
    assert answer.status_code == 202, answer.text
    return answer.json()


def noted(client: httpx.Client, **body: Any) -> int:
    job = ended(client, posted(client, **body))
    assert job["status"] == "done", job
    return job["document_id"]


def uploaded(client: httpx.Client, name: str, data: bytes, tags: list[str] | None = None) -> Json:
    """The document that an upload became."""
    job = ended(client, sent(client, name, data, tags))
    assert job["status"] == "done", job
    return client.get(f"{API}/documents/{job['document_id']}").json()


@contextmanager
def embedding_held_up(home: Path) -> Iterator[None]:
    """As by another process on this database: jobs are made, and wait for their turn."""
    lock = WorkLock(home)
    wait_until(lock.take)
    try:
        yield
    finally:
        lock.release()


def error(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    return answer.json()["error"]


# Keys, hosts, binds


def test_every_call_but_health_needs_the_key(engine: HttpServer) -> None:
    with api(engine, key=None) as stranger:
        assert stranger.get("/health").json() == {"status": "ok"}
        for method, path in (
            ("POST", "/search"),
            ("POST", "/jobs"),
            ("GET", "/jobs"),
            ("GET", "/jobs/x"),
            ("GET", "/documents"),
            ("GET", "/documents/1"),
            ("PATCH", "/notes/1"),
            ("DELETE", "/documents/1"),
            ("GET", "/status"),
            ("GET", "/openapi.json"),
        ):
            assert "token" in error(stranger.request(method, API + path), 401), path
        assert stranger.get("/openapi.json").status_code == 401
    with api(engine, key=ENGINE_KEY + "x") as stranger:
        assert stranger.get(f"{API}/status").status_code == 401


def test_without_a_key_the_engine_refuses_to_listen_beyond_loopback(tmp_path: Path) -> None:
    command, env = engine_process(tmp_path, key="", host="0.0.0.0")
    refused = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False
    )
    assert refused.returncode == 1
    assert "KB_API_KEY" in refused.stderr and "Traceback" not in refused.stderr


def test_without_a_key_the_engine_serves_loopback(tmp_path: Path) -> None:
    with serving_engine(tmp_path / "database", key="") as engine, api(engine, key=None) as client:
        assert client.get(f"{API}/status").status_code == 200
        assert "security" not in client.get("/openapi.json").json()["components"].get("securitySchemes", {})


@pytest.mark.parametrize("command", ["engine", "kb"])
def test_a_misspelt_setting_is_refused_with_the_nearest_name(tmp_path: Path, command: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "mcpvectordb", command, "--port", "0"],
        env=environment(tmp_path, KB_API_KEYS="secret"),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert refused.returncode == 1
    assert "Did you mean KB_API_KEY?" in refused.stderr
    assert "secret" not in refused.stderr


def test_a_library_that_could_hold_nothing_stops_the_start(tmp_path: Path) -> None:
    command, env = engine_process(tmp_path, KB_LIBRARIES="kb, two\nlines")
    refused = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False
    )
    assert refused.returncode == 1
    assert "KB_LIBRARIES" in refused.stderr and "not a name" in refused.stderr


# Borders


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "needs 'query'"),
        ({"query": ""}, "'query'"),
        ({"query": "   "}, "empty"),
        ({"query": 5}, "must be a string"),
        ({"query": "a", "top": 0}, "from 1 to 100"),
        ({"query": "a", "top": 101}, "from 1 to 100"),
        ({"query": "a", "top": "5"}, "from 1 to 100"),
        ({"query": "a", "tags": "x"}, "list of strings"),
        ({"query": "a", "tags": ["\n"]}, "not a name"),
        ({"query": "a", "tags": [""]}, "list of strings of 1 to 200 characters (100 at most)"),
        ({"query": "a", "fts_only": True, "vec_only": True}, "exclude each other"),
        ({"query": "a", "fts_onyl": True}, "Did you mean 'fts_only'?"),
        ({"query": "a", "collection": "memory"}, "no field 'collection'"),
    ],
)
def test_a_body_that_is_not_as_described_is_refused_with_the_reason(
    client: httpx.Client, body: Json, says: str
) -> None:
    assert says in error(client.post(f"{API}/search", json=body), 400)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/jobs?limit=0", "from 1 to 100"),
        ("/jobs?limit=many", "from 1 to 100"),
        ("/jobs?limit=1&limit=2", "twice"),
        ("/jobs?status=broken", "one of"),
        ("/documents?ofset=1", "Did you mean 'offset'?"),
        ("/documents/one", "whole number"),
        ("/documents/-1", "whole number"),
        (f"/documents/{2**64}", "whole number"),
        (f"/documents/{'0' * 5000}7", "whole number"),
        ("/status?verbose=1", "no parameters"),
    ],
)
def test_an_address_that_is_not_as_described_is_refused_with_the_reason(
    client: httpx.Client, path: str, says: str
) -> None:
    assert says in error(client.get(API + path), 400)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"query": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'["query"]', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"query=a", "application/x-www-form-urlencoded", 415),
        (b"{}", "text/plain", 415),
    ],
)
def test_a_body_that_is_no_json_is_refused(
    client: httpx.Client, content: bytes, kind: str, status: int
) -> None:
    error(client.post(f"{API}/search", content=content, headers={"Content-Type": kind}), status)


def test_the_longest_note_is_taken_however_its_characters_are_written(client: httpx.Client) -> None:
    for more, status in ((0, 404), (1, 400)):
        escaped = json.dumps({"text": "\N{BOOKS}" * (1_000_000 + more)})
        assert len(escaped) > 12_000_000
        answer = client.patch(
            f"{API}/notes/{NOBODY}", content=escaped, headers={"Content-Type": "application/json"}
        )
        error(answer, status)


def test_what_there_is_not_is_not_found(client: httpx.Client) -> None:
    assert "no document" in error(client.get(f"{API}/documents/{NOBODY}"), 404)
    assert "no document" in error(client.delete(f"{API}/documents/{NOBODY}"), 404)
    assert "no document" in error(client.patch(f"{API}/notes/{NOBODY}", json={"text": "a"}), 404)
    assert "no job" in error(client.get(f"{API}/jobs/nobody"), 404)
    assert "/openapi.json" in error(client.get("/api/v2/status"), 404)
    refused = client.put(f"{API}/jobs")
    assert error(refused, 405)
    assert set(refused.headers["allow"].replace(" ", "").split(",")) == {"GET", "HEAD", "POST"}


def test_a_file_is_not_a_note(client: httpx.Client) -> None:
    document = uploaded(client, "no-note.txt", b"A file, and not a note.")
    answer = client.patch(f"{API}/notes/{document['document_id']}", json={"text": "anything"})
    assert "Only notes can be updated" in error(answer, 409)


# Notes


def test_a_note_is_kept_under_its_source_path_and_replaced_there(client: httpx.Client) -> None:
    first = noted(client, text="Water the plants.", source_path="memory/plants.md", tags=["home"])
    again = noted(client, text="Water them on Mondays.", source_path="memory/plants.md")
    assert again == first
    (found,) = client.get(f"{API}/documents", params={"source_path": "memory/plants.md"}).json()["documents"]
    assert [chunk["text"] for chunk in found["chunks"]] == ["Water them on Mondays."]
    assert found["tags"] == ["home"]


def test_a_note_that_is_said_again_takes_its_new_tags_and_title(client: httpx.Client) -> None:
    body = {"text": "The same text twice.", "source_path": "memory/twice.md"}
    noted(client, **body, tags=["a"])
    number = noted(client, **body, tags=["b"], title="Twice")
    found = client.get(f"{API}/documents/{number}").json()
    assert (found["tags"], found["title"]) == (["b"], "Twice")


def test_a_changed_note_keeps_the_title_it_was_given_and_no_other(client: httpx.Client) -> None:
    given = noted(client, text="# Heading\n\nBody.", title="My own title")
    changed = client.patch(f"{API}/notes/{given}", json={"text": "# Another\n\nBody."}).json()
    assert changed["title"] == "My own title"
    derived = noted(client, text="# Heading\n\nBody of another.")
    changed = client.patch(f"{API}/notes/{derived}", json={"text": "# Another heading\n\nBody."}).json()
    assert (changed["title"], changed["document_id"]) == ("Another heading", derived)


def test_documents_are_listed_by_all_of_their_tags(client: httpx.Client) -> None:
    both = noted(client, text="One with both.", tags=["list:a", "list:b"])
    noted(client, text="One with the first.", tags=["list:a"])
    listed = client.get(f"{API}/documents", params={"tags": ["list:a", "list:b"]}).json()
    assert ([one["document_id"] for one in listed["documents"]], listed["total"]) == ([both], 1)
    assert client.get(f"{API}/documents", params={"tags": "list:a", "limit": 1}).json()["total"] == 2


def test_a_note_that_is_deleted_while_its_change_waits_stays_deleted(
    client: httpx.Client, engine_home: Path
) -> None:
    number = noted(client, text="Here for a moment.", tags=["kept?"])
    address = f"{API}/notes/{number}"
    others = client.get(f"{API}/jobs").json()["total"]
    with ThreadPoolExecutor() as threads, embedding_held_up(engine_home):
        change = threads.submit(client.patch, address, json={"text": "Here again."})
        wait_until(lambda: client.get(f"{API}/jobs").json()["total"] > others)
        assert client.delete(f"{API}/documents/{number}").status_code == 200
    assert f"no document {number}" in error(change.result(), 404)
    assert error(client.get(f"{API}/documents/{number}"), 404)


def test_the_last_of_several_versions_that_wait_is_the_one_that_stays(
    client: httpx.Client, engine_home: Path
) -> None:
    with embedding_held_up(engine_home):
        notes = [posted(client, text=text, source_path="memory/last.md") for text in ("A.", "B.", "A.")]
        files = [sent(client, "last.txt", b"Three times.", [tag]) for tag in ("a", "b", "a")]
    last = ended(client, notes[-1])["document_id"]
    assert [chunk["text"] for chunk in client.get(f"{API}/documents/{last}").json()["chunks"]] == ["A."]
    last = ended(client, files[-1])["document_id"]
    assert client.get(f"{API}/documents/{last}").json()["tags"] == ["a"]


# Uploads and stored files


def files_of(home: Path, document: Json) -> list[Path]:
    return list((home / "files" / document["doc_id"]).glob("*"))


def test_an_uploads_bytes_are_kept_until_its_document_is_deleted(
    client: httpx.Client, engine_home: Path
) -> None:
    data = b"The bytes of an upload, exactly.\r\n"
    document = uploaded(client, "exact.txt", data)
    (stored,) = files_of(engine_home, document)
    assert (stored.name, stored.read_bytes()) == ("exact.txt", data)
    assert client.delete(f"{API}/documents/{document['document_id']}").json() == {
        "status": "deleted",
        "document_id": document["document_id"],
        "title": document["title"],
    }
    assert not (engine_home / "files" / document["doc_id"]).exists()


def test_a_note_that_takes_an_uploads_name_leaves_no_file_of_it(
    client: httpx.Client, engine_home: Path
) -> None:
    document = uploaded(client, "taken.txt", b"An upload whose name a note takes.")
    assert files_of(engine_home, document)
    assert noted(client, text="A note now.", source_path=document["source_path"]) == document["document_id"]
    assert not (engine_home / "files" / document["doc_id"]).exists()
    again = uploaded(client, "taken.txt", b"An upload whose name a note takes.")
    assert again["kind"] == "upload" and len(files_of(engine_home, again)) == 1


def test_an_upload_that_waits_for_its_turn_is_on_the_disk_and_not_in_memory(tmp_path: Path) -> None:
    size, home = 40 * 2**20, tmp_path / "database"
    with killed(*engine_process(home)) as engine, api(engine) as client:
        noted(client, text="All is imported and loaded.")
        process = psutil.Process(engine.process.pid)
        with embedding_held_up(home):
            before = process.memory_info().rss
            job = sent(client, "large.txt", b"A line of many.\n" * (size // 16))
            assert client.get(f"{API}/jobs/{job['job_id']}").json()["status"] == "queued"
            assert process.memory_info().rss - before < size / 2
            assert [path.stat().st_size for path in (home / "jobs").glob("*/content")] == [size]


def test_the_same_bytes_again_set_the_tags_they_were_given(client: httpx.Client) -> None:
    data = b"Bytes that are sent twice."
    first = uploaded(client, "twice.txt", data, ["a", "b"])
    kept = uploaded(client, "twice.txt", data)
    assert (kept["document_id"], kept["tags"]) == (first["document_id"], ["a", "b"])
    again = uploaded(client, "twice.txt", data, ["c"])
    assert (again["document_id"], again["tags"]) == (first["document_id"], ["c"])
    emptied = uploaded(client, "twice.txt", data, [])
    assert emptied["tags"] == []


def test_tags_of_a_form_come_as_a_list_or_one_by_one(client: httpx.Client) -> None:
    answer = client.post(
        f"{API}/jobs", files={"file": ("one-by-one.txt", b"Tags, one by one.")}, data={"tags": ["a", "b"]}
    )
    job = ended(client, answer.json())
    assert client.get(f"{API}/documents/{job['document_id']}").json()["tags"] == ["a", "b"]


def form(*parts: str, end: str = "--b--\r\n") -> bytes:
    return ("".join(f"--b\r\nContent-Disposition: form-data; {part}" for part in parts) + end).encode()


FILE = 'name="file"; filename="a.txt"\r\n\r\nHello\r\n'


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (form(FILE, FILE), "two parts"),
        (form(FILE, 'name="collection"\r\n\r\nmemory\r\n'), "not 'collection'"),
        (form('name="tags"\r\n\r\na\r\n'), "no part `file`"),
        (form(FILE, end=""), "cut off"),
        (form(FILE, 'name="tags"\r\n\r\n["a", 1]\r\n'), "list of strings"),
        (form(FILE, 'name="tags"\r\n\r\n["a"\r\n'), "JSON"),
        (form(FILE, *(f'name="tags"\r\n\r\n{n}\r\n' for n in range(101))), "100 at most"),
        (form('name="file"; filename="../a.txt"\r\n\r\nHello\r\n'), "path"),
        (form('name="file"; filename=".."\r\n\r\nHello\r\n'), "no name"),
        (form('name="file"\r\n\r\nHello\r\n'), "file name"),
        (b"not a form at all", "cannot be read"),
    ],
    ids=[
        "two files",
        "unknown part",
        "no file",
        "cut off",
        "tags of numbers",
        "tags of no JSON",
        "too many tags",
        "path",
        "parent",
        "no file name",
        "no form",
    ],
)
def test_a_form_that_is_not_as_described_is_refused_and_leaves_nothing(
    client: httpx.Client, engine_home: Path, body: bytes, says: str
) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    assert says in error(client.post(f"{API}/jobs", content=body, headers=headers), 400)
    assert not list((engine_home / "incoming").iterdir())


def test_a_file_over_the_limit_is_refused_while_it_comes(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with serving_engine(home, MCPVECTORDB_MAX_FILE_MB="1") as engine, api(engine) as client:

        def blocks() -> Iterator[bytes]:
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            for _ in range(24):
                yield b"x" * 65_536

        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        said = error(client.post(f"{API}/jobs", content=blocks(), headers=headers), 413)
        assert "1 MB" in said
        assert not list((home / "incoming").iterdir())


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("a/b\\c.txt", "a_b_c.txt"),
        ("..", "_"),
        (".hidden", "_.hidden"),
        ("con.txt", "_con.txt"),
        ('who? "me".txt', "who_ _me_.txt"),
        ("trailing. ", "trailing"),
        ("Prüfung 試験.txt", "Prüfung 試験.txt"),
    ],
)
def test_a_stored_file_has_a_name_that_every_system_takes(name: str, kept: str) -> None:
    assert safe_name(name) == kept


def test_a_file_that_cannot_be_converted_leaves_a_failed_job_and_no_file(
    client: httpx.Client, engine_home: Path
) -> None:
    job = ended(client, sent(client, "broken.docx", b"PK\x03\x04 and no more of it"))
    assert (job["status"], job["document_id"]) == ("failed", None)
    assert job["error"]
    known = {
        one["doc_id"] for one in client.get(f"{API}/documents", params={"limit": 100}).json()["documents"]
    }
    wait_until(lambda: {path.name for path in (engine_home / "files").iterdir()} <= known)


# Libraries


def test_another_library_cannot_be_reached_by_any_call(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with VectorDB(Settings.model_validate({"home": home, "model": "minilm"})) as db:
        secret = db.ingest_text("The owner's secret is violet.", "secret", library="private", tags=["t"])
        db.begin.note("A private note.", source_path="note", library="private").result()
        number = secret.document.document_id
        private_note = db.list_documents(library="private").documents[0].document_id
        job_id = db.jobs().jobs[0].job_id
    with serving_engine(home) as engine, api(engine) as client:
        found = client.post(f"{API}/search", json={"query": "violet secret"}).json()
        assert found["results"] == []
        assert "private" not in json.dumps(found)
        assert client.get(f"{API}/documents").json() == {"documents": [], "total": 0}
        assert client.get(f"{API}/documents?source_path=secret").json() == {"documents": [], "total": 0}
        assert client.get(f"{API}/documents?tags=t").json()["total"] == 0
        assert client.get(f"{API}/jobs").json() == {"jobs": [], "total": 0}
        status = client.get(f"{API}/status").json()
        assert (status["documents"], status["chunks"], sum(status["queue"].values())) == (0, 0, 0)
        assert set(status["index"].values()) == {0}
        for refused in (
            client.get(f"{API}/documents/{number}"),
            client.delete(f"{API}/documents/{number}"),
            client.patch(f"{API}/notes/{private_note}", json={"text": "mine now"}),
            client.get(f"{API}/jobs/{job_id}"),
        ):
            assert "private" not in error(refused, 404)
        refusals = [error(client.get(f"{API}/jobs/{one}"), 404) for one in (job_id, "0" * 32)]
        assert refusals[0].replace(job_id, "0" * 32) == refusals[1]
        noted(client, text="A note of the knowledge base's own.")
        assert client.get(f"{API}/status").json()["documents"] == 1
    with serving_engine(home, KB_LIBRARIES="kb, private") as engine, api(engine) as client:
        (hit, *_) = client.post(f"{API}/search", json={"query": "violet secret"}).json()["results"]
        assert hit["document_id"] == number
        assert client.get(f"{API}/documents").json()["total"] == 3
        assert client.delete(f"{API}/documents/{number}").status_code == 200


# Crashes


def test_a_kill_loses_no_job(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with killed(*engine_process(home)) as engine, api(engine) as client:
        jobs = [sent(client, f"{n}.md", f"# {n}\n\n{long_text(20)}".encode(), ["t"]) for n in range(4)]
        jobs.append(posted(client, text="A note among them."))
    with serving_engine(home) as engine, api(engine) as client:
        documents = {ended(client, job)["document_id"] for job in jobs}
        assert None not in documents and len(documents) == 5
        assert client.get(f"{API}/documents").json()["total"] == 5
        stored = [one for one in (home / "files").iterdir() if list(one.iterdir())]
        assert len(stored) == 4
        wait_until(lambda: not list((home / "jobs").iterdir()))


def test_a_file_without_its_document_is_swept_at_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with serving_engine(home) as engine, api(engine) as client:
        document = uploaded(client, "stays.txt", b"This one has its document.")
    orphan = home / "files" / "00000000-0000-4000-8000-000000000000"
    orphan.mkdir()
    (orphan / "lost.txt").write_text("left by a crash", encoding="utf-8")
    long_ago = time.time() - 3600
    for path in (orphan, home / "files" / document["doc_id"]):
        os.utime(path, (long_ago, long_ago))
    with serving_engine(home) as engine:
        wait_until(lambda: not orphan.exists())
        assert engine.process.poll() is None
    (stored,) = files_of(home, document)
    assert stored.name == "stays.txt"


def test_what_was_too_young_at_the_start_is_swept_later(tmp_path: Path) -> None:
    closing, home = threading.Event(), tmp_path / "database"
    left = [home / "files" / "00000000-0000-4000-8000-000000000000", home / "incoming" / "half"]
    with VectorDB(Settings.model_validate({"home": home, "model": "minilm"})) as db:
        sweeping = partial(sweep_until, closing, db, every_s=0.01)
        with ThreadPoolExecutor() as threads:
            try:
                swept = threads.submit(sweeping)
                left[0].mkdir(parents=True)
                left[1].parent.mkdir()
                left[1].touch()
                for path in left:
                    os.utime(path, (time.time() - 3600, time.time() - 3600))
                wait_until(lambda: not any(path.exists() for path in left))
            finally:
                closing.set()
        swept.result()


def test_doctor_checks_stored_files(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with serving_engine(home) as engine, api(engine) as client:
        document = uploaded(client, "gone.txt", b"Its file will be gone.")

    def told(*options: str) -> tuple[int, Json]:
        run = subprocess.run(
            [sys.executable, "-m", "mcpvectordb", "doctor", "--json", *options],
            env=environment(home),
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        (finding,) = [one for one in json.loads(run.stdout) if one["check"] == "stored files"]
        return run.returncode, finding

    assert told() == (0, {"check": "stored files", "problem": "", "fix": "", "fixed": False})
    orphan = home / "files" / "00000000-0000-4000-8000-000000000000"
    orphan.mkdir()
    os.utime(orphan, (time.time() - 3600, time.time() - 3600))
    code, finding = told()
    assert code == 1 and "belong to no document" in finding["problem"]
    code, finding = told("--fix")
    assert code == 0 and finding["fixed"] and not orphan.exists()
    (stored,) = files_of(home, document)
    stored.unlink()
    code, finding = told("--fix")
    assert code == 1 and document["source_path"] in finding["problem"]
