"""The database on disk: the only package that knows LanceDB and pyarrow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from . import database, filters
from .care import Care
from .connection import Connection
from .database import Database
from .durable import Disk, Sync, sync
from .locks import WorkLock, cannot_write
from .reader import Leg, Reader
from .reindex import Difference, SecondTable
from .rows import Entry
from .transfer import Transfer
from .upkeep import Upkeep
from .writer import Writer, check_model

__all__ = [
    "Difference",
    "Disk",
    "Entry",
    "Leg",
    "SecondTable",
    "Store",
    "Sync",
    "WorkLock",
    "cannot_write",
    "check_model",
    "filters",
    "sync",
]


class Store:
    """One database: `read` never waits and never writes, `write` holds the lock."""

    def __init__(self, home: Path, *, lock_timeout_s: float = 30.0, sync: Sync = sync) -> None:
        self._connection = Connection(home, Disk(sync), lock_timeout_s=lock_timeout_s)
        self.upkeep = Upkeep(self._connection)
        self._connection.on_missing_index = self.upkeep.poke
        self.read = Reader(self._connection)
        self.write = Writer(self._connection, self.upkeep)
        self.care = Care(self._connection, self.read, self.upkeep)
        self.transfer = Transfer(self._connection, self.read, self.write)

    @property
    def disk(self) -> Disk:
        return self._connection.disk

    def database(self) -> Database | None:
        return self._connection.database()

    def second_table(self) -> SecondTable:
        """For re-indexing."""
        return SecondTable(self._connection)

    def forget_fallback(self) -> None:
        """The database keeps the model it was made with, and by now that is meant."""
        with self._connection.exclusive():
            found = self._connection.database()
            if found is not None and found.model.get("fallback"):
                model = {key: value for key, value in found.model.items() if key != "fallback"}
                database.write(self._connection.home, replace(found, model=model), self._connection.disk.sync)

    @property
    def notice(self) -> str:
        """What whoever reads an answer should know of the state of the database; mostly nothing."""
        return self._connection.notice

    def close(self, upkeep_timeout_s: float = 5.0) -> None:
        self.upkeep.stop(upkeep_timeout_s)
        self._connection.close()
