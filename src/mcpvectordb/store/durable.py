"""Put what was written on the disk before it is acknowledged.

LanceDB calls no fsync, so an acknowledged write could be lost with the power. The function that syncs is
handed in: a test compares what it was given with its own walk of what changed.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

Sync = Callable[[Sequence[Path]], None]

# LanceDB never changes a file once it is whole, save this one. It is a hint only: lost or wrong, the newest
# version is found without it.
_HINT = "latest_version_hint.json"
# A file that has not changed for so long is whole; after the longer time the system has written it by itself.
_SETTLED_S = 15.0
_WRITTEN_BY_ITSELF_S = 600.0


def sync(paths: Sequence[Path]) -> None:
    """Put these files and folders on the disk. One that is gone has done its work."""
    last: Path | None = None
    for path in paths:
        if path.is_dir():
            if os.name != "posix":  # Windows cannot open a folder, and NTFS journals its entries
                continue
            flags = os.O_RDONLY
        else:
            flags = os.O_RDONLY if os.name == "posix" else os.O_RDWR
        if _with_handle(path, flags, os.fsync):
            last = path
    if sys.platform == "darwin" and last is not None:
        # There fsync stops at the drive's own cache. This empties it, for all that came before too.
        fcntl = importlib.import_module("fcntl")
        _with_handle(last, os.O_RDONLY, lambda handle: fcntl.fcntl(handle, fcntl.F_FULLFSYNC))


def folders_between(path: Path, top: Path) -> list[Path]:
    """The folders that name path, from its own up to top."""
    found: list[Path] = []
    for folder in path.parents:
        found.append(folder)
        if folder == top:
            break
    return found


class Disk:
    """Remembers which files are on the disk for certain, so that each is synced once by a process.

    Not only our own files: a commit names those of other writers and of upkeep too, and is worth no
    more than the least of them.
    """

    def __init__(self, sync: Sync = sync) -> None:
        self.sync = sync
        self._lock = threading.Lock()
        # Size and time of what was synced; None once it cannot change any more.
        self._safe: dict[str, tuple[int, int] | None] = {}
        self._named: set[Path] = set()  # folders whose own names are on the disk

    def make_folder(self, folder: Path) -> None:
        """Make folder and those above it, and have them named on the disk."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        if missing:
            folder.mkdir(parents=True, exist_ok=True)
            self.sync([*missing, missing[-1].parent])

    def settle(self, folder: Path, *, since: float | None = None) -> None:
        """Sync the files below folder that may not be on the disk yet, then the folders that name them.

        `since` is when a long piece of work began: what changed after that is synced even if it was
        before, because a commit in between may have found it half written.
        """
        with self._lock:
            now = time.time()
            first = not self._safe
            safe: dict[str, tuple[int, int] | None] = {}
            new: list[Path] = []
            for entry in _files(folder):
                if since is None and entry.path in self._safe and self._safe[entry.path] is None:
                    safe[entry.path] = None
                    continue
                try:
                    info = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # removed by a clean-up since it was listed
                    continue
                stamp, age = (info.st_size, info.st_mtime_ns), now - info.st_mtime
                seen = self._safe.get(entry.path, ())
                is_known = seen in (None, stamp) or (first and age > _WRITTEN_BY_ITSELF_S)
                if not is_known or (since is not None and info.st_mtime >= since):
                    new.append(Path(entry.path))
                safe[entry.path] = None if age > _SETTLED_S and entry.name != _HINT else stamp
            if new:
                self.sync([*new, *self._naming(new, folder.parent)])
            self._safe = safe

    def _naming(self, files: Sequence[Path], top: Path) -> list[Path]:
        """The folders to sync for these files: their own, and above a new one those that name it."""
        found: dict[Path, None] = {}
        for path in files:
            for folder in folders_between(path, top):
                found[folder] = None
                if folder in self._named:
                    break
        self._named.update(found)
        return list(found)


def file_sizes(folder: Path) -> Iterator[int]:
    """The sizes of the files below folder. Upkeep and other processes make and remove some meanwhile."""
    for entry in _files(folder):
        try:
            yield entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # removed since it was listed
            continue


def _files(folder: Path) -> Iterable[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry
        except FileNotFoundError:  # removed by a clean-up between listing and reading
            continue


def _with_handle(path: Path, flags: int, call: Callable[[int], object]) -> bool:
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        return False
    try:
        call(handle)
    finally:
        os.close(handle)
    return True
