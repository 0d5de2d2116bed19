"""The gateway over HTTP: a process of its own in front of an engine that may be away."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette

from mcpvectordb import web
from mcpvectordb.kb_settings import KbSettings
from mcpvectordb.web.mcp import MCP_PATH, streamable_http_app

from . import build_gateway
from .client import Engine
from .staging import Staging
from .tools import Gateway

logger = logging.getLogger(__name__)

# A chunk of 4 MiB is 5.6 MB of base64; a note of a million characters may be 12 MB of \u escapes.
MAX_BODY_BYTES = 16 * 1024 * 1024
_LOOK_EVERY_S = 15.0


def serve_gateway(settings: KbSettings, *, host: str, port: int) -> None:
    """Serve until told to end by a signal, or a ConfigError that says why not."""
    tokens = web.read_tokens(settings.mcp_api_key, None, variable="KB_MCP_API_KEY")
    gateway = Gateway(
        engine=Engine(settings.engine_url, api_key=settings.api_key, timeout_s=settings.call_timeout_s),
        staging=Staging(
            settings.staging.expanduser().absolute(),
            most_bytes=settings.max_upload_mb * 1024 * 1024,
            most_uploads=settings.max_uploads,
            upload_s=settings.upload_s,
        ),
    )
    listening = web.listen(host, port, open_without_token=None)
    if listening.is_public and not tokens:
        logger.warning(
            "Anybody who reaches %s can read, change and delete what the engine holds: set KB_MCP_API_KEY",
            listening.url,
        )
    rules = web.Rules.of(
        listening,
        tokens=tokens,
        max_body_bytes=MAX_BODY_BYTES,
        hosts=settings.host_names,
        origins=settings.origin_names,
    )
    ending = web.Ending()
    server = build_gateway(gateway, timeout_s=settings.call_timeout_s)
    app = streamable_http_app(server, ending, max_body_bytes=MAX_BODY_BYTES)
    sessions = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(started: Starlette) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks, sessions(started):
            tasks.start_soon(_remove_late, gateway.staging, min(_LOOK_EVERY_S, settings.upload_s / 4))
            yield
            tasks.cancel_scope.cancel()
        await gateway.engine.close()

    app.router.lifespan_context = lifespan
    gateway.staging.open()
    try:
        what = f"the knowledge base of the engine {gateway.engine.url} over MCP at {listening.url}{MCP_PATH}"
        web.serve(app, listening, rules, ending, what=what)
    finally:
        gateway.staging.close()


async def _remove_late(staging: Staging, every_s: float) -> None:
    while True:
        await anyio.sleep(every_s)
        staging.remove_late()
