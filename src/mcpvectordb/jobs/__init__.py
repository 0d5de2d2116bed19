"""Work that outlives its call, and if need be its process: ingests of documents and of folders.

A job is a row of a small SQLite database in the data folder, with a lease that whoever runs it renews.
Owns sqlite3. What a job does is `doing.py`, when it runs `runner.py`, what is known of it `records.py`.
"""

from __future__ import annotations

from .ingestion import FolderOptions, Ingestion, Options, Reading, Wishes
from .task import Task

__all__ = ["FolderOptions", "Ingestion", "Options", "Reading", "Task", "Wishes"]
