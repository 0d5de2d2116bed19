"""Describe a model by where it is: a folder of the user's, or a repository of the hub.

A repository is read from this machine where its files are here, and from the hub only otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcpvectordb.errors import ConfigError, EmbeddingError, HubUnavailable

from . import transfer
from .describe import CONFIG_FILES, Choices, Read, describe, modules_of
from .files import is_available
from .hub import Hub, is_commit
from .models import Model

_MAIN = "main"
_MOST_CONFIG_BYTES = 5_000_000
# The hash of a model's largest file is its revision. Hashing 500 MB takes a second or two: once per process.
_hashes: dict[Path, tuple[tuple[int, int], str]] = {}


def from_folder(folder: Path, choices: Choices, runtime: str) -> Model:
    """A model of the user's own. Its content is its identity, so it may be moved."""
    folder = folder.expanduser().absolute()
    # Looked for first: the folder may be somebody's home, and listing that takes minutes.
    if not (folder / "config.json").is_file():
        raise ConfigError(f"There is no model in {folder}: it has no config.json. Check MCPVECTORDB_MODEL.")
    paths = _paths(folder)
    sketch = describe(
        name=str(folder),
        repository=f"local/{folder.name}",
        revision="",
        paths=paths,
        read=_reader(folder),
        choices=choices,
        runtime=runtime,
        folder=str(folder),
    )
    # The ONNX file where there is one, whatever runs it: the runtime is no part of an identity. Of a model
    # whose weights lie beside it, that file is only the plan, the same for every model so built.
    weights = [file.path for file in sketch.files if file.role in ("model", "weights")] or [
        file.path for file in sketch.files if file.path.endswith(".safetensors")
    ]
    if not weights:
        raise ConfigError(f"{folder} holds neither an ONNX file nor safetensors. Check MCPVECTORDB_MODEL.")
    hashes = {path: _hash(folder / path) for path in sorted({*weights, "tokenizer.json"})}
    digest = hashlib.sha256("".join(hashes[path] for path in sorted(weights)).encode()).hexdigest()
    # With the hashes the database can tell that somebody has put other files there.
    files = tuple(replace(file, sha256=hashes.get(file.path, "")) for file in sketch.files)
    return replace(sketch, revision=digest[:40], files=files)


def from_repository(hub: Hub, repository: str, revision: str, choices: Choices, runtime: str) -> Model:
    """A model of the hub at a revision; "" is the newest, or the one that is on this machine already."""
    revision = revision or _MAIN

    def described(commit: str, paths: Collection[str]) -> Model:
        read = _reader(hub.snapshot(repository, commit))
        return describe(
            name=repository,
            repository=repository,
            revision=commit,
            paths=paths,
            read=read,
            choices=choices,
            runtime=runtime,
        )

    commit = hub.commit(repository, revision)
    paths = _paths(hub.snapshot(repository, commit)) if commit else []
    if "config.json" in paths and "tokenizer.json" in paths:
        try:
            here = described(commit, paths)
            if is_available(here, hub, runtime):
                return here
        except ConfigError:
            # Another program may have left some of its files only; the hub has the rest.
            if hub.is_offline:
                raise
    if hub.is_offline:
        raise HubUnavailable(
            f"The model {repository} is not on this machine and HF_HUB_OFFLINE is set. "
            f"Unset it and run `mcpvectordb model download {repository}`."
        )
    listing = _with_configs(hub, repository, revision)
    if not is_commit(revision):
        _remember(hub, repository, revision, listing.commit)
    return described(listing.commit, listing.files.keys())


def _with_configs(hub: Hub, repository: str, revision: str) -> transfer.Listing:
    """What a repository holds, once the small files that describe its model are here."""
    with transfer.connected(hub) as client:
        listing = transfer.list_files(client, hub, repository, revision)
        snapshot = hub.snapshot(repository, listing.commit)
        wanted = list(CONFIG_FILES)
        for path in wanted:
            remote = listing.files.get(path)
            if remote is None:
                continue
            if remote.size > _MOST_CONFIG_BYTES:
                raise ConfigError(f"{path} of {repository} is no configuration: it has {remote.size} bytes.")
            if not (snapshot / path).is_file():
                transfer.fetch(
                    client, hub, repository, listing.commit, path, remote, pinned="", on_bytes=lambda _: None
                )
            if path == "modules.json":
                modules = modules_of(_reader(snapshot)(path))
                wanted += [module.config for module in modules if module.config not in wanted]
    return listing


def _remember(hub: Hub, repository: str, revision: str, commit: str) -> None:
    """Which commit a branch was, so that the next start needs no network."""
    path = hub.folder(repository) / "refs" / revision
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.tmp")
        draft.write_text(commit, encoding="utf-8")
        draft.replace(path)
    except OSError as exc:
        raise EmbeddingError(
            f"The model's files cannot be kept in {hub.cache}: {exc}. Set HF_HOME to another folder."
        ) from exc


def _paths(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


def _reader(folder: Path) -> Read:
    def read(path: str) -> Any:
        try:
            return json.loads((folder / path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            raise ConfigError(f"{folder / path} cannot be read: {exc}. Check MCPVECTORDB_MODEL.") from exc

    return read


def _hash(path: Path) -> str:
    try:
        info = path.stat()
        now = (info.st_size, info.st_mtime_ns)
        if path not in _hashes or _hashes[path][0] != now:
            with path.open("rb") as stream:
                _hashes[path] = (now, hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as exc:
        raise EmbeddingError(f"Could not read {path}: {exc}") from exc
    return _hashes[path][1]
