"""The gateway beyond the contract: uploads that go wrong, an engine that comes and goes, borders."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from httpserver import HttpServer, calling
from knowledge import (
    API,
    ENGINE_KEY,
    Agent,
    an_agent,
    encoded,
    engine_process,
    gateway_process,
    killed,
    serving_engine,
    serving_gateway,
)
from mcpvectordb.errors import ConfigError, EngineError, UploadError
from mcpvectordb.kb.client import Engine
from mcpvectordb.kb.staging import Joined, Staging
from webserver import Reply, web_server

MEBIBYTE = 1024 * 1024


def engine_url(engine: HttpServer) -> str:
    return f"http://127.0.0.1:{engine.port}"


@pytest.fixture(scope="module")
def staging_of(gateway: HttpServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the one gateway keeps uploads."""
    folders = [
        path for path in tmp_path_factory.getbasetemp().glob("gateway[0-9]*/staging/run-*") if path.is_dir()
    ]
    (found,) = folders
    return found


# Uploads


def test_chunks_may_come_in_any_order_and_twice(agent: Agent, tag: str) -> None:
    data = f"The last comes first, and one comes twice. {tag}".encode()
    parts = [data[:10], data[10:20], data[20:]]
    upload_id = agent.ok("kb_upload_start", filename="order.txt", total_size=len(data))["upload_id"]
    for index in (2, 0, 0, 1):
        agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(parts[index]), chunk_index=index)
    job = agent.done(agent.ok("kb_upload_finish", upload_id=upload_id))
    document = agent.ok("kb_get", document_id=job["document_id"])
    assert "".join(chunk["text"] for chunk in document["chunks"]).encode() == data


def test_a_chunk_that_comes_again_with_other_bytes_is_refused(agent: Agent) -> None:
    upload_id = agent.ok("kb_upload_start", filename="a.txt", total_size=10)["upload_id"]
    agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(b"hello"), chunk_index=0)
    said = agent.error("kb_upload_chunk", upload_id=upload_id, data=encoded(b"world"), chunk_index=0)
    assert "other bytes" in said
    again = agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(b"hello"), chunk_index=0)
    assert again["received"] == 5


def test_a_gap_is_named_and_nothing_is_forwarded(agent: Agent) -> None:
    upload_id = agent.ok("kb_upload_start", filename="gap.txt", total_size=10)["upload_id"]
    for index in (0, 2, 5):
        agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(b"xy"), chunk_index=index)
    before = agent.ok("kb_jobs")["total"]
    assert "missing: 1, 3, 4" in agent.error("kb_upload_finish", upload_id=upload_id)
    assert agent.ok("kb_jobs")["total"] == before


def test_too_few_and_too_many_bytes_are_told_and_can_be_made_good(agent: Agent, tag: str) -> None:
    data = f"Twenty bytes or more {tag}".encode()
    upload_id = agent.ok("kb_upload_start", filename="size.txt", total_size=len(data))["upload_id"]
    agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(data[:5]), chunk_index=0)
    assert f"5 of {len(data)} bytes" in agent.error("kb_upload_finish", upload_id=upload_id)
    too_much = encoded(data + b"x")
    assert "total_size" in agent.error("kb_upload_chunk", upload_id=upload_id, data=too_much, chunk_index=1)
    agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(data[5:]), chunk_index=1)
    agent.done(agent.ok("kb_upload_finish", upload_id=upload_id))


def test_finishing_twice_answers_with_the_same_job(agent: Agent, tag: str) -> None:
    upload_id = agent.send("twice.txt", f"Finished twice. {tag}".encode())
    job = agent.ok("kb_upload_finish", upload_id=upload_id)
    assert agent.ok("kb_upload_finish", upload_id=upload_id)["job_id"] == job["job_id"]
    said = agent.error("kb_upload_chunk", upload_id=upload_id, data=encoded(b"more"), chunk_index=1)
    assert "finished" in said


def test_a_sha256_is_checked(agent: Agent, tag: str) -> None:
    data = f"Checked by its hash. {tag}".encode()
    right = hashlib.sha256(data).hexdigest()
    assert agent.upload("right.txt", data, sha256=right.upper())["kind"] == "upload"
    upload_id = agent.send("wrong.txt", data, sha256=hashlib.sha256(b"another").hexdigest())
    said = agent.error("kb_upload_finish", upload_id=upload_id)
    assert right in said
    assert "not found" in agent.error("kb_upload_finish", upload_id=upload_id)
    assert "hexadecimal" in agent.error("kb_upload_start", filename="a.txt", total_size=1, sha256="z" * 64)


@pytest.mark.parametrize(
    "name",
    ["../a.txt", "/etc/passwd", "a/b.txt", "..\\a.txt", "C:\\a.txt", "..", ".", " ", "a\nb.txt", "a\x00"],
)
def test_a_name_cannot_lead_anywhere(agent: Agent, staging_of: Path, name: str) -> None:
    before = sorted(staging_of.parent.parent.rglob("*"))
    assert "name" in agent.error("kb_upload_start", filename=name, total_size=1)
    assert sorted(staging_of.parent.parent.rglob("*")) == before


def test_names_that_are_merely_unusual_are_kept(agent: Agent, tag: str) -> None:
    for name in ('who "said" that.txt', "100 % sicher.txt", "Prüfung 試験.md"):
        document = agent.upload(name, f"{name} {tag}".encode())
        assert document["source_path"].endswith(f"/{name}")


@pytest.mark.parametrize("data", ["!!!!", "aGVsbG8", "aGVs bG8=x", "aGVsbG8_", "é"])
def test_data_that_is_no_base64_is_refused(agent: Agent, data: str) -> None:
    upload_id = agent.ok("kb_upload_start", filename="a.txt", total_size=10)["upload_id"]
    assert "base64" in agent.error("kb_upload_chunk", upload_id=upload_id, data=data, chunk_index=0)


def test_base64_may_be_broken_into_lines(agent: Agent) -> None:
    upload_id = agent.ok("kb_upload_start", filename="a.txt", total_size=5)["upload_id"]
    got = agent.ok("kb_upload_chunk", upload_id=upload_id, data="aGVs\r\nbG8=\n", chunk_index=0)
    assert got["received"] == 5


def test_four_mebibytes_pass_in_one_chunk_and_no_more(agent: Agent) -> None:
    size = 4 * MEBIBYTE
    upload_id = agent.ok("kb_upload_start", filename="big.bin", total_size=2 * size)["upload_id"]
    whole = agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(b"x" * size), chunk_index=0)
    assert whole["received"] == size
    said = agent.error("kb_upload_chunk", upload_id=upload_id, data=encoded(b"y" * (size + 1)), chunk_index=1)
    assert str(size) in said


def test_a_file_of_many_chunks_arrives_byte_for_byte(agent: Agent, engine_home: Path, tag: str) -> None:
    line = f"{tag} is said here, on and on, to fill more than one block of the sender.\n"
    data = (line * (3 * MEBIBYTE // 16 // len(line))).encode()
    document = agent.upload("long.txt", data, parts=7)
    (stored,) = (engine_home / "files" / document["doc_id"]).iterdir()
    assert stored.read_bytes() == data


def test_uploads_are_bounded_in_size_and_number(engine: HttpServer, tmp_path: Path) -> None:
    limits = {"KB_MAX_UPLOADS": "2", "KB_MAX_UPLOAD_MB": "1"}
    with serving_gateway(tmp_path, engine_url(engine), **limits) as gateway, an_agent(gateway) as agent:
        assert "1 MB" in agent.error("kb_upload_start", filename="a.txt", total_size=MEBIBYTE + 1)
        first = agent.send("a.txt", b"The first of two uploads that are open.")
        agent.ok("kb_upload_start", filename="b.txt", total_size=MEBIBYTE)
        assert "2 uploads" in agent.error("kb_upload_start", filename="c.txt", total_size=1)
        agent.ok("kb_upload_finish", upload_id=first)
        agent.ok("kb_upload_start", filename="c.txt", total_size=1)


def test_what_a_killed_gateway_has_staged_is_gone_after_the_next_start_but_not_a_living_ones(
    engine: HttpServer, tmp_path: Path
) -> None:
    url = engine_url(engine)
    with serving_gateway(tmp_path, url) as living, an_agent(living) as agent:
        kept = agent.send("kept.txt", b"Staged by one that lives.")
        with killed(*gateway_process(tmp_path, url)) as dying, an_agent(dying) as other:
            lost = other.send("lost.txt", b"Staged by one that is killed.")
        with serving_gateway(tmp_path, url):
            assert not list((tmp_path / "staging").glob(f"run-*/{lost}"))
            assert list((tmp_path / "staging").glob(f"run-*/{kept}"))
        agent.ok("kb_upload_finish", upload_id=kept)
    assert not list((tmp_path / "staging").iterdir())


def test_an_upload_outlives_an_engine_that_is_away(tmp_path: Path) -> None:
    with serving_engine(tmp_path / "database") as engine:
        port = engine.port
    url = f"http://127.0.0.1:{port}"
    with serving_gateway(tmp_path, url) as gateway, an_agent(gateway) as agent:
        upload_id = agent.send("patient.txt", b"It waits for the engine to come back.")
        assert "cannot be reached" in agent.error("kb_upload_finish", upload_id=upload_id)
        with serving_engine(tmp_path / "database", port=port):
            agent.done(agent.ok("kb_upload_finish", upload_id=upload_id))


# An engine that comes and goes


def test_calls_work_again_when_the_engine_is_back(tmp_path: Path) -> None:
    home = tmp_path / "database"
    with killed(*engine_process(home)) as engine:
        port = engine.port
        with serving_gateway(tmp_path, engine_url(engine)) as gateway, an_agent(gateway) as agent:
            note = agent.note("It is here before and after.")
            engine.kill()
            for tool, given in (
                ("kb_search", {"query": "before"}),
                ("kb_addnote", {"text": "a"}),
                ("kb_get", {"document_id": 1}),
                ("kb_jobs", {}),
                ("kb_status", {}),
                ("kb_update_note", {"document_id": 1, "text": "a"}),
                ("kb_delete", {"document_id": 1}),
            ):
                assert f"http://127.0.0.1:{port}" in agent.error(tool, **given)
            with serving_engine(home, port=port):
                assert agent.ok("kb_get", document_id=note["document_id"]) == note
                assert agent.ok("kb_delete", document_id=note["document_id"])["status"] == "deleted"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(body=b"<html>Hello</html>"), "not a knowledge-base engine"),
        (Reply(body=b"[1]"), "not a knowledge-base engine"),
        (Reply(status=302, headers={"Location": "http://elsewhere.example/"}), "302"),
        (Reply(status=500, body=b"oh"), "500"),
        (Reply(status=503, body=b'{"error": "Busy. Try again."}'), "Busy. Try again."),
    ],
    ids=["a page", "a list", "a redirect", "a bare 500", "a sentence"],
)
def test_what_is_no_engine_is_told_apart(tmp_path: Path, reply: Reply, says: str) -> None:
    with web_server() as web:
        web.put(f"{API}/status", reply)
        with serving_gateway(tmp_path, web.url("/")) as gateway, an_agent(gateway) as agent:
            assert says in agent.error("kb_status")
        (request,) = web.requests
    assert request.headers["authorization"] == f"Bearer {ENGINE_KEY}"


def test_a_connection_that_breaks_is_told_and_only_a_question_is_asked_again(tmp_path: Path) -> None:
    with web_server() as web:
        for path in ("/status", "/jobs", "/documents/1"):
            web.put(API + path, lambda _: None)
        with serving_gateway(tmp_path, web.url("/")) as gateway, an_agent(gateway) as agent:
            assert "broke" in agent.error("kb_status")
            assert "broke" in agent.error("kb_addnote", text="Once, please.")
            assert "broke" in agent.error("kb_delete", document_id=1)
        targets = [request.target for request in web.requests]
    assert targets == [f"{API}/status", f"{API}/status", f"{API}/jobs", f"{API}/documents/1"]


def test_an_engine_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            serving_gateway(tmp_path, url, KB_CALL_TIMEOUT_S="0.5") as gateway,
            an_agent(gateway) as agent,
        ):
            assert "busy" in agent.error("kb_status")


@pytest.mark.parametrize(
    "url",
    [
        "engine:8000",
        "ftp://engine",
        "http://",
        "http://[::1",
        "/api",
        "http://engine:99999",
        "http://engine:8000?key=secret",
        "http://engine:8000#secret",
        "http://agent:secret@engine:8000",
    ],
)
def test_an_engines_address_that_is_none_is_refused_and_no_secret_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="KB_ENGINE_URL") as refused:
        Engine(url)
    assert "secret" not in str(refused.value)


def test_the_engines_client_raises_where_nobody_answers() -> None:
    async def ask() -> None:
        client = Engine("http://127.0.0.1:9")
        try:
            await client.delete_document(1)
        finally:
            await client.close()

    with pytest.raises(EngineError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        asyncio.run(ask())


def test_a_job_id_stays_a_part_of_the_address(agent: Agent, engine: HttpServer) -> None:
    for job_id in ("../documents", "..", "a/b", "a?b=c", "%2e%2e", "é"):
        assert agent.error("kb_jobs", job_id=job_id)
    assert engine.says("get_job")


# Borders


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("kb_search", {}, "needs 'query'"),
        ("kb_search", {"query": "a", "top": 0}, "from 1 to 100"),
        ("kb_search", {"query": "a", "top": 101}, "from 1 to 100"),
        ("kb_search", {"query": "a", "tags": [1]}, "list of strings"),
        ("kb_search", {"query": "a", "tag": "x"}, "Did you mean 'tags'?"),
        ("kb_addnote", {"text": ""}, "'text'"),
        ("kb_upload_start", {"filename": "a.txt"}, "needs 'total_size'"),
        ("kb_upload_start", {"filename": "a.txt", "total_size": 0}, "'total_size'"),
        ("kb_upload_start", {"filename": "a.txt", "total_size": 9, "tags": ["a\n"]}, "not a name"),
        ("kb_upload_chunk", {"upload_id": "x", "data": "", "chunk_index": 0}, "'data'"),
        ("kb_upload_chunk", {"upload_id": "x", "data": "aa==", "chunk_index": -1}, "from 0 to 9999"),
        ("kb_upload_chunk", {"upload_id": "x", "data": "aa==", "chunk_index": 10_000}, "from 0 to 9999"),
        ("kb_update_note", {"document_id": "one", "text": "a"}, "'document_id'"),
        ("kb_jobs", {"status": "broken"}, '"queued"'),
        ("kb_jobs", {"job_id": "a", "status": "done"}, "job_id alone"),
        ("kb_status", {"verbose": True}, "no argument 'verbose'"),
        ("kb_delete", {}, "needs 'document_id'"),
        ("kb_delete", {"document_ids": [1, 2]}, "Did you mean 'document_id'?"),
        ("kb_serach", {"query": "a"}, "Did you mean 'kb_search'?"),
    ],
)
def test_arguments_that_are_not_as_described_are_refused_with_the_reason(
    agent: Agent, tool: str, given: dict[str, Any], says: str
) -> None:
    assert says in agent.error(tool, **given)


def test_arguments_may_come_as_clients_write_them(agent: Agent, tag: str) -> None:
    note = agent.note("Clients send lists as strings.", tags=json.dumps([tag]))
    assert note["tags"] == [tag]
    found = agent.ok("kb_search", query="lists", top="3", tags=json.dumps([tag]), fts_only="true")
    assert [hit["document_id"] for hit in found["results"]] == [note["document_id"]]
    assert agent.ok("kb_get", document_id=float(note["document_id"])) == note


def test_the_tools_are_published_with_their_parameters_and_bounds(agent: Agent) -> None:
    parameters = {
        name: (set(tool["inputSchema"]["properties"]), tool["inputSchema"].get("required", []))
        for name, tool in agent.tools.items()
    }
    assert parameters == {
        "kb_search": ({"query", "top", "tags", "fts_only", "vec_only"}, ["query"]),
        "kb_addnote": ({"text", "tags", "title", "source_path"}, ["text"]),
        "kb_upload_start": ({"filename", "total_size", "tags", "sha256"}, ["filename", "total_size"]),
        "kb_upload_chunk": ({"upload_id", "data", "chunk_index"}, ["upload_id", "data", "chunk_index"]),
        "kb_upload_finish": ({"upload_id"}, ["upload_id"]),
        "kb_update_note": ({"document_id", "text", "tags"}, ["document_id", "text"]),
        "kb_get": ({"document_id", "source_path"}, []),
        "kb_jobs": ({"status", "job_id", "limit"}, []),
        "kb_status": (set(), []),
        "kb_delete": ({"document_id"}, ["document_id"]),
    }
    top = agent.tools["kb_search"]["inputSchema"]["properties"]["top"]
    assert (top["minimum"], top["maximum"], top["default"]) == (1, 100, 5)
    assert all(tool["inputSchema"]["additionalProperties"] is False for tool in agent.tools.values())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_both_eras_of_the_protocol_are_spoken(gateway: HttpServer, mode: str) -> None:
    with calling(gateway.url, mode=mode) as caller:
        assert caller("kb_status")["version"]


def test_many_agents_at_once_are_all_answered(agent: Agent, tag: str) -> None:
    note = agent.note("Sixty-four ask for this at the same time.", tags=[tag])
    waiting = [agent.caller.begin("kb_search", query="same time", tags=[tag]) for _ in range(64)]
    answers = [wait() for wait in waiting]
    assert {tuple(hit["document_id"] for hit in one["results"]) for one in answers} == {
        (note["document_id"],)
    }


def test_health_says_nothing_but_ok_to_anybody(tmp_path: Path) -> None:
    with serving_gateway(tmp_path, "http://127.0.0.1:9", agent_key="locked") as gateway:
        answer = gateway.request("GET", "/health", {"Host": "anything.example"})
        assert (answer.status, answer.json()) == (200, {"status": "ok"})
        assert gateway.list_tools({"Host": "anything.example"}).status == 421


def test_an_open_gateway_beyond_loopback_warns(tmp_path: Path) -> None:
    command, env = gateway_process(tmp_path, "http://127.0.0.1:9")
    with killed([*command, "--host", "0.0.0.0"], env) as gateway:
        assert gateway.says("set KB_MCP_API_KEY")


# Staging, without a process around it


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Staging]:
    one = Staging(tmp_path / "staging", most_bytes=100, most_uploads=3, upload_s=600.0)
    one.open()
    yield one
    one.close()


def test_an_upload_is_not_removed_while_it_is_being_finished(tmp_path: Path) -> None:
    now = 0.0
    staging = Staging(tmp_path / "staging", most_bytes=100, most_uploads=3, upload_s=600.0, clock=lambda: now)
    staging.open()

    async def run() -> None:
        nonlocal now
        upload = staging.start("a.txt", 5, tags=None, sha256=None)
        await staging.add(upload, 0, encoded(b"hello"))
        async with upload.lock:
            now = 601.0
            staging.remove_late()
            await staging.check_whole(upload)
        staging.remove_late()
        with pytest.raises(UploadError, match="not found"):
            staging.get(upload.upload_id)

    asyncio.run(run())
    staging.close()


def test_the_same_chunk_twice_at_once_is_kept_once(staging: Staging) -> None:
    async def run() -> int:
        upload = staging.start("a.txt", 5, tags=None, sha256=None)
        await asyncio.gather(*(staging.add(upload, 0, encoded(b"hello")) for _ in range(8)))
        await staging.check_whole(upload)
        return upload.received

    assert asyncio.run(run()) == 5


def test_a_staging_folder_that_cannot_be_made_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    blocked = Staging(tmp_path / "file" / "staging", most_bytes=1, most_uploads=1, upload_s=1.0)
    with pytest.raises(ConfigError, match="KB_STAGING"):
        blocked.open()


def test_what_else_lies_in_the_staging_folder_stays(tmp_path: Path) -> None:
    mine = tmp_path / "staging" / "letters" / "run-of-mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("not an upload", encoding="utf-8")
    staging = Staging(tmp_path / "staging", most_bytes=1, most_uploads=1, upload_s=1.0)
    staging.open()
    staging.close()
    assert mine.read_text(encoding="utf-8") == "not an upload"
    assert [path.name for path in (tmp_path / "staging").iterdir()] == ["letters"]


def test_chunks_are_read_as_one_file_block_by_block(tmp_path: Path) -> None:
    parts = [b"a" * 10, b"b" * 3, b"c" * 7]
    for index, part in enumerate(parts):
        (tmp_path / str(index)).write_bytes(part)
    with Joined([tmp_path / str(index) for index in range(3)]) as joined:
        assert joined.seek(0, 2) == 20
        assert joined.seek(0) == 0
        read = list(iter(lambda: joined.read(4), b""))
        assert b"".join(read) == b"".join(parts)
        assert max(map(len, read)) == 4
        with pytest.raises(OSError, match="not all at once"):
            joined.read()


def test_the_client_says_all_that_it_was_given(engine: HttpServer) -> None:
    async def ask() -> tuple[Any, ...]:
        client = Engine(engine_url(engine), api_key=ENGINE_KEY)
        try:
            job = await client.add_note("By hand", title="T", tags=["client:a"], source_path="client/a.md")
            listed = await client.jobs(limit=1, offset=0, status=None)
            with pytest.raises(httpx.HTTPStatusError) as raised:
                await client.jobs(limit=1000)
            return job, listed, await client.documents(tags=["client:none"]), raised.value
        finally:
            await client.close()

    job, listed, none, raised = asyncio.run(ask())
    assert job["kind"] == "note" and listed["total"] >= 1
    assert none == {"documents": [], "total": 0}
    assert "from 1 to 100" in raised.response.json()["error"]
