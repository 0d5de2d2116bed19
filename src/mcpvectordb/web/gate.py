"""Who may come in, and with how much: every request passes here before any application sees it.

A page from anywhere, open in the browser of this machine, can send requests to 127.0.0.1, and can make its
own name mean 127.0.0.1 (DNS rebinding). The first is known by its Origin, the second by its Host.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpvectordb.guard import host_is_ours, origin_is_ours, web_hosts, web_origins

from .bind import Listening
from .ending import Ending
from .tokens import Tokens

logger = logging.getLogger(__name__)

# In a request's scope: the name of the token it came with.
CLIENT = "mcpvectordb.client"
# Says nothing but ok, to anybody: whoever watches over a server knows neither its names nor its tokens.
HEALTH = "/health"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    hosts: frozenset[str]
    origins: frozenset[str]
    tokens: Tokens
    max_body_bytes: int

    @classmethod
    def of(
        cls,
        listening: Listening,
        *,
        tokens: Tokens,
        max_body_bytes: int,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
    ) -> Rules:
        """hosts and origins beside the server's own names, as a person writes them, or a ConfigError."""
        return cls(
            hosts=web_hosts(listening.host, listening.port, also=hosts),
            origins=web_origins(listening.port, also=origins),
            tokens=tokens,
            max_body_bytes=max_body_bytes,
        )


class Gate:
    def __init__(self, app: ASGIApp, rules: Rules, ending: Ending) -> None:
        self._app = app
        self._rules = rules
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD"):
            await JSONResponse({"status": "ok"})(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def watched(message: Message) -> None:
            nonlocal is_started
            is_started = is_started or message["type"] == "http.response.start"
            await send(message)

        # Reading is soon done; a stream that stays open for the server's messages is nobody's work.
        is_work = scope["method"] not in ("GET", "HEAD")
        answer: JSONResponse | None = None
        with self._ending.cut_off() as request:
            try:
                with self._ending.running() if is_work else nullcontext():
                    await self._app(scope, self._limited(receive), watched)
            except HTTPException as exc:
                # Of _limited, through an application that does not turn it into an answer itself.
                answer = _refused(exc.status_code, exc.detail, exc.headers)
        if request.cancelled_caught:
            if is_started:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            answer = _refused(503, "The server has ended before this was done. Try again later.")
        if answer is not None and not is_started:
            await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        host = _only(headers, b"host")
        if host is None or not host_is_ours(host, self._rules.hosts):
            logger.info("refused a request for the host %s", ascii((host or "")[:100]))
            return _refused(
                421, "This server does not go by the name in the Host header. Allow it in the settings."
            )
        if any(name == b"origin" for name, _ in headers):
            origin = _only(headers, b"origin")
            if origin is None or not origin_is_ours(origin, self._rules.origins):
                logger.info("refused a request of a page from %s", ascii((origin or "")[:100]))
                return _refused(
                    403, "Pages from this Origin may not use this server. Allow it in the settings."
                )
        if self._rules.tokens:
            given = _only(headers, b"authorization")
            client = self._rules.tokens.client(given.encode("latin-1") if given is not None else None)
            if client is None:
                logger.info("refused a request with %s", "no token" if given is None else "a wrong token")
                return _unknown(given)
            scope[CLIENT] = client
        if self._ending.begun:
            message = "The server is ending. Try again once it has started anew."
            return _refused(503, message, {"Connection": "close", "Retry-After": "5"})
        length = _only(headers, b"content-length")
        if length is not None and length.isdecimal() and int(length) > self._rules.max_body_bytes:
            return _refused(413, self._too_large(), {"Connection": "close"})
        return None

    def _limited(self, receive: Receive) -> Receive:
        """receive, until more has come than a body may have: a length need not be declared, nor be true."""
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._rules.max_body_bytes:
                raise HTTPException(413, self._too_large(), {"Connection": "close"})
            return message

        return limited

    def _too_large(self) -> str:
        return f"The request is larger than the {self._rules.max_body_bytes} bytes that are taken. Send less."


async def http_error(request: Request, exc: Exception) -> Response:
    """An HTTPException as an answer in the shape of all others: an exception handler for applications."""
    assert isinstance(exc, HTTPException)
    message = exc.detail
    if message == HTTPStatus(exc.status_code).phrase:
        # Starlette's own for a path or method that no route has.
        message = f"There is nothing at {request.url.path} for {request.method}."
    return _refused(exc.status_code, message, exc.headers)


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """A header's value; None if it is missing, or there twice, which two readers would read differently."""
    values = [value for key, value in headers if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def _unknown(given: str | None) -> JSONResponse:
    challenge = 'Bearer realm="mcpvectordb"'
    if given is None:
        message = "A token is needed: send it as `Authorization: Bearer <token>`."
    else:
        challenge += ', error="invalid_token"'
        message = "The token is not one of this server's."
    return _refused(401, message, {"WWW-Authenticate": challenge})


def _refused(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)
