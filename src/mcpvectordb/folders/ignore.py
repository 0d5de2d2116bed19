"""Which paths of a folder the patterns of its .gitignore files mean. Pure.

Whoever asks does not go into folders that are ignored, as git does not: nothing in them can be taken back in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcpvectordb.errors import ArgumentError

from .patterns import Pattern, parse

# Patterns that come with a call; more would be a program, not a choice.
MOST_PATTERNS = 1000
_MOST_PATTERN_CHARS = 1000
_NOTHING = re.compile("(?!)")


class Patterns:
    """The lines of one .gitignore file, or a list of such patterns."""

    def __init__(self, lines: Iterable[str]) -> None:
        found = [pattern for line in lines if (pattern := parse(line)) is not None]
        # The last one that matches decides.
        self._backwards = found[::-1]
        self._names = _any_of(pattern for pattern in found if pattern.is_of_name)
        self._paths = _any_of(pattern for pattern in found if not pattern.is_of_name)

    def __bool__(self) -> bool:
        return bool(self._backwards)

    def verdict(self, path: str) -> bool | None:
        """True if the last pattern that matches path takes it, False if that is a negated one, else None."""
        name = path[path.rfind("/", 0, -1) + 1 :]
        # Most paths match nothing, and one expression of all the patterns tells so at once.
        if self._names.fullmatch(name) is None and self._paths.fullmatch(path) is None:
            return None
        for pattern in self._backwards:
            if re.compile(pattern.expression, re.DOTALL).fullmatch(name if pattern.is_of_name else path):
                return pattern.takes
        return None


def _any_of(patterns: Iterable[Pattern]) -> re.Pattern[str]:
    expressions = [pattern.expression for pattern in patterns]
    return re.compile("|".join(expressions), re.DOTALL) if expressions else _NOTHING


@dataclass(frozen=True, slots=True)
class _Level:
    """The patterns of a folder on the way down, and how a path looks from there."""

    patterns: Patterns
    cut: int = 0  # characters of the path that lead to that folder
    prefix: str = ""  # or what leads from it to the folder that was named


@dataclass(frozen=True, slots=True)
class Ignore:
    """What is ignored in one folder: each level above and its own, the nearest first."""

    levels: tuple[_Level, ...] = ()

    def below(self, patterns: Patterns, folder: str) -> Ignore:
        """As it is in folder (relative, ending with a slash), whose own patterns come before the others'."""
        return Ignore((_Level(patterns, cut=len(folder)), *self.levels)) if patterns else self

    def above(self, patterns: Patterns, prefix: str) -> Ignore:
        """With patterns of a folder from which prefix leads to the one that was named."""
        return Ignore((_Level(patterns, prefix=prefix), *self.levels)) if patterns else self

    def ignores(self, path: str) -> bool:
        for level in self.levels:
            found = level.patterns.verdict(level.prefix + path[level.cut :])
            if found is not None:
                return found
        return False


def asked(what: str, patterns: Sequence[str]) -> Patterns | None:
    """Patterns that somebody gave; what names them in the error. None where there are none."""
    if len(patterns) > MOST_PATTERNS or any(len(pattern) > _MOST_PATTERN_CHARS for pattern in patterns):
        raise ArgumentError(
            f"{what} holds more than {MOST_PATTERNS} patterns, or one that is too long. Name fewer."
        )
    for pattern in patterns:
        if parse(pattern) is None:
            raise ArgumentError(
                f"{what} holds {pattern!r}, which is no pattern. Write it as in .gitignore: "
                "`*.md`, `drafts/`, `/notes/2024*`, `**/tmp`."
            )
    return Patterns(patterns) if patterns else None


def of_file(text: str) -> Patterns:
    """The patterns of a .gitignore file; lines that are none are passed over, as git does."""
    return Patterns(line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n"))
