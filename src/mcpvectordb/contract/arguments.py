"""The border for arguments: what a client sends becomes what a tool takes, or one sentence that says why not.

Clients send objects and lists as JSON strings, and integers as 5.0. Those are taken as what they mean;
but where a string is allowed it is never parsed, so a library may be called `null`, `true` or `[1]`.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from mcpvectordb.errors import ArgumentError

Schema = Mapping[str, Any]
ArgumentsT = TypeVar("ArgumentsT", bound="Arguments")

_MOST_DEPTH = 50
_SHOWN_CHARS = 60


class Arguments(BaseModel):
    """Base of every tool's arguments: nothing unknown, nothing converted behind our back."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@cache
def input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def parse(
    tool: str,
    arguments: type[ArgumentsT],
    raw: Mapping[str, Any],
    *,
    what: str = "argument",
    strict: bool = False,
) -> ArgumentsT:
    """raw as the tool's arguments, or an ArgumentError that calls one of them what.

    Strict takes no string for what it says: a body of HTTP has to be what its description says.
    """
    properties = cast("Mapping[str, Schema]", input_schema(arguments)["properties"])
    for name in raw:
        if name not in properties:
            raise ArgumentError(_unknown(what, name, tool, list(properties)))
    values = {
        name: value if strict and isinstance(value, str) else _coerced(value, properties[name])
        for name, value in raw.items()
    }
    for name, value in values.items():
        _check_text(tool, name, value)
    try:
        return arguments.model_validate(values)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "arguments"
        wanted = _described(properties.get(name, {}))
        if first["type"] == "missing":
            raise ArgumentError(f"{tool} needs {name!r}: {wanted}.") from exc
        raise ArgumentError(f"{name!r} of {tool} must be {wanted}, not {_shown(values.get(name))}.") from exc


def unknown_tool(name: str, tools: Sequence[str]) -> ArgumentError:
    near = difflib.get_close_matches(name, tools, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"The tools are: {', '.join(tools)}."
    return ArgumentError(f"There is no tool {name[:_SHOWN_CHARS]!r}. {hint}")


def _unknown(what: str, name: str, tool: str, valid: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, valid, n=1)
    takes = f"It takes: {', '.join(valid)}." if valid else "It takes none."
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return f"{tool} has no {what} {name[:_SHOWN_CHARS]!r}. {hint}{takes}"


def _types(schema: Schema) -> set[str]:
    """The JSON types a property admits."""
    branches = cast("Sequence[Schema]", schema.get("anyOf", (schema,)))
    found: set[str] = set()
    for branch in branches:
        named = branch.get("type")
        found |= set(cast("list[str]", named)) if isinstance(named, list) else {str(named)}
    return found


def _coerced(value: object, schema: Schema) -> object:
    types = _types(schema)
    if isinstance(value, str) and "string" not in types:
        try:
            parsed: object = json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return value  # validation says what is wanted
        if isinstance(parsed, bool):
            return parsed if "boolean" in types else value
        if isinstance(parsed, int | float):
            return _coerced(parsed, schema)
        if isinstance(parsed, dict):
            return cast("object", parsed) if "object" in types else value
        if isinstance(parsed, list):
            return cast("object", parsed) if "array" in types else value
        return None if parsed is None and types & {"object", "array"} and "null" in types else value
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        return int(value)
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _check_text(tool: str, name: str, value: object, depth: int = 0) -> None:
    """Refuse what can be neither stored nor sent back.

    Half a character (a lone surrogate) is legal JSON but not UTF-8; NaN and 1e999 are no JSON, yet parse.
    """
    if depth > _MOST_DEPTH:
        raise ArgumentError(f"{name!r} of {tool} is nested more than {_MOST_DEPTH} levels deep. Flatten it.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise ArgumentError(
                f"{name!r} of {tool} holds half a character (a lone surrogate). Remove it."
            ) from exc
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ArgumentError(
                f"{name!r} of {tool} holds {value}, which is not a number in JSON. Remove it."
            )
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            _check_text(tool, name, key, depth + 1)
            _check_text(tool, name, item, depth + 1)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            _check_text(tool, name, item, depth + 1)


def _described(schema: Schema) -> str:
    """`an integer from 1 to 100`, `a string or null`."""
    branches = cast("Sequence[Schema]", schema.get("anyOf", (schema,)))
    return " or ".join(_described_one(branch) for branch in branches)


def _described_one(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(choice) for choice in schema["enum"])
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = (
        f" from {low} to {high}"
        if low is not None and high is not None
        else f" of {low} or more"
        if low is not None
        else ""
    )
    if schema.get("type") == "array":
        return _described_list(schema)
    names = {
        "string": "a string",
        "integer": "an integer",
        "number": "a number",
        "boolean": "true or false",
        "object": "an object",
        "null": "null",
    }
    return names.get(str(schema.get("type")), "a value") + bounds + _length(schema)


def _described_list(schema: Schema) -> str:
    """`a list of strings of 1 to 200 characters (100 at most)`."""
    most = schema.get("maxItems")
    return f"a list of strings{_length(schema.get('items', {}))}" + (f" ({most} at most)" if most else "")


def _length(schema: Schema) -> str:
    short, long = schema.get("minLength"), schema.get("maxLength")
    if long is not None:
        return f" of {short or 0} to {long} characters"
    return " that is not empty" if short else ""


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    length = len(value) if isinstance(value, str) else len(text)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({length} characters)"
