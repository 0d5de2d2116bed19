"""An MCP server as an application: Streamable HTTP for the clients of today, SSE for those of 2024.

Sessions are kept: without them a cancel of the handshake era could not reach its call, and with answers as
plain JSON there would be no progress. Host, Origin, tokens and sizes were checked by the gate before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .ending import Ending
from .gate import CLIENT, http_error

MCP_PATH = "/mcp"
SSE_PATH = "/sse"
_MESSAGES_PATH = "/messages/"


def streamable_http_app(server: Server[Any], ending: Ending, *, max_body_bytes: int) -> Starlette:
    _count_calls(server, ending)
    manager = StreamableHTTPSessionManager(server, max_request_body_size=max_body_bytes)

    async def sessions(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with manager.run():
            task_status.started()
            # Their tasks are no request's, so nobody else ends them.
            await ending.finished.wait()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            await tasks.start(sessions)
            yield
            ending.finished.set()

    return Starlette(
        routes=[Route(MCP_PATH, _Owned(manager.handle_request))],
        exception_handlers={HTTPException: http_error},
        lifespan=lifespan,
    )


def sse_app(server: Server[Any], ending: Ending, *, max_body_bytes: int) -> Starlette:
    _count_calls(server, ending)
    transport = SseServerTransport(_MESSAGES_PATH, max_request_body_size=max_body_bytes)

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await Response(status_code=405, headers={"Allow": "GET"})(scope, receive, send)
            return
        async with transport.connect_sse(scope, receive, send) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    return Starlette(
        routes=[
            Route(SSE_PATH, _Owned(stream)),
            Mount(_MESSAGES_PATH, _Owned(transport.handle_post_message)),
        ],
        exception_handlers={HTTPException: http_error},
    )


class _Owned:
    """Tells the SDK who is there, so that a session serves only the token that began it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (client := scope.get(CLIENT)) is not None:
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=client, scopes=[]))
        await self._app(scope, receive, send)


def _count_calls(server: Server[Any], ending: Ending) -> None:
    """A call may outlive the request it came with: over SSE that is answered at once."""

    async def counted(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method != "tools/call":
            return await call_next(ctx)
        with ending.running():
            return await call_next(ctx)

    server.middleware.append(counted)
