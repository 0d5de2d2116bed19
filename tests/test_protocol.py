"""The server as a client meets it: every protocol revision, published schemas, streams, logs, and its end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from jsonschema import Draft202012Validator
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

import mcpvectordb
from support import PATIENCE_S, Json, Server, check_answer, environment, long_text, output_schema, serving
from webserver import Reply, web_server

TOOLS = (
    "ingest_file",
    "ingest_url",
    "search",
    "list_documents",
    "list_libraries",
    "delete_document",
    "get_document",
    "ingest_text",
    "ingest_folder",
    "jobs",
    "cancel_job",
    "set_tags",
    "status",
)
# The page that ingest_url is driven with lies on this machine.
LOOPBACK = {"MCPVECTORDB_URL_ALLOW": "127.0.0.1"}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
MODES = ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS)

PAGE = b"<html><title>Ferry times</title><body><h1>Ferry</h1><p>The last one sails at nine.</p></body>"

Call = Callable[..., Json]


def drive_all_seven_tools(call: Call, folder: Path) -> None:
    """One document's whole life, and an error of every tool that can err."""
    path = folder / "keys.md"
    path.write_text("# Keys\n\nRotate them every ninety days. 🔑\n", encoding="utf-8")
    ingested = call("ingest_file", path=str(path), library="ops", metadata={"team": "infra"})
    assert ingested["status"] == "indexed"
    doc_id = ingested["doc_id"]
    assert call("ingest_file", path=str(path), library="ops")["status"] == "skipped"
    (hit,) = call("search", query="how often do we change credentials", top_k=3, library="ops")["results"]
    assert (hit["doc_id"], hit["metadata"]) == (doc_id, {"team": "infra"})
    assert [record["doc_id"] for record in call("list_documents", library="ops")["documents"]] == [doc_id]
    assert call("list_libraries") == {
        "libraries": [{"library": "ops", "document_count": 1, "chunk_count": ingested["chunk_count"]}]
    }
    assert call("get_document", doc_id=doc_id)["content"] == path.read_text(encoding="utf-8")
    with web_server() as web:
        url = web.put("/ferry", Reply(body=PAGE, headers={"Content-Type": "text/html; charset=utf-8"}))
        fetched = call("ingest_url", url=url, library="web")
    assert (fetched["status"], fetched["source"], fetched["title"]) == ("indexed", url, "Ferry times")
    (hit, *_) = call("search", query="when does the last boat leave", library="web")["results"]
    assert hit["doc_id"] == fetched["doc_id"]
    for each in (doc_id, fetched["doc_id"]):
        assert call("delete_document", doc_id=each)["status"] == "deleted"
    assert call("list_libraries") == {"libraries": []}
    failing: list[tuple[str, Json]] = [
        ("ingest_file", {"path": str(folder / "none.md")}),
        ("ingest_url", {"url": "ftp://127.0.0.1/a.md"}),
        ("search", {"query": "x", "top_k": 500}),
        ("list_documents", {"limit": 0}),
        ("list_libraries", {"all": True}),
        ("delete_document", {"doc_id": doc_id}),
        ("get_document", {"doc_id": doc_id}),
        ("no_such_tool", {}),
    ]
    for tool, arguments in failing:
        assert call(tool, **arguments)["status"] == "error"


@contextmanager
def official_client(tmp_path: Path, mode: str) -> Iterator[tuple[Client, Call, dict[str, Json]]]:
    """The Python SDK's own client on a server of its own: the client, a checked call, and the tools."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcpvectordb"],
        env=environment(tmp_path / "database", **LOOPBACK),
    )
    with (
        (tmp_path / "stderr").open("w", encoding="utf-8") as errlog,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            Client(stdio_client(parameters, errlog), mode=mode, read_timeout_seconds=PATIENCE_S)
        ) as client,
    ):
        listed = portal.call(client.list_tools)
        tools = {tool.name: tool.model_dump(by_alias=True, exclude_unset=True) for tool in listed.tools}

        def call(tool: str, /, **arguments: Any) -> Json:
            result = portal.call(client.call_tool, tool, arguments)
            as_sent = result.model_dump(by_alias=True, exclude_unset=True, mode="json")
            return check_answer(output_schema(tools, tool), as_sent)

        yield client, call, tools


# --- every revision


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_drives_all_seven_tools_in_every_era(tmp_path: Path, mode: str) -> None:
    with official_client(tmp_path, mode) as (client, call, tools):
        newest = LATEST_HANDSHAKE_VERSION if mode == "legacy" else MODERN_PROTOCOL_VERSIONS[-1]
        assert client.protocol_version == newest
        # A client that pins a modern revision asks nothing about the server.
        if mode in ("auto", "legacy"):
            assert client.server_info is not None
            about = (client.server_info.name, client.server_info.version)
            assert about == ("mcpvectordb", mcpvectordb.__version__)
            assert client.instructions
        assert tuple(tools) == TOOLS
        drive_all_seven_tools(call, tmp_path)


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS[:-1])
def test_every_older_handshake_revision_drives_all_seven_tools(tmp_path: Path, revision: str) -> None:
    with serving(tmp_path / "database", revision=revision, **LOOPBACK) as server:
        assert server.initialized["protocolVersion"] == revision
        about = server.initialized["serverInfo"]
        assert (about["name"], about["version"]) == ("mcpvectordb", mcpvectordb.__version__)
        assert server.initialized["instructions"].strip()
        assert tuple(server.tools) == TOOLS
        drive_all_seven_tools(server.call, tmp_path)


def test_a_revision_nobody_knows_is_answered_with_one_the_server_speaks(tmp_path: Path) -> None:
    with serving(tmp_path / "database", revision="1999-01-01") as server:
        assert server.initialized["protocolVersion"] in HANDSHAKE_PROTOCOL_VERSIONS
        assert server.ok("list_libraries") == {"libraries": []}


def test_a_request_that_is_no_tools_call_is_a_protocol_error(stdio: Server) -> None:
    assert stdio.request("no/such/method")["error"]["code"] == -32601
    assert "error" in stdio.request("tools/call", {"name": "search", "arguments": [1]})
    assert stdio.request("ping")["result"] == {}
    stdio.ok("list_libraries")


# --- what is published


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_is_published_with_words_bounds_and_hints(stdio: Server, tool: str) -> None:
    published = stdio.tools[tool]
    assert published["title"].strip()
    assert published["description"].strip()
    assert all(isinstance(published["annotations"][hint], bool) for hint in HINTS)
    schema = published["inputSchema"]
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert all(argument["description"].strip() for argument in schema["properties"].values())


def test_the_hints_say_which_tools_write(stdio: Server) -> None:
    hints = {name: tool["annotations"] for name, tool in stdio.tools.items()}
    assert {name for name, hint in hints.items() if not hint["readOnlyHint"]} == {
        "ingest_file",
        "ingest_url",
        "ingest_text",
        "ingest_folder",
        "delete_document",
        "cancel_job",
        "set_tags",
    }
    assert {name for name, hint in hints.items() if hint["openWorldHint"]} == {"ingest_url"}
    assert hints["delete_document"]["destructiveHint"] is True


def test_the_arguments_are_the_contracts_with_its_bounds_and_defaults(stdio: Server) -> None:
    schemas = {name: tool["inputSchema"] for name, tool in stdio.tools.items()}
    required = {name: schema.get("required", []) for name, schema in schemas.items()}
    assert required == {
        "ingest_file": ["path"],
        "ingest_url": ["url"],
        "search": ["query"],
        "list_documents": [],
        "list_libraries": [],
        "delete_document": ["doc_id"],
        "get_document": ["doc_id"],
        "ingest_text": ["content", "source"],
        "ingest_folder": ["folder"],
        "jobs": [],
        "cancel_job": ["job_id"],
        "set_tags": ["doc_id", "tags"],
        "status": [],
    }
    file, url, search, listing = (
        schemas[name]["properties"] for name in ("ingest_file", "ingest_url", "search", "list_documents")
    )
    assert {"path", "library", "metadata"} <= file.keys()
    assert {"url", "library", "metadata"} <= url.keys()
    for ingest in (file, url):
        assert (ingest["library"]["type"], ingest["library"]["default"]) == ("string", "default")
        assert ingest["metadata"]["default"] is None
    assert {"query", "top_k", "library", "filter"} <= search.keys()
    bounds = ("type", "minimum", "maximum", "default")
    assert [search["top_k"][key] for key in bounds] == ["integer", 1, 100, 5]
    assert search["library"]["default"] is None
    assert search["filter"]["default"] is None
    assert {"library", "limit", "offset"} <= listing.keys()
    assert [listing["limit"][key] for key in bounds] == ["integer", 1, 1000, 20]
    assert (listing["offset"]["minimum"], listing["offset"]["default"]) == (0, 0)
    assert schemas["list_libraries"]["properties"] == {}


@pytest.mark.parametrize("tool", TOOLS)
def test_an_output_schema_admits_success_or_error_and_nothing_else(stdio: Server, tool: str) -> None:
    schema = stdio.tools[tool]["outputSchema"]
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert len(schema["anyOf"]) == 2
    assert schema.keys() <= {"type", "anyOf", "$defs"}
    admits = Draft202012Validator(schema).is_valid
    assert admits({"status": "error", "error": "It did not work. Try again."})
    assert not admits({"status": "error"})
    assert not admits({})
    assert not admits({"result": {"status": "error", "error": "wrapped"}})


# --- streams and logs

SECRET_WORDS = ("zanzibarium", "quetzalcoatlus", "xylographer", "ornithopter")


def make_calls(server: Server, tmp_path: Path) -> int:
    """Some calls of every outcome, with a secret word in text, query, metadata and library; how many."""
    text, query, meta, library = SECRET_WORDS
    path = tmp_path / "diary.md"
    path.write_text(f"# Diary\n\nThe {text} arrived.\n", encoding="utf-8")
    calls: list[tuple[str, Json]] = [
        ("ingest_file", {"path": str(path), "metadata": {"note": meta}, "library": library}),
        ("search", {"query": query}),
        ("search", {"query": f"{query} {text}", "top_k": 1000}),
        ("search", {"query": query, "filter": {meta: 1}}),
        ("list_documents", {}),
        ("list_libraries", {}),
        ("get_document", {"doc_id": query}),
        ("a\ntool of two lines", {}),
    ]
    for tool, arguments in calls:
        server.call(tool, **arguments)
    return len(calls)


def test_stdout_carries_nothing_but_the_protocol_even_when_all_is_logged(tmp_path: Path) -> None:
    with serving(tmp_path / "database", MCPVECTORDB_LOG_LEVEL="DEBUG") as server:
        calls = make_calls(server, tmp_path)
    messages = [json.loads(line) for line in server.stdout_lines]
    assert {message["jsonrpc"] for message in messages} == {"2.0"}
    # An answer each to initialize, tools/list and the calls.
    assert [message["id"] for message in messages] == list(range(1, calls + 3))
    assert server.stderr
    assert not [word for word in SECRET_WORDS if word in server.stderr]


def test_a_call_is_one_line_on_stderr_and_in_the_log_file_without_its_words(tmp_path: Path) -> None:
    log_file = tmp_path / "logs" / "server.log"
    with serving(tmp_path / "database", MCPVECTORDB_LOG_FILE=str(log_file)) as server:
        calls = make_calls(server, tmp_path)
    lines = server.stderr.splitlines()
    assert len(lines) == calls
    assert " ms" in lines[0]
    assert "ingest_file: ok" in lines[0]
    assert log_file.read_text(encoding="utf-8").splitlines() == lines
    assert not [word for word in SECRET_WORDS if word in server.stderr]


# --- starting


def start_and_fail(tmp_path: Path, **settings: str) -> str:
    """What a server says on stderr that does not start."""
    ended = subprocess.run(
        [sys.executable, "-m", "mcpvectordb"],
        env=environment(tmp_path / "database", **settings),
        input="",
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("MCPVECTORDB_HOEM", "/somewhere", "Did you mean MCPVECTORDB_HOME?"),
        ("MCPVECTORDB_CALL_TIMEOUT_S", "soon", "MCPVECTORDB_CALL_TIMEOUT_S"),
        ("MCPVECTORDB_CHUNK_TOKENS", "5", "MCPVECTORDB_CHUNK_TOKENS"),
        ("MCPVECTORDB_HOME", "s3://bucket/db", "local folder"),
        ("MCPVECTORDB_LOG_LEVEL", "LOUD", "MCPVECTORDB_LOG_LEVEL"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_sentence(
    tmp_path: Path, setting: str, value: str, says: str
) -> None:
    assert says in start_and_fail(tmp_path, **{setting: value})


def test_a_log_file_that_cannot_be_written_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    said = start_and_fail(tmp_path, MCPVECTORDB_LOG_FILE=str(tmp_path / "file" / "server.log"))
    assert "MCPVECTORDB_LOG_FILE" in said


# --- time, and the end


def test_work_past_the_time_of_a_call_goes_on_and_calling_again_ends_in_its_result(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text(long_text(12), encoding="utf-8")
    with serving(tmp_path / "database", MCPVECTORDB_CALL_TIMEOUT_S="0.2") as server:
        # Loading the model alone takes longer than the call may.
        late = server.call("ingest_file", path=str(path))
        assert late["status"] in ("processing", "error")
        said = late.get("notice") or late["error"]
        assert "goes on" in said
        assert "call again" in said
        done = server.ok_in_time("ingest_file", path=str(path))
        assert done["status"] in ("indexed", "skipped")
        listed = server.ok_in_time("list_documents")
        assert [record["chunk_count"] for record in listed["documents"]] == [done["chunk_count"]]


def test_the_server_answers_others_while_it_ingests_and_a_cancelled_call_does_it_no_harm(
    tmp_path: Path,
) -> None:
    path = tmp_path / "long.txt"
    path.write_text(long_text(12), encoding="utf-8")
    with serving(tmp_path / "database") as server:
        ingesting = server.begin_call("ingest_file", {"path": str(path)})
        assert server.ok("list_documents")["total"] == 0
        server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ingesting}}
        )
        server.ok("list_libraries")
        assert server.ok("ingest_file", path=str(path))["status"] in ("indexed", "skipped")


def test_the_server_ends_when_stdin_closes_in_the_middle_of_an_ingest_and_nothing_is_half_written(
    tmp_path: Path,
) -> None:
    small, large = tmp_path / "small.md", tmp_path / "large.txt"
    small.write_text("# Small\n\nWritten before the end.\n", encoding="utf-8")
    large.write_text(long_text(400), encoding="utf-8")
    # The time is up long before so much text is embedded: the second call then waits for work under way.
    with serving(tmp_path / "database", MCPVECTORDB_CALL_TIMEOUT_S="1") as server:
        server.ok_in_time("ingest_file", path=str(small))
        assert server.call("ingest_file", path=str(large))["status"] == "processing"
        server.begin_call("ingest_file", {"path": str(large)})
        assert server.close() == 0
    assert "Traceback" not in server.stderr
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.stdout_lines)
    large.write_text("Now a short one.\n", encoding="utf-8")
    with serving(tmp_path / "database") as server:
        # This server takes the job over, and may have done it by now: then the short text is there too.
        (library,) = server.ok("list_libraries")["libraries"]
        assert (library["document_count"], library["chunk_count"]) in ((1, 1), (2, 2))
        hits = server.ok("search", query="written before the end")["results"]
        assert hits[0]["source"] == str(small)
        assert server.ok("ingest_file", path=str(large))["status"] in ("indexed", "skipped")
        assert server.ok("list_documents")["total"] == 2


def test_the_server_ends_when_stdin_closes_before_anything_was_said(tmp_path: Path) -> None:
    server = Server(tmp_path / "database")
    try:
        assert server.close() == 0
        assert (server.stdout_lines, server.stderr) == ([], "")
        assert not (tmp_path / "database").exists()
    finally:
        server.kill()
