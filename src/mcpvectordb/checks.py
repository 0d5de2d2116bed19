"""What a caller says of a document, checked before anything is read: names, metadata, tags. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .errors import ArgumentError
from .models import Metadata

_MOST_METADATA_BYTES = 64 * 1024
_MOST_NAME_CHARS = 200


def check_name(what: str, name: str, *, most_chars: int = _MOST_NAME_CHARS) -> None:
    """Names are shown in lists and notices, and control characters are ours: see store/schema.py."""
    if not name.strip() or len(name) > most_chars or any(_is_forbidden(c) for c in name):
        raise ArgumentError(
            f"The {what} {name[:40]!r} is not a name: use 1 to {most_chars} characters, "
            "no line breaks or control characters."
        )


def file_name_reason(name: str) -> str:
    """Why this cannot be the name of a file, or "". A name is never a way to somewhere else."""
    if not name.strip() or name.strip() in (".", ".."):
        return "it is no name"
    if "/" in name or "\\" in name:
        return "it is a path; give the name alone"
    if any(_is_forbidden(char) for char in name):
        return "it holds control characters"
    if len(name.encode()) > _MOST_NAME_CHARS:
        return f"it is longer than {_MOST_NAME_CHARS} bytes"
    return ""


def _is_forbidden(char: str) -> bool:
    """Control characters, and halves of a surrogate pair, which no UTF-8 can hold."""
    return ord(char) < 32 or ord(char) == 127 or "\ud800" <= char <= "\udfff"


def check_metadata(metadata: Metadata | None) -> None:
    if metadata is None:
        return
    try:
        # NaN is no JSON, though Python writes and reads it.
        size = len(json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as exc:
        raise ArgumentError(f"The metadata cannot be stored as JSON: {exc}.") from exc
    if size > _MOST_METADATA_BYTES:
        raise ArgumentError(f"The metadata is larger than {_MOST_METADATA_BYTES // 1024} KB. Shorten it.")


def tags_of(tags: Sequence[str] | None) -> tuple[str, ...] | None:
    """Tags in the order given, each once."""
    if tags is None:
        return None
    for tag in tags:
        check_name("tag", tag)
    return tuple(dict.fromkeys(tags))
