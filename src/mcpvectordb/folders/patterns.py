"""One pattern of a .gitignore file as a regular expression, with the meaning that git gives it. Pure.

Our own, because the libraries there are ask whether a path or any folder above it is matched, and differ from
git where patterns contradict each other; a walk asks of each folder on its way. They also try every way to
share a name out among the stars of `*a*a*a*a*b`, so that a .gitignore that came with a download could stop
the program for hours. Here, what the first stars match is kept to.

A path is relative to the .gitignore file, with slashes, and that of a folder ends with one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

# In place of a star within a name, among the expressions of its other characters.
_STAR = "*"
_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": re.escape(string.punctuation),
    "space": r" \t\n\v\f\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    expression: str  # for the whole of a path, or of a name
    takes: bool  # False where it begins with "!"
    is_of_name: bool  # it has no slash, and means any file or folder of that name


def parse(line: str) -> Pattern | None:
    """The pattern of a line; None for a blank one, a comment, and one that nothing can match."""
    text = _trimmed(line)
    if text.startswith("#"):
        return None
    takes = not text.startswith("!")
    text = text if takes else text[1:]
    end = "/" if text.endswith("/") else "/?"
    text = text.removesuffix("/")
    is_of_name = "/" not in text
    expression = _path(text.removeprefix("/"))
    if expression is None:
        return None
    return Pattern(f"(?:{expression}){end}", takes, is_of_name)


def _trimmed(line: str) -> str:
    """Without the blanks at its end, but for one after a backslash."""
    end = at = 0
    while at < len(line):
        at += 2 if line[at] == "\\" else 1
        if line[at - 1 : at] != " " or line[at - 2 : at - 1] == "\\":
            end = at
    return line[:end]


def _path(text: str) -> str | None:
    """A path: names, and ** for any number of folders."""
    runs: list[list[str]] = [[]]  # of names, with ** between one and the next
    for part in text.split("/"):
        if len(part) > 1 and not part.strip("*"):
            if runs[-1] or len(runs) == 1:
                runs.append([])
        else:
            name = _name(part)
            if name is None:
                return None
            runs[-1].append(name)
    first, *others = ("/".join(run) for run in runs)
    if not others:
        return first
    *inner, last = others
    # The first place where an inner run of names fits is as good as any.
    found = "".join(f"(?>(?:[^/]+/)*?{run}/)" for run in inner)
    return f"{first}{'/' if runs[0] else ''}{found}{f'(?:[^/]+/)*{last}' if runs[-1] else '.+'}"


def _name(text: str) -> str | None:
    """A name, in which no slash can stand."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            if pieces[-1:] != [_STAR]:
                pieces.append(_STAR)
        elif char == "?":
            pieces.append("[^/]")
        elif char == "[":
            found = _set(text, at)
            if found is None:
                return None
            expression, at = found
            pieces.append(expression)
        elif char == "\\":
            if at == len(text):
                return None
            pieces.append(re.escape(text[at]))
            at += 1
        else:
            pieces.append(re.escape(char))
    if pieces == [_STAR]:
        return "[^/]+"
    return _with_stars(pieces) if pieces else None


def _with_stars(pieces: Sequence[str]) -> str:
    """The first place where what stands between two stars fits is as good as any."""
    texts = [""]
    for piece in pieces:
        if piece == _STAR:
            texts.append("")
        else:
            texts[-1] += piece
    first, *others = texts
    if not others:
        return first
    *inner, last = others
    return first + "".join(f"(?>[^/]*?{text})" for text in inner) + f"[^/]*{last}"


def _set(text: str, at: int) -> tuple[str, int] | None:
    """A set of characters such as [a-z] with at past its first bracket, and where the text goes on."""
    is_negated = text[at : at + 1] in ("!", "^")
    at += is_negated
    first = at
    items: list[str] = []
    low = ""  # the character that a range would begin with
    while at < len(text):
        char = text[at]
        if char == "]" and at > first:
            inside = "".join(items)
            if is_negated:
                return f"[^/{inside}]", at + 1
            return (f"(?!/)[{inside}]" if inside else "(?!)"), at + 1
        if char == "[" and text[at + 1 : at + 2] == ":":
            end = text.find("]", at + 2)
            if end < 0:
                return None
            if text[end - 1] == ":" and end > at + 2:
                if text[at + 2 : end - 1] not in _POSIX:
                    return None
                items.append(_POSIX[text[at + 2 : end - 1]])
                at, low = end + 1, ""
                continue
        elif char == "-" and low and text[at + 1 : at + 2] not in ("", "]"):
            at += 1 + (text[at + 1] == "\\")
            if at >= len(text):
                return None
            if low <= text[at]:
                items.append(f"{re.escape(low)}-{re.escape(text[at])}")
            at, low = at + 1, ""
            continue
        elif char == "\\":
            at += 1
            if at == len(text):
                return None
            char = text[at]
        items.append(re.escape(char))
        at, low = at + 1, char
    return None
