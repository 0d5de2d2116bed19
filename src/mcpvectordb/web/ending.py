"""How a server ends: no new work, running work gets its time, then whoever is left is cut off.

Three steps, each known to whoever holds the Ending. `begun`: new requests are refused. `closing`: the
time is up or nothing runs any more; a task cancelled from now on is cancelled by us, not by its client.
`finished`: whatever request is left, streams that would stay open for ever too, is cut off.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio


class Ending:
    def __init__(self) -> None:
        self.begun = False
        # Threads look at it too.
        self.closing = threading.Event()
        self.finished = asyncio.Event()
        self._running = 0
        self._one_less = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._requests: set[anyio.CancelScope] = set()

    @contextmanager
    def running(self) -> Generator[None]:
        """Around work that an ending server waits for. On the event loop only."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._one_less.set()

    @contextmanager
    def cut_off(self) -> Generator[anyio.CancelScope]:
        """Around a request, which is cancelled when all is finished."""
        with anyio.CancelScope() as scope:
            self._requests.add(scope)
            try:
                yield scope
            finally:
                self._requests.discard(scope)

    def on_closing(self, callback: Callable[[], None]) -> None:
        """Call this, in a thread, to have work that is still running give up."""
        self._callbacks.append(callback)

    async def wait(self, at_most_s: float) -> bool:
        """Until nothing runs any more; False if that takes longer."""
        with anyio.move_on_after(at_most_s):
            while self._running:
                self._one_less.clear()
                await self._one_less.wait()
        return not self._running

    async def close(self) -> None:
        self.closing.set()
        for callback in self._callbacks:
            await asyncio.to_thread(callback)

    def finish(self) -> None:
        self.closing.set()
        self.finished.set()
        for scope in tuple(self._requests):
            scope.cancel()
