"""XML that is a text to Markdown: headings by depth, paragraphs, lists, tables, code, references.

Works from the names of elements (names.py) and, where it does not know one, from where the text stands:
text beside elements is running text, a leaf among leaves is a field of a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mcpvectordb.convert.read.lines import fenced, one_line

from . import names
from .data import is_encoded, is_html, passage
from .inline import has_own_text, inline
from .table import table as markdown_table
from .tree import Node, name_of

# If less of the letters than this are in paragraphs or beside elements, it is data.
_LEAST_PROSE = 0.4
_LOOK_FOR_TITLE = 500
_LOOK_FOR_PARTS = 100
# A group of short fields is read as one line.
_RECORD_NODES = 40
_RECORD_CHARS = 200
_FIELD_CHARS = 200
_DEEPEST_HEADING = 6


def is_prose(root: Node) -> bool:
    if name_of(root) in names.PROSE_ROOTS:
        return True
    prose = letters = 0
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, inside = pending.pop()
        if not (name := name_of(node)):
            continue
        inside = inside or name in names.PARAGRAPHS | names.LINES or (len(node) > 0 and has_own_text(node))
        own = len((node.text or "").strip()) + sum(len((child.tail or "").strip()) for child in node)
        letters += own
        prose += own if inside and not is_html(node.text or "") else 0
        pending += [(child, inside) for child in node]
    return prose > 0 and prose >= _LEAST_PROSE * letters


def title(root: Node) -> str:
    node = _title_node(root)
    return inline(node) if node is not None else ""


def to_markdown(root: Node) -> str:
    return _Prose(_title_node(root)).markdown(root)


def _title_node(root: Node) -> Node | None:
    """The title of the whole, near its beginning; None if the first title is that of a part."""
    for node in islice(root.iter(), _LOOK_FOR_TITLE):
        if name_of(node) not in names.HEADINGS or not inline(node):
            continue
        parent = node.getparent()
        around: set[str] = set()
        while parent is not None and parent is not root:
            around.add(name_of(parent))
            parent = parent.getparent()
        if not around & (names.PARTS | names.UNTITLED | names.CITATIONS):
            return node
    return None


class _Prose:
    """Writes blocks in order. A line joins the line before it; other blocks stand apart."""

    def __init__(self, title: Node | None) -> None:
        self._title = title
        self._top = 1 if title is None else 2

    def markdown(self, root: Node) -> str:
        return _joined(self._blocks(root, self._top))

    def _blocks(self, node: Node, level: int) -> Iterator[tuple[str, bool]]:
        """The Markdown of an element, block by block, each with whether it is but a line."""
        name = name_of(node)
        if not name or name in names.NOTHING:
            return
        if node is self._title:
            yield f"# {inline(node)}", False
        elif name in names.CODE:
            code = "".join(node.itertext()).strip("\n")
            if code.strip():
                yield fenced(code, node.get("language", "") or node.get("outputclass", "")), False
        elif name in names.TABLES and (table := markdown_table(node)):
            yield from self._before_rows(node, level)
            yield table, False
        elif name in names.LISTS:
            yield from self._list(node, level, is_ordered=_is_ordered(node))
        elif name in names.CITATIONS:
            if text := inline(node):
                yield f"- {text}", True
        elif name in names.LINES:
            yield inline(node), True
        elif has_own_text(node) or (name in names.PARAGRAPHS and not _holds_parts(node)):
            yield from self._flow(node, level)
        elif not len(node):
            if target := _target(node):
                yield f"{name}: {target}", True
        elif _is_record(node):
            yield inline(node), True
        else:
            yield from self._parts(node, level)

    def _parts(self, node: Node, level: int) -> Iterator[tuple[str, bool]]:
        """The children of a section or a group. Its title is a heading, its label stands before that."""
        label = ""
        is_titled = name_of(node) not in names.UNTITLED
        for child in node:
            name = name_of(child)
            if name in names.LABELS and (text := inline(child)):
                label = f"{label} {text}".strip()
                continue
            if name in names.HEADINGS and child is not self._title:
                if text := inline(child):
                    text, label = f"{label} {text}".strip(), ""
                    marks = "#" * min(level, _DEEPEST_HEADING)
                    yield (f"{marks} {text}" if is_titled else text), False
                    level += is_titled
                continue
            for text, is_line in self._blocks(child, level):
                if label and text:
                    text, label = f"{label} {text}", ""
                yield text, is_line
        if label:
            yield label, True

    def _flow(self, node: Node, level: int) -> Iterator[tuple[str, bool]]:
        """Running text, broken where a block stands in it."""
        text = node.text or ""
        if not len(node):
            if is_html(text):
                yield passage(text), False
            elif not is_encoded(text) and (line := one_line(text)):
                is_field = name_of(node) not in names.PARAGRAPHS and len(line) <= _FIELD_CHARS
                yield (f"{name_of(node)}: {line}" if is_field else _safe(line)), is_field
            return
        if not any(name_of(child) in names.BLOCKS for child in node):
            if line := inline(node):
                yield _safe(line), False
            return
        parts = [text]
        for child in node:
            if name_of(child) in names.BLOCKS:
                if line := one_line("".join(parts)):
                    yield _safe(line), False
                parts = []
                yield from self._blocks(child, level)
            else:
                parts.append(inline(child))
            parts.append(child.tail or "")
        if line := one_line("".join(parts)):
            yield _safe(line), False

    def _list(self, node: Node, level: int, *, is_ordered: bool) -> Iterator[tuple[str, bool]]:
        items: list[str] = []
        number = 0
        for child in node:
            if not name_of(child):
                continue
            if name_of(child) in names.HEADINGS:
                yield inline(child), False
                continue
            text = _joined(self._blocks(child, level), tight=True)
            if not text:
                continue
            number += 1
            mark = f"{number}. " if is_ordered else "- "
            items.append(mark + text.replace("\n", "\n" + " " * len(mark)))
        if items:
            yield "\n".join(items), False

    def _before_rows(self, table: Node, level: int) -> Iterator[tuple[str, bool]]:
        """A table's title or caption, which stands among its rows."""
        for child in table:
            if name_of(child) in names.HEADINGS | {"caption"}:
                if text := inline(child):
                    yield text, False
            elif name_of(child) == "textobject":
                yield from self._blocks(child, level)


def _joined(blocks: Iterator[tuple[str, bool]], *, tight: bool = False) -> str:
    """The blocks as one text; in a list, paragraphs follow each other without a blank line."""
    parts: list[str] = []
    was_line = False
    for text, is_line in blocks:
        if not text.strip():
            continue
        if parts:
            parts.append("\n" if tight or (is_line and was_line) else "\n\n")
        parts.append(text)
        was_line = is_line
    return "".join(parts)


def _safe(line: str) -> str:
    """A paragraph that begins like a heading is none."""
    return f"\\{line}" if line.startswith(("# ", "## ", "```", "~~~")) else line


def _is_ordered(node: Node) -> bool:
    kind = node.get("list-type", "") or node.get("type", "") or node.get("rend", "")
    return name_of(node) in names.ORDERED or kind.lower() in ("order", "ordered", "numbered")


def _holds_parts(node: Node) -> bool:
    blocks = names.BLOCKS | names.HEADINGS | names.LINES
    return any(name_of(inner) in blocks for inner in islice(node.iter(), 1, _LOOK_FOR_PARTS))


def _is_record(node: Node) -> bool:
    """Whether it is a few short fields: a name, an address, a date."""
    letters = 0
    for count, inner in enumerate(node.iter()):
        if count > _RECORD_NODES or name_of(inner) in names.PARAGRAPHS | names.HEADINGS | names.BLOCKS:
            return False
        if name_of(inner) in names.LINES | names.CITATIONS | names.ROWS | {"item", "channel"}:
            return False
        letters += len(inner.text or "") + len(inner.tail or "")
        if letters > _RECORD_CHARS:
            return False
    return letters > 0


def _target(node: Node) -> str:
    """The address that an empty element stands for, as in Atom's <link href="…"/>."""
    found = (value.strip() for key, value in node.items() if key.rpartition("}")[2] in ("href", "url", "src"))
    return next((target for target in found if target.startswith(("http://", "https://"))), "")
