"""The command line: `mcpvectordb` alone is the MCP server over stdio; with a word after it, a command."""

from __future__ import annotations

import sys

import click

from mcpvectordb import __version__

from . import care, documents, output
from .base import EXIT_CODES, Commands, configured, end, ended_by_interrupt, run_to_the_end
from .ingest import ingest
from .jobs import jobs
from .kb import engine, kb
from .model import model
from .reindex import reindex
from .search import search
from .serve import serve

__all__ = ["main", "run"]


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n" + "\n".join(f"    {code:3}  {means}" for code, means in EXIT_CODES.items()),
)
@click.version_option(__version__, prog_name="mcpvectordb")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Serve your documents to an AI assistant over MCP (stdio), or work with them here.

    Without a command this is the server: a client such as Claude Desktop starts it, and it has nothing to do
    on a terminal. Results go to stdout, all other words to stderr.

    \b
    Example (Claude Code):
        claude mcp add mcpvectordb -- uvx "mcpvectordb[offline]"
    Example:
        mcpvectordb search "how do we rotate keys"
    """
    if ctx.invoked_subcommand is not None:
        return
    config = configured()
    if sys.stdin.isatty():
        output.tell(
            "mcpvectordb is an MCP server: a client starts it and talks to it over stdin and stdout.\n"
            'Connect one with:  claude mcp add mcpvectordb -- uvx "mcpvectordb[offline]"\n'
            "Ctrl-C or Ctrl-D ends it. What else it can do: mcpvectordb --help."
        )
    # The SDK takes half a second to import: --help and --version do without.
    from mcpvectordb.server import serve_stdio  # noqa: PLC0415
    from mcpvectordb.vectordb import VectorDB  # noqa: PLC0415

    db = VectorDB(config)
    with ended_by_interrupt(db):
        serve_stdio(db)
    end(db)


for command in (
    ingest,
    search,
    documents.list_,
    documents.libraries,
    documents.get,
    documents.delete,
    documents.tags,
    jobs,
    care.status,
    care.doctor,
    care.export_,
    care.import_,
    serve,
    engine,
    kb,
    model,
    reindex,
):
    main.add_command(command)


def run() -> None:
    """The program."""
    run_to_the_end(main)
