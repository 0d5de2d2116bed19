"""Bearer tokens: read once, compared in constant time, never shown."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from mcpvectordb.errors import ConfigError

logger = logging.getLogger(__name__)

# What a header carries unchanged through every proxy.
_TOKEN = re.compile(r"[\x21-\x7e]+")
_MOST_FILE_BYTES = 1_000_000


class Tokens:
    """Who may come in. Empty: everybody."""

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        # Of the same length whatever the token's: a comparison of unequal lengths ends at once.
        self._digests = tuple({_digest(token.encode()): None for token in tokens})

    def __bool__(self) -> bool:
        return bool(self._digests)

    def client(self, authorization: bytes | None) -> str | None:
        """A name for whoever sent this Authorization header, the same for the same token; None if unknown."""
        scheme, _, given = (authorization or b"").strip().partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        digest = _digest(given.strip())
        # All of them, always: stopping at the first match would tell its place.
        matches = [known for known in self._digests if hmac.compare_digest(known, digest)]
        return matches[0].hex()[:16] if matches else None


def read_tokens(token: str, file: Path | None, *, variable: str) -> Tokens:
    """The token of a setting and those of a file, one a line (# begins a comment), or a ConfigError.

    variable is the setting's name; the file's is the same with _FILE behind it.
    """
    found: list[str] = []
    if token:
        found.append(_checked(token.strip(), variable))
    if file is not None:
        name = f"{variable}_FILE"
        lines = [line.strip() for line in _read(file, name).splitlines()]
        of_file = [_checked(line, name) for line in lines if line and not line.startswith("#")]
        # An empty file, half written perhaps, must not open the server to everybody.
        if not of_file:
            raise ConfigError(f"{name} holds no token: {file}. Write one token on each line.")
        found += of_file
    return Tokens(found)


def _read(file: Path, name: str) -> str:
    try:
        path = file.expanduser()
        with path.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            # Reading from a pipe would wait for ever.
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{name} is not a file: {file}.")
            data = opened.read(_MOST_FILE_BYTES + 1)
    except (OSError, RuntimeError) as exc:
        raise ConfigError(f"{name} cannot be read: {exc}. Name a file with one token on each line.") from exc
    if len(data) > _MOST_FILE_BYTES:
        raise ConfigError(f"{name} is not a list of tokens: {file} is too large for that.")
    if os.name == "posix" and mode & stat.S_IROTH:
        logger.warning("%s can be read by every user of this machine: chmod 600 %s", name, file)
    return data.decode("utf-8-sig", errors="replace")


def _checked(token: str, name: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{name} holds a token that no header can carry. Use printable ASCII without spaces, "
            "as `openssl rand -hex 32` gives."
        )
    return token


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
