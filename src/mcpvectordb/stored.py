"""Stored files: the bytes of an upload stay beside the database until its document is deleted.

A file is there before its document's row and goes after it, so a crash leaves a file too many and never
one too few; what is too many is swept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from .errors import VectorDBError
from .models import Finding
from .store import Store, cannot_write

logger = logging.getLogger(__name__)

FOLDER = "files"
# Of an upload that is being indexed right now the row comes later.
_YOUNG_S = 60.0
_MOST_NAMED = 3
# What Windows cannot have in a name, and the names it gives a meaning.
_ODD = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_DOC_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Sync = Callable[[Sequence[Path]], None]


class StoredFiles:
    def __init__(self, home: Path, store: Store, sync: Sync) -> None:
        self._home = home
        self._store = store
        self._sync = sync

    def keep(self, doc_id: str, name: str, content: Path) -> str:
        """Keep a copy of content; the path to be stored with its document. On the disk when this returns."""
        relative = PurePosixPath(FOLDER, doc_id, safe_name(name))
        path = self._home / relative
        part = path.parent / f".{uuid.uuid4().hex}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(content, part)
            except OSError:  # another file system, or one without links
                shutil.copyfile(content, part)
            part.replace(path)
            self._sync([path, path.parent, path.parent.parent, self._home])
        except OSError as exc:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise cannot_write(self._home, exc) from exc
        return str(relative)

    def has(self, stored_path: str) -> bool:
        return bool(stored_path) and (self._home / stored_path).is_file()

    def remove(self, doc_id: str) -> None:
        """Remove what was kept of a document, unless there is one again that has a stored file."""
        folder = self._home / FOLDER / doc_id
        if not folder.is_dir():
            return
        found = self._store.read.find(doc_id)
        # A note may have taken the name of an upload, and its place.
        if found is None or not found.stored_path:
            shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed now is swept later

    def sweep(self, busy: Callable[[], set[str]]) -> int:
        """Remove files without a document; busy are the documents that a job is about. How many that were."""
        orphans = self._orphans(busy)
        for folder in orphans:
            self.remove(folder.name)
        if orphans:
            logger.info("removed stored files of %d documents that are gone", len(orphans))
        return len(orphans)

    def findings(self, busy: Callable[[], set[str]]) -> list[Finding]:
        """Whether each document's file is there, and each file's document."""
        try:
            known = self._store.read.stored()
        except VectorDBError:  # which other checks tell
            return []
        if not known and not (self._home / FOLDER).is_dir():
            return []
        missing = [source for source, path in known.values() if not self.has(path)]
        orphans = self._orphans(busy)
        told: list[str] = []
        if missing:
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            told.append(f"{len(missing)} stored files are gone: {', '.join(missing[:_MOST_NAMED])}{more}")
        if orphans:
            told.append(f"{len(orphans)} stored files belong to no document")
        fix = "Upload them again." if missing else "Run `mcpvectordb doctor --fix`." if orphans else ""
        return [Finding(check="stored files", problem="; ".join(told), fix=fix)]

    def _orphans(self, busy: Callable[[], set[str]]) -> list[Path]:
        folder = self._home / FOLDER
        if not folder.is_dir():
            return []
        # In this order: what comes later is not looked at, and what was written meanwhile is known.
        old = [path for path in sorted(folder.iterdir()) if _DOC_ID.fullmatch(path.name) and _is_old(path)]
        if not old:
            return []
        active = busy()
        known = self._store.read.stored()
        return [path for path in old if path.name not in active and path.name not in known and _is_old(path)]


def safe_name(name: str) -> str:
    """The name a file is kept under: the upload's own, where every file system takes it."""
    safe = _ODD.sub("_", name).rstrip(". ") or "_"
    if safe.startswith(".") or _DEVICES.fullmatch(safe):
        safe = f"_{safe}"
    return safe


def _is_old(path: Path) -> bool:
    try:
        return path.stat().st_mtime < time.time() - _YOUNG_S
    except FileNotFoundError:
        return False
