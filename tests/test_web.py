"""Hosting by itself: progress, cancelling, sessions and the end, with tools that a test controls."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from mcp.client.client import Client

from httpserver import HttpServer, calling, hosting, transport
from mcpvectordb import guard
from mcpvectordb.errors import ConfigError
from mcpvectordb.web import Tokens, listen, read_tokens
from support import PATIENCE_S, wait_until

PROGRAM = Path(__file__).parent / "hosting.py"
# By the transport, which eras the official client speaks over it.
WAYS = [
    ("streamable-http", "legacy"),
    ("streamable-http", "2026-07-28"),
    ("sse", "legacy"),
    ("sse", "auto"),
]
BY_WAY = pytest.mark.parametrize(("way", "mode"), WAYS, ids=[f"{way}-{mode}" for way, mode in WAYS])


@contextmanager
def hosted(folder: Path, way: str, *tokens: str, grace_s: float = PATIENCE_S) -> Iterator[HttpServer]:
    with hosting([sys.executable, str(PROGRAM), way, str(folder), str(grace_s), *tokens]) as server:
        yield server


# --- calls


@BY_WAY
def test_progress_reaches_the_client_in_every_era(tmp_path: Path, way: str, mode: str) -> None:
    with hosted(tmp_path, way) as server:
        told: list[tuple[float, float | None, str | None]] = []

        async def call() -> None:
            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                told.append((progress, total, message))

            async with Client(transport(server.url), mode=mode, read_timeout_seconds=PATIENCE_S) as client:
                await client.call_tool("count", {}, progress_callback=on_progress)

        anyio.run(call)
        assert told == [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]


@BY_WAY
def test_a_cancelled_call_ends_in_the_server_in_every_era(tmp_path: Path, way: str, mode: str) -> None:
    with hosted(tmp_path, way) as server:

        async def call() -> None:
            async with Client(transport(server.url), mode=mode, read_timeout_seconds=PATIENCE_S) as client:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "wait", {})
                    await anyio.to_thread.run_sync(lambda: wait_until(lambda: server.says("waiting")))
                    tasks.cancel_scope.cancel()
                await anyio.to_thread.run_sync(
                    lambda: wait_until(lambda: server.says("cancelled by its client"))
                )
                # The session lives on.
                assert (await client.call_tool("count", {})).content

        anyio.run(call)


@BY_WAY
def test_clients_do_not_wait_for_each_other(tmp_path: Path, way: str, mode: str) -> None:
    with hosted(tmp_path, way) as server, calling(server.url, mode=mode) as one:
        waiting = one.portal.start_task_soon(one.client.call_tool, "wait", {})
        wait_until(lambda: server.says("waiting"))
        with calling(server.url, mode=mode) as other:
            assert other.portal.call(other.client.call_tool, "count", {}).content
        assert one.portal.call(one.client.call_tool, "count", {}).content
        assert not waiting.done()
        (tmp_path / "go").touch()
        assert waiting.result(PATIENCE_S).content


# --- the end


@BY_WAY
def test_a_server_told_to_end_lets_a_running_call_finish(tmp_path: Path, way: str, mode: str) -> None:
    with hosted(tmp_path, way) as server, calling(server.url, mode=mode) as caller:
        waiting = caller.portal.start_task_soon(caller.client.call_tool, "wait", {})
        wait_until(lambda: server.says("waiting"))
        server.tell()
        wait_until(lambda: server.says("Ending"))
        with pytest.raises(OSError):
            socket.create_connection((server.host, server.port), timeout=PATIENCE_S).close()
        (tmp_path / "go").touch()
        (content,) = waiting.result(PATIENCE_S).content
        assert content.text == "done"
        assert server.end() == 0
        assert not server.says("cancelled")


@BY_WAY
def test_a_call_that_does_not_finish_is_cut_off_by_the_end_and_not_by_its_client(
    tmp_path: Path, way: str, mode: str
) -> None:
    with hosted(tmp_path, way, grace_s=0.2) as server, calling(server.url, mode=mode) as caller:
        waiting = caller.portal.start_task_soon(caller.client.call_tool, "wait", {})
        wait_until(lambda: server.says("waiting"))
        server.tell()
        assert server.end() == 0
        assert server.says("told to give up")
        assert server.says("cancelled by the end")
        waiting.cancel()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with hosted(tmp_path, "streamable-http") as server, calling(server.url) as caller:
        waiting = caller.portal.start_task_soon(caller.client.call_tool, "wait", {})
        wait_until(lambda: server.says("waiting"))
        server.tell(signal.SIGINT)
        wait_until(lambda: server.says("Ending"))
        server.tell(signal.SIGINT)
        assert server.end() == 0
        assert server.says("cancelled by the end")
        waiting.cancel()


@pytest.mark.parametrize("way", ["streamable-http", "sse"])
def test_an_idle_client_does_not_hold_up_the_end(tmp_path: Path, way: str) -> None:
    with hosted(tmp_path, way) as server, calling(server.url, mode="legacy") as caller:
        assert caller.tools
        server.tell()
        assert server.end() == 0


# --- tokens


def begin_session(server: HttpServer, token: str) -> str:
    info = {"name": "test", "version": "1"}
    offer = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    answer = server.post(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": offer},
        {"Authorization": f"Bearer {token}"},
    )
    assert answer.status == 200
    return answer.headers["mcp-session-id"]


def test_a_session_serves_only_the_token_that_began_it(tmp_path: Path) -> None:
    with hosted(tmp_path, "streamable-http", "first", "second") as server:
        session = begin_session(server, "first")
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        statuses = {
            token: server.post(ping, {"Authorization": f"Bearer {token}", "Mcp-Session-Id": session}).status
            for token in ("first", "second", "third")
        }
        assert statuses == {"first": 200, "second": 404, "third": 401}


def test_tokens_are_known_by_their_whole_value() -> None:
    tokens = Tokens(["one", "two", "one"])
    one = tokens.client(b"Bearer one")
    assert one is not None
    assert one not in ("one", tokens.client(b"bearer  two"))
    assert tokens.client(b"BEARER one ") == one
    for wrong in (
        None,
        b"",
        b"one",
        b"Bearer",
        b"Bearer ",
        b"Bearer on",
        b"Bearer onee",
        b"Bearer One",
        b"Basic one",
    ):
        assert tokens.client(wrong) is None
    assert not Tokens()
    assert Tokens().client(b"Bearer ") is None


def test_a_file_of_tokens_has_one_on_a_line(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("\ufeff# of the office\none\n\n  two  \r\n", encoding="utf-8")
    tokens = read_tokens("three", file, variable="TOKEN")
    assert all(tokens.client(f"Bearer {token}".encode()) for token in ("one", "two", "three"))
    assert tokens.client(b"Bearer # of the office") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "TOKEN_FILE cannot be read"),
        ("", "TOKEN_FILE holds no token"),
        ("# one\n", "TOKEN_FILE holds no token"),
        ("one two\n", "TOKEN_FILE holds a token that no header can carry"),
        ("schlüssel\n", "TOKEN_FILE holds a token that no header can carry"),
        ("x" * 1_000_001, "too large"),
    ],
)
def test_a_file_without_good_tokens_is_refused_and_not_shown(
    tmp_path: Path, content: str | None, says: str
) -> None:
    file = tmp_path / "tokens"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=says) as caught:
        read_tokens("", file, variable="TOKEN")
    assert "schlüssel" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_file_of_tokens_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TOKEN_FILE"):
        read_tokens("", tmp_path, variable="TOKEN")


# --- where it listens

PUBLIC = ["0.0.0.0", "::", "[::]", "192.0.2.7", "10.0.0.1", "8.8.8.8"]


@pytest.mark.parametrize("host", PUBLIC)
def test_an_address_that_others_can_reach_is_refused_with_the_reason(host: str) -> None:
    with pytest.raises(ConfigError, match=r"can be reached by other machines\. Set a token\."):
        listen(host, 0, open_without_token="Set a token.")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_needs_no_token(host: str) -> None:
    listening = listen(host, 0, open_without_token="Set a token.")
    assert not listening.is_public
    assert listening.port > 0
    for one in listening.sockets:
        one.close()


@pytest.mark.parametrize("host", ["", " ", "no.such.host.invalid", "a" * 300])
def test_a_host_that_is_none_is_one_sentence(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^The host "):
        listen(host, 0, open_without_token=None)


# --- whose requests

OWN = guard.web_hosts("127.0.0.1", 8765, also=["engine", "files.example:443", "[fd00::1]"])


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"),
        *("engine", "engine:8000", "Engine:1", "files.example:443", "[fd00::1]", "[fd00::1]:9"),
    ],
)
def test_a_servers_own_names_and_the_allowed_ones_are_its_hosts(host: str) -> None:
    assert guard.host_is_ours(host, OWN)


@pytest.mark.parametrize(
    "host",
    [
        *("", "localhost", "127.0.0.1", "[::1]", "localhost:8766", "127.0.0.1:87650", "127.0.0.1:8765:8765"),
        *("evil.example", "evil.example:8765", "localhost.evil.example:8765", "localhost:8765.evil.example"),
        *("files.example", "files.example:80", "engine.evil.example", "engine:8000@evil.example", "::1:8765"),
        *("localhost:8765,evil.example", "localhost :8765", "*", "engine:", "engine:x", "engine/", "\x00"),
    ],
)
def test_any_other_host_is_not(host: str) -> None:
    assert not guard.host_is_ours(host, OWN)


def test_a_star_allows_every_name_and_port_80_may_stay_unsaid() -> None:
    assert guard.host_is_ours("any.example:1", guard.web_hosts("127.0.0.1", 8765, also=["*"]))
    assert guard.host_is_ours("localhost", guard.web_hosts("127.0.0.1", 80, also=[]))
    assert guard.host_is_ours("[2001:db8::5]:9", guard.web_hosts("2001:db8::5", 9, also=[]))


@pytest.mark.parametrize("entry", ["", "http://x.example", "x.example/", "a b", "::1", "x:port", "*.example"])
def test_what_is_no_host_cannot_be_allowed(entry: str) -> None:
    with pytest.raises(ConfigError, match="is not a host that may be allowed"):
        guard.web_hosts("127.0.0.1", 8765, also=[entry])


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [
        ("http://localhost:8765", True),
        ("http://127.0.0.1:8765", True),
        ("http://[::1]:8765", True),
        ("https://app.example", True),
        ("HTTPS://App.Example", True),
        ("https://localhost:8765", False),
        ("http://localhost", False),
        ("http://localhost:3000", False),
        ("http://app.example", False),
        ("https://app.example:444", False),
        ("https://app.example.evil.example", False),
        ("null", False),
        ("", False),
        ("*", False),
    ],
)
def test_an_origin_is_ours_or_allowed_to_the_letter(origin: str, is_ours: bool) -> None:
    allowed = guard.web_origins(8765, also=["https://app.example"])
    assert guard.origin_is_ours(origin, allowed) is is_ours


@pytest.mark.parametrize("entry", ["", "*", "app.example", "https://app.example/", "https://a@b", "https://"])
def test_what_is_no_origin_cannot_be_allowed(entry: str) -> None:
    with pytest.raises(ConfigError, match="is not an origin that may be allowed"):
        guard.web_origins(8765, also=[entry])
