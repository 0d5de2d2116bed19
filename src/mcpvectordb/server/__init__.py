"""The MCP server: built from a finished VectorDB, run over stdio. Owns the MCP SDK.

Built on the SDK's low-level server: the high-level one parses strings as JSON where a string is meant,
ignores unknown arguments, and answers bad ones before our code sees them.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcpvectordb import __version__
from mcpvectordb.vectordb import VectorDB

from .border import Border
from .tools import INSTRUCTIONS, TOOLS

__all__ = ["build_server", "serve_stdio"]


def build_server(
    db: VectorDB, *, read_only: bool = False, closing: threading.Event | None = None
) -> Server[Any]:
    """The server; read_only leaves out the tools that write.

    closing is set before the server cancels calls itself: a call cancelled earlier was cancelled by its
    client.
    """
    tools = tuple(tool for tool in TOOLS if tool.read_only or not read_only)
    border = Border(db, tools, timeout_s=db.settings.call_timeout_s, closing=closing)
    listed = ListToolsResult(tools=[tool.info() for tool in tools])

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return listed

    async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        async def report(percent: int, message: str) -> None:
            # Does nothing for a client that gave no progress token.
            await ctx.session.report_progress(percent, 100, message)

        return await border.call(params.name, params.arguments or {}, report)

    return Server(
        "mcpvectordb",
        version=__version__,
        title="mcpvectordb",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve_stdio(db: VectorDB, *, read_only: bool = False) -> None:
    """Serve until stdin closes."""
    db.serve_jobs()
    closing = threading.Event()
    server = build_server(db, read_only=read_only, closing=closing)

    async def run() -> None:
        async with stdio_server() as (read, write), anyio.create_task_group() as tasks:
            relayed, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()

            async def relay() -> None:
                async with relayed:
                    async for item in read:
                        await relayed.send(_read_again(item) if isinstance(item, ValidationError) else item)
                    # The SDK cancels what still runs once its stream ends.
                    closing.set()

            tasks.start_soon(relay)
            await server.run(messages, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    anyio.run(run)


def _read_again(refused: ValidationError) -> SessionMessage | Exception:
    """A line the SDK's strict parser refused, read by Python's; the refusal if that cannot either.

    The SDK drops such a line without an answer, and its client waits for ever. JavaScript sends half a
    character (a cut emoji) as it stands, so this is no rarity; our border answers it in a sentence.
    """
    try:
        # A shell of Windows puts a byte order mark in front of what it sends first.
        line = str(refused.errors()[0]["input"]).removeprefix("\ufeff")
        message = json.loads(line, parse_int=_integer)
        return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
    except (ValueError, TypeError, RecursionError):
        return refused


def _integer(digits: str) -> int | float:
    """An integer; one with more digits than Python reads is infinite, which our border refuses."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)
