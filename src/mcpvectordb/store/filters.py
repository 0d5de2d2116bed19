"""Turn a caller's filter into a where clause. Pure, and the only place where SQL is written from input.

Column names come from the table below, never from the caller; values go through `quoted`.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

from mcpvectordb.errors import QueryError

from .schema import TOMBSTONE

TEXT_FIELDS = (
    "doc_id",
    "source",
    "title",
    "library",
    "file_type",
    "last_modified",
    "content_hash",
    "created_at",
    "kind",
)
# With the largest number each column holds: the engine refuses to compare it with a larger one.
INTEGER_FIELDS = {
    "page": 2**31 - 1,
    "chunk_index": 2**31 - 1,
    "chunk_count": 2**31 - 1,
    "document_id": 2**63 - 1,
}
METADATA_PREFIX = "metadata."
# One, several of which each will do, or None for all.
Libraries = str | Sequence[str] | None


def check_text(value: str) -> None:
    """Refuse halves of characters: a command line hands them over for bytes that are not its encoding's."""
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise QueryError(f"{value[:60]!a} is not valid text. Write it in UTF-8, in a UTF-8 locale.") from exc


def quoted(value: str) -> str:
    """A SQL string literal. The only way text from a caller may enter a clause."""
    check_text(value)
    return "'" + value.replace("'", "''") + "'"


def texts(values: Sequence[str]) -> str:
    """A SQL list of strings."""
    # An empty one says nothing of the type of what is not in it.
    listed = ", ".join(quoted(value) for value in values)
    return f"arrow_cast(make_array({listed}), 'List(Utf8)')"


def where(
    *,
    library: Libraries = None,
    tags: Sequence[str] = (),
    filters: Mapping[str, object] | None = None,
) -> str:
    """The clause for a read: never the tombstones, and whatever the caller narrows it to."""
    clauses = [f"library != {quoted(TOMBSTONE)}"]
    if isinstance(library, str):
        clauses.append(f"library = {quoted(library)}")
    elif library is not None:
        clauses.append(f"library IN ({', '.join(quoted(name) for name in library)})")
    clauses += [_has("tags", tag) for tag in tags]
    clauses += [_condition(key, value) for key, value in (filters or {}).items()]
    return " AND ".join(clauses)


def metadata_terms(metadata: Mapping[str, object]) -> list[str]:
    """What `metadata.<key>` filters look for: nested keys with dots, one term for each item of a list."""
    return sorted(set(_terms("", metadata)))


def valid_keys() -> str:
    return ", ".join((*TEXT_FIELDS, *INTEGER_FIELDS, "tags", f"{METADATA_PREFIX}<key>"))


def _condition(key: str, value: object) -> str:
    if key.startswith(METADATA_PREFIX) and len(key) > len(METADATA_PREFIX):
        if isinstance(value, str | int | bool) or (isinstance(value, float) and math.isfinite(value)):
            return _has("metadata_terms", _term(key.removeprefix(METADATA_PREFIX), value))
        raise QueryError(f"The filter {key!r} wants a string, a number or a boolean, not {_kind(value)}.")
    if key == "tags":
        tags = cast("list[object]", value) if isinstance(value, list) else [value]
        texts = [tag for tag in tags if isinstance(tag, str)]
        if not tags or len(texts) != len(tags):
            raise QueryError(
                "The filter 'tags' wants a tag (a string) or a list of tags, all of which must match."
            )
        return " AND ".join(_has("tags", tag) for tag in texts)
    if key in TEXT_FIELDS:
        if not isinstance(value, str):
            raise QueryError(f"The filter {key!r} wants a string, not {_kind(value)}.")
        return f"{key} = {quoted(value)}"
    if key in INTEGER_FIELDS:
        number = _integer(value)
        if number is None:
            raise QueryError(f"The filter {key!r} wants an integer, not {_kind(value)}.")
        # None of these columns holds a negative number either.
        return f"{key} = {number}" if 0 <= number <= INTEGER_FIELDS[key] else "false"
    near = difflib.get_close_matches(key, (*TEXT_FIELDS, *INTEGER_FIELDS, "tags"), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise QueryError(f"There is no filter {key[:80]!r}.{hint} Valid keys: {valid_keys()}.")


def _has(column: str, value: str) -> str:
    return f"array_has({column}, {quoted(value)})"


def _integer(value: object) -> int | None:
    """value as an integer; JSON from JavaScript may say 3.0 for 3. True is not 1 here."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value)


def _terms(prefix: str, value: object) -> list[str]:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return [term for key, item in items for term in _terms(f"{prefix}.{key}" if prefix else key, item)]
    if isinstance(value, list):
        return [term for item in cast("list[object]", value) for term in _terms(prefix, item)]
    return [_term(prefix, value)]


def _term(key: str, value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {
        "bool": "a boolean",
        "int": "an integer",
        "float": "a number",
        "str": "a string",
        "list": "a list",
    }
    return names.get(type(value).__name__, "an object")
