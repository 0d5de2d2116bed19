"""The .gitignore files: those above a folder, and reading one."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from . import ignore
from .ignore import Ignore, Patterns

logger = logging.getLogger(__name__)

NAME = ".gitignore"
# More is not a .gitignore file.
_MOST_BYTES = 128 * 1024


def above(root: str) -> Ignore:
    """What the .gitignore files above a folder say of what is in it, up to the top of its repository."""
    folders = [Path(root), *Path(root).parents]
    top = next((at for at, folder in enumerate(folders) if os.path.exists(folder / ".git")), 0)
    rules = Ignore()
    for folder in reversed(folders[1 : top + 1]):
        path = str(folder / NAME)
        # As with those below, none that is a link, which may lead anywhere.
        patterns = read(path) if os.path.isfile(path) and not os.path.islink(path) else None
        if patterns is not None:
            rules = rules.above(patterns, Path(root).relative_to(folder).as_posix() + "/")
    # Whoever names a folder that is ignored means it.
    return Ignore() if rules.ignores("") else rules


def read(path: str) -> Patterns | None:
    """The patterns of a .gitignore file, or None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as exc:
        logger.warning("%s is not heeded, because it cannot be read: %s", path, exc.strerror or exc)
        return None
    if len(data) > _MOST_BYTES:
        logger.warning("%s is not heeded, because it is too large", path)
        return None
    return ignore.of_file(data.decode("utf-8", "surrogateescape"))
