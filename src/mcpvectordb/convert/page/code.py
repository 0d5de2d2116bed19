"""Code blocks, put aside exactly as written while the rest of a page becomes Markdown.

Pure text: a mark stands for each block, and the mark's line says where the block belongs.
"""

from __future__ import annotations

import re

# Private characters, which shape.py takes out of the page's own text, so no page can forge a mark.
OPEN, CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{OPEN}(\\d+){CLOSE}")
# What may stand before code in its line and still let it be a block: quote and list marks.
_LINE_START = re.compile(r"(?:[ >]|[*+-] |\d+\. |: )*")


class Code:
    """The code blocks put aside, in order."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, str]] = []

    def put_aside(self, language: str, text: str) -> str:
        self._blocks.append((language, text))
        return f"{OPEN}{len(self._blocks) - 1}{CLOSE}"

    def put_back(self, markdown: str) -> str:
        return "\n".join(self._restored(line) for line in markdown.split("\n"))

    def put_back_plain(self, text: str) -> str:
        return _MARK.sub(lambda mark: self._blocks[int(mark[1])][1], text)

    def _restored(self, line: str) -> str:
        marks = list(_MARK.finditer(line))
        if not marks:
            return line
        before, after = line[: marks[0].start()], line[marks[-1].end() :]
        if len(marks) == 1 and _LINE_START.fullmatch(before) and not after.strip():
            return before + self._fenced(marks[0], re.sub(r"[^ >]", " ", before))
        if line.lstrip().startswith("|") or all("\n" not in self._text(mark) for mark in marks):
            return _MARK.sub(lambda mark: self._inline(mark, in_table=line.lstrip().startswith("|")), line)
        spread = _MARK.sub(lambda mark: f"\n\n{mark[0]}\n\n", line)
        pieces = [piece.strip() for piece in spread.split("\n\n") if piece.strip()]
        return "\n\n".join(self._restored(piece) for piece in pieces)

    def _text(self, mark: re.Match[str]) -> str:
        return self._blocks[int(mark[1])][1]

    def _fenced(self, mark: re.Match[str], indent: str) -> str:
        language, text = self._blocks[int(mark[1])]
        fence = _longer_than_any(text, 3)
        lines = [f"{fence}{language}", *text.split("\n"), fence]
        return "\n".join([lines[0], *((indent + line if line else indent.rstrip()) for line in lines[1:])])

    def _inline(self, mark: re.Match[str], *, in_table: bool) -> str:
        text = " ".join(self._text(mark).split())
        tick = _longer_than_any(text, 1)
        padded = f" {text} " if "`" in text else text
        return f"{tick}{padded.replace('|', chr(92) + '|') if in_table else padded}{tick}"


def _longer_than_any(text: str, shortest: int) -> str:
    return "`" * max([shortest, *(len(run) + 1 for run in re.findall("`+", text))])
