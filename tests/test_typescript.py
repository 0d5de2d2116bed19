"""The TypeScript SDK as a client: unlike Python's it holds error answers, too, to the output schema."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcpvectordb
from httpserver import HttpServer, serving_http
from knowledge import Agent, encoded
from mcpvectordb.models import document_uuid
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
from support import PATIENCE_S, Json, check_answer, environment, output_schema
from webserver import Reply, web_server

CLIENT = Path(__file__).parent / "typescript"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed: the TypeScript client cannot run"),
    pytest.mark.skipif(
        not (CLIENT / "node_modules" / "@modelcontextprotocol").is_dir(),
        reason="the TypeScript SDK is not installed: npm install --prefix tests/typescript",
    ),
]


def run_client(home: Path, calls: list[tuple[str, Json]]) -> Json:
    return run_task(
        calls,
        command=sys.executable,
        args=["-m", "mcpvectordb"],
        env=environment(home, MCPVECTORDB_URL_ALLOW="127.0.0.1"),
    )


def run_task(calls: list[tuple[str, Json]], **server: object) -> Json:
    task = {"calls": calls, **server}
    ended = subprocess.run(
        [str(NODE), str(CLIENT / "client.mjs")],
        input=json.dumps(task),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def payloads(report: Json, calls: list[tuple[str, Json]]) -> list[Json]:
    """What the calls answered, none of which the SDK may have thrown at."""
    tools = {tool["name"]: tool for tool in report["tools"]}
    assert [outcome["thrown"] for outcome in report["outcomes"] if "thrown" in outcome] == []
    return [
        check_answer(output_schema(tools, name), outcome["result"])
        for (name, _), outcome in zip(calls, report["outcomes"], strict=True)
    ]


def test_the_typescript_client_takes_the_success_of_every_tool(tmp_path: Path) -> None:
    with web_server() as web:
        url = web.put(
            "/notes.txt", Reply(body=b"A note from the web.", headers={"Content-Type": "text/plain"})
        )
        _take_every_success(tmp_path, url)


def _take_every_success(tmp_path: Path, url: str) -> None:
    path = (tmp_path / "keys.md").resolve()
    path.write_text("# Keys\n\nRotate them every ninety days. 🔑\n", encoding="utf-8")
    with VectorDB(Settings(home=tmp_path / "database", model="minilm")) as db:
        db.ingest_text("What another program has done.", "before", library="before")
        (job_id,) = (job.job_id for job in db.jobs().jobs)
    doc_id = document_uuid("ops", str(path))
    calls: list[tuple[str, Json]] = [
        ("list_libraries", {}),
        ("search", {"query": "nothing is there yet"}),
        ("ingest_file", {"path": str(path), "library": "ops", "metadata": {"team": "infra"}, "tags": ["t"]}),
        ("ingest_file", {"path": str(path), "library": "ops", "metadata": {"team": "web"}}),
        ("ingest_file", {"path": str(path), "library": "ops", "refresh": True}),
        ("search", {"query": "how often do we change credentials", "filter": {"metadata.team": "infra"}}),
        ("search", {"query": "keys", "library": "none"}),
        ("list_documents", {"library": "ops"}),
        ("list_documents", {"library": "none"}),
        ("list_libraries", {}),
        ("get_document", {"doc_id": doc_id}),
        ("get_document", {"doc_id": doc_id, "max_chars": 3}),
        ("ingest_url", {"url": url, "library": "ops"}),
        ("ingest_text", {"content": "A text.", "source": "a name", "library": "ops"}),
        ("ingest_folder", {"folder": str(path.parent), "library": "ops"}),
        ("ingest_folder", {"folder": str(path.parent), "library": "ops", "exclude": ["*"]}),
        ("jobs", {}),
        ("set_tags", {"doc_id": doc_id, "tags": ["kept"]}),
        ("status", {}),
        ("cancel_job", {"job_id": job_id}),
        ("delete_document", {"doc_id": doc_id}),
    ]
    report = run_client(tmp_path / "database", calls)
    assert (report["server"]["name"], report["server"]["version"]) == ("mcpvectordb", mcpvectordb.__version__)
    assert report["instructions"]
    answers = payloads(report, calls)
    assert {name for name, _ in calls} == {tool["name"] for tool in report["tools"]}
    assert [answer.get("status") for answer in answers if "doc_id" in answer] == [
        "indexed",
        "skipped",
        "replaced",
        None,
        None,
        "indexed",
        "indexed",
        "tagged",
        "done",
        "deleted",
    ]
    (hit,) = answers[5]["results"]
    assert (hit["doc_id"], hit["metadata"]) == (doc_id, {"team": "infra"})
    assert answers[10]["content"] == path.read_text(encoding="utf-8")


def test_the_typescript_client_takes_every_kind_of_error(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("", encoding="utf-8")
    (tmp_path / "table.xyz").write_text("x", encoding="utf-8")
    (tmp_path / ".env").write_text("TOKEN=1", encoding="utf-8")
    calls: list[tuple[str, Json]] = [
        ("ingest_file", {}),
        ("ingest_file", {"path": str(tmp_path / "none.md")}),
        ("ingest_file", {"path": str(tmp_path)}),
        ("ingest_file", {"path": str(tmp_path / "empty.md")}),
        ("ingest_file", {"path": str(tmp_path / "table.xyz")}),
        ("ingest_file", {"path": str(tmp_path / ".env")}),
        ("ingest_url", {"url": "http://10.0.0.1/"}),
        ("ingest_url", {"url": "not an address"}),
        ("search", {"query": ""}),
        ("search", {"query": "a cut emoji \ud83d"}),
        ("search", {"query": "x", "top_k": 101}),
        ("search", {"query": "x", "filter": {"nonsense": 1}}),
        ("list_documents", {"limit": "many"}),
        ("list_libraries", {"unknown": 1}),
        ("delete_document", {"doc_id": "none"}),
        ("get_document", {"doc_id": "none"}),
        ("get_documents", {}),
    ]
    report = run_client(tmp_path / "database", calls)
    assert [answer["status"] for answer in payloads(report, calls)] == ["error"] * len(calls)


@pytest.mark.parametrize("way", ["streamable-http", "sse"])
def test_the_typescript_client_takes_success_and_error_over_http(tmp_path: Path, way: str) -> None:
    path = tmp_path / "keys.md"
    path.write_text("# Keys\n\nRotate them every ninety days. 🔑\n", encoding="utf-8")
    calls: list[tuple[str, Json]] = [
        ("ingest_file", {"path": str(path)}),
        ("search", {"query": "rotate keys", "mode": "keyword"}),
        ("ingest_file", {"path": str(tmp_path / "none.md")}),
        ("get_documents", {}),
    ]
    options = ("--transport", way)
    with serving_http(tmp_path / "database", *options, MCPVECTORDB_TOKEN="a-token") as server:
        report = run_task(calls, url=server.url, headers={"Authorization": "Bearer a-token"})
    answers = payloads(report, calls)
    assert [answer.get("status") for answer in answers] == ["indexed", None, "error", "error"]
    assert answers[1]["results"][0]["source"] == str(path)


def test_the_typescript_client_takes_every_answer_of_the_gateway(
    gateway: HttpServer, agent: Agent, tag: str
) -> None:
    note = agent.note("A note for TypeScript", tags=[tag], source_path="typescript/note.md")
    gone = agent.note("Another, to be deleted", tags=[tag])
    upload_id = agent.send("typescript.txt", f"A file for TypeScript {tag}".encode())
    part = {
        "upload_id": upload_id,
        "data": encoded(f"A file for TypeScript {tag}".encode()),
        "chunk_index": 0,
    }
    job = agent.done(agent.ok("kb_addnote", text="A third one"))
    well: list[tuple[str, Json]] = [
        ("kb_search", {"query": "note", "tags": [tag]}),
        ("kb_search", {"query": "note", "fts_only": True}),
        ("kb_addnote", {"text": "From TypeScript", "title": "T", "tags": [tag]}),
        ("kb_upload_start", {"filename": "a.txt", "total_size": 3}),
        ("kb_upload_chunk", part),
        ("kb_upload_finish", {"upload_id": upload_id}),
        ("kb_update_note", {"document_id": note["document_id"], "text": "Changed"}),
        ("kb_get", {"document_id": note["document_id"]}),
        ("kb_get", {"source_path": "typescript/note.md"}),
        ("kb_get", {"source_path": "typescript/none.md"}),
        ("kb_jobs", {}),
        ("kb_jobs", {"status": "failed", "limit": 5}),
        ("kb_jobs", {"job_id": job["job_id"]}),
        ("kb_status", {}),
        ("kb_delete", {"document_id": gone["document_id"]}),
    ]
    badly: list[tuple[str, Json]] = [
        (name, {"collection": "memory"}) for name in sorted({name for name, _ in well})
    ]
    badly += [("kb_get", {"document_id": 1}), ("kb_delete", {"document_id": 1}), ("kb_set_collection", {})]
    answers = payloads(run_task(well + badly, url=gateway.url), well + badly)
    assert [answer.get("status") == "error" for answer in answers] == [False] * len(well) + [True] * len(
        badly
    )
    assert {name for name, _ in well} == agent.tools.keys()
