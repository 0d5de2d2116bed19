"""What a piece of work is given by whoever runs it: when to give up, whom to tell, where to keep things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def _never() -> None:
    """Nothing asks for the work to be given up, nor to wait."""


def _nobody(_fraction: float, _words: str) -> None:
    """Nobody wants to know how far the work is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    checkpoint: Callable[[], None] = _never  # raises to give the work up
    give_way: Callable[[], None] = _never  # waits while something goes first; never called with a lock held
    report: Callable[[float, str], None] = _nobody  # a fraction from 0 to 1, and words for a person
    spool: Path | None = None  # a folder that outlives the process, for vectors made so far
