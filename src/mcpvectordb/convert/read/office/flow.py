"""Blocks of a document, one after another, to Markdown; and pages of them, to a text with marks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mcpvectordb.convert.read.tables import markdown_table
from mcpvectordb.models import PageMark

from .prose import one_line, paragraph

_INDENT = 4
_TYPED_NUMBER = re.compile(r"(\d{1,3}[.)]) (?=\S)")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*\n")
_LINE_ENDS = re.compile(r"[ \t]+$", re.M)


@dataclass(frozen=True, slots=True)
class _Block:
    kind: str
    text: str
    flat: str = ""  # on one line, where that is not the text itself


class Flow:
    """Blocks in reading order. Items of a list, lines of code and lines of a quote draw together."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._levels: list[int] = []

    def __bool__(self) -> bool:
        return any(block.text for block in self._blocks)

    @property
    def is_simple(self) -> bool:
        """One paragraph, or nothing."""
        return not self._blocks or (len(self._blocks) == 1 and self._blocks[0].kind == "paragraph")

    def holds(self, kind: str) -> bool:
        return any(block.kind == kind for block in self._blocks)

    def heading(self, level: int, text: str) -> None:
        text = one_line(text)
        if text:
            self._add("heading", f"{'#' * min(6, max(1, level))} {text}", text)

    def paragraph(self, text: str) -> None:
        self._add("paragraph", paragraph(text))

    def quote(self, text: str) -> None:
        self._add("quote", "\n".join(f"> {line}" for line in paragraph(text).split("\n") if line), text)

    def item(self, level: int, marker: str, text: str) -> None:
        """An item of a list; marker is "-" or a number with its stop, level counts from 0."""
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if not lines:
            return
        if marker == "-" and (typed := _TYPED_NUMBER.match(lines[0])):
            # A number typed by hand is a better mark than a bullet before it.
            marker, lines[0] = typed[1], lines[0][typed.end() :]
        if not self._blocks or self._blocks[-1].kind != "item":
            self._levels = []
        while self._levels and self._levels[-1] >= level:
            self._levels.pop()
        self._levels.append(level)
        indent = " " * _INDENT * (len(self._levels) - 1)
        more = "".join(f"\n{indent}{' ' * _INDENT}{line}" for line in lines[1:])
        self._add("item", f"{indent}{marker} {lines[0]}{more}")

    def code(self, text: str) -> None:
        """A line of code, or several."""
        # Blank lines matter inside code alone, so an empty one does not open a block.
        if text.strip() or (self._blocks and self._blocks[-1].kind == "code"):
            self._blocks.append(_Block("code", "\n".join(line.rstrip() for line in text.split("\n"))))

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        flat = "; ".join(", ".join(cell for cell in row if cell) for row in rows if any(row))
        self._add("table", markdown_table(rows), flat)

    def raw(self, markdown: str) -> None:
        """Markdown that is already finished."""
        self._add("raw", markdown.strip())

    def gap(self) -> None:
        """What follows stands apart: another shape, whose list is another list."""
        self._blocks.append(_Block("gap", ""))

    def extend(self, other: Flow) -> None:
        self._blocks += other._blocks

    def text(self) -> str:
        parts = [
            _drawn_together(kind, [block.text for block in blocks])
            for kind, blocks in groupby(self._blocks, key=lambda block: block.kind)
        ]
        return "\n\n".join(part for part in parts if part)

    def in_cell(self) -> str:
        """The blocks on one line, for a cell of a table."""
        blocks = [block for block in self._blocks if block.text]
        if len(blocks) == 1 and blocks[0].kind == "item":
            # A list of one is none: slides have a bullet in every cell.
            return " ".join(blocks[0].text.split()).removeprefix("- ")
        return " ".join(" ".join((block.flat or block.text).split()) for block in self._blocks).strip()

    def _add(self, kind: str, text: str, flat: str = "") -> None:
        if text.strip():
            self._blocks.append(_Block(kind, text, flat))


def _drawn_together(kind: str, texts: list[str]) -> str:
    if kind == "code":
        return fenced("\n".join(texts))
    return {"item": "\n", "quote": "\n>\n"}.get(kind, "\n\n").join(texts)


def fenced(code: str) -> str:
    code = code.strip("\n").rstrip()
    longest = max([2, *(len(run) for run in re.findall("`{3,}", code))])
    fence = "`" * (longest + 1)
    return f"{fence}\n{code}\n{fence}" if code else ""


def tidy(text: str) -> str:
    """No blanks at line ends, at most one blank line in a row."""
    return _BLANK_LINES.sub("\n\n", _LINE_ENDS.sub("", text)).strip()


class Pages:
    """Pages, slides or sheets in order, with the offset each begins at."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._marks: list[PageMark] = []
        self._length = 0

    def add(self, page: int, text: str) -> None:
        """page 0 is text that stands on no page, such as notes at the end."""
        text = text.strip()
        if not text:
            return
        if self._parts:
            self._length += 2
        if page:
            self._marks.append(PageMark(offset=self._length, page=page))
        self._parts.append(text)
        self._length += len(text)

    @property
    def text(self) -> str:
        return "\n\n".join(self._parts)

    @property
    def marks(self) -> tuple[PageMark, ...]:
        return tuple(self._marks)
