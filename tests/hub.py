"""A stand-in of the hub's HTTP API on loopback: listings, small files, and large ones behind a redirect.

It answers as the real one does (status codes, headers, ranges) and misbehaves where a test tells it to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mcpvectordb.embed import Model

_LARGE = (".onnx", ".safetensors")
_STEP = 4096


@dataclass
class Repository:
    commit: str
    files: dict[str, bytes]
    branch: str = "main"
    damaged: set[str] = field(default_factory=set)  # paths whose last byte changes on the way


@dataclass
class StandIn:
    """What the server has, what it was asked, and how it misbehaves."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    url: str = ""
    # Of large files: send so many bytes and close the connection, once for each number.
    cuts: list[int] = field(default_factory=list)
    # Say how long a large file is; if not, the end of the connection is its end.
    has_lengths: bool = True
    is_endless: bool = False  # send the same over and over
    # Of large files: after so many bytes wait for `go` (set at the end of the test).
    hold_after: int | None = None
    holding: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    # Accept a connection and never answer.
    is_silent: bool = False
    status: int = 0  # answer everything with this
    raw: bytes = b""  # answer everything with these very bytes, and close the connection
    absolute: bool = True  # redirect large files to an absolute address, else to a path

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def downloads(self) -> list[Mapping[str, str]]:
        """The headers of the requests for large files themselves."""
        return [headers for path, headers in self.requests if path.startswith("/cdn/")]

    def put(self, name: str, commit: str, files: Mapping[str, bytes]) -> Repository:
        repository = self.repositories[name] = Repository(commit=commit, files=dict(files))
        return repository

    def put_model(self, model: Model, files: Mapping[str, Path | bytes]) -> None:
        """Serve a described model, its files given by role."""
        contents = {
            file.path: content if isinstance(content, bytes) else content.read_bytes()
            for file in model.files
            if (content := files.get(file.role)) is not None
        }
        self.put(model.repository, model.revision, contents)


def _sent(repository: Repository, path: str) -> bytes:
    data = repository.files[path]
    return data[:-1] + bytes([data[-1] ^ 1]) if path in repository.damaged else data


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        hub = self.server.hub
        hub.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if hub.is_silent:
            hub.holding.set()
            hub.go.wait(60)
            self.close_connection = True
            return
        if hub.raw:
            self.wfile.write(hub.raw)
            self.close_connection = True
            return
        if hub.status:
            self._send(hub.status, b"no")
            return
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"] and parts[4:5] == ["revision"]:
            self._list("/".join(parts[2:4]), "/".join(parts[5:]))
        elif parts[0] == "cdn":
            self._large(_sent(hub.repositories["/".join(parts[1:3])], "/".join(parts[3:])))
        elif parts[2:3] == ["resolve"]:
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self._send(404, b"")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _repository(self, name: str, revision: str) -> Repository | None:
        found = self.server.hub.repositories.get(name)
        if found is None:
            self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif revision not in (found.commit, found.branch):
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            return found
        return None

    def _list(self, name: str, revision: str) -> None:
        found = self._repository(name, revision)
        if found is None:
            return
        siblings: list[dict[str, Any]] = []
        for path, data in found.files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            sibling: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": blob}
            if path.endswith(_LARGE):
                sibling["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            siblings.append(sibling)
        self._send(200, json.dumps({"id": name, "sha": found.commit, "siblings": siblings}).encode())

    def _resolve(self, name: str, revision: str, path: str) -> None:
        found = self._repository(name, revision)
        if found is None:
            return
        data = found.files.get(path)
        if data is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif path.endswith(_LARGE):
            there = f"/cdn/{name}/{path}"
            location = f"{self.server.hub.url}{there}" if self.server.hub.absolute else there
            self._send(302, b"", {"Location": location, "X-Repo-Commit": found.commit})
        else:
            self._send(200, _sent(found, path))

    def _large(self, data: bytes) -> None:
        hub = self.server.hub
        start = 0
        if asked := self.headers.get("Range"):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                self._send(416, b"")
                return
        self.send_response(206 if start else 200)
        if hub.has_lengths:
            self.send_header("Content-Length", str(len(data) - start))
        else:
            self.close_connection = True
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        cut = start + hub.cuts.pop(0) if hub.cuts else len(data)
        for offset in range(start, min(cut, len(data)), _STEP):
            if hub.hold_after is not None and offset >= hub.hold_after and not hub.go.is_set():
                self.wfile.flush()
                hub.holding.set()
                hub.go.wait(60)
            self.wfile.write(data[offset : min(offset + _STEP, cut)])
        if cut < len(data):
            self.close_connection = True
        while hub.is_endless and not hub.go.is_set():
            self.wfile.write(data)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: StandIn

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what many tests are about."""


@contextlib.contextmanager
def stand_in() -> Iterator[StandIn]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = StandIn(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.hub
    finally:
        server.hub.go.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
