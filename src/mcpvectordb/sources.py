"""Read what is to be indexed: a path or an address becomes bytes with a name, within the caps and guards."""

from __future__ import annotations

import difflib
import os
import stat
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Literal

from . import guard
from .errors import SourceError, SourceForbidden, SourceNotFound, SourceTooLarge
from .models import Source

_MB = 1024 * 1024
# The longest step of a file system's clock (FAT's).
_SETTLED_NS = 2_000_000_000
# A folder may hold millions of files; a suggestion is not worth reading all their names.
_NAMES_LOOKED_AT = 5000


def read_file(path: str, *, library: str, max_file_mb: int) -> Source:
    """The file at path, absolute or relative to the working directory, `~` and links resolved."""
    resolved = resolve(path)
    reason = guard.secret_reason(resolved)
    if reason is not None:
        raise SourceForbidden(f"{resolved} was not read: {reason}. Choose another file.")
    try:
        info = resolved.stat()
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise SourceNotFound(missing(resolved)) from exc
    except OSError as exc:
        raise SourceError(f"{resolved} cannot be read: {exc.strerror or exc}.") from exc
    special = guard.special_reason(info.st_mode)
    if special == "a folder":
        raise SourceError(f"{resolved} is a folder. Name one of its files.")
    if special is not None:
        raise SourceForbidden(f"{resolved} was not opened: it is {special}. Choose a regular file.")
    before_ns = time.time_ns()
    data, info = _read(resolved, max_file_mb)
    if guard.holds_private_key(data[:1000]):
        raise SourceForbidden(f"{resolved} was not indexed: it holds a private key. Choose another file.")
    return Source(
        name=str(resolved),
        library=library,
        kind="file",
        data=data,
        file_name=resolved.name,
        # Not from st_mtime: as a float, the last nanosecond of a second is the next second.
        last_modified=datetime.fromtimestamp(info.st_mtime_ns // 1_000_000_000, UTC).isoformat(),
        # Written again within a step of the file system's clock, it would look the same: not to be trusted.
        mtime_ns=info.st_mtime_ns if info.st_mtime_ns + _SETTLED_NS <= before_ns else 0,
    )


def read_url(
    url: str,
    *,
    library: str,
    max_file_mb: int,
    timeout_s: float,
    allowed: Sequence[str],
    checkpoint: Callable[[], None],
) -> Source:
    """The document at url, named by the address that was asked for."""
    # httpx takes a fifth of a second to import: only who fetches pays for it.
    from . import fetch  # noqa: PLC0415

    limits = fetch.Limits(max_bytes=max_file_mb * _MB, timeout_s=timeout_s)
    fetched = fetch.fetch(url, limits=limits, allowed=allowed, checkpoint=checkpoint)
    return Source(
        name=fetched.url,
        library=library,
        kind="url",
        data=fetched.data,
        file_name=fetch.effective_name(fetched),
        last_modified=fetched.last_modified,
        etag=fetched.etag,
        charset=fetched.charset,
    )


def resolve(path: str, *, what: Literal["file", "folder"] = "file") -> Path:
    """The absolute path that identifies a file, or of a folder."""
    if not path.strip():
        raise SourceError(f"The path is empty. Give the path of a {what}.")
    if "\0" in path:
        raise SourceError(f"The path holds a NUL character. Give the path of a {what}.")
    if "://" in path:
        is_page = path.lstrip().lower().startswith(("http://", "https://"))
        advice = "Use ingest_url for it" if is_page else f"Give the path of a {what} on this machine"
        raise SourceError(f"{path} is an address, not a path. {advice}.")
    try:
        resolved = Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as exc:  # a loop of links; a user whose home is not known
        raise SourceError(f"{path} cannot be resolved: {str(exc).rstrip('.')}.") from exc
    if not _is_text(str(resolved)):
        raise SourceError(f"{str(resolved)!a} has a name that is not valid text. Rename the {what}.")
    return resolved


def _read(path: Path, max_file_mb: int) -> tuple[bytes, os.stat_result]:
    """The file's bytes and the stat of exactly what was read.

    O_NONBLOCK and the second look guard against a pipe put in the file's place after the first.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise SourceForbidden(f"{path} was not read: it is not a regular file.")
            # Read one byte past the cap rather than trust st_size: the file may be growing.
            data = b"" if info.st_size > max_file_mb * _MB else file.read(max_file_mb * _MB + 1)
            if info.st_size > max_file_mb * _MB or len(data) > max_file_mb * _MB:
                size = max(info.st_size, len(data)) / _MB
                raise SourceTooLarge(
                    f"{path} has {size:.1f} MB; the limit is {max_file_mb} MB. "
                    "Split it, or raise MCPVECTORDB_MAX_FILE_MB."
                )
            return data, info
    except OSError as exc:
        raise SourceError(f"{path} cannot be read: {exc.strerror or exc}.") from exc


def missing(path: Path, *, what: Literal["file", "folder"] = "file") -> str:
    """A sentence that says what is there instead."""
    parent = path.parent
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    if parent != path.parent:
        lacking = path.relative_to(parent).parts[0]
        if (parent / lacking).exists():
            return f"There is no {what} {path}: {parent / lacking} is a file, not a folder."
        return f"There is no {what} {path}: the folder {parent} has no {lacking}."
    try:
        with os.scandir(parent) as entries:
            # Links are not followed: one that loops would raise, and cost all the others.
            names = [
                entry.name
                for entry in islice(entries, _NAMES_LOOKED_AT)
                if entry.is_dir(follow_symlinks=False) == (what == "folder")
            ]
    except OSError:  # not readable: there is nothing to suggest, and the file is missing all the same
        names = []
    names = [name for name in names if _is_text(name) and guard.secret_reason(parent / name) is None]
    by_folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(path.name.casefold(), by_folded, n=3, cutoff=0.6)
    hint = f"Did you mean {', '.join(by_folded[name] for name in near)}?" if near else "Check the path."
    return f"There is no {what} {path}. {hint}"


def _is_text(name: str) -> bool:
    """False for a name whose bytes are not UTF-8: it cannot be stored, nor be sent in an answer."""
    return not any("\ud800" <= char <= "\udfff" for char in name)
