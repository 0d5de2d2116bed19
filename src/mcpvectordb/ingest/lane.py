"""A queue between two threads, bounded by the weight of what waits in it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Closed(Exception):
    """Whoever is at the other end has gone."""


class Lane(Generic[T]):
    def __init__(self, most: int, weight: Callable[[T], int]) -> None:
        self._most = most
        self._weight = weight
        self._items: deque[T] = deque()
        self._held = 0
        self._changed = threading.Condition()
        self._is_ended = False  # nothing more comes
        self._is_closed = False  # nothing more is taken

    def put(self, item: T) -> None:
        """Wait until there is room; what is too heavy for the lane passes when it is empty."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or not self._items or self._held + self._weight(item) <= self._most
            )
            if self._is_closed:
                raise Closed
            self._items.append(item)
            self._held += self._weight(item)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more will be put in."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more will be taken out: whoever waits at either end is let go."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(self, timeout_s: float | None = None) -> T | None:
        """The next one; None when the time is up, or when nothing more comes."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._items or self._is_ended or self._is_closed, timeout=timeout_s
            )
            if self._is_closed:
                raise Closed
            if not self._items:
                return None
            item = self._items.popleft()
            self._held -= self._weight(item)
            self._changed.notify_all()
            return item

    @property
    def is_over(self) -> bool:
        """Whether everything that will ever come has been taken."""
        with self._changed:
            return self._is_ended and not self._items
