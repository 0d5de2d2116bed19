"""Talk to the hub: what a repository holds, and one file at a time, resumed and checked.

Imports httpx, and only when something is fetched; its exceptions become ours here. The hub answers a large
file with a redirect to another host, a small one itself or with a redirect to a path of its own.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mcpvectordb import __version__
from mcpvectordb.errors import EmbeddingError, HubUnavailable

from .hub import Hub, is_commit

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

_MOST_HOPS = 5
# Interruptions in a row that brought not one byte more; one that did starts the count anew.
_MOST_TRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """A file as the hub describes it."""

    size: int
    sha256: str  # "" for a small file, which git itself keeps
    blob: str  # git's hash of it


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    commit: str
    files: Mapping[str, Remote]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Where:
    """What is asked for, for the sentences that say it is not there."""

    repository: str
    revision: str
    path: str


class _Interrupted(Exception):
    """The connection broke; what has arrived is kept."""


class _Stalled(_Interrupted):
    """Nothing came for as long as we wait; asking again would only wait as long again."""


@contextmanager
def connected(hub: Hub) -> Generator[httpx.Client]:
    """A client with our deadlines: the library's own waits for ever on a hub that has gone quiet."""
    import httpx  # noqa: PLC0415 - a fifth of a second, and only who downloads pays for it

    timeout = httpx.Timeout(hub.stall_s, connect=hub.connect_s)
    headers = {
        "user-agent": f"mcpvectordb/{__version__}",
        # Packed bytes could be neither counted nor resumed.
        "accept-encoding": "identity",
    }
    try:
        client = httpx.Client(timeout=timeout, headers=headers, follow_redirects=False)
    except (ImportError, ValueError, httpx.InvalidURL) as exc:
        raise HubUnavailable(
            f"The hub at {hub.endpoint} cannot be reached, because the proxy that HTTPS_PROXY, HTTP_PROXY or "
            f"ALL_PROXY names cannot be used: {exc}"
        ) from exc
    except OSError as exc:  # ssl.SSLError is one too
        raise HubUnavailable(
            f"The hub at {hub.endpoint} cannot be reached, because the certificates that SSL_CERT_FILE or "
            f"SSL_CERT_DIR names cannot be read: {exc}."
        ) from exc
    with client:
        yield client


def list_files(client: httpx.Client, hub: Hub, repository: str, revision: str) -> Listing:
    """What a repository holds at a revision, with sizes and hashes."""
    url = f"{hub.endpoint}/api/models/{repository}/revision/{revision}?blobs=true"
    try:
        with _answer(client, url) as response:
            _check_status(response, hub, _Where(repository=repository, revision=revision, path=""))
            _read(response, hub)
            found = cast("dict[str, Any]", response.json())
            siblings = cast("list[dict[str, Any]]", found["siblings"])
            named = {str(file["rfilename"]): file for file in siblings}
            files = {path: _remote(file) for path, file in named.items() if _stays_inside(path)}
            commit = str(found["sha"])
    except _Interrupted as exc:
        raise HubUnavailable(f"The hub at {hub.endpoint} cannot be reached: {exc}.") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise HubUnavailable(f"{hub.endpoint} does not answer as the hub does. Check HF_ENDPOINT.") from exc
    if not is_commit(commit):
        raise HubUnavailable(f"{hub.endpoint} does not answer as the hub does. Check HF_ENDPOINT.")
    return Listing(commit=commit, files=files)


def _remote(file: Mapping[str, Any]) -> Remote:
    large = cast("Mapping[str, Any]", file.get("lfs") or {})
    return Remote(
        size=int(file.get("size") or large.get("size") or 0),
        sha256=str(large.get("sha256") or ""),
        blob=str(file.get("blobId") or ""),
    )


def fetch(
    client: httpx.Client,
    hub: Hub,
    repository: str,
    revision: str,
    path: str,
    remote: Remote,
    *,
    pinned: str,
    on_bytes: Callable[[int], None],
) -> Path:
    """Bring one file into the cache, going on where an earlier try stopped; where it then is.

    on_bytes is told how much of it is here, and may raise to give up: what has arrived is kept.
    """
    if pinned and remote.sha256 and remote.sha256 != pinned:
        raise EmbeddingError(_differs(repository, path, remote.sha256, pinned))
    url = f"{hub.endpoint}/{repository}/resolve/{revision}/{path}"
    key = pinned or remote.sha256 or hashlib.sha256(f"{revision}/{path}".encode()).hexdigest()
    partial = hub.partial(repository, key)
    target = hub.snapshot(repository, revision) / path
    where = _Where(repository=repository, revision=revision, path=path)
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        was_begun = _size(partial) > 0
        _receive_all(client, hub, url, partial, remote.size, on_bytes, where)
        wrong = _mismatch(partial, pinned, remote)
        if wrong and was_begun:
            # The beginning may be of another file, or damaged: once more, from the start.
            partial.unlink()
            _receive_all(client, hub, url, partial, remote.size, on_bytes, where)
            wrong = _mismatch(partial, pinned, remote)
        if wrong:
            partial.unlink()
            raise EmbeddingError(_differs(repository, path, wrong, pinned or remote.sha256 or remote.blob))
        partial.replace(target)
        return target
    except OSError as exc:
        raise EmbeddingError(
            f"The model's files cannot be kept in {hub.cache}: {exc}. Make room, or set HF_HOME elsewhere."
        ) from exc


def _receive_all(
    client: httpx.Client,
    hub: Hub,
    url: str,
    partial: Path,
    size: int,
    on_bytes: Callable[[int], None],
    where: _Where,
) -> None:
    tries = 0
    while True:
        before = _size(partial)
        try:
            _receive(client, hub, url, partial, before, size, on_bytes, where)
            return
        except _Interrupted as exc:
            # A stall has taken all the time there is for one.
            is_stalled = isinstance(exc, _Stalled)
            tries = 1 if _size(partial) > before else tries + 1
            if is_stalled or tries >= _MOST_TRIES:
                raise HubUnavailable(
                    f"The download of {where.path} from {hub.endpoint} broke off: {exc}. What has arrived is "
                    "kept; `mcpvectordb model download` goes on from there."
                ) from exc
            logger.info("the download of %s broke off (%s), going on", where.path, exc)


def _receive(
    client: httpx.Client,
    hub: Hub,
    url: str,
    partial: Path,
    have: int,
    size: int,
    on_bytes: Callable[[int], None],
    where: _Where,
) -> None:
    import httpx  # noqa: PLC0415 - see connected

    headers = {"range": f"bytes={have}-"} if have else {}
    with _answer(client, url, headers) as response:
        if have and response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is here already; its hash tells whether it is the right one
        _check_status(response, hub, where)
        resumes = response.status_code == HTTPStatus.PARTIAL_CONTENT
        done = have if resumes else 0
        with partial.open("ab" if resumes else "wb") as stream:
            on_bytes(done)
            try:
                # As they come: pieces of a set size would wait in memory and be lost with the connection.
                for piece in response.iter_raw():
                    stream.write(piece)
                    done += len(piece)
                    if size and done > size:
                        return  # its hash tells that it is another; one without an end would fill the disk
                    on_bytes(done)
            except httpx.TransportError as exc:
                raise _interrupted(exc, hub) from exc
            finally:
                stream.flush()
                os.fsync(stream.fileno())
    # An answer that does not say how long it is ends with its connection, whatever has ended that.
    if done < size:
        raise _Interrupted(f"it ended after {done} of {size} bytes")


@contextmanager
def _answer(
    client: httpx.Client, url: str, headers: Mapping[str, str] | None = None
) -> Generator[httpx.Response]:
    """The answer to a GET, redirects followed: never from https to http, and nothing but http."""
    import httpx  # noqa: PLC0415 - see connected

    here = httpx.URL(url)
    for _ in range(_MOST_HOPS):
        try:
            response = client.send(client.build_request("GET", here, headers=headers), stream=True)
        except httpx.TransportError as exc:
            raise _interrupted(exc, None) from exc
        try:
            location = response.headers.get("location", "")
            if not (response.is_redirect and location):
                yield response
                return
        finally:
            response.close()
        try:
            there = here.join(location)
        except httpx.InvalidURL as exc:
            raise _Interrupted(f"it redirects to {location[:100]!r}") from exc
        if there.scheme not in ("https", here.scheme):
            raise _Interrupted(f"it redirects from {here.scheme} to {there.scheme}")
        here = there
    raise _Interrupted(f"it redirects more than {_MOST_HOPS} times")


def _check_status(response: httpx.Response, hub: Hub, where: _Where) -> None:
    if response.is_success:
        return
    status, code = response.status_code, response.headers.get("x-error-code", "")
    if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED):
        raise HubUnavailable(f"The hub at {hub.endpoint} answered with status {status}.")
    if code == "RevisionNotFound":
        raise EmbeddingError(
            f"The hub at {hub.endpoint} has no revision {where.revision} of {where.repository}. "
            "Check the revision after the @ of MCPVECTORDB_MODEL."
        )
    named = f"{where.path} in {where.repository}" if where.path else where.repository
    raise EmbeddingError(
        f"The hub at {hub.endpoint} has no {named} that is open to all. Check MCPVECTORDB_MODEL."
    )


def _interrupted(exc: Exception, hub: Hub | None) -> _Interrupted:
    """hub is given where an answer had begun."""
    import httpx  # noqa: PLC0415 - see connected

    if isinstance(exc, httpx.ConnectTimeout):
        return _Interrupted("no connection within the time allowed")
    if isinstance(exc, httpx.TimeoutException):
        return _Stalled(f"nothing came for {hub.stall_s:g} s" if hub else "no answer within the time allowed")
    return _Interrupted(str(exc) or type(exc).__name__)


def _read(response: httpx.Response, hub: Hub) -> None:
    """All of a small answer, which may break off as any other."""
    import httpx  # noqa: PLC0415 - see connected

    try:
        response.read()
    except httpx.DecodingError as exc:
        raise ValueError(str(exc)) from exc
    except httpx.TransportError as exc:
        raise _interrupted(exc, hub) from exc


def _stays_inside(path: str) -> bool:
    """Whether a name of the listing is one of a file below the folder that it is put into.

    A mirror that lists `../../.bashrc` must not write there.
    """
    parts = re.split(r"[\\/]", path)
    return not any(part in ("", ".", "..") or ":" in part for part in parts)


def _mismatch(path: Path, pinned: str, remote: Remote) -> str:
    """The file's hash if it is not the expected one, else ""."""
    if expected := pinned or remote.sha256:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    elif expected := remote.blob:
        data = path.read_bytes()
        # How git names a file: see `git hash-object`.
        found = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    else:
        return ""
    return "" if found == expected else found


def _differs(repository: str, path: str, found: str, expected: str) -> str:
    return (
        f"{path} of {repository} is not the file expected (its hash is {found[:12]}…, not {expected[:12]}…), "
        "so it was not kept. Run `mcpvectordb model download` again; if it stays so, the file on the hub has "
        "changed: name another revision as `organisation/name@revision`."
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
