"""`mcpvectordb serve`: one server for many clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .base import configured, end, ended_by_interrupt

if TYPE_CHECKING:
    from mcpvectordb.server.http import HttpTransport


@click.command()
@click.option(
    "--transport",
    type=click.Choice(["streamable-http", "sse", "stdio"]),
    default="streamable-http",
    show_default=True,
    help="How clients speak to it; sse is for old ones.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--read-only", is_flag=True, help="Without the tools that write.")
def serve(transport: HttpTransport | str, host: str, port: int, read_only: bool) -> None:
    """Serve many clients at once over HTTP, until SIGTERM or Ctrl-C.

    Beyond this machine's own addresses it takes a token: MCPVECTORDB_TOKEN or MCPVECTORDB_TOKEN_FILE.

    \b
    Example:
        mcpvectordb serve --port 8765
        claude mcp add --transport http mcpvectordb http://127.0.0.1:8765/mcp
    """
    config = configured()
    # The SDK takes half a second to import: --help does without.
    from mcpvectordb.server import serve_stdio  # noqa: PLC0415
    from mcpvectordb.server.http import serve_http  # noqa: PLC0415
    from mcpvectordb.vectordb import VectorDB  # noqa: PLC0415

    db = VectorDB(config)
    if transport == "streamable-http" or transport == "sse":
        serve_http(db, transport, host=host, port=port, read_only=read_only)
    else:
        with ended_by_interrupt(db):
            serve_stdio(db, read_only=read_only)
    end(db)
