"""Rules of the Markdown that readers give back: tidy lines, safe fences, headings a level down. Pure."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\ufeff]")
# Unicode's own line and paragraph ends, and the old form feed.
_LINE_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Looking behind first: a run of a million blanks is then tried once, not from each of its places.
_LINE_ENDS = re.compile(r"(?<![ \t])[ \t]++$", re.M)
_BLANK_LINES = re.compile(r"\n{3,}")

_BACKTICKS = re.compile(r"`{3,}")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"( {0,3})(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(?:-+|=+)[ \t]*$")
_DEEPEST = 6
# The mark above a mail's signature would make a heading of the farewell above it.
_LONGEST_SIGNATURE_MARK = 3


def tidied(text: str) -> str:
    """Without control characters, blanks at line ends, and more than one blank line in a row."""
    text = _CONTROLS.sub("", _LINE_BREAKS.sub("\n", text))
    return _BLANK_LINES.sub("\n\n", _LINE_ENDS.sub("", text)).strip("\n")


def one_line(text: str) -> str:
    return " ".join(_CONTROLS.sub("", _LINE_BREAKS.sub(" ", text)).split())


def fenced(text: str, language: str = "") -> str:
    """The text as a code block that no line of its own can end."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def closed(text: str) -> str:
    """Markdown whose last code block is closed, so that nothing after it is taken for code."""
    fence = ""
    for line in text.split("\n"):
        fence = _fence_after(line, fence)
    return f"{text}\n{fence}" if fence else text


def demoted(text: str, levels: int) -> str:
    """Markdown with its headings that many levels down, so that it can stand below a heading of ours."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, _fence_after(line, fence)
        if not before and (found := _HEADING.match(line)):
            marks = "#" * min(_DEEPEST, len(found[2]) + levels)
            line = f"{marks}{line[found.end() :]}"
        lines.append(line)
    return "\n".join(lines)


def plain_in_markdown(text: str) -> str:
    """Plain text such that Markdown sees no heading and no endless code block where there is none."""
    lines: list[str] = []
    fences = [index for index, line in enumerate(text.split("\n")) if _FENCE.match(line)]
    stray = fences[-1] if len(fences) % 2 else -1
    for index, line in enumerate(text.split("\n")):
        if _HEADING.match(line) or index == stray:
            indent = len(line) - len(line.lstrip())
            line = f"{line[:indent]}\\{line[indent:]}"
        elif lines and lines[-1].strip() and _UNDERLINE.match(line) and not _is_heading(lines, line):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _is_heading(above: list[str], underline: str) -> bool:
    """Whether a line of dashes underlines a heading: one line alone, and a real stroke below it."""
    is_alone = len(above) == 1 or not above[-2].strip()
    return is_alone and len(underline.strip()) > _LONGEST_SIGNATURE_MARK


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after this line, if one was open before it or not."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    is_end = found[1][0] == fence[0] and len(found[1]) >= len(fence) and not line.strip(" \t`~")
    return "" if is_end else fence
