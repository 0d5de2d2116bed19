"""The knowledge base's contract, scenario by scenario: a real engine, a real gateway, real sockets.

Each test has its scenario's name. What goes beyond the contract is in test_kb.py and test_engine.py.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from httpserver import HttpServer
from knowledge import (
    AGENT_KEY,
    API,
    ENGINE_KEY,
    Agent,
    an_agent,
    api,
    encoded,
    gateway_process,
    killed,
    serving_engine,
    serving_gateway,
)
from mcpvectordb.kb.client import Engine
from pdfs import Page, pdf
from support import wait_until

NOBODY = 2**52 + 1  # a document that there is not
AWAY = "http://127.0.0.1:9"  # where nobody listens


def engine_url(engine: HttpServer) -> str:
    return f"http://127.0.0.1:{engine.port}"


def asked(engine: HttpServer, ask: Callable[[Engine], object]) -> object:
    """What the engine's client answers."""

    async def run() -> object:
        client = Engine(engine_url(engine), api_key=ENGINE_KEY)
        try:
            return await ask(client)  # type: ignore[misc]
        finally:
            await client.close()

    return asyncio.run(run())


# Requirement: MCP server transport and deployment


def test_mcp_server_starts_and_connects_to_engine(engine: HttpServer, tmp_path: Path) -> None:
    with serving_gateway(tmp_path, engine_url(engine), key=ENGINE_KEY) as gateway, an_agent(gateway) as agent:
        assert agent.ok("kb_status")["version"]
    with serving_gateway(tmp_path, engine_url(engine), key="another") as gateway, an_agent(gateway) as agent:
        assert "KB_API_KEY" in agent.error("kb_status")


def test_engine_unreachable_at_startup(tmp_path: Path) -> None:
    with serving_gateway(tmp_path, AWAY) as gateway, an_agent(gateway) as agent:
        assert len(agent.tools) == 10
        said = agent.error("kb_search", query="anything")
        assert AWAY in said
        assert "cannot be reached" in said


def test_docker_compose_deployment(tmp_path: Path) -> None:
    """Over the Docker network the engine is called by the name of its service."""
    with (
        serving_engine(tmp_path / "database", KB_ALLOWED_HOSTS="engine") as engine,
        api(engine) as client,
    ):
        answer = client.get(f"{API}/status", headers={"Host": "engine:8000"})
        assert answer.status_code == 200
        assert client.get(f"{API}/status", headers={"Host": "evil.example"}).status_code == 421


# Requirement: MCP server authentication


@pytest.fixture(scope="module")
def locked(engine: HttpServer, tmp_path_factory: pytest.TempPathFactory) -> object:
    """A gateway that demands a key."""
    folder = tmp_path_factory.mktemp("locked")
    with serving_gateway(folder, engine_url(engine), agent_key=AGENT_KEY) as gateway:
        yield gateway


def test_valid_mcp_api_key(locked: HttpServer) -> None:
    with an_agent(locked, key=AGENT_KEY) as agent:
        assert agent.ok("kb_status")["version"]


def test_missing_mcp_api_key_when_required(locked: HttpServer) -> None:
    refused = locked.list_tools()
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("sent", ["Bearer wrong", f"Bearer {AGENT_KEY}x", f"Basic {AGENT_KEY}", AGENT_KEY])
def test_invalid_mcp_api_key(locked: HttpServer, sent: str) -> None:
    assert locked.list_tools({"Authorization": sent}).status == 401


def test_mcp_auth_disabled(gateway: HttpServer) -> None:
    assert gateway.list_tools().status == 200
    assert gateway.list_tools({"Authorization": "Bearer whatever"}).status == 200


# Requirement: Search tool


def test_search_tool(agent: Agent, tag: str) -> None:
    note = agent.note("Pension revaluation follows the consumer price index.", tags=[tag])
    found = agent.ok("kb_search", query="pension revaluation", top=5)["results"]
    assert len(found) <= 5
    (hit,) = [one for one in found if one["document_id"] == note["document_id"]]
    assert hit.keys() == {
        "document_id",
        "title",
        "source_path",
        "chunk_index",
        "text",
        "score",
        "fts_score",
        "vec_score",
        "page",
        "metadata",
        "tags",
    }
    assert hit["text"] == "Pension revaluation follows the consumer price index."
    assert hit["score"] > 0 and hit["fts_score"] > 0 and hit["vec_score"] > 0
    assert (hit["title"], hit["source_path"], hit["tags"]) == (note["title"], note["source_path"], [tag])


def test_search_with_tag_filter(agent: Agent, tag: str) -> None:
    mine = agent.note("Email preferences: a digest once a week.", tags=[tag, "agent:mybot"])
    agent.note("Email preferences: everything at once.", tags=["agent:another"])
    found = agent.ok("kb_search", query="email preferences", tags=[tag])["results"]
    assert [hit["document_id"] for hit in found] == [mine["document_id"]]
    assert agent.ok("kb_search", query="email preferences", tags=[tag, "agent:another"])["results"] == []


def test_search_with_mode_override(agent: Agent, tag: str) -> None:
    agent.note("The error log says E4711.", tags=[tag])
    by_words = agent.ok("kb_search", query="error log", fts_only=True, tags=[tag])
    assert by_words["mode"] == "keyword"
    assert [(hit["vec_score"], hit["fts_score"] > 0) for hit in by_words["results"]] == [(None, True)]
    by_meaning = agent.ok("kb_search", query="error log", vec_only=True, tags=[tag])
    assert by_meaning["mode"] == "vector"
    assert [(hit["fts_score"], hit["vec_score"] > 0) for hit in by_meaning["results"]] == [(None, True)]
    assert "not both" in agent.error("kb_search", query="error log", fts_only=True, vec_only=True)


# Requirement: Add note tool


def test_add_a_note(agent: Agent) -> None:
    job = agent.ok("kb_addnote", text="User prefers concise responses")
    assert job["job_id"]
    done = agent.done(job)
    note = agent.ok("kb_get", document_id=done["document_id"])
    assert (note["kind"], note["tags"]) == ("note", [])
    assert "".join(chunk["text"] for chunk in note["chunks"]) == "User prefers concise responses"


def test_add_a_note_with_tags(agent: Agent) -> None:
    note = agent.note("User prefers concise responses, always", tags=["agent:mybot", "feedback"])
    assert note["tags"] == ["agent:mybot", "feedback"]


# Requirement: Chunked file upload tools


def test_start_an_upload(agent: Agent) -> None:
    started = agent.ok("kb_upload_start", filename="report.pdf", total_size=5242880, tags=["insurance"])
    assert started.keys() == {"upload_id"}
    assert str(uuid.UUID(started["upload_id"])) == started["upload_id"]


def test_upload_a_chunk(agent: Agent) -> None:
    upload_id = agent.ok("kb_upload_start", filename="report.txt", total_size=10)["upload_id"]
    received = agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(b"hello"), chunk_index=0)
    assert received == {"upload_id": upload_id, "chunk_index": 0, "received": 5, "total_size": 10}


def test_upload_multiple_chunks_in_sequence(agent: Agent) -> None:
    upload_id = agent.ok("kb_upload_start", filename="report.txt", total_size=15)["upload_id"]
    counts = [
        agent.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(b"hello"), chunk_index=index)[
            "received"
        ]
        for index in range(3)
    ]
    assert counts == [5, 10, 15]


def test_finish_an_upload(agent: Agent, tag: str) -> None:
    data = pdf(Page().text(72, 700, f"The premium for the boathouse is 480 euros. {tag}"))
    upload_id = agent.send("report.pdf", data, parts=3, tags=["insurance", tag])
    job = agent.ok("kb_upload_finish", upload_id=upload_id)
    assert job["job_id"]
    document = agent.ok("kb_get", document_id=agent.done(job)["document_id"])
    assert (document["kind"], document["tags"]) == ("upload", ["insurance", tag])
    assert document["source_path"].endswith("/report.pdf")
    (hit,) = agent.ok("kb_search", query="boathouse premium", tags=["insurance", tag])["results"]
    assert (hit["document_id"], hit["page"]) == (document["document_id"], 1)


def test_upload_with_invalid_upload_id(agent: Agent) -> None:
    unknown = str(uuid.uuid4())
    assert "not found" in agent.error("kb_upload_chunk", upload_id=unknown, data=encoded(b"x"), chunk_index=0)
    assert "not found" in agent.error("kb_upload_finish", upload_id=unknown)
    assert "not found" in agent.error("kb_upload_finish", upload_id="../../etc")


def test_abandoned_upload_cleanup(engine: HttpServer, tmp_path: Path) -> None:
    with (
        serving_gateway(tmp_path, engine_url(engine), KB_UPLOAD_S="0.5") as gateway,
        an_agent(gateway) as agent,
    ):
        upload_id = agent.ok("kb_upload_start", filename="report.txt", total_size=10)["upload_id"]
        (staged,) = (tmp_path / "staging").glob(f"run-*/{upload_id}")
        wait_until(lambda: not staged.exists())
        assert "not found" in agent.error("kb_upload_finish", upload_id=upload_id)


def test_mcp_server_restart_during_upload(engine: HttpServer, tmp_path: Path) -> None:
    with killed(*gateway_process(tmp_path, engine_url(engine))) as gateway, an_agent(gateway) as agent:
        upload_id = agent.send("report.txt", b"half of it")
        assert list((tmp_path / "staging").glob(f"run-*/{upload_id}/0"))
    with serving_gateway(tmp_path, engine_url(engine)) as gateway, an_agent(gateway) as agent:
        assert not list((tmp_path / "staging").glob(f"run-*/{upload_id}"))
        assert "kb_upload_start" in agent.error("kb_upload_finish", upload_id=upload_id)


# Requirement: Update note tool


def test_update_an_existing_note(agent: Agent, tag: str) -> None:
    note = agent.note("User prefers prose", tags=[tag])
    text = "Updated preference: user prefers bullet points"
    updated = agent.ok("kb_update_note", document_id=note["document_id"], text=text)
    assert (updated["document_id"], updated["tags"]) == (note["document_id"], [tag])
    assert [chunk["text"] for chunk in updated["chunks"]] == [text]
    (hit,) = agent.ok("kb_search", query="bullet points", tags=[tag])["results"]
    assert hit["text"] == text
    retagged = agent.ok("kb_update_note", document_id=note["document_id"], text=text, tags=["other"])
    assert retagged["tags"] == ["other"]


def test_update_a_non_existent_document(agent: Agent) -> None:
    assert "no document" in agent.error("kb_update_note", document_id=NOBODY, text="anything")


def test_update_a_non_note_document(agent: Agent, tag: str) -> None:
    document = agent.upload("paper.pdf", pdf(Page().text(72, 700, f"A paper about {tag}")))
    said = agent.error("kb_update_note", document_id=document["document_id"], text="anything")
    assert "Only notes can be updated" in said
    assert agent.ok("kb_get", document_id=document["document_id"]) == document


# Requirement: Get document tool


def test_get_by_document_id(agent: Agent, tag: str) -> None:
    note = agent.note("# Testing\n\nRun the suite before you push.", tags=[tag])
    got = agent.ok("kb_get", document_id=note["document_id"])
    assert got.keys() >= {
        "document_id",
        "title",
        "source_path",
        "kind",
        "tags",
        "metadata",
        "created_at",
        "chunk_count",
        "chunks",
    }
    assert (got["title"], got["chunk_count"], len(got["chunks"])) == ("Testing", 1, 1)
    assert got["chunks"][0].keys() == {"chunk_index", "text", "page", "headings"}


def test_get_by_source_path(agent: Agent) -> None:
    note = agent.note("Tests are sentences.", source_path="memory/feedback_testing.md")
    found = agent.ok("kb_get", source_path="memory/feedback_testing.md")
    assert found == {"documents": [note], "total": 1}
    assert agent.ok("kb_get", source_path="memory/feedback") == {"documents": [], "total": 0}
    assert "exactly one" in agent.error("kb_get")
    assert "exactly one" in agent.error("kb_get", document_id=1, source_path="memory/feedback_testing.md")


# Requirement: Status tool


def test_get_engine_status(agent: Agent) -> None:
    agent.note("So that there is something to count.")
    status = agent.ok("kb_status")
    assert status["version"]
    assert status["model"]["name"] == "minilm"
    assert status["device"] == "cpu"
    assert status["documents"] >= 1 and status["chunks"] >= status["documents"]
    assert status["queue"].keys() == {"queued", "running", "done", "failed", "cancelled"}


# Requirement: Jobs tool


def test_list_recent_jobs(agent: Agent) -> None:
    first = agent.done(agent.ok("kb_addnote", text="The first of two"))
    second = agent.done(agent.ok("kb_addnote", text="The second of two"))
    listed = agent.ok("kb_jobs")["jobs"]
    assert [job["job_id"] for job in listed[:2]] == [second["job_id"], first["job_id"]]
    assert listed[0].keys() >= {"job_id", "status", "document_id", "title", "error", "created_at"}
    assert len(agent.ok("kb_jobs", limit=1)["jobs"]) == 1


def test_filter_jobs_by_status(agent: Agent, tag: str) -> None:
    upload_id = agent.send("broken.pdf", f"%PDF-1.7 and nothing of it is one: {tag}".encode())
    job = agent.ok("kb_upload_finish", upload_id=upload_id)

    def failed() -> list[str]:
        listed = agent.ok("kb_jobs", status="failed")["jobs"]
        assert {one["status"] for one in listed} <= {"failed"}
        return [one["job_id"] for one in listed]

    wait_until(lambda: job["job_id"] in failed())
    found = agent.ok("kb_jobs", job_id=job["job_id"])
    assert found["error"] and found["document_id"] is None


# Requirement: Delete document tool


def test_successful_deletion(agent: Agent, tag: str) -> None:
    document = agent.upload("lease.txt", f"The lease ends in May. {tag}".encode(), tags=[tag])
    assert agent.ok("kb_delete", document_id=document["document_id"]) == {
        "status": "deleted",
        "document_id": document["document_id"],
        "title": document["title"],
    }
    assert agent.ok("kb_search", query="lease", tags=[tag])["results"] == []
    assert "no document" in agent.error("kb_get", document_id=document["document_id"])


def test_document_not_found(agent: Agent) -> None:
    assert "no document" in agent.error("kb_delete", document_id=NOBODY)


# Requirement: Engine client delete method


def test_successful_engine_client_delete_call(engine: HttpServer, agent: Agent) -> None:
    note = agent.note("Soon deleted, by the engine's client")
    assert asked(engine, lambda client: client.delete_document(note["document_id"])) == {
        "status": "deleted",
        "document_id": note["document_id"],
        "title": note["title"],
    }


def test_engine_client_delete_for_missing_document(engine: HttpServer) -> None:
    with pytest.raises(httpx.HTTPStatusError) as raised:
        asked(engine, lambda client: client.delete_document(NOBODY))
    assert raised.value.response.status_code == 404


# Requirement: Tags-only document organisation


def test_search_results_show_all_tags(agent: Agent, tag: str) -> None:
    tags = ["agent:mybot", "collection:documents", "draft", tag]
    agent.note("A draft about the harbour museum", tags=tags)
    (hit,) = agent.ok("kb_search", query="harbour museum", tags=[tag])["results"]
    assert hit["tags"] == tags
    assert "collection" not in hit


def test_add_note_with_explicit_tags_only(agent: Agent) -> None:
    assert agent.note("hello", tags=["agent:mybot", "memory"])["tags"] == ["agent:mybot", "memory"]
    assert agent.note("hello without tags")["tags"] == []


def test_kb_set_collection_no_longer_exists(agent: Agent) -> None:
    assert "kb_set_collection" not in agent.tools
    assert "no tool 'kb_set_collection'" in agent.error("kb_set_collection", document_id=1)


def test_filter_by_tag_instead_of_collection(agent: Agent, tag: str) -> None:
    note = agent.note("A test of filters", tags=[tag])
    found = agent.ok("kb_search", query="test", tags=[tag])
    assert [hit["document_id"] for hit in found["results"]] == [note["document_id"]]
    assert "collection" not in found and "collection" not in found["results"][0]
    for tool, given in (
        ("kb_search", {"query": "test"}),
        ("kb_addnote", {"text": "test"}),
        ("kb_upload_start", {"filename": "a.txt", "total_size": 1}),
        ("kb_update_note", {"document_id": 1, "text": "test"}),
        ("kb_get", {"document_id": 1}),
    ):
        assert "no argument 'collection'" in agent.error(tool, collection="memory", **given)
