"""`mcpvectordb ingest`: files, folders, addresses and texts, one after the other.

A bad one never stops the rest. Ctrl-C gives up what is being indexed and leaves what is finished.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from mcpvectordb.errors import ArgumentError, VectorDBError
from mcpvectordb.models import FolderResult, Ingested

from . import options, output
from .base import INTERRUPTED, answers, exit_code, job_answers, opened

if TYPE_CHECKING:
    from mcpvectordb.vectordb import Task, VectorDB

_STDIN = "-"
_LOOK_EVERY_S = 0.1
# Work that is over sooner shows no bar.
_PATIENCE_S = 0.5
# Cancelled work stops at its next step; the longest is to cut a large text.
_LET_GO_S = 30.0
_STEPS = 1000
_LABEL_CELLS = 30


class Said(TypedDict):
    """What the options say of everything that is ingested."""

    library: str
    metadata: dict[str, Any] | None
    tags: list[str] | None
    refresh: bool


class SaidOfFolders(TypedDict):
    recursive: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...]


@click.command()
@click.argument("sources", metavar="PATH|URL...", nargs=-1, required=True)
@options.into_library
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A word to find it by; may be repeated.")
@click.option(
    "--metadata", type=options.JsonObject(), metavar="JSON", help="An object to keep with each document."
)
@click.option("--refresh", is_flag=True, help="Index again even what has not changed.")
@click.option(
    "--recursive/--no-recursive",
    default=True,
    help="Of a folder, also the folders in it, or only its own files.",
)
@click.option(
    "--include", metavar="PATTERN", multiple=True, help="Of a folder, only such files: *.md; may be repeated."
)
@click.option(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Of a folder, no such files: drafts/; may be repeated.",
)
@click.option("--source", "name", metavar="NAME", help="Name of the text that comes from stdin.")
@options.as_json
@click.pass_context
def ingest(
    ctx: click.Context,
    sources: tuple[str, ...],
    library: str,
    tags: tuple[str, ...],
    metadata: dict[str, Any] | None,
    refresh: bool,
    recursive: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    name: str | None,
    as_json: bool,
) -> None:
    """Index files, folders and web pages.

    Each PATH|URL is a file, a folder, an HTTP or HTTPS address, or - for a text from stdin, named by
    --source. What is known and unchanged is skipped, what has changed is replaced. A bad one never stops the
    rest. Without --tag or --metadata a replaced document keeps what it has of them. With --json there is one
    line for each PATH|URL.

    \b
    Example:
        mcpvectordb ingest notes.md ~/papers --library papers --tag 2026
        mcpvectordb ingest ~/wiki --include '*.md' --exclude drafts/
        mcpvectordb ingest https://example.com/handbook.pdf --metadata '{"project": "storage"}'
        pbpaste | mcpvectordb ingest - --source clipboard
    """
    if (_STDIN in sources) != (name is not None):
        raise click.UsageError(
            "A text from stdin needs a name, and only that does: mcpvectordb ingest - --source NAME."
        )
    said = Said(library=library, metadata=metadata, tags=list(tags) or None, refresh=refresh)
    of_folders = SaidOfFolders(recursive=recursive, include=include, exclude=exclude)

    def begin(db: VectorDB, source: str) -> Task[Any]:
        if source == _STDIN:
            return db.begin.text(_stdin_text(), name or "", **said)
        if "://" in source:
            return db.begin.url(source, **said)
        if _is_folder(source):
            return db.begin.folder(source, **said, **of_folders)
        return db.begin.file(source, **said)

    done = failed = 0
    with opened(writes=True) as db:
        for number, source in enumerate(sources):
            try:
                result = _ended(db, source, begin)
            except VectorDBError as exc:
                failed += 1
                _show_error(source, exc, as_json=as_json)
            except _Interrupted:
                left = len(sources) - number - 1
                if left:
                    output.tell(f"{left} of {len(sources)} were not begun.")
                ctx.exit(INTERRUPTED)
            else:
                _show(result, as_json=as_json)
                if isinstance(result, FolderResult):
                    done += len(result.outcomes) + result.unchanged - result.count("failed")
                    failed += result.count("failed")
                else:
                    done += 1
    ctx.exit(exit_code(done=done, failed=failed))


class _Interrupted(Exception):
    """By Ctrl-C, and what became of the work is told."""


def _ended(db: VectorDB, source: str, begin: Callable[[VectorDB, str], Task[Any]]) -> Ingested | FolderResult:
    """What came of one source, with a bar on the terminal while it takes long."""
    try:
        task = begin(db, source)
    except KeyboardInterrupt:
        output.tell(f"Interrupted. Nothing of {output.line(source)} was stored.")
        raise _Interrupted from None
    is_over = threading.Event()
    task.add_done_callback(is_over.set)
    try:
        _wait(task, is_over)
    except KeyboardInterrupt:
        output.tell("Interrupted: giving up at the next step. Ctrl-C again ends at once.")
        task.cancel()
        try:
            is_over.wait(_LET_GO_S)
        except KeyboardInterrupt:
            output.tell("Interrupted again.")
        output.tell(_left(db, task))
        raise _Interrupted from None
    return task.result()


def _wait(task: Task[Any], is_over: threading.Event) -> None:
    # In short waits: on Windows, Ctrl-C does not end a long one.
    if is_over.wait(_PATIENCE_S) or not sys.stderr.isatty():
        while not is_over.wait(_LOOK_EVERY_S):
            pass
        return
    label = output.cut(output.line(Path(task.source).name or task.source), _LABEL_CELLS)
    words = ""

    def shown(_: int | None) -> str:
        return words

    with click.progressbar(
        length=_STEPS, label=label, file=sys.stderr, show_eta=False, item_show_func=shown
    ) as bar:
        while not is_over.wait(_LOOK_EVERY_S):
            fraction, told = task.progress
            words = output.cut(output.line(told), _LABEL_CELLS)
            bar.update(int(fraction * _STEPS) - bar.pos)


def _left(db: VectorDB, task: Task[Any]) -> str:
    """What an interruption left."""
    name = output.line(task.source)
    if not task.done():
        return f"{name} is cancelled and stops at its next step; nothing of it is half written."
    try:
        result = task.result()
    except VectorDBError:
        result = None
    if result is not None:
        return f"{name} was finished all the same."
    if task.doc_id or task.job_id is None:
        return f"{name} is cancelled: nothing of it was stored, and what was there before is as it was."
    finished = [one for one in db.job_files(task.job_id) if one.status != "failed"]
    return (
        f"{name} is cancelled: what is finished stays ({output.counted(len(finished), 'file')}). "
        "Run the same command again for the rest."
    )


def _show(result: Ingested | FolderResult, *, as_json: bool) -> None:
    output.tell_notice(result.notice)
    if isinstance(result, Ingested):
        document = result.document
        if as_json:
            output.say_json(answers().IngestResult.of(result).payload(), indent=None)
        else:
            _say(result.status, document.doc_id, document.chunk_count, document.source)
        return
    told = [one for one in result.outcomes if one.status != "skipped"]
    for one in told:
        if one.status == "failed":
            output.tell(output.line(f"Error: {one.path}: {one.reason}"))
        elif not as_json:
            _say(one.status, one.doc_id, one.chunk_count, one.path)
    if as_json:
        # All files: no client's limit cuts a pipe.
        files = [job_answers().FileRecord.of(one) for one in told]
        answer = job_answers().FolderAnswer.of(result)
        answer = answer.model_copy(update={"files": files, "notice": result.notice or None})
        output.say_json(answer.payload(), indent=None)
    else:
        output.say(output.line(f"{result.folder}: {_summed_up(result)}"))


def _say(status: str, doc_id: str, passages: int, source: str) -> None:
    output.say(output.line(f"{status:8}  {doc_id}  {output.counted(passages, 'passage')}  {source}"))


def _summed_up(result: FolderResult) -> str:
    unchanged = result.unchanged + result.count("skipped")
    counts = [f"{result.count(status)} {status}" for status in ("indexed", "replaced", "failed")]
    words = ", ".join([*counts, f"{unchanged} unchanged"])
    ignored = ", ".join(f"{number} {reason}" for reason, number in result.ignored.items())
    return f"{words}; passed over: {ignored}" if ignored else words


def _show_error(source: str, exc: VectorDBError, *, as_json: bool) -> None:
    output.tell(output.line(f"Error: {exc}"))
    if as_json:
        output.say_json({"status": "error", "error": str(exc), "source": source}, indent=None)


def _stdin_text() -> str:
    if sys.stdin.isatty():
        output.tell("Type the text; Ctrl-D (on Windows Ctrl-Z and Enter) ends it.")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ArgumentError(
            "What comes from stdin is not UTF-8 text. Save it as a file and ingest that file."
        ) from exc


def _is_folder(source: str) -> bool:
    try:
        return Path(source).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):  # what is wrong with it is said when it is read
        return False
