"""Bring a database of an older program up to this one's schema.

Done by the first write, under the write lock; reading goes on without it. Each step looks at the table before
it changes it, and database.json says the new version only when all are done, so a migration that was cut off
is done again from wherever it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from . import database
from .connection import Connection, Table
from .database import Database
from .schema import SCHEMA_VERSION

logger = logging.getLogger(__name__)


def migrate(connection: Connection, found: Database) -> Database:
    """The database at this program's schema version. The caller holds the write lock."""
    if found.schema_version >= SCHEMA_VERSION:
        return found
    logger.warning(
        "the database is of schema %d: bringing it to %d, once", found.schema_version, SCHEMA_VERSION
    )
    for version in range(found.schema_version + 1, SCHEMA_VERSION + 1):
        connection.read(f"bring the database to schema {version}", _STEPS[version], None)
    # What the new version says must be on the disk before it is said.
    connection.disk.settle(connection.folder)
    migrated = replace(found, schema_version=SCHEMA_VERSION)
    database.write(connection.home, migrated, connection.disk.sync)
    return migrated


def _add_text_hash(table: Table) -> None:
    if "text_hash" not in table.schema.names:
        table.add_columns({"text_hash": "encode(sha256(content), 'hex')"})


_STEPS: dict[int, Callable[[Table], None]] = {2: _add_text_hash}
