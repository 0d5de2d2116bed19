"""`mcpvectordb reindex`: give a database another embedding model."""

from __future__ import annotations

import sys

import click

from . import output
from .base import opened
from .model import fetch


@click.command()
@click.option(
    "--model", "name", required=True, help="The model to change to: a name, a repository or a folder."
)
def reindex(name: str) -> None:
    """Change to another embedding model.

    Every document is embedded again. The text comes from the database: the files themselves are not needed.
    Searches and ingests go on with the old model until the end. Interrupted, it goes on where it
    stopped when it is run again.

    \b
    Example:
        mcpvectordb reindex --model nomic
    """
    with opened() as db:
        if db.database_model() is not None:  # else there is nothing to fetch a model for
            fetch(db, name)
        with click.progressbar(length=1, label="Re-indexing", file=sys.stderr) as bar:

            def on_progress(done: int, total: int) -> None:
                bar.length = total
                bar.update(done - bar.pos)

            done = db.reindex(name, on_progress=on_progress)
        wanted, model = db.settings.model, (db.database_model() or {}).get("name", name)
    if not done.documents:
        output.tell("Nothing had to be embedded: the database has this model.")
    else:
        output.tell(f"{done.documents} documents ({done.chunks} passages) now use {model}.")
    if wanted not in ("auto", name, model):
        output.tell(f"MCPVECTORDB_MODEL is still {wanted}: set it to auto or {model}.")
