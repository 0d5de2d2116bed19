"""The knowledge base's gateway: the `kb_*` tools over MCP, each a call to the engine. Holds no data.

Never imports the core: it starts in a moment beside an engine that is on another machine, or away.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from mcpvectordb import __version__

from .border import Border
from .tools import INSTRUCTIONS, TOOLS, Gateway

__all__ = ["build_gateway"]


def build_gateway(gateway: Gateway, *, timeout_s: float) -> Server[Any]:
    border = Border(gateway, TOOLS, timeout_s=timeout_s)
    listed = ListToolsResult(tools=[tool.info() for tool in TOOLS])

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return listed

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return await border.call(params.name, params.arguments or {})

    return Server(
        "mcpvectordb-kb",
        version=__version__,
        title="mcpvectordb knowledge base",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
