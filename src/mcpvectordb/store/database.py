"""`database.json`: what a database is (schema version, model, live table), readable without LanceDB.

Replaced by write, fsync, rename, under the write lock, so a reader sees the old or the new one whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from mcpvectordb.errors import StoreError

from .durable import Sync
from .durable import sync as to_disk
from .schema import SCHEMA_VERSION

FILE_NAME = "database.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Database:
    schema_version: int
    model: Mapping[str, object]  # the embedding model: its name, its identity, and what embed/ keeps of it
    table: str
    created_at: str
    has_table: bool = False  # its first rows are on the disk: without its table it is damaged, not empty

    @property
    def dimensions(self) -> int:
        return cast("int", self.model["dimensions"])


def read(home: Path) -> Database | None:
    """The database in home, or None where none has been made yet."""
    path = home / FILE_NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise StoreError(f"{path} cannot be read: {exc}. Restore it from a backup.") from exc
    try:
        version = int(raw["schema_version"])
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{home} was made by a newer mcpvectordb (schema {version}, not {SCHEMA_VERSION}). "
                "Upgrade mcpvectordb; nothing was changed."
            )
        return Database(
            schema_version=version,
            model=model_of(raw["model"]),
            table=str(raw["table"]),
            created_at=str(raw["created_at"]),
            has_table=bool(raw.get("has_table", False)),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise StoreError(f"{path} is not a database description: {exc!r}. Restore it from a backup.") from exc


def model_of(raw: Mapping[str, Any]) -> Mapping[str, object]:
    """What is kept of a model; KeyError, TypeError or ValueError where that is no description of one."""
    words = {name: str(raw[name]) for name in ("name", "repository", "revision", "precision")}
    return {**raw, **words, "dimensions": int(raw["dimensions"])}


def write(home: Path, database: Database, sync: Sync = to_disk) -> None:
    """Make database the one in home. The caller holds the write lock."""
    path = home / FILE_NAME
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(database), indent=2), encoding="utf-8")
    sync([draft])
    draft.replace(path)
    sync([path, home])


def stamp(home: Path) -> tuple[int, int] | None:
    """Changes whenever database.json is replaced; cheap enough for every call."""
    try:
        info = (home / FILE_NAME).stat()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"{home} cannot be read: {exc.strerror or exc}. Check MCPVECTORDB_HOME.") from exc
    return info.st_mtime_ns, info.st_ino
