"""`mcpvectordb engine` and `mcpvectordb kb`: a knowledge base for agents on other machines."""

from __future__ import annotations

import click

from mcpvectordb import kb_settings

from .base import configured, end

_PORT = click.IntRange(0, 65535)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=_PORT, default=8000, show_default=True, help="Port; 0 takes a free one.")
def engine(host: str, port: int) -> None:
    """Serve the knowledge base's HTTP API, until SIGTERM or Ctrl-C.

    It sees the library kb alone, unless KB_LIBRARIES names others. Beyond this machine's own addresses it
    takes a key: KB_API_KEY.

    \b
    Example:
        KB_API_KEY=secret mcpvectordb engine --port 8000
    """
    config, settings = configured(), kb_settings.load()
    # The core takes seconds to import: --help does without.
    from mcpvectordb.engine.http import serve_engine  # noqa: PLC0415
    from mcpvectordb.vectordb import VectorDB  # noqa: PLC0415

    db = VectorDB(config)
    try:
        serve_engine(db, settings, host=host, port=port)
    finally:
        end(db)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=_PORT, default=8001, show_default=True, help="Port; 0 takes a free one.")
def kb(host: str, port: int) -> None:
    """Serve the kb_* tools over MCP in front of an engine, until SIGTERM or Ctrl-C.

    It holds no data: the engine is where KB_ENGINE_URL says and takes the key KB_API_KEY. Agents send
    KB_MCP_API_KEY, if that is set.

    \b
    Example:
        KB_API_KEY=secret mcpvectordb kb --port 8001
        claude mcp add --transport http kb http://127.0.0.1:8001/mcp
    """
    configured()
    settings = kb_settings.load()
    # The SDK takes half a second to import: --help does without.
    from mcpvectordb.kb.http import serve_gateway  # noqa: PLC0415

    serve_gateway(settings, host=host, port=port)
