"""JSON to lines that are read and searched: laid out from its own letters, never from parsed values.

So numbers keep every digit, keys that stand twice stay twice, and no depth is too deep. What an escape hides
from search comes out: \\u00e9 becomes é, and \\n within a string a new line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

# A list of numbers is one token: one by one, millions of them would take a gigabyte, and a line each.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|\[[^\[\]{}"]++\]|[\[\]{},:]|[^\s\[\]{},:"]+', re.S)
_FULL_LINE = re.compile(r"([^\n]{60,}?), ")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.S)
# What these stand for, as it is read; a quote and a backslash keep their escapes, or nobody could tell
# where the string ends.
_MEANT = {"n": "\n", "r": "", "t": " ", "b": "", "f": "\n", "/": "/"}
_HIDING_ESCAPE = re.compile(r'(?<!\\)(?:\\\\)*+\\[^"\\]')

# A list of numbers or a small object is read as one line.
_ONE_LINE_CHARS = 100
# Deeper layers are indented no further: a thousand layers would be a megabyte of blanks.
_DEEPEST_INDENT = 24
# Lines longer than this were not laid out for reading.
_LONGEST_LINE = 2000
_FEW_CHARS = 200

# What numbers and objects become when only their being well-formed counts: nothing that takes memory.
_VALID = json.JSONDecoder(
    strict=False,
    object_pairs_hook=lambda _: None,
    parse_int=lambda _: 0,
    parse_float=lambda _: 0.0,
    parse_constant=lambda _: 0.0,
)


def fault(text: str) -> str:
    """Why this is not JSON; "" if it is. RecursionError where nobody can tell."""
    try:
        _VALID.decode(text)
    except json.JSONDecodeError as exc:
        return f"{exc.msg} in line {exc.lineno}"
    return ""


def is_laid_out(text: str) -> bool:
    """Whether it is fit to be read as it is: in lines, with no letter hidden in an escape."""
    if _HIDING_ESCAPE.search(text):
        return False
    if len(text) <= _FEW_CHARS:
        return True
    return "\n" in text.strip() and max(map(len, text.split("\n"))) <= _LONGEST_LINE


def laid_out(text: str, *, one_line_chars: int = _ONE_LINE_CHARS) -> str:
    """Well-formed JSON in lines, two blanks for each layer, containers that fit on one line on one line."""
    out: list[str] = []
    # For each open container: where it begins in out, and its letters so far; -1 once it holds another
    # that takes several lines.
    opened: list[int] = []
    sizes: list[int] = []
    for token in _tokens(text):
        if token in ("{", "["):
            opened.append(len(out))
            sizes.append(0)
            out += [token, _indent(len(opened))]
            continue
        if token in ("}", "]"):
            token = _closed(out, opened, sizes, token, one_line_chars)
            if token is None:
                continue
        elif len(token) > 1 and token[0] == "[":
            token = _wrapped(token, len(opened), one_line_chars)
            out.append(token)
        else:
            out.append({",": ",", ":": ": "}.get(token, token))
            if token == ",":
                out.append(_indent(len(opened)))
        if sizes and sizes[-1] >= 0:
            sizes[-1] = -1 if "\n" in token else sizes[-1] + len(token) + 1
    return "".join(out)


def _closed(
    out: list[str], opened: list[int], sizes: list[int], token: str, one_line_chars: int
) -> str | None:
    """End the innermost container; its one line if it became one, None if it takes several."""
    start, size = opened.pop(), sizes.pop()
    if 0 <= size <= one_line_chars:
        inner = "".join(" " if part.startswith("\n ") or part == "\n" else part for part in out[start + 2 :])
        line = f"{out[start]}{inner}{token}"
        out[start:] = [line]
        return line
    out[-1:] = [out[-1], _indent(len(opened)), token]
    if sizes:
        sizes[-1] = -1
    return None


def _wrapped(numbers: str, depth: int, one_line_chars: int) -> str:
    """A list without strings or containers in it, in full lines."""
    inner = ", ".join(number.strip() for number in numbers[1:-1].split(","))
    if len(inner) <= one_line_chars:
        return f"[{inner.strip()}]"
    start = _indent(depth + 1)
    return f"[{start}{_FULL_LINE.sub(lambda full: full[1] + ',' + start, inner)}{_indent(depth)}]"


def _indent(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEEPEST_INDENT)


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match[0]
        yield _ESCAPE.sub(_unescaped, token) if token[0] == '"' and "\\" in token else token


def _unescaped(match: re.Match[str]) -> str:
    code, low, letter = match.groups()
    if letter is not None:
        return _MEANT.get(letter, match[0])
    high = int(code, 16)
    if 0xD800 <= high < 0xDC00 and low:
        return chr(0x10000 + ((high - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    rest = f"\\u{low}" if low else ""
    if high < 0x20 or 0xD800 <= high < 0xE000 or chr(high) in '"\\':
        # No letter: a control character or half of one.
        return match[0]
    return chr(high) + rest
