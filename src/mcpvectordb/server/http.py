"""The MCP server over HTTP: the same tools as over stdio, for many clients at once."""

from __future__ import annotations

from typing import Literal

from mcpvectordb import web
from mcpvectordb.vectordb import VectorDB
from mcpvectordb.web.mcp import MCP_PATH, SSE_PATH, sse_app, streamable_http_app

from . import build_server

HttpTransport = Literal["streamable-http", "sse"]

# A request may carry the longest text that is taken, and this much around it.
_BESIDE_TEXT_MB = 4
_NO_TOKEN = (
    "Without a token whoever reaches it could read and delete your documents, and read files of this "
    "machine through it: set MCPVECTORDB_TOKEN or MCPVECTORDB_TOKEN_FILE, or listen at 127.0.0.1."
)


def serve_http(
    db: VectorDB, transport: HttpTransport, *, host: str, port: int, read_only: bool = False
) -> None:
    """Serve until told to end by a signal, or a ConfigError that says why not."""
    settings = db.settings
    tokens = web.read_tokens(settings.token, settings.token_file, variable="MCPVECTORDB_TOKEN")
    listening = web.listen(host, port, open_without_token=None if tokens else _NO_TOKEN)
    max_body_bytes = (settings.max_text_mb + _BESIDE_TEXT_MB) * 1024 * 1024
    rules = web.Rules.of(
        listening,
        tokens=tokens,
        max_body_bytes=max_body_bytes,
        hosts=settings.allowed_host_names,
        origins=settings.allowed_origin_names,
    )
    ending = web.Ending()
    ending.on_closing(db.stop)
    db.serve_jobs()
    server = build_server(db, read_only=read_only, closing=ending.closing)
    make, path = (streamable_http_app, MCP_PATH) if transport == "streamable-http" else (sse_app, SSE_PATH)
    app = make(server, ending, max_body_bytes=max_body_bytes)
    what = f"MCP ({transport}) at {listening.url}{path}"
    web.serve(app, listening, rules, ending, what=what, grace_s=settings.shutdown_s)
