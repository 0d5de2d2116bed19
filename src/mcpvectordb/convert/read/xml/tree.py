"""XML to a tree: no entities, no DTD, nothing fetched, and what can be saved of a damaged file is.

The document type is taken out before the parser sees the text, so there is nothing in it that could be
expanded. The names HTML has for letters (&nbsp;, &eacute;) are resolved from a fixed table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import html5
from typing import Any, Protocol, cast

from lxml import etree as _etree  # pyright: ignore

_lxml = cast(Any, _etree)

# What may stand before the root: the declaration, instructions, comments, blanks.
_PROLOGUE = re.compile(r"\s*(?:(?:<\?.*?\?>|<!--.*?-->)\s*)*+", re.S)
_DECLARATION = re.compile(r"\s*<\?xml\s.*?\?>", re.S)
_DOCTYPE = re.compile(r"""<!DOCTYPE(?:[^\[>"']|"[^"]*"|'[^']*')*+""", re.I)
# Within [ … ]: declarations, whose quotes may hold any bracket, comments and instructions.
_SUBSET = re.compile(r"""\[(?:[^\]"'<]|"[^"]*"|'[^']*'|<!--(?:.*?-->|.*)|<\?(?:.*?\?>|.*)|<)*+\]\s*""", re.S)
_ENTITY = re.compile(r"<!ENTITY", re.I)
_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|&([A-Za-z]\w{0,40};)|&(?!#\w{1,12};)", re.S
)
_XML_NAMES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TAG = re.compile(r"<[^<>]*>")
# libxml2's own limits: 256 layers, 10 million letters in one text.
_LIMIT = re.compile(r"XML_PARSE_HUGE|Resource limit|Excessive depth", re.I)
# If recovery saved less than this share of the letters between tags, the tree is not the document.
_LEAST_SAVED = 0.5


class Node(Protocol):
    """The part of lxml's element that the readers use. A comment is a node whose tag is no string."""

    @property
    def tag(self) -> object: ...
    @property
    def prefix(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def tail(self) -> str | None: ...
    @property
    def nsmap(self) -> dict[str | None, str]: ...
    def get(self, key: str, default: str, /) -> str: ...
    def items(self) -> list[tuple[str, str]]: ...
    def iter(self) -> Iterator[Node]: ...
    def itertext(self) -> Iterator[str]: ...
    def getparent(self) -> Node | None: ...
    def __iter__(self) -> Iterator[Node]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    root: Node
    fault: str = ""  # why it is not well-formed, if it is not


class DefinesEntities(Exception):
    """It defines entities of its own, a few lines of which can unfold to gigabytes."""


def parse(text: str) -> Tree | None:
    """The tree; None if there is none, or if it holds too little of what the text does."""
    # First of all, or "<!DOC\x01TYPE" would be a document type only after it was looked for.
    text = _NOT_XML.sub("", text)
    start, end = _doctype(text)
    if _ENTITY.search(text, start, end):
        raise DefinesEntities
    declaration = _DECLARATION.match(text)
    source = text[declaration.end() if declaration else 0 : start] + text[end:]
    start, end = _doctype(source)
    if end > start:
        return None
    source = _REFERENCE.sub(_resolved, source).strip()
    data = source.encode("utf-8")
    try:
        return Tree(root=_lxml.fromstring(data, _parser(recover=False)))
    except _lxml.XMLSyntaxError as exc:
        fault = str(exc)
    if _LIMIT.search(fault):
        # Recovery would stop there, too, and lose the rest.
        return None
    try:
        root = _lxml.fromstring(data, _parser(recover=True))
    except _lxml.XMLSyntaxError:
        return None
    if root is None:
        return None
    saved = sum(len(piece) for piece in root.itertext())
    if saved < _LEAST_SAVED * len(_TAG.sub("", source)):
        return None
    return Tree(root=root, fault=fault)


def name_of(node: Node) -> str:
    """The name without its namespace, in lower case; "" for a comment or an instruction."""
    tag = node.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def comment(node: Node) -> str:
    return node.text or "" if node.tag is _lxml.Comment else ""


def comments_before(root: Node) -> list[str]:
    """The comments above the root, in order: licences, and what made the file."""
    before: list[str] = [comment(node) for node in cast(Any, root).itersiblings(preceding=True)]
    return [text for text in reversed(before) if text.strip()]


def _doctype(text: str) -> tuple[int, int]:
    """Where the document type declaration begins and ends; an empty place before the root without one."""
    prologue = _PROLOGUE.match(text)
    start = prologue.end() if prologue else 0
    found = _DOCTYPE.match(text, start)
    if found is None:
        return start, start
    end = found.end()
    if text[end : end + 1] == "[":
        subset = _SUBSET.match(text, end)
        # One that is never closed reaches over the whole text, entities and all.
        end = subset.end() if subset else len(text)
    return start, end + 1 if text[end : end + 1] == ">" else end


def _resolved(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return "&amp;" if match[0] == "&" else match[0]
    if name in _XML_NAMES:
        return match[0]
    letters = html5.get(name)
    if letters is None:
        # A name nobody has defined is kept as it stands rather than lost.
        return f"&amp;{name}"
    return "".join(f"&#{ord(letter)};" for letter in letters)


def _parser(*, recover: bool) -> Any:
    return _lxml.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_pis=True,
        strip_cdata=True,
        recover=recover,
    )
