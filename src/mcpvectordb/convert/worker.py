"""The converter process, seen from the server: started when first needed, watched, killed and replaced.

A document may make a library loop for ever, take all memory or crash. All that dies with this process; the
server gives one clear error and goes on.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mcpvectordb.errors import ConversionError, ConverterDied, UnsupportedType
from mcpvectordb.models import PageMark

from . import frames
from .formats import Format
from .read import Read

if TYPE_CHECKING:
    import psutil

logger = logging.getLogger(__name__)

_MB = 1024 * 1024
# How often the watcher looks at time and memory; in that time a reader can fill some 50 MB.
_LOOK_S = 0.02
# What allocators end a process by when there is no memory, and the system when it has none left.
_ENDED_FOR_MEMORY = ("SIGABRT", "SIGTRAP", "SIGILL", "SIGKILL")
# Of the folders for temporary files, followed by the number of the process that owns one.
_PREFIX = "mcpvectordb-convert-"
# For a crash to be over, once its pipe has closed.
_CRASH_S = 1.0
_MUCH = 0.4
# Libraries keep what they have seen; a new process now and then forgets it.
_MOST_FILES = 200
_MOST_INPUT_MB = 200
# And what one large file took stays with its process: the server may need it while it embeds that file.
_MOST_KEPT_MB = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    timeout_s: float = 120.0
    memory_mb: int = 512
    text_mb: int = 25


class _Died(Exception):
    """The process has gone, or was sent away. `reason` completes a sentence about the file."""

    def __init__(self, reason: str, *, may_retry: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_retry = may_retry


class Worker:
    """One conversion at a time, from any thread."""

    def __init__(self, limits: Limits, *, module: str = "mcpvectordb.convert.child") -> None:
        self._limits = limits
        self._module = module
        self._turn = threading.Lock()
        self._process: _Process | None = None
        self._closed = False

    def convert(
        self, known: Format, data: bytes, file_name: str, checkpoint: Callable[[], None] = lambda: None
    ) -> Read:
        with self._turn:
            while True:
                process = self._ready(len(data))
                was_fresh = process.files == 0
                try:
                    answer, text = process.ask(known, data, file_name, checkpoint)
                except _Died as exc:
                    self._drop()
                    # A process that has read other files may have been full of them.
                    if exc.may_retry and not was_fresh:
                        logger.info("converter replaced: %s", exc.reason)
                        continue
                    raise ConverterDied(f"{file_name} {exc.reason}.") from exc
                except BaseException:
                    # Given up in the middle: the process is still at it, and the next file needs one now.
                    self._drop()
                    raise
                if process.is_swollen():
                    self._drop()
                return _result(answer, text, known, file_name, self._limits)

    def stop(self) -> None:
        """End the process at once, whatever it is doing; a conversion under way fails."""
        self._closed = True
        if process := self._process:
            process.end()

    def _ready(self, size: int) -> _Process:
        if self._closed:
            raise ConversionError("The converter has been stopped: start the server again.")
        process = self._process
        if process and (process.is_spent(size) or not process.is_alive()):
            self._drop()
        if self._process is None:
            self._process = _Process(self._limits, self._module)
        return self._process

    def _drop(self) -> None:
        if process := self._process:
            process.end()
        self._process = None


class _Process:
    def __init__(self, limits: Limits, module: str) -> None:
        import psutil  # noqa: PLC0415 - not before there is something to watch

        self.files = 0
        self._input_bytes = 0
        self._most_seen_bytes = 0
        self._limits = limits
        # Where its temporary files go, so that a kill leaves none behind.
        _sweep()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        places = {name: str(self._folder) for name in ("TMPDIR", "TEMP", "TMP")}
        self._child = subprocess.Popen(
            # -P: the folder it stands in is not a place to import from.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env={**os.environ, **places, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._usage: psutil.Process | None = None
        try:
            self._usage = psutil.Process(self._child.pid)
            frames.send(self._to(), {"memory_mb": limits.memory_mb})
        except (OSError, psutil.Error) as exc:
            self.end()
            raise _Died(f"was not read: the converter did not start ({exc})", may_retry=False) from exc

    def is_alive(self) -> bool:
        return self._child.poll() is None

    def is_spent(self, size: int) -> bool:
        return self.files > 0 and (
            self.files >= _MOST_FILES or self._input_bytes + size > _MOST_INPUT_MB * _MB
        )

    def is_swollen(self) -> bool:
        return self._memory_bytes() > _MOST_KEPT_MB * _MB

    def ask(
        self, known: Format, data: bytes, file_name: str, checkpoint: Callable[[], None]
    ) -> tuple[dict[str, Any], bytes]:
        limits = self._limits
        head = {
            "file_name": file_name,
            "file_type": known.file_type,
            "timeout_s": limits.timeout_s,
            "most_text_bytes": limits.text_mb * _MB,
        }
        replies: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None] = queue.SimpleQueue()
        # In a thread of its own, since a process that is stuck does not read either. Killing it frees both.
        threading.Thread(
            target=self._exchange, args=(head, data, replies), name="converter", daemon=True
        ).start()
        deadline = time.monotonic() + limits.timeout_s
        reply = None
        while True:
            try:
                reply = replies.get(timeout=_LOOK_S)
                break
            except queue.Empty:
                checkpoint()
            if time.monotonic() > deadline:
                raise _Died(
                    f"took longer than {limits.timeout_s:g} s to convert and was given up: split it, save it "
                    "in another format, or raise MCPVECTORDB_CONVERT_TIMEOUT_S",
                    may_retry=False,
                )
            if self._memory_bytes() > limits.memory_mb * _MB:
                raise _out_of_memory(limits)
        self.files += 1
        self._input_bytes += len(data)
        if reply is None:
            if self._was_ended_for_memory():
                raise _out_of_memory(limits)
            raise _Died(
                "made the converter crash, so it was not read: it may be damaged. "
                "Open it in its program, save it again and add that",
                may_retry=True,
            )
        if reply[0].get("failure") == "memory":
            raise _out_of_memory(limits)
        return reply

    def end(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what could not be written to it any more
                    logger.debug("the converter's pipe was broken")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _to(self) -> Any:
        return cast("Any", self._child.stdin)

    def _exchange(
        self,
        head: dict[str, Any],
        data: bytes,
        replies: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None],
    ) -> None:
        most = self._limits.text_mb * _MB + 64 * _MB  # the marks of many pages stand in the head
        try:
            frames.send(self._to(), head, data)
            replies.put(frames.receive(cast("Any", self._child.stdout), most_bytes=most))
        except (OSError, ValueError):  # it has gone, or talks nonsense: the same to whoever waits
            replies.put(None)

    def _memory_bytes(self) -> int:
        import psutil  # noqa: PLC0415 - not before there is something to watch

        try:
            used = self._usage.memory_info().rss if self._usage else 0
        except psutil.Error:  # gone: the exchange says so
            return 0
        self._most_seen_bytes = max(self._most_seen_bytes, used)
        return used

    def _was_ended_for_memory(self) -> bool:
        """Whether it crashed as one does that is refused memory, having used much.

        A library that asks for more than there is mostly asks for as much again as it has: what was last seen
        is then half of the limit, or a little less for what came since.
        """
        try:
            code = self._child.wait(_CRASH_S)
        except subprocess.TimeoutExpired:  # it talked nonsense, and lives on
            return False
        ended = {-getattr(signal, name) for name in _ENDED_FOR_MEMORY if hasattr(signal, name)}
        return code in ended and self._most_seen_bytes > self._limits.memory_mb * _MB * _MUCH


def _sweep() -> None:
    """Remove what servers that were killed have left."""
    import psutil  # noqa: PLC0415 - not before there is something to watch

    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)  # another user's stays: it is not ours to remove


def _out_of_memory(limits: Limits) -> _Died:
    return _Died(
        f"needs more than {limits.memory_mb} MB of memory to convert and was given up: split it, save it in "
        "another format, or raise MCPVECTORDB_CONVERT_MEMORY_MB",
        may_retry=True,
    )


def too_much_text(file_name: str, limits: Limits) -> ConversionError:
    return ConversionError(
        f"{file_name} holds more than {limits.text_mb} MB of text: "
        "split it, or raise MCPVECTORDB_MAX_TEXT_MB."
    )


def _result(answer: dict[str, Any], text: bytes, known: Format, file_name: str, limits: Limits) -> Read:
    if error := answer.get("error"):
        raise UnsupportedType(error) if answer.get("unsupported") else ConversionError(error)
    failure = answer.get("failure")
    if failure == "output":
        raise too_much_text(file_name, limits)
    if failure:
        raise ConversionError(
            f"{file_name} could not be read as {known.description} ({failure}): it may be damaged. "
            "Open it in its program, save it again and add that."
        )
    return Read(
        text=text.decode("utf-8"),
        title=str(answer["title"]),
        is_markdown=bool(answer["is_markdown"]),
        pages=tuple(PageMark(offset=offset, page=page) for offset, page in answer["pages"]),
        notice=str(answer["notice"]),
    )
