"""`mcpvectordb serve` as its clients meet it: the same tools, who may come in, read-only, and the end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import mcpvectordb
from httpserver import Answer, HttpServer, calling, serving_http
from support import PATIENCE_S, Json, Server, environment, wait_until
from test_protocol import LOOPBACK, TOOLS, drive_all_seven_tools
from webserver import Connection, Reply, web_server

READING = ("search", "list_documents", "list_libraries", "get_document")
TOKEN = "a-token-for-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
# With texts of one megabyte at most.
MOST = 5 * 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One server without a token."""
    with serving_http(tmp_path_factory.mktemp("http"), MCPVECTORDB_MAX_TEXT_MB="1") as server:
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One server with tokens, that goes by a name of its own."""
    folder = tmp_path_factory.mktemp("locked")
    file = folder / "tokens.key"
    file.write_text("# for the others\nanother-token\n", encoding="utf-8")
    file.chmod(0o600)
    settings = {
        "MCPVECTORDB_TOKEN": TOKEN,
        "MCPVECTORDB_TOKEN_FILE": str(file),
        "MCPVECTORDB_ALLOWED_HOSTS": "files.example",
        "MCPVECTORDB_ALLOWED_ORIGINS": "https://app.example",
    }
    with serving_http(folder / "database", **settings) as server:
        yield server


def sentence(answer: Answer) -> str:
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    return answer.json()["error"]


# --- the same tools


@pytest.mark.parametrize("mode", ["legacy", *MODERN_PROTOCOL_VERSIONS])
def test_the_official_client_drives_all_seven_tools_over_http(tmp_path: Path, mode: str) -> None:
    with (
        serving_http(tmp_path / "database", **LOOPBACK) as server,
        calling(server.url, mode=mode) as call,
    ):
        assert set(TOOLS) <= call.tools.keys()
        drive_all_seven_tools(call, tmp_path)


def test_an_old_client_drives_all_seven_tools_over_sse(tmp_path: Path) -> None:
    with (
        serving_http(tmp_path / "database", "--transport", "sse", **LOOPBACK) as server,
        calling(server.url, mode="legacy") as call,
    ):
        assert server.path == "/sse"
        assert set(TOOLS) <= call.tools.keys()
        drive_all_seven_tools(call, tmp_path)
        assert server.request("POST", "/sse").status == 405
        assert server.request("GET", "/messages/").status == 405
        assert server.request("POST", "/messages/?session_id=00000000000000000000000000000000").status in (
            400,
            404,
        )
        assert server.request("GET", "/health").json() == {"status": "ok"}
        assert server.request("GET", "/sse", {"Host": "evil.example"}).status == 421


def test_stdio_and_http_publish_the_same_tools(stdio: Server, server: HttpServer) -> None:
    with calling(server.url, mode="legacy") as call:
        assert call.tools == stdio.tools


def test_many_clients_at_once_see_one_database(tmp_path: Path) -> None:
    with serving_http(tmp_path / "database", **LOOPBACK) as server:
        slow = Gated()
        with web_server() as web, calling(server.url) as one, calling(server.url, mode="legacy") as two:
            waiting = one.begin("ingest_url", url=web.put("/slow", slow))
            assert slow.reached.wait(PATIENCE_S)
            path = tmp_path / "tea.md"
            path.write_text("# Tea\n\nGreen tea is brewed at seventy degrees.\n", encoding="utf-8")
            # The first ingest holds nobody up.
            assert two("list_libraries") == {"libraries": []}
            slow.go.set()
            assert waiting()["status"] == "indexed"
            assert two("ingest_file", path=str(path))["status"] == "indexed"
            assert one("search", query="how hot for green tea")["results"][0]["source"] == str(path)
            calls = [caller.begin("list_documents") for caller in (one, two) for _ in range(20)]
            assert {call()["total"] for call in calls} == {2}


class Gated:
    """A page that is not served before it may be."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()

    def __call__(self, connection: Connection) -> None:
        self.reached.set()
        if self.go.wait(PATIENCE_S):
            headers = {"Content-Type": "text/plain"}
            connection.send(Reply(body=b"A page that took its time.", headers=headers).encoded())


# --- who may come in


def test_health_says_only_ok_to_anybody(locked: HttpServer) -> None:
    answer = locked.request("GET", "/health", {"Host": "pod.cluster", "Origin": "https://evil.example"})
    assert (answer.status, answer.json()) == (200, {"status": "ok"})
    assert "server" not in answer.headers
    assert locked.request("HEAD", "/health").body == b""
    assert locked.request("POST", "/health").status == 401


@pytest.mark.parametrize(
    "authorization",
    [
        *("Bearer", "Bearer ", "Bearer a-token", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN),
        *(f"Bearer {TOKEN.upper()}", "Bearer # for the others", "Bearer \xe9"),
    ],
)
def test_a_wrong_token_is_refused(locked: HttpServer, authorization: str) -> None:
    answer = locked.list_tools({"Authorization": authorization})
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="mcpvectordb", error="invalid_token"'
    assert "token" in sentence(answer)


def test_no_token_is_refused_with_a_challenge_whatever_is_asked_for(locked: HttpServer) -> None:
    for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/"), ("GET", "/no")):
        answer = locked.request(method, path)
        assert answer.status == 401, (method, path)
        assert answer.headers["www-authenticate"] == 'Bearer realm="mcpvectordb"'
        assert "Authorization: Bearer" in sentence(answer)


@pytest.mark.parametrize("token", [TOKEN, "another-token"])
def test_each_of_the_tokens_opens(locked: HttpServer, token: str) -> None:
    assert locked.list_tools({"Authorization": f"Bearer {token}"}).status == 200
    for mode in ("legacy", "auto"):
        with calling(locked.url, mode=mode, token=token) as call:
            assert call("list_libraries") == {"libraries": []}


def test_tokens_are_never_logged(locked: HttpServer) -> None:
    assert locked.list_tools({"Authorization": "Bearer mistyped-secret"}).status == 401
    assert locked.list_tools(BEARER).status == 200
    wait_until(lambda: locked.says("wrong token"))
    assert not [word for word in (TOKEN, "another-token", "mistyped-secret") if locked.says(word)]


@pytest.mark.parametrize("host", ["files.example", "files.example:9", "localhost:{port}", "127.0.0.1:{port}"])
def test_the_servers_own_and_the_allowed_names_are_served(locked: HttpServer, host: str) -> None:
    assert locked.list_tools({**BEARER, "Host": host.format(port=locked.port)}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost", "localhost:1", "", "*"])
def test_any_other_host_is_421(locked: HttpServer, server: HttpServer, host: str) -> None:
    for one in (locked, server):
        answer = one.list_tools({**BEARER, "Host": host.format(port=one.port)})
        assert answer.status == 421
        assert "Host" in sentence(answer)


def test_pages_of_an_origin_that_is_not_allowed_are_403(locked: HttpServer, server: HttpServer) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:1", "https://app.example.evil.example"):
        for one in (locked, server):
            answer = one.list_tools({**BEARER, "Origin": origin})
            assert answer.status == 403
            assert "Origin" in sentence(answer)
    assert locked.list_tools({**BEARER, "Origin": "https://app.example"}).status == 200
    assert server.list_tools({"Origin": "https://app.example"}).status == 403
    assert server.list_tools({"Origin": f"http://127.0.0.1:{server.port}"}).status == 200


def test_a_header_sent_twice_is_not_trusted(locked: HttpServer) -> None:
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{locked.port}",
        "Authorization: Bearer wrong",
        f"Authorization: Bearer {TOKEN}",
        "Content-Length: 2",
    ]
    with socket.create_connection((locked.host, locked.port), timeout=PATIENCE_S) as stream:
        stream.sendall("\r\n".join(lines).encode() + b"\r\n\r\n{}")
        assert stream.recv(65536).startswith(b"HTTP/1.1 401")


# --- what is too much, and what is not understood


def chunks(size: int) -> Iterator[bytes]:
    for at in range(0, size, 65536):
        yield b" " * min(65536, size - at)


def test_a_body_over_the_limit_is_413_however_it_is_sent(server: HttpServer) -> None:
    kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for era in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
        declared = server.request("POST", "/mcp", {**kind, **era, "Content-Length": str(MOST + 1)})
        sent = server.request("POST", "/mcp", {**kind, **era}, chunks(MOST + 65536))
        for answer in (declared, sent):
            assert answer.status == 413
            assert str(MOST) in sentence(answer)
        # Spaces are no message, but not too many of them.
        assert server.request("POST", "/mcp", {**kind, **era}, chunks(MOST)).status == 400
    assert server.list_tools().status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("GET", "/", 404), ("GET", "/sse", 404), ("POST", "/messages/", 404), ("GET", "/mcp/../etc", 404)),
        *(("PUT", "/mcp", 405), ("OPTIONS", "/mcp", 405), ("PATCH", "/mcp", 405)),
    ],
)
def test_other_paths_and_methods_are_refused(server: HttpServer, method: str, path: str, status: int) -> None:
    assert server.request(method, path).status in (status, 400)
    assert server.list_tools().status == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"jsonrpc":"2.0"}', b"[" * 100_000]
)
def test_a_body_that_is_no_message_is_a_protocol_error(server: HttpServer, body: bytes) -> None:
    kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for era in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
        assert server.request("POST", "/mcp", {**kind, **era}, body).status == 400
    assert server.list_tools().status == 200
    assert not server.says("Traceback")


def test_a_session_that_is_unknown_is_404(server: HttpServer) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert server.post(ping, {"Mcp-Session-Id": "0" * 32}).status == 404


# --- read only


def assert_only_reading(tools: dict[str, Json]) -> None:
    assert set(READING) <= tools.keys()
    assert [name for name, tool in tools.items() if not tool["annotations"]["readOnlyHint"]] == []


def test_read_only_has_no_tool_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A\n\nNot to be indexed.\n", encoding="utf-8")
    with serving_http(tmp_path / "database", "--read-only") as server, calling(server.url) as call:
        assert_only_reading(call.tools)
        said = call("ingest_file", path=str(path))
        assert said["status"] == "error"
        assert "no tool 'ingest_file'" in said["error"]
        assert call("delete_document", doc_id="x")["status"] == "error"
        assert call("list_libraries") == {"libraries": []}


def test_read_only_is_for_stdio_too(tmp_path: Path) -> None:
    server = Server(tmp_path / "database", options=("serve", "--transport", "stdio", "--read-only"))
    try:
        server.handshake()
        assert_only_reading(server.tools)
        assert "no tool" in server.error("delete_document", doc_id="x")
        assert server.close() == 0
    finally:
        server.kill()


# --- starting


def start_and_fail(tmp_path: Path, *options: str, **settings: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "mcpvectordb", "serve", *options],
        env=environment(tmp_path / "database", **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    return ended.stderr


def test_listening_beyond_this_machine_without_a_token_is_refused_with_the_reason(tmp_path: Path) -> None:
    said = start_and_fail(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert "0.0.0.0 can be reached by other machines" in said
    assert "MCPVECTORDB_TOKEN" in said


def test_listening_beyond_this_machine_with_a_token_is_fine(tmp_path: Path) -> None:
    with serving_http(tmp_path / "database", "--host", "0.0.0.0", MCPVECTORDB_TOKEN=TOKEN) as server:
        assert server.list_tools({**BEARER, "Host": f"127.0.0.1:{server.port}"}).status == 200
        assert server.list_tools({"Host": f"127.0.0.1:{server.port}"}).status == 401


def test_a_port_in_use_is_one_sentence(tmp_path: Path, server: HttpServer) -> None:
    said = start_and_fail(tmp_path, "--port", str(server.port))
    assert f"Another program listens at 127.0.0.1:{server.port} already" in said
    assert "--port" in said


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("MCPVECTORDB_TOKEN", "two words", "MCPVECTORDB_TOKEN holds a token that no header can carry"),
        ("MCPVECTORDB_TOKEN_FILE", "/no/such/file", "MCPVECTORDB_TOKEN_FILE cannot be read"),
        ("MCPVECTORDB_ALLOWED_HOSTS", "http://x.example", "is not a host that may be allowed"),
        ("MCPVECTORDB_ALLOWED_ORIGINS", "x.example", "is not an origin that may be allowed"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_sentence(
    tmp_path: Path, setting: str, value: str, says: str
) -> None:
    assert says in start_and_fail(tmp_path, "--port", "0", **{setting: value})


def test_a_server_that_has_listed_its_tools_has_imported_nothing_heavy(tmp_path: Path) -> None:
    from test_startup import HEAVY, imported

    with serving_http(tmp_path / "database", python=("-X", "importtime")) as server:
        assert server.list_tools().status == 200
    packages = imported(server.stderr)
    assert {"mcp", "mcpvectordb", "uvicorn"} <= packages
    assert packages & HEAVY == set()


# --- the end


def test_told_to_end_it_lets_an_ingest_finish(tmp_path: Path) -> None:
    slow = Gated()
    with (
        web_server() as web,
        serving_http(tmp_path / "database", MCPVECTORDB_SHUTDOWN_S="60", **LOOPBACK) as server,
    ):
        with calling(server.url) as call:
            waiting = call.begin("ingest_url", url=web.put("/slow", slow))
            assert slow.reached.wait(PATIENCE_S)
            server.tell()
            wait_until(lambda: server.says("Ending"))
            slow.go.set()
            assert waiting()["status"] == "indexed"
        assert server.end() == 0
    with serving_http(tmp_path / "database") as server, calling(server.url) as call:
        assert call("list_documents")["total"] == 1


def test_an_ingest_that_does_not_finish_is_given_up_and_nothing_is_half_written(tmp_path: Path) -> None:
    slow = Gated()
    with (
        web_server() as web,
        serving_http(tmp_path / "database", MCPVECTORDB_SHUTDOWN_S="0", **LOOPBACK) as server,
    ):
        with calling(server.url) as call:
            url = web.put("/slow", slow)
            future = call.portal.start_task_soon(call.client.call_tool, "ingest_url", {"url": url})
            assert slow.reached.wait(PATIENCE_S)
            server.tell()
            assert server.end() == 0
            future.cancel()
        slow.go.set()
    with serving_http(tmp_path / "database") as server, calling(server.url) as call:
        assert call("list_libraries") == {"libraries": []}


def test_the_server_says_who_it_is(server: HttpServer) -> None:
    with calling(server.url, mode="legacy") as call:
        about = call.client.server_info
        assert about is not None
        assert (about.name, about.version) == ("mcpvectordb", mcpvectordb.__version__)
        assert json.loads(json.dumps(call.tools))
