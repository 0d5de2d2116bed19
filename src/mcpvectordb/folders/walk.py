"""Walk a folder: the files to be indexed, one by one, and how many were passed over for which reason.

No file is opened but .gitignore files. What is passed over is told by name where that is enough: a file that
is kept costs one stat, the others none. Folders are resolved once, and of files only links: resolving every
file would cost four times the walk.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mcpvectordb import guard
from mcpvectordb.errors import SourceError, SourceForbidden

from . import gitignore, ignore
from .ignore import Ignore

# Their names and sizes are held in memory: some 300 bytes each.
MOST_FILES = 500_000
_FILES_A_CHECKPOINT = 500
# A junction, Windows' older kind of link to a folder; Python 3.11 takes it for a folder.
_JUNCTION = 0xA0000003

# The reasons, as callers are told them.
HIDDEN = "hidden"
IGNORED = "ignored"
EXCLUDED = "excluded"
UNSUPPORTED = "unsupported type"
SECRET = "may hold secrets"
SPECIAL = "not a regular file"
EMPTY = "empty"
TOO_LARGE = "too large"
NOT_READABLE = "not readable"
NOT_TEXT = "name is not valid text"
LINKED_FOLDER = "link to a folder"
BROKEN_LINK = "broken link"
SAME_FILE = "link to a file that is indexed by its own name"
OWN = "the database itself"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that may be indexed: its real path, and what tells whether it has changed."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is meant by a folder. Patterns are as in .gitignore, relative to the folder."""

    is_supported: Callable[[str], bool]  # by a file's name
    max_bytes: int
    recursive: bool = True
    include: tuple[str, ...] = ()  # only these; none means all
    exclude: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()  # for every folder; before any .gitignore
    own: Path | None = None  # the database's folder, which is no document


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder on the way."""

    path: str  # from the root on, with a slash at its end; "" is the root itself
    rules: Ignore
    is_included: bool  # all that is in it, save what a pattern takes out


class Walker:
    """One walk over a folder that is resolved; `ignored` grows as `files` is read."""

    def __init__(self, root: Path, options: Options, checkpoint: Callable[[], None]) -> None:
        self.ignored: Counter[str] = Counter()
        self._root = str(root)
        self._options = options
        self._checkpoint = checkpoint
        self._own = "" if options.own is None else os.path.realpath(options.own)
        self._include = ignore.asked("include", options.include)
        self._exclude = ignore.asked("exclude", options.exclude)
        self._always = ignore.asked("MCPVECTORDB_IGNORE", options.ignore)
        self._linked: set[str] = set()
        if self._is_own(self._root):
            raise SourceForbidden(f"{root} belongs to the database itself. Choose another folder.")

    def files(self) -> Iterator[Found]:
        """In the order of their names, those of a folder before those of the folders in it."""
        found = 0
        waiting = [_Place("", gitignore.above(self._root), self._include is None)]
        while waiting:
            self._checkpoint()
            place = waiting.pop()
            entries = self._entries(place.path)
            place = self._with_own_rules(place, entries)
            folders: list[_Place] = []
            for entry in entries:
                if self._is_passed_over(entry):
                    continue
                if not _is_folder(entry):
                    one = self._file(entry, place)
                    if one is not None:
                        found += 1
                        if found % _FILES_A_CHECKPOINT == 0:
                            self._checkpoint()
                        self._check_number(found)
                        yield one
                elif self._is_entered(entry, path := f"{place.path}{entry.name}/", place.rules):
                    folders.append(_Place(path, place.rules, self._includes(path, place)))
            waiting += reversed(folders)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(os.path.join(self._root, *folder.split("/")[:-1])) as found:
                for entry in found:
                    entries.append(entry)
                    if len(entries) % _FILES_A_CHECKPOINT == 0:
                        self._checkpoint()
                    self._check_number(len(entries))
        except FileNotFoundError:  # deleted since its parent was read
            pass
        except OSError as exc:
            if not folder:
                raise SourceError(f"{self._root} cannot be read: {exc.strerror or exc}.") from exc
            self.ignored[NOT_READABLE] += 1
        entries.sort(key=lambda entry: entry.name)
        return entries

    def _is_passed_over(self, entry: os.DirEntry[str]) -> bool:
        """What goes for files and folders alike, by the name alone."""
        name = entry.name
        if name.startswith(".") or (os.name == "nt" and _is_hidden(entry)):
            reason = HIDDEN
        elif not name.isascii() and not _is_text(name):
            reason = NOT_TEXT
        else:
            return False
        # Every repository has one, and it was heeded.
        if name != gitignore.NAME:
            self.ignored[reason] += 1
        return True

    def _file(self, entry: os.DirEntry[str], place: _Place) -> Found | None:
        """The file that entry is or links to, or None if it is passed over, and counted."""
        try:
            reason = self._reason(entry, place)
            if reason is None and entry.is_symlink():
                return self._link(entry)
            if reason is None:
                info = entry.stat(follow_symlinks=False)
                reason = self._reason_of_size(info)
                if reason is None:
                    return Found(entry.path, info.st_size, info.st_mtime_ns)
        except FileNotFoundError:  # deleted since its folder was read
            return None
        except OSError:
            reason = NOT_READABLE
        self.ignored[reason] += 1
        return None

    def _reason(self, entry: os.DirEntry[str], place: _Place) -> str | None:
        """Why a file is passed over, as far as its name and its kind tell; what costs least comes first."""
        if entry.is_symlink():
            if os.path.isdir(entry.path):
                return LINKED_FOLDER
        elif not entry.is_file(follow_symlinks=False):
            return SPECIAL
        elif guard.has_secret_name(entry.name):
            return SECRET
        elif not self._options.is_supported(entry.name):
            return UNSUPPORTED
        path = f"{place.path}{entry.name}"
        if not self._includes(path, place):
            return EXCLUDED
        if self._exclude is not None and self._exclude.verdict(path):
            return EXCLUDED
        return IGNORED if self._ignores(path, place.rules) else None

    def _includes(self, path: str, place: _Place) -> bool:
        """Whether path is asked for, by its own name or as part of its folder."""
        found = None if self._include is None else self._include.verdict(path)
        return place.is_included if found is None else found

    def _link(self, entry: os.DirEntry[str]) -> Found | None:
        """What a link to a file leads to. Its own place decides about a file that the walk reaches there."""
        found: Found | None = None
        try:
            real = os.path.realpath(entry.path, strict=True)
            info = os.stat(real)
        except OSError:  # a loop, too
            self.ignored[BROKEN_LINK] += 1
            return None
        if not stat.S_ISREG(info.st_mode):
            reason = SPECIAL
        elif guard.secret_reason(Path(real)) is not None:
            reason = SECRET
        elif not _is_text(real):
            reason = NOT_TEXT
        elif not self._options.is_supported(os.path.basename(real)):
            reason = UNSUPPORTED
        elif self._is_own(real):
            reason = OWN
        elif real in self._linked or self._reaches(real):
            reason = SAME_FILE
        else:
            reason = self._reason_of_size(info)
            found = None if reason else Found(real, info.st_size, info.st_mtime_ns)
            self._linked.add(real)
        if reason is not None:
            self.ignored[reason] += 1
        return found

    def _reason_of_size(self, info: os.stat_result) -> str | None:
        if not info.st_size:
            return EMPTY
        return TOO_LARGE if info.st_size > self._options.max_bytes else None

    def _reaches(self, real: str) -> bool:
        """Whether the walk comes by there itself."""
        folder = os.path.dirname(real)
        return folder == self._root or (
            self._options.recursive and folder.startswith(self._root.rstrip(os.sep) + os.sep)
        )

    def _is_own(self, path: str) -> bool:
        return bool(self._own) and (path == self._own or path.startswith(self._own + os.sep))

    def _is_entered(self, entry: os.DirEntry[str], path: str, rules: Ignore) -> bool:
        if not self._options.recursive:
            return False
        if os.name == "nt" and _is_junction(entry):
            reason = LINKED_FOLDER
        elif self._is_own(entry.path):
            reason = OWN
        elif guard.secret_reason(Path(entry.path, "any")) is not None:
            reason = SECRET
        elif self._exclude is not None and self._exclude.verdict(path):
            reason = EXCLUDED
        elif self._ignores(path, rules):
            reason = IGNORED
        else:
            return True
        self.ignored[reason] += 1
        return False

    def _ignores(self, path: str, rules: Ignore) -> bool:
        always = self._always.verdict(path) if self._always is not None else None
        return rules.ignores(path) if always is None else always

    def _with_own_rules(self, place: _Place, entries: list[os.DirEntry[str]]) -> _Place:
        for entry in entries:
            if entry.name == gitignore.NAME and entry.is_file(follow_symlinks=False):
                patterns = gitignore.read(entry.path)
                if patterns is not None:
                    return replace(place, rules=place.rules.below(patterns, place.path))
                self.ignored[NOT_READABLE] += 1
        return place

    def _check_number(self, found: int) -> None:
        if found > MOST_FILES:
            raise SourceError(
                f"{self._root} holds more than {MOST_FILES:,} files. Name a smaller folder, or narrow it "
                "down with include or exclude."
            )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.is_symlink() and entry.is_dir(follow_symlinks=False)
    except OSError:  # what it is cannot be seen, and it will be counted as such
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_hidden(entry: os.DirEntry[str]) -> bool:
    """Windows keeps it beside the name. There a stat of a directory's entry costs nothing."""
    attributes = getattr(entry.stat(follow_symlinks=False), "st_file_attributes", 0)
    return bool(attributes & stat.FILE_ATTRIBUTE_HIDDEN)


def _is_junction(entry: os.DirEntry[str]) -> bool:
    return getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0) == _JUNCTION
