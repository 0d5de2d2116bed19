"""A small MCP server on the hosting of web/, for what can be seen only with tools that a test controls.

Usage: hosting.py streamable-http|sse FOLDER GRACE_S [TOKEN…]. `wait` answers once FOLDER/go is there.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from mcpvectordb import web
from mcpvectordb.web.mcp import MCP_PATH, SSE_PATH, sse_app, streamable_http_app

logger = logging.getLogger("hosting")
STEPS = 3


def build(ending: web.Ending, folder: Path) -> Server[Any]:
    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        schema = {"type": "object"}
        return ListToolsResult(tools=[Tool(name=name, input_schema=schema) for name in ("count", "wait")])

    async def call_tool(ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        if params.name == "count":
            for step in range(1, STEPS + 1):
                await ctx.session.report_progress(step, STEPS, f"step {step}")
        else:
            logger.info("waiting")
            try:
                while not (folder / "go").exists():
                    await anyio.sleep(0.01)
            except anyio.get_cancelled_exc_class():
                logger.info("cancelled by %s", "the end" if ending.closing.is_set() else "its client")
                raise
        return CallToolResult(content=[TextContent(type="text", text="done")])

    return Server("hosted", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def main() -> None:
    transport, folder, grace_s, *tokens = sys.argv[1:]
    logging.basicConfig(stream=sys.stderr, level="INFO", format="%(message)s")
    logging.getLogger("mcp").setLevel("WARNING")
    ending = web.Ending()
    ending.on_closing(lambda: logger.info("told to give up"))
    listening = web.listen("127.0.0.1", 0, open_without_token=None)
    make, path = (streamable_http_app, MCP_PATH) if transport == "streamable-http" else (sse_app, SSE_PATH)
    app = make(build(ending, Path(folder)), ending, max_body_bytes=10_000)
    rules = web.Rules.of(listening, tokens=web.Tokens(tokens), max_body_bytes=10_000)
    web.serve(app, listening, rules, ending, what=f"tests at {listening.url}{path}", grace_s=float(grace_s))


if __name__ == "__main__":
    main()
