"""What commands print: results on stdout, talk on stderr, and nothing that could play with a terminal.

Names, titles and passages come from documents, and a document may hold anything: an escape sequence in the
name of a file would move the cursor, a line break would fake a line of ours. So what is printed for people
goes through here. What is printed for programs (JSON, a document's text into a pipe) is exact.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, cast

import click

# Control characters, halves of surrogate pairs, line separators, and what turns the direction of writing, so
# that a line reads otherwise than it is.
_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(rf"(?!\r\n)[{_UNSAFE}]")
_IN_LINE = re.compile(rf"[\t\n{_UNSAFE}]")
# JSON has its own way to write these, and json.dumps leaves them as they are.
_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NAMED = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_PASSAGE_LINES = 3


class ReaderGone(Exception):
    """Nobody reads our output any more, and nothing more need be printed."""


def prepare() -> None:
    """Characters that the terminal's encoding lacks are shown by their numbers; they end no command.

    A stream that is closed from the start goes nowhere. Left alone, the next file that is opened would get
    its number, and with it whatever a library writes there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  (for good)
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        cast("io.TextIOWrapper", stdout).reconfigure(errors="backslashreplace")


def finish() -> None:
    """All that was printed is out, or is lost without a word."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)


def say(text: str) -> None:
    """A line or more of the result."""
    _write(_escaped(_IN_TEXT, text) + "\n")


def say_text(text: str) -> None:
    """A document's text: exact for a program, harmless for a terminal."""
    if columns() is not None:
        say(text.removesuffix("\n"))
    else:
        # Past the stream's own translation of line ends.
        _write(text.encode())


def say_json(value: object, *, indent: int | None = 2) -> None:
    """JSON, as UTF-8 wherever the stream can take it. Without indent it is one line."""
    is_utf8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not is_utf8, indent=indent)
    _write(_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def tell(text: str) -> None:
    """A line of talk. That nobody listens is no reason to stop."""
    try:
        click.echo(_escaped(_IN_TEXT, text), err=True)
    except OSError:
        _discard(sys.stderr)


def tell_notice(notice: str | None) -> None:
    if notice:
        tell(line(notice))


def line(text: str) -> str:
    """A name, or a sentence that holds one, as part of one line."""
    return _escaped(_IN_LINE, text)


def columns() -> int | None:
    """How wide the terminal is; None where results go to a file or a pipe, and nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def passage(text: str, *, indent: str = "") -> str:
    """A passage as a few lines of the terminal's width, or whole in one line where there is no terminal."""
    words = line(" ".join(text.split())).split(" ")
    room = columns()
    if room is None:
        return indent + " ".join(words)
    room = max(20, room - len(indent) - 1)
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if _cells(longer) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
        if len(lines) > _PASSAGE_LINES:
            break
    shown = [cut(one, room) for one in lines[:_PASSAGE_LINES]]
    if len(lines) > _PASSAGE_LINES:
        shown[-1] = cut(shown[-1] + "  …", room) if _cells(shown[-1]) < room else cut(shown[-1] + "…", room)
    return "\n".join(indent + one for one in shown)


def cut(text: str, room: int | None) -> str:
    """text in so many cells of a terminal; whole where there is none."""
    if room is None or _cells(text) <= room:
        return text
    kept, used = "", 0
    for char in text:
        used += _cells(char)
        if used > room - 1:
            break
        kept += char
    return kept.rstrip() + "…"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 passage`, `12 passages`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows whose columns stand below each other."""
    cells = [[line(cell) for cell in row] for row in rows]
    widths = [max(map(_cells, column)) for column in zip(*cells, strict=True)]

    def padded(row: Sequence[str]) -> str:
        pairs = zip(row, widths, strict=True)
        return "  ".join(cell + " " * (width - _cells(cell)) for cell, width in pairs).rstrip()

    return "\n".join(padded(row) for row in cells)


def _escaped(unsafe: re.Pattern[str], text: str) -> str:
    return unsafe.sub(lambda found: _NAMED.get(found[0]) or _numbered(ord(found[0])), text)


def _numbered(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _cells(text: str) -> int:
    """How many cells of a terminal text takes: none for an accent, two for a wide character."""
    if text.isascii():
        return len(text)
    seen = [char for char in text if unicodedata.category(char) not in ("Mn", "Me", "Cf")]
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in seen)


def _write(what: str | bytes) -> None:
    stdout = sys.stdout
    if isinstance(what, str):
        what = what.replace("\n", os.linesep).encode(stdout.encoding, stdout.errors or "strict")
    try:
        stdout.flush()
        left = memoryview(what)
        while left:
            # All of it, unless Python runs unbuffered: a reader that leaves then makes it a part, no error.
            left = left[stdout.buffer.write(left) :]
        stdout.buffer.flush()
    except OSError as exc:
        _discard(stdout)
        # Windows says EINVAL of a pipe that nobody reads.
        if exc.errno in (errno.EPIPE, errno.EINVAL):
            raise ReaderGone from exc
        raise unwritten(exc) from exc


def unwritten(exc: OSError) -> click.ClickException:
    return click.ClickException(f"The output cannot be written: {exc.strerror}.")


def _discard(stream: TextIO) -> None:
    """Let what is left in a stream's buffer go nowhere: the interpreter would complain of it at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
