"""Read Markdown into blocks: where headings, paragraphs, items, tables and code begin. Pure.

Knows just enough of Markdown for that, and reads any text in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["heading", "rule", "paragraph", "item", "quote", "table", "code"]

# A paragraph with a line of dashes under it is a heading to Markdown, but a long one was meant to be prose.
_MAX_SETEXT_CHARS = 200
MAX_HEADING_CHARS = 500
PROSE = ("paragraph", "item", "quote")
OPENING = ("heading", "rule")  # not worth finding alone: waits for the text below it
_ATX = re.compile(r"\ufeff?(#{1,6})(?:[ \t]+|\Z)")
# ```like this``` is code within a line. Inside a list, the fence may follow the mark of its item.
_FENCE = re.compile(r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*+(?:(`{3,}+)[^`]*|(~{3,}).*)\Z")
_UNDERLINE = re.compile(r"(?:=+|-+)\Z")
_TABLE_LINE = re.compile(r"(?=[^|]*\|)(?=[^-]*-)[|:\- \t]+\Z")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}\Z")
# With a blank line under it, the first "---" is a rule, and the next one may be far away.
_FRONT_MATTER = re.compile(r"(?ms)\ufeff?---[ \t\r]*\n(?!\s*\n).*?^(?:---|\.\.\.)[ \t\r]*+(?:\n|\Z)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|\Z)")
# Within a paragraph, "1986." at the start of a line is no list, nor is a dash alone.
_FIRST_ITEM = re.compile(r"(?:[-*+]|1[.)])[ \t]+\S")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
# The closing "##" (the sharp of "C#" stays) and "{#anchor}".
_HEADING_END = re.compile(r"(?:(?:\A|\s+)#+|\s*\{#[^{}]*\})\Z")
_MARKS = re.compile(r"(`+)([^`]+)\1|\\([^\w\s])|\*+(?=\S)|(?<=\S)\*+|~~|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)")
BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(slots=True)
class Block:
    kind: Kind
    start: int  # its end is the start of the next, so the white space after it is its own
    level: int = 0
    title: str = ""


def plain_blocks(text: str) -> Iterator[Block]:
    head, body_end = len(text) - len(text.lstrip()), len(text.rstrip())
    yield Block("paragraph", 0)
    for match in BLANK_LINE.finditer(text, head, body_end):
        yield Block("paragraph", match.end())


def markdown_blocks(text: str) -> Iterator[Block]:
    reader, start, is_first = _Reader(text), 0, True
    if front := _FRONT_MATTER.match(text):
        start = front.end()
        reader.begin("rule", 0)  # like a rule, no passage of its own
    # Not str.splitlines, which also ends a line at \x0b, \x85, \u2028 and more.
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        reader.read(start, text[start:end].rstrip())
        start = end
        # Only the last one may still turn out to be something else.
        while len(reader.blocks) > 1:
            yield _from_the_start(reader.blocks.pop(0), is_first)
            is_first = False
    for block in reader.blocks:
        yield _from_the_start(block, is_first)
        is_first = False


def _from_the_start(block: Block, is_first: bool) -> Block:
    """What stands before the first block is its own."""
    return replace(block, start=0) if is_first else block


@dataclass(slots=True)
class _Reader:
    """Reads Markdown line by line; knows just enough of it to tell where a block begins."""

    text: str
    blocks: list[Block] = field(default_factory=list[Block])
    is_open: bool = False  # whether the next line may go on with the last block
    _fence: str = ""
    _fence_indent: int = 0
    _item_indent: int = -1  # -1 outside of lists
    _line_before: int = 0

    def begin(self, kind: Kind, start: int, level: int = 0, title: str = "") -> None:
        self.blocks.append(Block(kind, start, level, title))
        self.is_open = kind not in OPENING

    def read(self, start: int, line: str) -> None:
        body = line.lstrip(" \t")
        indent = len(line[: len(line) - len(body)].expandtabs(4))
        last = self.blocks[-1] if self.blocks else Block("rule", 0)
        kind = last.kind if self.is_open else None
        line_before, self._line_before = self._line_before, start
        is_shallow, is_text = indent <= 3, kind == "paragraph"
        may_be_item = is_shallow or self._item_indent >= 0  # inside a list, all is indented
        if self._fence:
            is_closing = body.startswith(self._fence) and not body.strip(self._fence[0])
            if is_closing and indent <= self._fence_indent + 3:
                self._fence, self.is_open = "", False
        elif not body:
            self.is_open = False
        elif is_shallow and (atx := _ATX.match(body)):
            self._item_indent = -1
            self.begin("heading", start, len(atx[1]), _plain(body[atx.end() :]))
        elif may_be_item and (fence := _FENCE.match(body)):
            self._fence, self._fence_indent = fence[1] or fence[2], indent
            self.begin("code", start)
        elif is_text and is_shallow and start - last.start <= _MAX_SETEXT_CHARS and _UNDERLINE.match(body):
            last.kind, last.level, self.is_open = "heading", 1 if body[0] == "=" else 2, False
            last.title = _plain(self.text[last.start : start])
        elif is_text and _TABLE_LINE.match(body) and "|" in self.text[line_before:start]:
            if line_before > last.start:
                self.begin("table", line_before)
            else:
                last.kind = "table"
        elif (kind == "table" and "|" in line) or (kind == "quote" and body[0] == ">"):
            pass
        elif _RULE.match(body):
            self.begin("rule", start)
        elif is_shallow and body[0] == ">":
            self.begin("quote", start)
        elif may_be_item and (_FIRST_ITEM if is_text else _ITEM).match(body):
            if last.kind != "item" or indent < self._item_indent + 2:
                self.begin("item", start)
                self._item_indent = indent
            self.is_open = True
        elif kind in PROSE or (last.kind == "item" and indent >= 2):
            self.is_open = True
        else:
            self._item_indent = self._item_indent if indent >= 2 else -1
            self.begin("paragraph", start)


def _plain(title: str) -> str:
    title = _LINK.sub(r"\1", _HEADING_END.sub("", title[:MAX_HEADING_CHARS].strip()))
    return " ".join(_MARKS.sub(lambda m: m[2] or m[3] or "", title).split())
