"""What the files around a book's text say: the package, the container, the lists of contents, the locks.

Reads trees that others have parsed; opens nothing. Names of elements count without their namespaces, because
books get those wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .lines import one_line
from .xml.tree import Node, name_of

PAGE_NAMES = (".xhtml", ".html", ".htm", ".xml.html")
_PAGE_TYPES = frozenset(
    {"application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml"}
)
_NOT_TITLES = frozenset({"", "untitled", "unknown", "no title", "title"})
# What is worth a line at the start, and what it is called there.
_FACTS = (
    ("creator", "Author"),
    ("contributor", "Contributor"),
    ("publisher", "Publisher"),
    ("date", "Date"),
    ("language", "Language"),
    ("subject", "Subject"),
    ("source", "Source"),
    ("rights", "Rights"),
    ("identifier", "Identifier"),
)
# Fonts made unreadable outside of the book; the text is not.
_FONT_LOCKS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    path: str = ""
    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    descriptions: tuple[str, ...] = ()
    chapters: tuple[str, ...] = ()  # as the package refers to them, in reading order
    contents: tuple[str, ...] = ()  # the tables of contents, of both kinds


def package_paths(container: Node | None) -> Iterator[str]:
    for node in container.iter() if container is not None else ():
        if name_of(node) == "rootfile" and (path := node.get("full-path", "")):
            yield path


def package(root: Node, path: str) -> Package:
    items = {node.get("id", ""): node for node in root.iter() if name_of(node) == "item"}
    values = list(_metadata(root))
    titles = [value for name, value in values if name == "title" and value.lower() not in _NOT_TITLES]
    spine = [items[idref] for idref in _references(root) if idref in items]
    contents = [
        item.get("href", "")
        for item in items.values()
        if "nav" in item.get("properties", "").split() or item.get("media-type", "").endswith("dtbncx+xml")
    ]
    guide = [
        node.get("href", "")
        for node in root.iter()
        if name_of(node) == "reference" and node.get("type", "").lower() == "toc"
    ]
    return Package(
        path=path,
        title=titles[0] if titles else "",
        facts=tuple(_facts(values)),
        descriptions=tuple(value for name, value in values if name == "description" and value),
        chapters=tuple(item.get("href", "") for item in spine if _is_page(item)),
        contents=tuple(contents + guide),
    )


def contents(root: Node) -> Iterator[tuple[str, str]]:
    """Each entry of a table of contents with the page it points to: an NCX file's, or a page's links."""
    label = ""
    for node in root.iter():
        name = name_of(node)
        if name == "text":
            label = one_line(node.text or "")
        elif name == "content" and label and (page := node.get("src", "")):
            yield label, page
        elif name == "a" and (page := node.get("href", "")) and (text := one_line("".join(node.itertext()))):
            yield text, page


def encrypted(root: Node | None) -> Iterator[str]:
    """The files that are locked, fonts aside."""
    algorithm = ""
    for node in root.iter() if root is not None else ():
        name = name_of(node)
        if name == "encrypteddata":
            algorithm = ""
        elif name == "encryptionmethod" and not algorithm:
            algorithm = node.get("Algorithm", "")
        elif name == "cipherreference" and algorithm not in _FONT_LOCKS:
            yield node.get("URI", "")


def _references(root: Node) -> Iterator[str]:
    for node in root.iter():
        if name_of(node) == "itemref":
            yield node.get("idref", "")


def _metadata(root: Node) -> Iterator[tuple[str, str]]:
    """The values of Dublin Core. Descriptions keep their markup, which is escaped."""
    known = {name for name, _ in _FACTS} | {"title", "description"}
    for node in root.iter():
        name = name_of(node)
        if name in ("manifest", "spine"):
            return
        if name in known and (text := "".join(node.itertext()).strip()):
            yield name, text if name == "description" else one_line(text)


def _facts(values: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, shown in _FACTS:
        found = dict.fromkeys(value for key, value in values if key == name)
        # Numbers that only a program reads say nothing to anybody who searches.
        if name == "identifier":
            found = [value for value in found if not value.lower().startswith(("urn:uuid:", "calibre:"))]
        if found:
            yield shown, ", ".join(found)


def _is_page(item: Node) -> bool:
    kind = item.get("media-type", "").lower().strip()
    return kind in _PAGE_TYPES or (
        not kind.startswith("image/") and item.get("href", "").lower().endswith(PAGE_NAMES)
    )
