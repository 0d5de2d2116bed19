"""Uploads that are under way: chunks on disk, and what is known of them in memory.

Chunks may come in any order and be sent again. A process has a folder of its own, locked for as long as it
lives; folders nobody holds any more are removed at the next start, so a restart forgets every upload and
leaves nothing behind. Names of files and ids of uploads never become paths as a caller gave them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import io
import logging
import re
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mcpvectordb.checks import file_name_reason
from mcpvectordb.errors import ConfigError, UploadError

logger = logging.getLogger(__name__)

MOST_CHUNK_BYTES = 4 * 1024 * 1024
MOST_CHUNKS = 10_000
_MB = 1024 * 1024
_RUN = re.compile(r"run-[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_BLANKS = re.compile(r"\s+")
_MOST_NAMED = 5


@dataclass(kw_only=True)
class Upload:
    """One upload. `lock` keeps its calls in a row; `job` is the answer once it was forwarded."""

    upload_id: str
    filename: str
    total_size: int
    tags: tuple[str, ...] | None
    sha256: str | None
    folder: Path
    until: float
    chunks: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])  # size, hash
    received: int = 0  # bytes
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    job: dict[str, Any] | None = None

    @property
    def paths(self) -> list[Path]:
        """The chunks' files in order."""
        return [self.folder / str(index) for index in sorted(self.chunks)]


class Staging:
    """Not for several threads: everything but writing and hashing happens on the event loop."""

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int,
        most_uploads: int,
        upload_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = folder
        self._most_bytes = most_bytes
        self._most_uploads = most_uploads
        self._upload_s = upload_s
        self._clock = clock
        self._uploads: dict[str, Upload] = {}
        self._run = folder / f"run-{uuid.uuid4().hex}"
        self._lock = FileLock(f"{self._run}.lock")

    def open(self) -> None:
        """Take a folder of our own, and remove those of gateways that are no more."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._run.mkdir(mode=0o700)
            self._remove_abandoned()
        except OSError as exc:
            raise ConfigError(
                f"Uploads cannot be kept in {self._root}: {exc.strerror or exc}. Set KB_STAGING to a folder "
                "that can be written."
            ) from exc

    def close(self) -> None:
        self._uploads.clear()
        shutil.rmtree(self._run, ignore_errors=True)
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)

    def start(
        self, filename: str, total_size: int, *, tags: Sequence[str] | None, sha256: str | None
    ) -> Upload:
        reason = file_name_reason(filename)
        if reason:
            raise UploadError(f"{filename[:60]!r} cannot be the name of an upload: {reason}.")
        if total_size > self._most_bytes:
            raise UploadError(
                f"{filename} has {total_size} bytes; uploads may have {self._most_bytes} "
                f"({self._most_bytes // _MB} MB, KB_MAX_UPLOAD_MB). Split it."
            )
        if sha256 is not None and not _SHA256.fullmatch(sha256):
            raise UploadError("sha256 is not one: give 64 hexadecimal digits, or leave it out.")
        self.remove_late()
        if sum(upload.job is None for upload in self._uploads.values()) >= self._most_uploads:
            raise UploadError(
                f"There are {self._most_uploads} uploads under way already (KB_MAX_UPLOADS). Finish one with "
                "kb_upload_finish, or try again in some minutes: those left behind are removed."
            )
        upload_id = str(uuid.uuid4())
        upload = Upload(
            upload_id=upload_id,
            filename=filename,
            total_size=total_size,
            tags=None if tags is None else tuple(tags),
            sha256=sha256.lower() if sha256 else None,
            folder=self._run / upload_id,
            until=self._clock() + self._upload_s,
        )
        try:
            upload.folder.mkdir()
        except OSError as exc:
            raise _unwritable(exc) from exc
        self._uploads[upload_id] = upload
        return upload

    def get(self, upload_id: str) -> Upload:
        self.remove_late()
        upload = self._uploads.get(upload_id)
        if upload is None:
            raise UploadError(
                f"The upload {upload_id[:60]!r} was not found: it is unknown, was finished, took longer than "
                f"{self._upload_s / 60:g} minutes, or the gateway was restarted. Begin again with "
                "kb_upload_start."
            )
        return upload

    async def add(self, upload: Upload, index: int, data: str) -> None:
        """Keep a chunk. The same bytes again change nothing; others under the same index are refused."""
        async with upload.lock:
            self._check_open(upload)
            content = await asyncio.to_thread(_decoded, data)
            digest = hashlib.sha256(content).hexdigest()
            known = upload.chunks.get(index)
            if known == (len(content), digest):
                return
            if known is not None:
                raise UploadError(
                    f"Chunk {index} was sent before with other bytes. Begin again with kb_upload_start."
                )
            if upload.received + len(content) > upload.total_size:
                raise UploadError(
                    f"With chunk {index} the upload has {upload.received + len(content)} bytes, but "
                    f"total_size is {upload.total_size}. Nothing of this chunk was kept."
                )
            try:
                await asyncio.to_thread((upload.folder / str(index)).write_bytes, content)
            except OSError as exc:
                (upload.folder / str(index)).unlink(missing_ok=True)
                raise _unwritable(exc) from exc
            upload.chunks[index] = (len(content), digest)
            upload.received += len(content)

    async def check_whole(self, upload: Upload) -> None:
        """Raise unless every byte announced is here, in one row of chunks, and what it was said to be."""
        self._check_open(upload)
        wanted = range(max(upload.chunks, default=-1) + 1)
        missing = [index for index in wanted if index not in upload.chunks]
        if missing:
            named = ", ".join(str(index) for index in missing[:_MOST_NAMED])
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            raise UploadError(f"Chunks are missing: {named}{more}. Send them, then finish again.")
        if upload.received != upload.total_size:
            raise UploadError(
                f"{upload.received} of {upload.total_size} bytes have come. Send the rest from chunk "
                f"{len(upload.chunks)} on, then finish again."
            )
        if upload.sha256 is None:
            return
        digest = await asyncio.to_thread(_hash, upload.paths)
        if digest != upload.sha256:
            self.remove(upload)
            raise UploadError(
                f"The bytes that came have the SHA-256 {digest}, not {upload.sha256}: they are not the file "
                "that was announced. Nothing was kept; begin again with kb_upload_start."
            )

    async def finished(self, upload: Upload, job: dict[str, Any]) -> None:
        """The engine has it: its bytes go, its answer stays for whoever asks again."""
        upload.job = job
        await asyncio.to_thread(shutil.rmtree, upload.folder, ignore_errors=True)

    def remove(self, upload: Upload) -> None:
        self._uploads.pop(upload.upload_id, None)
        shutil.rmtree(upload.folder, ignore_errors=True)

    def remove_late(self) -> None:
        """Remove what was not finished in time. One whose call is running is left to that call."""
        now = self._clock()
        for upload in [one for one in self._uploads.values() if one.until < now and not one.lock.locked()]:
            if upload.job is None:
                logger.info("an upload was not finished within %g s and is removed", self._upload_s)
            self.remove(upload)

    def _check_open(self, upload: Upload) -> None:
        """It may have gone while its caller waited for the lock."""
        if self._uploads.get(upload.upload_id) is not upload:
            self.get(upload.upload_id)
        if upload.job is not None:
            raise UploadError("This upload is finished. Begin another one with kb_upload_start.")

    def _remove_abandoned(self) -> None:
        for path in self._root.iterdir():
            name = path.name.removesuffix(".lock")
            if not _RUN.fullmatch(name) or name == self._run.name:
                continue
            lock = FileLock(self._root / f"{name}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue  # another gateway uses it
            shutil.rmtree(self._root / name, ignore_errors=True)
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)


class Joined(io.RawIOBase):
    """The chunks of an upload, read as one file."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._sizes = [path.stat().st_size for path in paths]
        self._at = 0
        self._file: io.BufferedReader | None = None
        self._next = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """To the beginning or the end: all that a sender needs to learn the length and start over."""
        if (offset, whence) not in ((0, io.SEEK_SET), (0, io.SEEK_END)):
            raise io.UnsupportedOperation("only to the beginning or the end")
        self._close_file()
        is_start = whence == io.SEEK_SET
        self._at, self._next = (0, 0) if is_start else (sum(self._sizes), len(self._paths))
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            raise io.UnsupportedOperation("not all at once")
        while True:
            if self._file is None:
                if self._next >= len(self._paths):
                    return b""
                self._file = self._paths[self._next].open("rb")
                self._next += 1
            block = self._file.read(size)
            if block:
                self._at += len(block)
                return block
            self._close_file()

    def close(self) -> None:
        self._close_file()
        super().close()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _decoded(data: str) -> bytes:
    try:
        content = base64.b64decode(_BLANKS.sub("", data), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise UploadError("The data of this chunk is not base64 (with A-Z, a-z, 0-9, + and /).") from exc
    if not content:
        raise UploadError("This chunk holds no data. Send at least a byte.")
    if len(content) > MOST_CHUNK_BYTES:
        raise UploadError(
            f"This chunk has {len(content)} bytes; a chunk may have {MOST_CHUNK_BYTES}. Send smaller ones."
        )
    return content


def _hash(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _unwritable(exc: OSError) -> UploadError:
    return UploadError(f"The gateway cannot keep the upload: {exc.strerror or exc}. Try again later.")
