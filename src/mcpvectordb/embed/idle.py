"""Drop a model that nobody uses: a server that waits all day should not hold hundreds of megabytes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpvectordb import memory

from .models import Model
from .protocol import Embedder

if TYPE_CHECKING:
    from .models import Vectors

logger = logging.getLogger(__name__)


class IdleEmbedder:
    """An `Embedder` that closes the one it wraps after idle_s unused; the next call loads it again."""

    def __init__(self, inner: Embedder, idle_s: float) -> None:
        self._inner = inner
        self._idle_s = idle_s  # 0: never
        self._changed = threading.Condition()
        self._running = 0
        self._used_at = 0.0
        self._watcher: threading.Thread | None = None

    @property
    def model(self) -> Model:
        return self._inner.model

    @property
    def special_tokens(self) -> int:
        with self._use():
            return self._inner.special_tokens

    def count_tokens(self, text: str) -> int:
        with self._use():
            return self._inner.count_tokens(text)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        with self._use():
            return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        with self._use():
            return self._inner.embed_query(text)

    def close(self) -> None:
        with self._changed:
            self._watcher = None
            self._changed.notify_all()
        self._inner.close()

    @contextmanager
    def _use(self) -> Generator[None]:
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._used_at = time.monotonic()
                if self._idle_s and self._watcher is None:
                    self._watcher = threading.Thread(target=self._watch, name="model-idle", daemon=True)
                    self._watcher.start()

    def _watch(self) -> None:
        """Sleep until the model has been idle for long enough, drop it, and end."""
        with self._changed:
            while self._watcher is threading.current_thread():
                left = self._used_at + self._idle_s - time.monotonic()
                if self._running or left > 0:
                    self._changed.wait(left if left > 0 else self._idle_s)
                    continue
                self._watcher = None
                # Under the lock, so that a call that comes now waits for it and then loads anew.
                self._inner.close()
                memory.give_back()
                logger.info(
                    "the model %s was dropped after %g s unused", self._inner.model.name, self._idle_s
                )
