"""Find damage that a loss of power or a failing disk has done, and go back to what reads whole.

LanceDB writes a new version beside the old ones, so going back is cheap: the damaged newest version is set
aside and the one before it is the newest again. What was damaged is kept, in `damaged/`, with a note.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcpvectordb.errors import StoreDamaged, StoreError

logger = logging.getLogger(__name__)

Table = Any
FOLDER = "damaged"
NOTE = "note.json"
# What the engine's files end with; one that does not was never written to its end.
_MAGIC = b"LANC"
# Before that a manifest says where its message begins, behind four bytes of its length; any other file, where
# its three tables do.
_MANIFEST_END = struct.Struct("<QHH4s")
_END = struct.Struct("<QQQIIHH4s")
_END_IS_KNOWN = ((0, 3), (2, 0), (2, 1), (2, 2))
_NEWEST = 2**64 - 1  # the engine counts its versions' file names down from this
# How the engine tells what the system said.
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_ERRORS = (OSError, RuntimeError, ValueError)
_PANIC = "RustPanic"
# Small, and in every fragment.
_NARROW_COLUMN = "pipeline"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """A return to an older version, as it is noted beside what was set aside."""

    at: str
    table: str
    damaged_version: int
    restored_version: int  # 0 until it is done
    problem: str
    rows_before: int  # 0 where the damaged version could not even be counted
    rows_after: int

    @property
    def message(self) -> str:
        lost = self.rows_before - self.rows_after
        gone = (
            f"{lost} passages written last are missing"
            if lost > 0
            else "what was written last may be missing"
        )
        return (
            f"The database was damaged ({self.problem}), so its newest good version was restored on "
            f"{self.at[:16].replace('T', ' ')}: {gone}. Ingest your latest documents again; "
            f"the damaged files are kept in its folder {FOLDER!r}."
        )


def versions(table_folder: Path) -> list[tuple[int, Path]]:
    """The table's versions by their files, newest first. Reads none of them."""
    found: list[tuple[int, Path]] = []
    for path in (table_folder / "_versions").glob("*.manifest"):
        if path.stem.isdigit():
            number = int(path.stem)
            # Counted down, so that the newest comes first in a listing. Tables of old did not.
            found.append((_NEWEST - number if number > _NEWEST // 2 else number, path))
    return sorted(found, reverse=True)


def is_finished(path: Path) -> bool:
    """Whether one of the engine's files was written to its end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _END.size))
            end = file.read()
    except FileNotFoundError:
        return False
    return end.endswith(_MAGIC) and _points_inside(path, end, size)


def _points_inside(path: Path, end: bytes, size: int) -> bool:
    """Whether what a file ends with names places in it: at one past its end the engine panics, or waits for
    ever for an answer of its own thread that did."""
    if path.suffix == ".manifest":
        if size < _MANIFEST_END.size:
            return False
        start, *_ = _MANIFEST_END.unpack_from(end, len(end) - _MANIFEST_END.size)
        return start + 4 + _MANIFEST_END.size <= size
    if size < _END.size:
        return False
    columns, column_places, buffer_places, *_, major, minor, _ = _END.unpack(end)
    if (major, minor) not in _END_IS_KNOWN:
        return True
    return columns <= column_places <= buffer_places <= size - _END.size


@contextmanager
def engine_panics() -> Generator[None]:
    """A panic of the engine, as on files that say what cannot be, is an error as any other of it."""
    try:
        yield
    except Exception as exc:
        if type(exc).__name__ != _PANIC:  # its class cannot be imported
            raise
        raise RuntimeError("the engine panicked: its files may be damaged") from exc


def is_panic(exc: RuntimeError) -> bool:
    return type(exc.__cause__).__name__ == _PANIC


def problem_of(table: Table) -> str:
    """Why the table does not read whole, or nothing. Counting rows alone would notice no damage.

    A StoreError where it is not the files' fault: see `check_system`.
    """
    try:
        with engine_panics():
            while True:
                version = table.version
                rows = table.search().select([_NARROW_COLUMN]).limit(2**31 - 1).to_arrow().num_rows
                if rows == (expected := table.count_rows()):
                    break
                # Else another process has written between the two.
                if version == table.version:
                    return f"{rows} of {expected} rows can be read"
    except _ERRORS as exc:
        check_system(exc)
        return _short(exc)
    return ""


def check_system(exc: BaseException) -> None:
    """Raise where the system refuses to read what may be sound: no rights, too many open files, a bad cable.

    Going back to an older version would lose documents for nothing.
    """
    refused = _SYSTEM_ERROR.search(str(exc))
    number = exc.errno if isinstance(exc, OSError) else int(refused[1]) if refused else None
    if number not in (None, errno.ENOENT):
        raise StoreError(
            f"The database cannot be read: {os.strerror(number)}. Nothing was changed; mend that first."
        ) from exc


def is_sound(table_folder: Path) -> bool:
    """A first look that opens nothing: the newest version's file is whole."""
    found = versions(table_folder)
    return not found or is_finished(found[0][1])


def recover(open_table: Callable[[], Table], table_folder: Path, home: Path) -> Recovery | None:
    """Go back to the newest version that reads whole; None where nothing is wrong after all.

    The caller holds the write lock: what looked like damage may be another process's mending. What is found
    is noted before anything is changed, so that the next one knows of one that was cut off, and ends it.
    """
    name = table_folder.stem
    begun = _cut_off(home, name)
    aside, noted = begun or (_place_aside(home), None)
    damaged, problem = (noted.damaged_version, noted.problem) if noted else (0, "")
    found = versions(table_folder)
    moved: list[Path] = []
    table: Table | None = None
    for number, path in found:
        try:
            if not is_finished(path):
                raise ValueError("the description of its newest version was not written to its end")
            with engine_panics():
                opened = open_table()
                if _NARROW_COLUMN not in opened.schema.names:
                    raise ValueError("the description of its newest version is empty")
                opened.list_indices()  # described in the same file, and read only when they are asked for
            table = opened
            break
        except _ERRORS as exc:
            check_system(exc)
            # A version that cannot be opened hides all the others until it is out of the way.
            damaged, problem = damaged or number, problem or _short(exc)
            _write_note(aside, _under_way(name, damaged, problem))
            _set_aside([path], aside, move=True)
            moved.append(path)
    if table is None:
        for path in moved:
            shutil.move(aside / path.name, path)
        if not begun:
            shutil.rmtree(aside, ignore_errors=True)
        raise StoreError(
            f"The database in {home} cannot be opened: {problem or 'it has no version'}. "
            "Restore it from a backup, or run `mcpvectordb doctor`."
        )
    rows_before = 0
    if found_wrong := problem_of(table):
        if not damaged:  # of one that could not be opened it is not known how many there were
            rows_before = table.count_rows()
        damaged, problem = damaged or table.version, problem or found_wrong
        suspects = _suspects(table_folder)
        _write_note(aside, _under_way(name, damaged, problem))
        try:
            _go_back(table, table_folder, home, found_wrong)
        except StoreDamaged:
            if not begun and not moved:
                shutil.rmtree(aside)
            raise
        _set_aside(suspects, aside, move=False)
    if not problem:
        return None
    recovery = replace(
        _under_way(name, damaged, problem),
        restored_version=table.version,
        rows_before=rows_before,
        rows_after=table.count_rows(),
    )
    _write_note(aside, recovery)
    logger.warning("%s", recovery.message)
    return recovery


def was_cut_off(table_folder: Path, home: Path) -> bool:
    """Whether going back has begun on this table and was not done to its end."""
    return _cut_off(home, table_folder.stem) is not None


def cut_back(open_table: Callable[[], Table], table_folder: Path, home: Path) -> Table | None:
    """Open a table of which nothing was acknowledged yet, without the versions that do not read whole.

    None where none is left. The caller holds the write lock.
    """
    aside = _place_aside(home)
    for number, path in versions(table_folder):
        try:
            if is_finished(path):
                with engine_panics():
                    table = open_table()
                if not problem_of(table):
                    return table
        except _ERRORS as exc:
            check_system(exc)
        logger.warning("version %d of %s was cut off and is set aside", number, table_folder.name)
        _set_aside([path], aside, move=True)
    return None


def past(home: Path) -> list[Recovery]:
    """What has been recovered in this home, oldest first."""
    return [note for _, note in _notes(home) if note.restored_version]


def unfinished(folder: Path) -> Iterator[Path]:
    """The engine's files below folder that were not written to their end."""
    for path in sorted(folder.rglob("*.lance")):
        if path.is_file() and not is_finished(path):
            yield path


def _go_back(table: Table, table_folder: Path, home: Path, problem: str) -> None:
    """Make the newest version that reads whole the current one."""
    newest = table.version
    for number, _ in versions(table_folder):
        if number >= newest:
            continue
        try:
            with engine_panics():
                table.checkout(number)
        except _ERRORS as exc:
            check_system(exc)
            logger.warning("version %d cannot be opened: %s", number, _short(exc))
            continue
        if not problem_of(table):
            table.restore()
            return
    table.checkout_latest()
    raise StoreDamaged(
        f"The database in {home} is damaged and no version of it reads whole ({problem}). "
        "Run `mcpvectordb doctor --fix` to save what can be read, or restore a backup."
    )


def _suspects(table_folder: Path) -> list[Path]:
    """What to keep of a damaged version: its description, and the files that were not written whole."""
    newest = [path for _, path in versions(table_folder)[:1]]
    return [*newest, *unfinished(table_folder / "data")]


def _notes(home: Path) -> Iterator[tuple[Path, Recovery]]:
    for path in sorted((home / FOLDER).glob(f"*/{NOTE}")):
        try:
            yield path.parent, Recovery(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as exc:
            logger.warning("%s cannot be read: %s", path, exc)


def _cut_off(home: Path, table: str) -> tuple[Path, Recovery] | None:
    return next((one for one in _notes(home) if one[1].table == table and not one[1].restored_version), None)


def _under_way(table: str, damaged_version: int, problem: str) -> Recovery:
    return Recovery(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        table=table,
        damaged_version=damaged_version,
        restored_version=0,
        problem=problem,
        rows_before=0,
        rows_after=0,
    )


def _write_note(aside: Path, recovery: Recovery) -> None:
    aside.mkdir(parents=True, exist_ok=True)
    (aside / NOTE).write_text(json.dumps(asdict(recovery), indent=2), encoding="utf-8")


def _place_aside(home: Path) -> Path:
    return home / FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"


def _set_aside(paths: list[Path], aside: Path, *, move: bool) -> None:
    aside.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if move:
            shutil.move(path, aside / path.name)
        else:
            shutil.copy2(path, aside / path.name)


def _short(exc: BaseException) -> str:
    """The engine's words without its own source lines; the caller's sentence ends itself."""
    text = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    return text.split(", /")[0].removeprefix("lance error: ").rstrip(".")[:200]
