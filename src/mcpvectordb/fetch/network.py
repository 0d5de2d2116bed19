"""Connections that go where they were checked to go, and end when they should.

Owns httpcore: its network backend is the one place through which every byte of a fetch comes, so the
address, the clock and the giving up are dealt with here. Nothing of httpcore or ssl leaves this module
but as our own errors.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from mcpvectordb import guard
from mcpvectordb.errors import ConfigError, SourceError

from .budget import Budget
from .url import WebAddress


class PinnedTransport(httpx.BaseTransport):
    """One request to one host, at addresses checked beforehand.

    The host's name stays in the Host header, in TLS and in the check of the certificate; only the
    connection is made by number, so that the DNS has no second word.
    """

    def __init__(self, address: WebAddress, pinned: Sequence[guard.IPAddress], budget: Budget) -> None:
        self._host = address.host
        self._pool = httpcore.ConnectionPool(
            ssl_context=_tls() if address.scheme == "https" else None,
            max_connections=1,
            max_keepalive_connections=0,
            network_backend=_PinnedBackend(address, pinned, budget),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _our_errors(self._host):
            response = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    # A certificate is for a name without the dot that ends it.
                    extensions={"sni_hostname": self._host.removesuffix(".")},
                )
            )
        assert isinstance(response.stream, Iterable)
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response.stream, self._host)
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, parts: Iterable[bytes], host: str) -> None:
        self._parts = parts
        self._host = host

    def __iter__(self) -> Iterator[bytes]:
        with _our_errors(self._host):
            yield from self._parts

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


class _PinnedBackend(httpcore.NetworkBackend):
    def __init__(self, address: WebAddress, pinned: Sequence[guard.IPAddress], budget: Budget) -> None:
        self._address = address
        self._pinned = pinned
        self._budget = budget

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to a checked address. What httpcore makes of the host is not looked at."""
        ends = time.monotonic() + self._budget.limits.connect_timeout_s
        failure = ""
        for position, one in enumerate(self._pinned):
            # Each gets a fair share of the time, so that the first cannot starve the others.
            share = max(ends - time.monotonic(), 0.001) / (len(self._pinned) - position)
            try:
                stream = httpcore.SyncBackend().connect_tcp(
                    str(one), self._address.port, timeout=min(share, self._budget.left(self._address.host))
                )
            except httpcore.ConnectTimeout:
                failure = "it did not answer"
            except httpcore.ConnectError as exc:
                failure = getattr(exc.__cause__, "strerror", None) or "the connection failed"
            else:
                return _BoundedStream(stream, self._address.host, self._budget)
        raise SourceError(
            f"{self._address.host} could not be reached at port {self._address.port}: {failure}. "
            "Check the address, or try again later."
        )


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose every wait is measured against the whole fetch's time.

    A timeout for each read alone would let a server that sends a byte a second go on for ever.
    """

    def __init__(self, inner: httpcore.NetworkStream, host: str, budget: Budget) -> None:
        self._inner = inner
        self._host = host
        self._budget = budget

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            try:
                data = self._inner.read(max_bytes, timeout=self._budget.slice(self._host))
            except httpcore.ReadTimeout:
                continue
            self._budget.received(len(data), self._host)
            return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout=self._budget.left(self._host))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        limit = min(self._budget.left(self._host), self._budget.limits.connect_timeout_s)
        try:
            stream = self._inner.start_tls(ssl_context, server_hostname, limit)
        except httpcore.ConnectTimeout as exc:
            raise SourceError(
                f"{self._host} did not finish the TLS handshake in {limit:.0f} s. Try again later."
            ) from exc
        except httpcore.ConnectError as exc:
            raise SourceError(_tls_sentence(self._host, exc.__cause__)) from exc
        return _BoundedStream(stream, self._host, self._budget)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _tls() -> ssl.SSLContext:
    """Certificates from SSL_CERT_FILE or SSL_CERT_DIR where set, else certifi's and the system's own."""
    try:
        context = httpx.create_ssl_context()
        if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
            # Companies add their own authority to the system, where certifi does not know of it.
            context.load_default_certs()
    except OSError as exc:
        raise ConfigError(f"The certificates for https cannot be read: {exc}. Check SSL_CERT_FILE.") from exc
    return context


def _tls_sentence(host: str, cause: BaseException | None) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"{host} was not fetched: its certificate is not trusted ({cause.verify_message.rstrip('.')}). "
            "Check the address; for an authority of your own set SSL_CERT_FILE."
        )
    return f"{host} does not speak TLS at this port as it should. Check the address, or try again later."


@contextmanager
def _our_errors(host: str) -> Generator[None]:
    try:
        yield
    except httpcore.RemoteProtocolError as exc:
        raise SourceError(
            f"{host} broke off or sent what is not HTTP, so the document is not complete. Try again later."
        ) from exc
    except (httpcore.NetworkError, httpcore.TimeoutException) as exc:
        raise SourceError(f"The connection to {host} was lost. Try again later.") from exc
    except (httpcore.ProtocolError, httpcore.UnsupportedProtocol) as exc:
        raise SourceError(f"{host} could not be asked for this address. Check the address.") from exc
