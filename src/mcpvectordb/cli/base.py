"""What every command shares: settings and the database for as long as a command runs, and how one ends.

Nothing is read or opened before a command's body asks for it: click runs a group's callback before `--help`.
This is the one place where an error becomes a sentence on stderr and an exit code.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import logging.handlers
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mcpvectordb import settings
from mcpvectordb.errors import VectorDBError

from . import output

if TYPE_CHECKING:
    from mcpvectordb.vectordb import VectorDB

logger = logging.getLogger(__name__)

FAILED, MISUSED, PARTLY, INTERRUPTED, READER_GONE = 1, 2, 3, 130, 141
# The table of docs/cli.md.
EXIT_CODES = {
    0: "done; a search that finds nothing, too",
    FAILED: "failed, and stderr says why; for doctor, a problem is left",
    MISUSED: "not understood: an option or argument is wrong or missing",
    PARTLY: "of several files, addresses or documents some failed",
    INTERRUPTED: "interrupted by Ctrl-C; nothing is half written",
    READER_GONE: "whatever read the output went away, as head does",
}
# What a command that writes may add to its own time for the upkeep that its writing made due.
_CATCH_UP_S = 5.0
# What running calls may take, together, to come to a stop once the client has gone. Clients kill a server
# that is still there after two seconds.
_GRACE_S = 1.5


class Commands(click.Group):
    """A group whose commands end as `EXIT_CODES` tells, with one sentence on stderr where they fail."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # Here --help and --version print.
        with _ended():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _ended():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order they were added, which is the order one meets them in."""
        return list(self.commands)


@contextmanager
def _ended() -> Generator[None]:
    try:
        yield
    except VectorDBError as exc:
        raise click.ClickException(output.line(str(exc))) from exc
    except KeyboardInterrupt:
        output.tell("Interrupted.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (output.ReaderGone, BrokenPipeError):
        raise click.exceptions.Exit(READER_GONE) from None
    except OSError as exc:
        # click's own printing, which is past `output`.
        if exc.errno != errno.ENOSPC:
            raise
        raise output.unwritten(exc) from exc


def exit_code(*, done: int, failed: int) -> int:
    """The code of a command that did many things."""
    if not failed:
        return 0
    return PARTLY if done else FAILED


def run_to_the_end(command: Commands) -> None:
    """Run a command as the whole of this process. Not a part of the group: a test's process goes on."""
    output.prepare()
    code = FAILED
    try:
        command(prog_name="mcpvectordb")
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1 if exc.code else 0
    except BrokenPipeError:  # stderr has gone too
        code = READER_GONE
    except Exception:
        logger.exception("a command failed in a way that is a bug of ours")
        output.tell("Internal error: this is a bug in mcpvectordb, and what stands above has the details.")
    output.finish()
    if any(thread.name.startswith(("upkeep", "job-")) for thread in threading.enumerate()):
        # Native code in a daemon thread crashes while the interpreter is taken down around it; being cut off
        # harms neither upkeep nor a job.
        os._exit(code)
    sys.exit(code)


def end(db: VectorDB) -> None:
    """End although a call may still be running: whatever it has not committed is not half written."""
    db.stop()
    running = [t for t in threading.enumerate() if t.name.startswith("call-")]
    until = time.monotonic() + _GRACE_S
    for thread in running:
        thread.join(max(0.0, until - time.monotonic()))
    has_stopped = db.give_back(max(0.0, until - time.monotonic()))
    logging.shutdown()
    if not has_stopped or any(thread.is_alive() for thread in running):
        # Native code in a daemon thread crashes while the interpreter is taken down around it.
        os._exit(0)
    db.close()


@contextmanager
def ended_by_interrupt(db: VectorDB) -> Generator[None]:
    """Around a server over stdio: Ctrl-C ends it, though nothing wakes the thread that reads stdin."""
    is_ending = threading.Event()

    def finish() -> None:
        end(db)
        output.finish()
        os._exit(0)

    def interrupted(_signal: int, _frame: object) -> None:
        if is_ending.is_set():
            os._exit(INTERRUPTED)
        is_ending.set()
        # Not here: whatever was interrupted may hold a lock that ending needs.
        threading.Thread(target=finish, name="ending", daemon=True).start()

    before = signal.getsignal(signal.SIGINT)
    # Else whoever started it has told it to overhear Ctrl-C, as a shell tells what it runs in the background.
    is_ours = before is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


@contextmanager
def opened(*, writes: bool = False) -> Generator[VectorDB]:
    """The database that the settings name, closed when the command ends.

    A command that writes does the upkeep that has become due: no server may be there to do it later.
    """
    # A second and more of imports: --help and --version do without.
    from mcpvectordb.vectordb import VectorDB  # noqa: PLC0415

    with VectorDB(configured(is_command=True)) as db:
        yield db
        if writes:
            # Its result is told already: who has had enough of waiting may go.
            with contextlib.suppress(KeyboardInterrupt):
                db.catch_up(_CATCH_UP_S)


def answers():
    """The tools' answers, which are what `--json` prints too."""
    # They come with the protocol's SDK, half a second of imports that people's output does without.
    from mcpvectordb.server import results  # noqa: PLC0415

    return results


def job_answers():
    """Those about jobs and folders."""
    from mcpvectordb.server import job_results  # noqa: PLC0415

    return job_results


def configured(*, is_command: bool = False) -> settings.Settings:
    """The settings, with logging set up as they say.

    A command tells a person what it does, so its stderr has warnings only, unless a level was asked for.
    """
    config = settings.load()
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if is_command and "log_level" not in config.model_fields_set:
        handlers[0].setLevel(logging.WARNING)
    if config.log_file is not None:
        try:
            config.log_file.expanduser().parent.mkdir(parents=True, exist_ok=True)
            handlers.append(
                logging.handlers.RotatingFileHandler(
                    config.log_file.expanduser(), maxBytes=5_000_000, backupCount=3, encoding="utf-8"
                )
            )
        except OSError as exc:
            raise click.ClickException(
                f"MCPVECTORDB_LOG_FILE cannot be written: {exc}. Choose another file."
            ) from exc
    logging.basicConfig(
        level=config.log_level, handlers=handlers, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("mcp", "asyncio", "httpx", "httpx2", "filelock", "uvicorn", "sse_starlette"):
        logging.getLogger(noisy).setLevel(logging.ERROR if config.log_level == "ERROR" else logging.WARNING)
    return config
