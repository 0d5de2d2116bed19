"""A real web server on loopback that behaves well or badly, byte for byte as a test says.

A page is a `Reply`, or a function that is given the connection and writes to it what it likes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

PATIENCE_S = 10


@dataclass(frozen=True, kw_only=True)
class Reply:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def encoded(self) -> bytes:
        headers = {"Content-Length": str(len(self.body)), "Connection": "close", **self.headers}
        lines = [
            f"HTTP/1.1 {self.status} Any Phrase",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + self.body


def redirect(location: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"Location": location})


@dataclass(frozen=True, kw_only=True)
class Request:
    target: str
    headers: Mapping[str, str]  # names in lower case


class Connection:
    """What a page that behaves badly writes to."""

    def __init__(self, server: WebServer, stream: socket.socket) -> None:
        self._server = server
        self._stream = stream

    def send(self, data: bytes) -> None:
        self._stream.sendall(data)

    def drip(self, parts: Iterable[bytes], every_s: float = 0.02) -> None:
        """Send a little at a time, until the client has had enough or the test is over."""
        for part in parts:
            if self._server.stopping.wait(every_s):
                return
            self.send(part)


Page = Reply | Callable[[Connection], None]


class WebServer:
    """Serves `pages` by path. Counts connections and keeps the requests it was sent."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[Request] = []
        self.connections = 0
        self.stopping = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.scheme = "https" if tls else "http"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def put(self, path: str, page: Page) -> str:
        self.pages[path] = page
        return self.url(path)

    def start(self) -> None:
        self._acceptor.start()

    def stop(self) -> None:
        self.stopping.set()
        # Closing alone does not wake a thread that waits in accept().
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
        self._acceptor.join(PATIENCE_S)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            stream, _ = self._listener.accept()
            if self.stopping.is_set():
                stream.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(stream,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, stream: socket.socket) -> None:
        # A client that hangs up, or refuses our certificate, is what many tests are about.
        with contextlib.suppress(OSError), stream:
            stream.settimeout(PATIENCE_S)
            with self._tls.wrap_socket(stream, server_side=True) if self._tls else stream as talk:
                request = _read_request(talk)
                if request is None:
                    return
                self.requests.append(request)
                page = self.pages.get(request.target.split("?")[0], Reply(status=404, body=b"no such page"))
                if isinstance(page, Reply):
                    talk.sendall(page.encoded())
                else:
                    page(Connection(self, talk))


def _read_request(stream: socket.socket) -> Request | None:
    received = b""
    while b"\r\n\r\n" not in received:
        more = stream.recv(65536)
        received += more
        if not more or received.startswith(b"\x16"):  # gone, or talking TLS to a server that does not
            return None
    first, *lines = received.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    return Request(target=first.split(" ")[1], headers={name.lower(): value for name, value in pairs})


@contextlib.contextmanager
def web_server(tls: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    server = WebServer(tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()
