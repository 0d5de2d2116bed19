"""The converter process: reads a file's bytes from its pipe, writes its Markdown back, one at a time.

Started by worker.py as `python -m mcpvectordb.convert.child`; ends when its pipe closes. It has no business
with the network or with other programs, and an audit hook holds it to that: a document can make a library
follow a link, but not get anywhere.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from mcpvectordb.errors import ConversionError, UnsupportedType

from . import archive, frames
from .formats import BY_FILE_TYPE, EPUB, ODF, Format
from .read import Read

# The worker counts too; this is for the case that nobody is left to count.
_LATE_S = 5.0
_REFUSED = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.startfile",
)


def main() -> None:
    requests, answers = _own_pipes()
    head, _ = frames.receive(requests, most_bytes=4096) or ({}, b"")
    _limit_memory(int(head["memory_mb"]))
    sys.addaudithook(_refuse)
    while (message := frames.receive(requests, most_bytes=2**31)) is not None:
        head, data = message
        # Ends this process from outside the interpreter, should a library never return and nobody be left
        # to kill it.
        faulthandler.dump_traceback_later(float(head["timeout_s"]) + _LATE_S, exit=True, file=2)
        answer, text = _answer(head, data)
        faulthandler.cancel_dump_traceback_later()
        frames.send(answers, answer, text)


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our pipes on numbers of their own, so that nothing a library prints gets among the answers."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    return requests, answers


def _limit_memory(memory_mb: int) -> None:
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    # The worker watches what is really used; this stops a leap that is over before it has looked again.
    if sys.platform == "linux":
        most = (memory_mb + memory_mb // 4 + 128) * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if event in _REFUSED:
        raise PermissionError(f"a document may not cause {event}")


def _answer(head: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    file_name, known = str(head["file_name"]), BY_FILE_TYPE[str(head["file_type"])]
    try:
        found = _read(known, data, file_name)
        text = found.text.encode("utf-8", "replace")
    except UnsupportedType as exc:
        return {"error": str(exc), "unsupported": True}, b""
    except ConversionError as exc:
        return {"error": str(exc)}, b""
    except MemoryError:
        return {"failure": "memory"}, b""
    # Whatever a library trips over in a file is a fact about the file, and the answer to it is the same.
    except Exception as exc:  # noqa: BLE001
        return {"failure": f"{type(exc).__name__}: {exc}"[:300]}, b""
    if len(text) > int(head["most_text_bytes"]):
        return {"failure": "output"}, b""
    marks = [(mark.offset, mark.page) for mark in found.pages]
    answer = {"title": found.title, "is_markdown": found.is_markdown, "pages": marks, "notice": found.notice}
    return answer, text


def _read(known: Format, data: bytes, file_name: str) -> Read:
    if known.packing == "zip":
        archive.check(data, file_name, doctypes=known in (EPUB, *ODF))
    module, _, function = known.reader.partition(":")
    reader: Callable[[bytes, str], Read] = getattr(
        importlib.import_module(f"mcpvectordb.convert.read.{module}"), function
    )
    return reader(data, file_name)


if __name__ == "__main__":
    main()
