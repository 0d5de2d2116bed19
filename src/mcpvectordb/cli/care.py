"""Commands that look after a database: `status`, `doctor`, `export`, `import`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from . import options, output
from .base import opened

if TYPE_CHECKING:
    from mcpvectordb.models import Finding, Status

_MB = 1024 * 1024


@click.command()
@options.as_json
def status(as_json: bool) -> None:
    """Show the database in figures.

    Counts, size, model, how far the indexes cover it, pending upkeep.

    \b
    Example:
        mcpvectordb status
    """
    with opened() as db:
        found = db.status()
        if as_json:
            # With the protocol's SDK, half a second of imports that people's output does without.
            from mcpvectordb.server.status_results import StatusResult  # noqa: PLC0415

            answer = StatusResult.of(db.settings.home, found, db.job_counts(), db.model_notice())
            output.say_json(answer.payload())
        elif found is None:
            output.say(f"There is no database in {db.settings.home} yet.")
        else:
            output.say(_shown(found))
            output.tell_notice(db.model_notice())


@click.command()
@click.option("--fix", is_flag=True, help="Mend what can be mended.")
@options.as_json
@click.pass_context
def doctor(ctx: click.Context, fix: bool, as_json: bool) -> None:
    """Check everything, and mend it.

    Files, versions, documents, texts, vectors, indexes, model, the folder itself. Ends with code 1 if a
    problem is left.

    \b
    Example:
        mcpvectordb doctor --fix
    """
    with opened() as db:
        findings = db.doctor(fix=fix)
    if as_json:
        output.say_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            output.say(output.line(_line(finding)))
    if any(finding.problem and not finding.fixed for finding in findings):
        ctx.exit(1)


@click.command(name="export")
@click.argument("file")
@options.only_library
def export_(file: str, library: str | None) -> None:
    """Write documents to a file.

    FILE holds their vectors too: it can be imported into another database of the same model.

    \b
    Example:
        mcpvectordb export papers.mcpv --library papers
    """
    with opened() as db:
        done = db.export_file(file, library=library)
    output.say(
        f"Exported {done.documents} documents ({done.passages} passages) to {done.path}, "
        f"{done.size_bytes / _MB:.1f} MB."
    )


@click.command(name="import")
@click.argument("file")
@click.option(
    "--library",
    metavar="NAME",
    help="Put the documents in this library, not in the one they were exported from.",
)
def import_(file: str, library: str | None) -> None:
    """Store the documents of an export.

    Nothing of FILE is embedded anew; what is there already is skipped.

    \b
    Example:
        mcpvectordb import papers.mcpv
    """
    with opened(writes=True) as db:
        done = db.import_file(file, library=library)
        known = f"; {done.skipped} were there already" if done.skipped else ""
        output.say(f"Imported {done.documents} documents ({done.passages} passages) from {done.path}{known}.")


def _line(finding: Finding) -> str:
    if not finding.problem:
        return f"ok       {finding.check}"
    if finding.fixed:
        return f"fixed    {finding.check}: {finding.problem}"
    return f"PROBLEM  {finding.check}: {finding.problem.rstrip('.')}. {finding.fix}".rstrip()


def _shown(found: Status) -> str:
    model = found.model
    cover = f"{found.passages - found.unindexed_passages} of {found.passages} passages by words"
    if found.has_vector_index:
        cover += f", {found.passages - found.unindexed_vectors} by vectors"
    else:
        cover += "; vectors are searched exactly"
    lines = [
        f"folder      {found.home}",
        f"model       {model['name']} ({model['repository']}, {model['dimensions']} dimensions)",
        f"documents   {found.documents} in {found.passages} passages",
        *(
            f"  library   {one.name}: {one.document_count} documents, {one.chunk_count} passages"
            for one in found.libraries
        ),
        f"size        {found.size_bytes / _MB:.1f} MB in {found.files} files, {found.versions} versions",
        f"indexes     {cover}",
        f"upkeep      {'; '.join(found.pending) or 'nothing pending'}",
        f"jobs        {', '.join(f'{n} {state}' for state, n in sorted(found.jobs.items())) or 'none'}",
        f"schema      {found.schema_version}",
    ]
    if found.hidden_rows:
        lines.append(
            f"hidden      {found.hidden_rows} rows that an interrupted write left; the next one heals"
        )
    lines += [f"recovered   {message}" for message in found.recoveries]
    if found.notice and found.notice not in found.recoveries:
        lines.append(f"notice      {found.notice}")
    return "\n".join(map(output.line, lines))
