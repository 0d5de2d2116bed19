"""The one clock and the one counter of a fetch."""

from __future__ import annotations

import time
from collections.abc import Callable

from mcpvectordb.errors import SourceError, SourceTooLarge

from .values import Limits

# How long a wait may be deaf to the caller giving up.
_SLICE_S = 0.25
# Beside the body there are headers and the marks between chunks, and nobody needs more of them than this.
_FRAMING_BYTES = 1024 * 1024


class Budget:
    """The time and the bytes that one fetch has, over all its hops."""

    def __init__(self, limits: Limits, checkpoint: Callable[[], None]) -> None:
        self.limits = limits
        self._checkpoint = checkpoint
        self._ends = time.monotonic() + limits.timeout_s
        self._bytes_left = 2 * limits.max_bytes + _FRAMING_BYTES

    def left(self, host: str) -> float:
        """The seconds left. Raises once there are none, or whatever the checkpoint raises."""
        self._checkpoint()
        left = self._ends - time.monotonic()
        if left <= 0:
            raise SourceError(
                f"{host} was too slow: the document was not complete after {self.limits.timeout_s:g} s. "
                "Try again later, or save it and add the file with ingest_file."
            )
        return left

    def slice(self, host: str) -> float:
        return min(self.left(host), _SLICE_S)

    def received(self, count: int, host: str) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise SourceTooLarge(
                f"{host} sent far more than the document can be; it was given up. Choose another address."
            )
