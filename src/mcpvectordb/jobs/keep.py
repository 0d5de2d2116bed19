"""What a job needs later than its call: a folder with the bytes it was given and vectors made so far.

It is there before the job and gone soon after its end; what a crash leaves is swept.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from mcpvectordb.store import Disk, cannot_write

FOLDER = "jobs"
_PAYLOAD = "content"
# A folder that is just being made has no job yet.
_YOUNG_S = 60.0


class Keep:
    def __init__(self, home: Path, disk: Disk) -> None:
        self.home = home
        self._disk = disk

    def folder(self, job_id: str) -> Path:
        return self.home / FOLDER / job_id

    def payload(self, job_id: str) -> Path:
        return self.folder(job_id) / _PAYLOAD

    def put(self, job_id: str, content: bytes | Path) -> None:
        """Keep bytes, or a file, which is moved here; on the disk when this returns."""
        folder, path = self.folder(job_id), self.payload(job_id)
        try:
            self._disk.make_folder(folder)
            if isinstance(content, Path):
                shutil.move(content, path)
            else:
                path.write_bytes(content)
            self._disk.sync([path, folder])
        except OSError as exc:
            self.remove(job_id)
            raise cannot_write(self.home, exc) from exc

    def remove(self, job_id: str) -> None:
        shutil.rmtree(self.folder(job_id), ignore_errors=True)  # what cannot be removed now is swept later

    def leftovers(self, active: set[str]) -> list[Path]:
        """Folders of jobs that have ended, which a crash kept from being removed."""
        folder = self.home / FOLDER
        if not folder.is_dir():
            return []
        until = time.time() - _YOUNG_S
        return [
            path for path in sorted(folder.iterdir()) if path.name not in active and _modified(path) < until
        ]

    def sweep(self, active: set[str]) -> None:
        for path in self.leftovers(active):
            self.remove(path.name)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # its job has just ended
        return time.time()
