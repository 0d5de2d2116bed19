"""Options that several commands share, and the types of what is typed after them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])

# Filters of these fields want an integer; those of metadata, whatever was stored.
_NUMBERS = ("page", "chunk_index", "chunk_count", "document_id")
_METADATA = "metadata."


class JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object, such as '{"project": "storage"}'."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            found = json.loads(value)
        except ValueError as exc:
            self.fail(f'{value!r} is not JSON: {exc}. Quote it: \'{{"key": "value"}}\'.', param, ctx)
        except RecursionError:
            self.fail("It is nested too deep. Flatten it.", param, ctx)
        if not isinstance(found, dict):
            self.fail(f'{value!r} is not a JSON object. Write \'{{"key": "value"}}\'.', param, ctx)
        return cast("dict[str, Any]", found)


class Filter(click.ParamType[dict[str, Any]]):
    """A JSON object, or `key=value`."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        text = str(value)
        if text.lstrip().startswith("{"):
            return JsonObject().convert(text, param, ctx)
        key, equals, wanted = text.partition("=")
        if not equals or not key.strip():
            self.fail(f"{text!r} is neither a JSON object nor key=value, such as file_type=pdf.", param, ctx)
        key = key.strip()
        return {key: _value(wanted) if key in _NUMBERS or key.startswith(_METADATA) else wanted}


def _value(text: str) -> object:
    """A number or a truth value as such; anything else is the text that it is, and so is "7" in quotes."""
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, str | int | float) and is_finite else text


def _refuse_constant(name: str) -> object:
    raise ValueError(
        f"{name} is not JSON"
    )  # but Python reads NaN and Infinity, which may be somebody's words


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
only_library = click.option("--library", metavar="NAME", help="Only this library.")
only_tags = click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    help="Only what has this tag; repeated, all of them.",
)
into_library = click.option(
    "--library", metavar="NAME", default="default", show_default=True, help="Library to index into."
)


def limit(default: int, most: int, what: str) -> Callable[[F], F]:
    return click.option(
        "-n",
        "--limit",
        metavar="N",
        default=default,
        show_default=True,
        type=click.IntRange(1, most),
        help=f"Most {what} to show.",
    )


offset = click.option(
    "--offset",
    metavar="N",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Pass over so many.",
)
