"""The shape of every tool's answer: structured content and the same as text, and errors that look alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

INTERNAL_ERROR = "Internal error: this is a bug in mcpvectordb, and its log on stderr has the details."


class Result(BaseModel):
    """Base of the answers. Optional fields that are empty are left out of the JSON."""

    def payload(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


_ERROR_SCHEMA: dict[str, Any] = {
    "title": "Error",
    "type": "object",
    "properties": {
        "status": {"const": "error", "type": "string"},
        "error": {"type": "string", "description": "What happened, and what to do"},
    },
    "required": ["status", "error"],
    "additionalProperties": False,
}


def error_payload(message: str) -> dict[str, str]:
    return {"status": "error", "error": message}


def output_schema(*results: type[BaseModel]) -> dict[str, Any]:
    """The published schema: a success or an error. TypeScript clients hold error answers to it too."""
    successes = [result.model_json_schema(mode="serialization") for result in results]
    definitions = {name: body for one in successes for name, body in one.pop("$defs", {}).items()}
    schema: dict[str, Any] = {"type": "object", "anyOf": [*successes, _ERROR_SCHEMA]}
    return schema | {"$defs": definitions} if definitions else schema


def answer(payload: Mapping[str, Any], *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(payload, ensure_ascii=False))],
        structured_content=dict(payload),
        is_error=is_error,
    )
