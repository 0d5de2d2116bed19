"""XML that is data to a list: a line for each element with its attributes, its text after a colon.

For settings, feeds of numbers, linkbases, schemas: no value is left out, and nothing is guessed about what an
element means. Long texts within stand as paragraphs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpvectordb.convert.page import to_markdown as html_to_markdown
from mcpvectordb.convert.read.lines import closed, one_line, plain_in_markdown, tidied

from .tree import Node, Tree, comment, comments_before

# Markup within a text, escaped: what feeds and financial reports carry.
_HTML = re.compile(
    r"</(?:p|div|span|table|a|b|i|em|strong|ul|ol|li|h[1-6]|font|center)\s*>|<(?:br|p)\b[^<>]*>", re.I
)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]{400,}")
_BLANK_FREE = re.compile(r"\S{400,}")
# Text of several lines, or longer than this, is no value but a passage.
_LONG_CHARS = 1000
_DEEPEST_INDENT = 8


def to_markdown(tree: Tree) -> str:
    """The root as a line, its children as a list."""
    prefixes = _Prefixes()
    head = [f"<!-- {one_line(text)} -->" for text in comments_before(tree.root)]
    lines = [*head, *_lines(tree.root, prefixes)]
    return "\n".join(lines)


def is_html(text: str) -> bool:
    return "<" in text and _HTML.search(text) is not None


def is_encoded(text: str) -> bool:
    """Whether it is a picture or a file in letters, which nobody reads or searches."""
    if len(text) < 400 or _BASE64.fullmatch(text) is None:
        return False
    # Words have blanks between them; so do lines of base64, but few.
    return len(text.split()) * 40 < len(text)


def passage(text: str) -> str:
    """A text of its own, in Markdown: escaped HTML comes out as what it says."""
    return closed(html_to_markdown(text)) if is_html(text) else plain_in_markdown(tidied(text))


def _lines(root: Node, prefixes: _Prefixes) -> Iterator[str]:
    # By a stack of our own; a string among the nodes is text that stands after an element.
    pending: list[tuple[Node | str, int]] = [(root, -1)]
    while pending:
        node, depth = pending.pop()
        indent = "  " * min(max(depth, 0), _DEEPEST_INDENT)
        mark = f"{indent}- " if depth >= 0 else ""
        if isinstance(node, str):
            yield f"{mark}{one_line(node)}"
            continue
        if not isinstance(node.tag, str):
            if text := one_line(comment(node)):
                yield f"{mark}<!-- {text} -->"
        else:
            yield from _element(node, mark, prefixes)
            pending += [
                item
                for child in reversed(list(node))
                for item in ((child.tail or "", depth + 1), (child, depth + 1))
                if not isinstance(item[0], str) or item[0].strip()
            ]
        if depth < 0:
            yield ""


def _element(node: Node, mark: str, prefixes: _Prefixes) -> Iterator[str]:
    names = [prefixes.name(node), *(_attribute(node, key, value, prefixes) for key, value in node.items())]
    line = f"{mark}{' '.join(name for name in names if name)}"
    text = node.text or ""
    if not text.strip() or is_encoded(text):
        yield line
    elif is_html(text) or len(text) > _LONG_CHARS:
        yield from (f"{line}:", "", passage(text), "")
    else:
        yield f"{line}: {one_line(text)}"


def _attribute(node: Node, key: str, value: str, prefixes: _Prefixes) -> str:
    if is_encoded(value) or (value.startswith("data:") and _BLANK_FREE.match(value)):
        return ""
    return f'{prefixes.attribute(node, key)}="{one_line(value)}"'


class _Prefixes:
    """Names as they stand in the file. Asking lxml for an element's namespaces walks all its parents."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {"http://www.w3.org/XML/1998/namespace": "xml:"}

    def name(self, node: Node) -> str:
        local = str(node.tag).rpartition("}")[2]
        return f"{node.prefix}:{local}" if node.prefix else local

    def attribute(self, node: Node, key: str) -> str:
        if not key.startswith("{"):
            return key
        space, _, local = key[1:].partition("}")
        if space not in self._known:
            self._known |= {uri: f"{prefix}:" for prefix, uri in node.nsmap.items() if prefix}
        return self._known.get(space, "") + local
