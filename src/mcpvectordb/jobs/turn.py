"""Whose turn it is to embed: one process at a time, and within it single documents before folders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from mcpvectordb.store import WorkLock

# How often a process asks whether the turn is free, and how long one that had it holds back while
# another asks: a few times as long.
_ASK_EVERY_S = 0.05
_HOLD_BACK_S = 0.3
_LOOK_ELSEWHERE_EVERY_S = 0.1


class Turn:
    """The lock is the process's; its threads share it."""

    def __init__(self, lock: WorkLock, is_single_waiting_elsewhere: Callable[[], bool]) -> None:
        self._lock = lock
        self._is_waiting_elsewhere = is_single_waiting_elsewhere
        self._changed = threading.Condition()
        self._holders = 0
        self._singles = 0
        self._looked_at = 0.0

    @contextmanager
    def single(self, checkpoint: Callable[[], None]) -> Generator[None]:
        """Ahead of any folder of this process, and of others' at their next step."""
        with self._changed:
            self._singles += 1
        try:
            self._acquire(checkpoint)
            try:
                yield
            finally:
                self._release()
        finally:
            with self._changed:
                self._singles -= 1
                self._changed.notify_all()

    @contextmanager
    def folder(self, checkpoint: Callable[[], None]) -> Generator[None]:
        self._acquire(checkpoint)
        try:
            yield
        finally:
            self._release()

    def give_way(self, checkpoint: Callable[[], None]) -> None:
        """Called by a folder between its steps: lets single documents go first, here and elsewhere."""
        with self._changed:
            while self._singles:
                self._changed.wait(_ASK_EVERY_S)
                checkpoint()
        if time.monotonic() - self._looked_at < _LOOK_ELSEWHERE_EVERY_S:
            return
        self._looked_at = time.monotonic()
        if self._is_waiting_elsewhere():
            self._release()
            self._acquire(checkpoint)

    def _acquire(self, checkpoint: Callable[[], None]) -> None:
        while True:
            checkpoint()
            with self._changed:
                if self._holders or self._lock.take():
                    self._holders += 1
                    return
            time.sleep(_ASK_EVERY_S)

    def _release(self) -> None:
        with self._changed:
            self._holders -= 1
            is_free = not self._holders
            if is_free:
                self._lock.release()
        # Whoever asks for it every so often would never meet the moment in which nobody has it.
        if is_free and self._is_waiting_elsewhere():
            time.sleep(_HOLD_BACK_S)
