"""Hosting: what every HTTP server of ours stands on. Owns uvicorn and starlette, and knows of no document.

A server listens (`listen`, which refuses to be open to the network without a token), says who may come in
(`Rules`), and is run until it is told to end (`serve`); running calls are then let finish (`Ending`).
`web.mcp` makes the application for an MCP server; it is imported by name, because the engine needs none.
"""

from __future__ import annotations

from .bind import Listening, listen
from .ending import Ending
from .gate import CLIENT, Rules, http_error
from .host import serve
from .tokens import Tokens, read_tokens

__all__ = ["CLIENT", "Ending", "Listening", "Rules", "Tokens", "http_error", "listen", "read_tokens", "serve"]
