"""`mcpvectordb jobs`: work that goes on in some server or command, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import options, output
from .base import job_answers, opened

if TYPE_CHECKING:
    from mcpvectordb.models import FileOutcome, Job, JobPage, JobStatus

_MOST_FILES = 1000


@click.command()
@click.argument("job_id", required=False)
@click.option(
    "--status",
    type=click.Choice(["queued", "running", "done", "failed", "cancelled"]),
    help="Only jobs in this state.",
)
@options.limit(20, 1000, "jobs")
@click.option("--cancel", "cancelled", metavar="JOB_ID", help="Give this job up.")
@options.as_json
def jobs(
    job_id: str | None, status: JobStatus | None, limit: int, cancelled: str | None, as_json: bool
) -> None:
    """Show what is being ingested, or cancel it.

    Without JOB_ID all jobs, newest first; with it that one alone, with the files of a folder. A job that is
    cancelled stops at its next step: its document stays as it was, a folder keeps what is finished.

    \b
    Example:
        mcpvectordb jobs --status running
        mcpvectordb jobs --cancel 5f2b8d3c0a4e4f6f9a5d2c1b0e7f8a9b
    """
    if cancelled is not None and job_id not in (None, cancelled):
        raise click.UsageError("Show one job or cancel one, not both at once.")
    with opened() as db:
        if cancelled is not None:
            job = db.cancel_job(cancelled)
            if as_json:
                output.say_json(job_answers().JobRecord.of(job).payload())
            else:
                output.say(_shown(job))
        elif job_id is not None:
            job = db.job(job_id)
            files = db.job_files(job_id, limit=_MOST_FILES) if job.kind == "folder" else None
            if as_json:
                output.say_json(job_answers().JobsResult.of_one(job, files).payload())
            else:
                output.say("\n".join([_shown(job), *map(_file, files or [])]))
        else:
            page = db.jobs(status=status, limit=limit)
            if as_json:
                output.say_json(job_answers().JobsResult.of(page).payload())
            else:
                _show(page)


def _show(page: JobPage) -> None:
    for job in page.jobs:
        output.say(_shown(job))
    if not page.total:
        output.tell("There are no such jobs.")
    elif len(page.jobs) < page.total:
        output.tell(f"{len(page.jobs)} of {page.total} jobs; see more with --limit.")


def _shown(job: Job) -> str:
    room = output.columns()
    state = f"running {job.progress:.0%}" if job.status == "running" else job.status
    lines = [f"{job.job_id}  {job.created_at[:16].replace('T', ' ')}  {state}", f"    {job.source}"]
    # An error is what somebody came to read: it is not cut.
    told = output.line(f"    {job.error}") if job.error else ""
    if job.message and not job.has_ended:
        lines.append(f"    {job.message}")
    return "\n".join([*(output.cut(output.line(one), room) for one in lines), *([told] if told else [])])


def _file(one: FileOutcome) -> str:
    reason = f": {one.reason}" if one.reason else ""
    return output.line(f"    {one.status:8}  {one.path}{reason}")
