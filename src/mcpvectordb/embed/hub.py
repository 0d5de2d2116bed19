"""The hub and the folder on this machine where its files are kept, laid out as huggingface_hub lays it out.

So files that another program has downloaded are found here, and ours are found there. Only values and
paths: nothing in this module goes to the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mcpvectordb.errors import ConfigError

_ENDPOINT = "https://huggingface.co"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REPOSITORY = re.compile(rf"(?P<repository>{_NAME}/{_NAME})(?:@(?P<revision>{_NAME}(?:/{_NAME})*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ON = frozenset({"1", "on", "yes", "true"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Hub:
    cache: Path  # holds a folder for each repository
    endpoint: str = _ENDPOINT
    is_offline: bool = False
    connect_s: float = 10.0  # no answer to the first request within this: the hub is away
    stall_s: float = 30.0  # no byte within this: the download is given up

    @classmethod
    def of(cls, environ: Mapping[str, str], *, connect_s: float = 10.0, stall_s: float = 30.0) -> Hub:
        """The hub as Hugging Face's own variables describe it."""
        endpoint = environ.get("HF_ENDPOINT", "").rstrip("/") or _ENDPOINT
        if not endpoint.lower().startswith(("https://", "http://")):
            raise ConfigError(f"HF_ENDPOINT must begin with https:// or http://, not {endpoint!r}.")
        if not _is_address(endpoint):
            raise ConfigError(f"HF_ENDPOINT is not a valid address: {endpoint!r}.")
        return cls(
            cache=_cache(environ),
            endpoint=endpoint,
            is_offline=environ.get("HF_HUB_OFFLINE", "").lower() in _ON,
            connect_s=connect_s,
            stall_s=stall_s,
        )

    def folder(self, repository: str) -> Path:
        return self.cache / f"models--{repository.replace('/', '--')}"

    def snapshot(self, repository: str, revision: str) -> Path:
        """Where the files of a repository at a commit are, once they are here."""
        return self.folder(repository) / "snapshots" / revision

    def partial(self, repository: str, key: str) -> Path:
        return self.folder(repository) / "blobs" / f"{key}.incomplete"

    def lock(self, repository: str, revision: str) -> Path:
        locks = self.cache / ".locks" / self.folder(repository).name
        return locks / f"mcpvectordb-{revision}.lock"

    def commit(self, repository: str, revision: str) -> str:
        """The commit that a revision last meant here; "" if that is not known."""
        if is_commit(revision):
            return revision
        try:
            found = (self.folder(repository) / "refs" / revision).read_text(encoding="utf-8").strip()
        except OSError:
            return ""
        return found if is_commit(found) else ""


def is_commit(revision: str) -> bool:
    return _COMMIT.fullmatch(revision) is not None


def parse_repository(text: str) -> tuple[str, str] | None:
    """("organisation/name", "revision" or ""), or None if text does not name a repository."""
    match = _REPOSITORY.fullmatch(text)
    # Names become folders: none may lead out of the cache.
    if match is None or ".." in text:
        return None
    return match["repository"], match["revision"] or ""


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        return False


def _cache(environ: Mapping[str, str]) -> Path:
    for name, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if environ.get(name):
            return _expanded(name, environ[name]) / below
    return _expanded("XDG_CACHE_HOME", environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def _expanded(name: str, path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:  # ~somebody who is not known here
        raise ConfigError(f"{name} is not valid: {exc} (it is {path!r}).") from exc
