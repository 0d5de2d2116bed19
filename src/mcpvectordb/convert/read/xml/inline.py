"""The running text of an XML element as one line. Pure: reads the tree, changes nothing."""

from __future__ import annotations

import re

from mcpvectordb.convert.read.lines import one_line

from . import names
from .data import is_encoded
from .tree import Node, name_of

_LINKS = frozenset({"ext-link", "uri", "ulink", "link", "a", "ref", "xref", "self-uri", "ptr"})
_TARGETS = frozenset({"href", "url", "target"})
# Lists of names and keywords, which carry no commas of their own.
_LISTED = frozenset({"person-group", "contrib-group", "authorgroup", "kwd-group", "subj-group"}) | {
    "aff",
    "affiliation",
    "address",
}
_FORMULA = {"mfrac": "/", "msup": "^", "msub": "_"}
_TEX = re.compile(r"\\begin\{document\}(.*?)\\end\{document\}", re.S)


def inline(node: Node) -> str:
    return one_line(_text(node))


def has_own_text(node: Node) -> bool:
    """Whether letters stand directly in it, beside or without elements."""
    return bool((node.text or "").strip()) or any((child.tail or "").strip() for child in node)


def _text(node: Node) -> str:
    name = name_of(node)
    if not name or name in names.NOTHING or _is_repeated(node, name):
        return node.get("alt", "") if name else ""
    if name in names.LINE_BREAKS:
        return " "
    if name == "tex-math" and (tex := _TEX.search(node.text or "")):
        return tex[1]
    if name == "name" and (person := _person(node)):
        return person
    pieces = [_piece(child) for child in node]
    if name in _FORMULA and len(pieces) == 2:
        return _FORMULA[name].join(map(one_line, pieces))
    if name not in names.GLUED and len(pieces) > 1 and not has_own_text(node):
        text = (", " if name in _LISTED else " ").join(filter(None, map(one_line, pieces)))
    else:
        text = "".join(["" if is_encoded(node.text or "") else node.text or "", *pieces])
    return _linked(node, text) if name in _LINKS else text


def _piece(child: Node) -> str:
    """A child with what stands after it."""
    text, after = _text(child), child.tail or ""
    name = name_of(child)
    if name in names.FOOTNOTES and text.strip():
        text = f" ({text.strip()}) "
    elif name in names.BLOCKS or name in names.CELLS:
        text = f" {text} "
    return text + after


def _is_repeated(node: Node, name: str) -> bool:
    """A formula given a second time, in TeX beside MathML."""
    parent = node.getparent()
    if parent is None or name not in ("tex-math", "annotation", "annotation-xml"):
        return False
    around = name_of(parent)
    if around == "semantics":
        return True
    return around == "alternatives" and any(name_of(other) == "math" for other in parent)


def _person(node: Node) -> str:
    """Journals write the surname first; people are looked for by their names as spoken."""
    parts = {name_of(child): one_line(_text(child)) for child in node}
    given, surname = parts.get("given-names", ""), parts.get("surname", "")
    if not (given and surname):
        return ""
    return " ".join(part for part in (parts.get("prefix"), given, surname, parts.get("suffix")) if part)


def _linked(node: Node, text: str) -> str:
    found = (value.strip() for key, value in node.items() if key.rpartition("}")[2] in _TARGETS)
    target = next((value for value in found if value.startswith(("http://", "https://"))), "")
    shown = one_line(text)
    if not target or shown == target:
        return text
    return f"[{shown}]({target})" if shown else target
