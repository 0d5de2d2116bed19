"""Which files of a folder are to be indexed: the walk, and those that have not changed left out.

It reads no document. An unchanged folder costs the walk and one look at what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mcpvectordb import guard, sources
from mcpvectordb.errors import SourceError, SourceForbidden, SourceNotFound
from mcpvectordb.models import Header

from .walk import Found, Options, Walker

__all__ = ["Found", "Options", "Plan", "is_unchanged", "plan", "resolve"]

# File systems' clocks go in steps of up to two seconds, and what is written twice within one looks the same.
_SETTLED_US = 2_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    folder: Path
    changed: list[Found]  # to be indexed, in the order of the walk
    unchanged: int
    ignored: Mapping[str, int] = field(default_factory=dict[str, int])  # files and folders, by reason
    differing: int = 0  # of the unchanged: those that were indexed with other tags or metadata


def plan(
    folder: Path,
    options: Options,
    headers: Mapping[str, Header],
    *,
    refresh: bool = False,
    differs: Callable[[Header], bool] | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Plan:
    """What there is to do for a folder that is resolved; headers are of the documents of its library.

    differs is asked of unchanged files whether more than their content was to be other.
    """
    walker = Walker(folder, options, checkpoint)
    changed: list[Found] = []
    unchanged = differing = 0
    for found in walker.files():
        header = headers.get(found.path)
        if header is None or refresh or not is_unchanged(found, header):
            changed.append(found)
        else:
            unchanged += 1
            differing += differs is not None and differs(header)
    ignored = dict(sorted(walker.ignored.items()))
    return Plan(folder=folder, changed=changed, unchanged=unchanged, ignored=ignored, differing=differing)


def is_unchanged(found: Found, header: Header) -> bool:
    """Whether a file is as it was when it was indexed, as far as its size and time tell."""
    if found.size != header.size or found.mtime_ns != header.mtime_ns:
        return False
    return found.mtime_ns // 1000 + _SETTLED_US <= _microseconds(header.created_at)


def resolve(folder: str) -> Path:
    """The folder that is meant, links resolved, or an error that says why it cannot be walked."""
    resolved = sources.resolve(folder, what="folder")
    # Asked of something in it: a folder of keys is not itself in one.
    reason = guard.secret_reason(resolved / "any")
    if reason is not None:
        raise SourceForbidden(f"{resolved} was not read: {reason}. Choose another folder.")
    try:
        is_folder = resolved.is_dir()
        exists = is_folder or resolved.exists()
    except OSError as exc:
        raise SourceError(f"{resolved} cannot be read: {exc.strerror or exc}.") from exc
    if not exists:
        raise SourceNotFound(sources.missing(resolved, what="folder"))
    if not is_folder:
        raise SourceError(f"{resolved} is not a folder. Name its folder, or index it alone as a file.")
    return resolved


def _microseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1_000_000)
