"""The vectors of a document as they are made: in memory while they are few, then in a file.

In the folder of a job the file outlives the process, and whoever goes on with the job embeds only the rest.
A record is the hash of the embedded text, a checksum and the vector, so that what a kill or a power cut tore
is known for what it is.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile, gettempdir
from typing import IO, TYPE_CHECKING

from mcpvectordb.store import cannot_write

if TYPE_CHECKING:
    from mcpvectordb.embed import Vectors

# A few thousand vectors: more than nearly every document has.
_MOST_IN_MEMORY = 8 * 1024 * 1024
_HASH_BYTES = 32
_HEAD_BYTES = _HASH_BYTES + 4
_FLOAT_BYTES = 4


class Spool:
    def __init__(self, dimensions: int, path: Path | None = None) -> None:
        self._dimensions = dimensions
        self._path = path
        self._size = _HEAD_BYTES + _FLOAT_BYTES * dimensions
        self._records: dict[str, int] = {}
        self._folder = Path(gettempdir()) if path is None else path.parent
        if path is None:
            self._file: IO[bytes] = SpooledTemporaryFile(max_size=_MOST_IN_MEMORY)  # noqa: SIM115
        else:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                # Unbuffered: what has been written is the system's, whatever happens to this process.
                self._file = path.open("r+b", buffering=0)
                self._read_again()
            except OSError as exc:
                raise cannot_write(path.parent, exc) from exc

    def __contains__(self, embed_hash: str) -> bool:
        return embed_hash in self._records

    def add(self, embed_hash: str, vector: Vectors) -> None:
        name, body = bytes.fromhex(embed_hash), vector.astype("<f4", copy=False).tobytes()
        record = b"".join((name, _checksum(name, body), body))
        try:
            self._file.seek(len(self._records) * self._size)
            if self._file.write(record) < len(record):  # without a buffer it says so and raises nothing
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as exc:
            raise cannot_write(self._folder, exc) from exc
        self._records[embed_hash] = len(self._records)

    def rows(self, hashes: Sequence[str]) -> SpooledVectors:
        """The vectors of hashes, in their order."""
        return SpooledVectors(self, [self._records[embed_hash] for embed_hash in hashes])

    def read(self, records: Sequence[int]) -> Vectors:
        import numpy as np  # noqa: PLC0415  (not before something is embedded)

        found = np.empty((len(records), self._dimensions), dtype=np.float32)
        for row, record in enumerate(records):
            self._file.seek(record * self._size + _HEAD_BYTES)
            found[row] = np.frombuffer(self._file.read(_FLOAT_BYTES * self._dimensions), dtype="<f4")
        return found

    def close(self) -> None:
        """The vectors are no longer needed here; those of a job stay in its folder."""
        self._file.close()

    def __del__(self) -> None:
        """Of work that was given up, which may have been anywhere."""
        if hasattr(self, "_file"):
            self._file.close()

    def remove(self) -> None:
        """The document has been written: nobody will go on with it."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read_again(self) -> None:
        """Take over what another process has made, up to the first record that is not whole."""
        self._file.seek(0)
        while len(record := self._file.read(self._size)) == self._size:
            name, vector = record[:_HASH_BYTES], record[_HEAD_BYTES:]
            if record[_HASH_BYTES:_HEAD_BYTES] != _checksum(name, vector) or name.hex() in self._records:
                break
            self._records[name.hex()] = len(self._records)
        self._file.truncate(len(self._records) * self._size)


class SpooledVectors:
    """Rows that are read when they are asked for."""

    def __init__(self, spool: Spool, records: Sequence[int]) -> None:
        self._spool = spool
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, rows: slice) -> Vectors:
        return self._spool.read(self._records[rows])


def _checksum(name: bytes, vector: bytes) -> bytes:
    return zlib.crc32(vector, zlib.crc32(name)).to_bytes(4, "little")
