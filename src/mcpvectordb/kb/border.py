"""Where the gateway's tools meet the protocol: every outcome of a call becomes an answer in one shape."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import httpx
from mcp_types import CallToolResult

from mcpvectordb.contract.answers import INTERNAL_ERROR, answer, error_payload
from mcpvectordb.contract.arguments import parse, unknown_tool
from mcpvectordb.errors import VectorDBError

from .client import said
from .tools import Gateway, Tool

logger = logging.getLogger(__name__)

_UNAUTHORIZED = 401


class Border:
    def __init__(self, gateway: Gateway, tools: Sequence[Tool], *, timeout_s: float) -> None:
        self._gateway = gateway
        self._tools = {tool.name: tool for tool in tools}
        self._timeout_s = timeout_s

    async def call(self, name: str, raw: Mapping[str, Any]) -> CallToolResult:
        started = time.perf_counter()
        outcome = "given up"
        logged = name if name in self._tools else ascii(name[:60])
        try:
            tool = self._tools.get(name)
            if tool is None:
                raise unknown_tool(name, list(self._tools))
            arguments = parse(name, tool.arguments, raw)
            with anyio.fail_after(self._timeout_s):
                payload = await tool.call(self._gateway, arguments)
            outcome = "ok"
            return answer(payload)
        except VectorDBError as exc:
            outcome = type(exc).__name__
            return answer(error_payload(str(exc)), is_error=True)
        except httpx.HTTPStatusError as exc:
            outcome = f"status {exc.response.status_code}"
            return answer(error_payload(self._refusal(exc)), is_error=True)
        except TimeoutError:
            outcome = "too late"
            message = f"{name} had no answer within {self._timeout_s:g} s: the engine is busy. Try again."
            return answer(error_payload(message), is_error=True)
        except Exception:
            outcome = "internal error"
            logger.exception("%s failed in a way that is a bug of ours", logged)
            return answer(error_payload(INTERNAL_ERROR), is_error=True)
        finally:
            logger.info("%s: %s in %.0f ms", logged, outcome, (time.perf_counter() - started) * 1000)

    def _refusal(self, exc: httpx.HTTPStatusError) -> str:
        if exc.response.status_code == _UNAUTHORIZED:
            return (
                f"The engine at {self._gateway.engine.url} refused the gateway's key. Start the gateway with "
                "the engine's own KB_API_KEY."
            )
        return said(exc)
