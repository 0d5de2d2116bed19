"""`mcpvectordb search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import options, output
from .base import answers, opened

if TYPE_CHECKING:
    from mcpvectordb.models import Hit, Mode, SearchResult


@click.command()
@click.argument("query")
@options.limit(5, 100, "passages")
@options.only_library
@options.only_tags
@click.option(
    "--filter",
    "filters",
    type=options.Filter(),
    metavar="FILTER",
    multiple=True,
    help="Field equality, as key=value or as a JSON object; repeated, all must match. Fields: doc_id, "
    "source, title, library, file_type, last_modified, page, chunk_index, chunk_count, content_hash, "
    "created_at, kind, tags, metadata.<key>.",
)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "keyword", "vector"]),
    default="hybrid",
    show_default=True,
    help="Rank by words and meaning together, by words alone, or by meaning alone.",
)
@options.as_json
def search(
    query: str,
    limit: int,
    library: str | None,
    tags: tuple[str, ...],
    filters: tuple[dict[str, Any], ...],
    mode: Mode,
    as_json: bool,
) -> None:
    """Find passages by words and meaning.

    QUERY is a question or some keywords. Passages that have a phrase in "quotes" come first. On a terminal a
    passage is cut to a few lines.

    \b
    Example:
        mcpvectordb search "how do we rotate keys" -n 3
        mcpvectordb search budget --tag 2026 --filter file_type=xlsx --json
    """
    wanted = {key: value for one in filters for key, value in one.items()}
    with opened() as db:
        found = db.search(query, top_k=limit, library=library, tags=tags, filter=wanted or None, mode=mode)
    if as_json:
        output.say_json(answers().SearchResult.of(found).payload())
    else:
        _show(found)


def _show(found: SearchResult) -> None:
    output.tell_notice(found.notice)
    for number, hit in enumerate(found.hits, start=1):
        output.say(_shown(number, hit))
    if not found.hits and not found.notice:
        output.tell("Nothing was found.")


def _shown(number: int, hit: Hit) -> str:
    """A hit as a few lines: what it is of, where that is, and the passage."""
    document, chunk = hit.document, hit.chunk
    # A document's first heading is mostly its title, said already.
    below = chunk.headings[1:] if chunk.headings[:1] == (document.title,) else chunk.headings
    head = f"{number}. {' > '.join([document.title, *below])}"
    page = f", page {chunk.page}" if chunk.page else ""
    room = output.columns()
    return "\n".join(
        [
            output.cut(output.line(head), room),
            output.cut(output.line(f"   {document.source}{page}"), room),
            f"   {document.doc_id}  {hit.score:.3f}",
            output.passage(chunk.content, indent="   "),
        ]
    )
