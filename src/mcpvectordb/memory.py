"""Memory that has been freed goes back to the system. Only glibc has to be told; elsewhere nothing is done.

It keeps what was freed in pieces. And each large block that is freed makes it take the next ones of that
size, up to 32 MB, from what it keeps, where they leave holes: of the 530 MB in which a text of 20 MB was
indexed, 115 were such.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MB = 1024 * 1024
# Blocks from this size on are the system's, and go back to it when they are freed. That costs a search a
# fifth of its time, so it is for large work only; afterwards the sizes are those that glibc comes to itself.
_SPARING = ((_M_MMAP_THRESHOLD, _MB // 8), (_M_TRIM_THRESHOLD, _MB))
_USUAL = ((_M_MMAP_THRESHOLD, 32 * _MB), (_M_TRIM_THRESHOLD, 64 * _MB))

_lock = threading.Lock()
_at_it = 0


def give_back() -> None:
    """Hand back all that is free.

    Once nomic in fp32 was dropped, 470 of the 547 MB that the process held were free, and it held more each
    time that the model had come back and gone.
    """
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


@contextmanager
def sparing() -> Generator[None]:
    """Hold no more than is needed while this lasts, in all threads."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    global _at_it
    libc = _glibc()
    if libc is None:
        return
    with _lock:
        _at_it += change
        for name, size in _SPARING if _at_it else _USUAL:
            libc.mallopt(name, size)
        if not _at_it:
            libc.malloc_trim(0)


@cache
def _glibc() -> Any:
    """The C library, if it has what is needed: musl has not."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None
