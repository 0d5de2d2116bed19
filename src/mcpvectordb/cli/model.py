"""`mcpvectordb model`: fetch a model before it is needed, and see which ones are here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from . import options, output
from .base import Commands, opened

if TYPE_CHECKING:
    from mcpvectordb.vectordb import VectorDB

_LOOK_EVERY_S = 0.1


@click.group(cls=Commands)
def model() -> None:
    """See and fetch embedding models.

    \b
    Example:
        mcpvectordb model list
    """


@model.command()
@click.argument("name", required=False)
def download(name: str | None) -> None:
    """Download a model before it is needed.

    NAME is a model (nomic, nomic-fp32, minilm), a repository of the hub (organisation/name, with @revision
    for another than the newest), or left out for the one this database uses or would use. An interrupted
    download goes on where it stopped.

    \b
    Example:
        mcpvectordb model download
        mcpvectordb model download nomic-fp32
    """
    with opened() as db:
        fetch(db, name)


@model.command("list")
@options.as_json
def list_models(as_json: bool) -> None:
    """Show which models there are.

    Which of them are on this machine, which is the default, and which one this database uses.

    \b
    Example:
        mcpvectordb model list
    """
    with opened() as db:
        rows = [
            {
                "name": status.model.name,
                "repository": status.model.repository,
                "precision": status.model.precision,
                "dimensions": status.model.dimensions,
                "here": status.is_here,
                "default": status.is_default,
                "used": status.is_used,
            }
            for status in db.list_models()
        ]
        notice = db.model_notice()
    if as_json:
        output.say_json(rows)
    else:
        for row in rows:
            marks = [word for word in ("default", "used") if row[word]]
            where = "here" if row["here"] else "not here"
            said = f"{row['repository']}, {row['precision']}, {row['dimensions']} dimensions"
            output.say(f"{row['name']}: {', '.join([where, *marks])} ({said})")
    output.tell_notice(notice)


def fetch(db: VectorDB, name: str | None) -> None:
    """Bring a model here with a progress bar on stderr; says so if there is nothing to do."""
    running = db.fetch_model(name)
    if running is None:
        output.tell("The model is on this machine already.")
        return
    try:
        with click.progressbar(length=100, label="Downloading the model", file=sys.stderr) as bar:
            while not running.over.wait(_LOOK_EVERY_S):
                bar.update(running.progress.percent - bar.pos)
            if running.error is None:
                bar.update(100 - bar.pos)
    except KeyboardInterrupt:
        running.give_up()
        raise
    if running.error is not None:
        raise running.error
    output.tell("The model is on this machine.")
