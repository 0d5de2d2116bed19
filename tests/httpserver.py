"""A real server over HTTP in a process of its own, and clients for it: the official one, and raw requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from support import PATIENCE_S, Json, check_answer, environment, output_schema, wait_until

# What a client of the protocol has to accept.
BOTH = "application/json, text/event-stream"
# One of the stateless requests of 2026-07-28, which need no session.
MODERN = "2026-07-28"


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Json:
        return json.loads(self.body)


class HttpServer:
    """A program that logs `Serving … at <url>` on stderr once clients may come."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            encoding="utf-8",
        )
        self.stderr_lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_until(lambda: self._serving() is not None or self.process.poll() is not None)
        url = self._serving()
        assert url is not None, self.stderr
        self.url = url
        parts = urlsplit(url)
        assert parts.hostname and parts.port
        self.host, self.port, self.path = parts.hostname, parts.port, parts.path

    @property
    def stderr(self) -> str:
        return "".join(self.stderr_lines)

    def says(self, words: str) -> bool:
        return words in self.stderr

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterator[bytes] = b"",
    ) -> Answer:
        """One raw request on a connection of its own; a Host header is ours unless one is given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            names = {name.lower() for name in headers or {}}
            connection.putrequest(method, path, skip_host="host" in names)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            is_chunked = not isinstance(body, bytes)
            if is_chunked:
                connection.putheader("Transfer-Encoding", "chunked")
            elif "content-length" not in names:
                connection.putheader("Content-Length", str(len(body)))
            # It may have answered already, and read no more.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.endheaders(body or None, encode_chunked=is_chunked)
            got = connection.getresponse()
            return Answer(
                status=got.status,
                headers={name.lower(): value for name, value in got.getheaders()},
                body=got.read(),
            )
        finally:
            connection.close()

    def post(self, message: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
        """A JSON-RPC message, posted to where the protocol is spoken."""
        given = {"Content-Type": "application/json", "Accept": BOTH, **(headers or {})}
        return self.request("POST", self.path, given, json.dumps(message).encode())

    def list_tools(self, headers: Mapping[str, str] | None = None) -> Answer:
        """A whole stateless exchange in one request."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        era = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
        return self.post(message, {**era, **(headers or {})})

    def tell(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        code = self.process.wait(timeout=PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def stdout(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _serving(self) -> str | None:
        found = re.search(r"Serving .* at (http://\S+)\n", self.stderr)
        return found[1] if found else None

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.stderr_lines.extend(self.process.stderr)


@contextmanager
def hosting(command: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[HttpServer]:
    """A server that must end, once it is told to, with code 0 and nothing on stdout."""
    server = HttpServer(command, os.environ if env is None else env)
    try:
        yield server
        if server.process.poll() is None:
            server.tell()
        assert server.end() == 0, server.stderr
        assert server.stdout() == ""
        assert "Traceback" not in server.stderr
    finally:
        server.kill()


@contextmanager
def serving_http(
    home: Path, *options: str, python: Sequence[str] = (), **settings: str
) -> Iterator[HttpServer]:
    """`mcpvectordb serve` on a free port."""
    command = [sys.executable, *python, "-m", "mcpvectordb", "serve", "--port", "0", *options]
    with hosting(command, environment(home, **settings)) as server:
        yield server


class Caller:
    """The official client, driven from a test's own thread."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self.portal = portal
        self.client = client
        listed = portal.call(client.list_tools)
        self.tools = {tool.name: tool.model_dump(by_alias=True, exclude_unset=True) for tool in listed.tools}

    def __call__(self, tool: str, /, **arguments: Any) -> Json:
        return self._checked(tool, self.portal.call(self.client.call_tool, tool, arguments))

    def begin(self, tool: str, /, **arguments: Any) -> Callable[[], Json]:
        """Call without waiting; what is returned waits for the answer."""
        future = self.portal.start_task_soon(self.client.call_tool, tool, arguments)
        return lambda: self._checked(tool, future.result(PATIENCE_S))

    def _checked(self, tool: str, result: Any) -> Json:
        as_sent = result.model_dump(by_alias=True, exclude_unset=True, mode="json")
        return check_answer(output_schema(self.tools, tool), as_sent)


def transport(url: str, token: str | None = None) -> Any:
    """What the official client speaks through to a server at url."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if url.endswith("/sse"):
        return sse_client(url, headers=headers)
    client: httpx2.AsyncClient = create_mcp_http_client(headers=headers)
    return streamable_http_client(url, http_client=client)


@contextmanager
def calling(url: str, *, mode: str = "auto", token: str | None = None) -> Iterator[Caller]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            Client(transport(url, token), mode=mode, read_timeout_seconds=PATIENCE_S)
        ) as client,
    ):
        yield Caller(portal, client)
