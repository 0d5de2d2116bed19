"""What is in the database, and what can be done with it: `list`, `libraries`, `get`, `delete`, `tags`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpvectordb.errors import VectorDBError

from . import options, output
from .base import answers, exit_code, opened

if TYPE_CHECKING:
    from mcpvectordb.models import Document, DocumentPage


@click.command(name="list")
@options.only_library
@options.only_tags
@options.limit(20, 1000, "documents")
@options.offset
@options.as_json
def list_(library: str | None, tags: tuple[str, ...], limit: int, offset: int, as_json: bool) -> None:
    """List the documents, newest first.

    \b
    Example:
        mcpvectordb list
        mcpvectordb list --library papers --tag draft --json
    """
    with opened() as db:
        page = db.list_documents(library=library, tags=tags, limit=limit, offset=offset)
    if as_json:
        output.say_json(answers().DocumentsResult.of(page).payload())
    else:
        _show(page, offset)


@click.command()
@options.as_json
def libraries(as_json: bool) -> None:
    """List the libraries and their sizes.

    \b
    Example:
        mcpvectordb libraries
    """
    with opened() as db:
        found = db.list_libraries()
    if as_json:
        output.say_json(answers().LibrariesResult.of(found).payload())
    elif found:
        rows = [
            (
                one.name,
                output.counted(one.document_count, "document"),
                output.counted(one.chunk_count, "passage"),
            )
            for one in found
        ]
        output.say(output.table(rows))
    else:
        output.tell("There are no libraries yet.")


@click.command()
@click.argument("doc_id")
@click.option(
    "--offset",
    metavar="N",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Begin at this character.",
)
@click.option("--max-chars", metavar="N", type=click.IntRange(1), help="At most this many characters.")
@options.as_json
def get(doc_id: str, offset: int, max_chars: int | None, as_json: bool) -> None:
    """Print the text of a document.

    It is Markdown, and for the document DOC_ID of search or list exactly what was indexed.

    \b
    Example:
        mcpvectordb get 0b7e6a52-5d0f-5c8e-9d63-0d5f6d2f7c11 > lease.md
        mcpvectordb get 0b7e6a52-5d0f-5c8e-9d63-0d5f6d2f7c11 --offset 2000 --max-chars 500
    """
    with opened() as db:
        found = db.get_document(doc_id, offset=offset, max_chars=max_chars)
    if as_json:
        output.say_json(answers().TextResult.of(found).payload())
        return
    output.say_text(found.content)
    end = found.offset + len(found.content)
    if end < found.total_chars:
        output.tell(f"There is more: go on with --offset {end} of {found.total_chars}.")


@click.command()
@click.argument("doc_ids", metavar="DOC_ID...", nargs=-1, required=True)
@options.as_json
@click.pass_context
def delete(ctx: click.Context, doc_ids: tuple[str, ...], as_json: bool) -> None:
    """Remove documents from the index.

    Each is named by its DOC_ID. The files themselves stay. With --json there is one line for each document.

    \b
    Example:
        mcpvectordb delete 0b7e6a52-5d0f-5c8e-9d63-0d5f6d2f7c11
    """
    failed = 0
    with opened(writes=True) as db:
        for doc_id in dict.fromkeys(doc_ids):
            try:
                deleted = db.delete_document(doc_id)
            except VectorDBError as exc:
                failed += 1
                output.tell(output.line(f"Error: {exc}"))
                if as_json:
                    output.say_json({"status": "error", "error": str(exc), "doc_id": doc_id}, indent=None)
                continue
            if as_json:
                output.say_json(answers().DeleteResult.of(deleted).payload(), indent=None)
            else:
                output.say(f"deleted  {doc_id}  {output.counted(deleted.deleted_chunks, 'passage')}")
    ctx.exit(exit_code(done=len(set(doc_ids)) - failed, failed=failed))


@click.command()
@click.argument("doc_id")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@click.option("--clear", is_flag=True, help="Take all tags away.")
@options.as_json
def tags(doc_id: str, tags: tuple[str, ...], clear: bool, as_json: bool) -> None:
    """Show or set the tags of a document.

    With no TAG, show those that DOC_ID has; else they take the place of all it had.

    \b
    Example:
        mcpvectordb tags 0b7e6a52-5d0f-5c8e-9d63-0d5f6d2f7c11
        mcpvectordb tags 0b7e6a52-5d0f-5c8e-9d63-0d5f6d2f7c11 draft 2026
    """
    if tags and clear:
        raise click.UsageError("Give tags or --clear, not both.")
    writes = bool(tags or clear)
    with opened(writes=writes) as db:
        document = db.set_tags(doc_id, tags) if writes else db.get_document(doc_id, max_chars=1).document
        if as_json:
            tagged = answers().TagsResult.of(document).payload()
            output.say_json(tagged if writes else {**tagged, "status": "unchanged"})
        elif document.tags:
            output.say("\n".join(map(output.line, document.tags)))
        else:
            output.tell("It has no tags.")


def _show(page: DocumentPage, offset: int) -> None:
    output.tell_notice(page.notice)
    for document in page.documents:
        output.say(_shown(document))
    end = offset + len(page.documents)
    if not page.total:
        if not page.notice:
            output.tell("There are no such documents.")
    elif end < page.total and page.documents:
        output.tell(f"{end} of {page.total} documents; go on with --offset {end}.")
    else:
        output.tell(f"{output.counted(page.total, 'document')} in all.")


def _shown(document: Document) -> str:
    room = output.columns()
    tags = f"  [{', '.join(document.tags)}]" if document.tags else ""
    about = (
        f"{document.doc_id}  {document.created_at[:16].replace('T', ' ')}  {document.library}  "
        f"{output.counted(document.chunk_count, 'passage')}{tags}"
    )
    return "\n".join(
        [
            output.cut(output.line(about), room),
            output.cut(output.line(f"    {document.title}"), room),
            output.cut(output.line(f"    {document.source}"), room),
        ]
    )
