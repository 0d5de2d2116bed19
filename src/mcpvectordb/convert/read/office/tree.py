"""XML to a tree: no entities, no DTD, nothing fetched; what can be saved of a damaged part is.

The one owner of lxml among the readers, because lxml has no types: everyone else sees Element.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Protocol, cast

from lxml import etree as _etree  # pyright: ignore

_lxml = cast(Any, _etree)

# ISO's "strict" namespaces mean the same as the ones everybody writes.
_STRICT = (
    (b"http://purl.oclc.org/ooxml/officeDocument/relationships", b"officeDocument/2006/relationships"),
    (b"http://purl.oclc.org/ooxml/officeDocument/math", b"officeDocument/2006/math"),
    (b"http://purl.oclc.org/ooxml/wordprocessingml/main", b"wordprocessingml/2006/main"),
    (b"http://purl.oclc.org/ooxml/presentationml/main", b"presentationml/2006/main"),
    (b"http://purl.oclc.org/ooxml/spreadsheetml/main", b"spreadsheetml/2006/main"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"drawingml/2006/"),
)
_STRICT_HOST = b"http://purl.oclc.org/ooxml/"
_USUAL_HOST = b"http://schemas.openxmlformats.org/"
_STRICT_WITHIN_BYTES = 4096


class Element(Protocol):
    """The part of lxml's element that the readers use."""

    @property
    def tag(self) -> str: ...
    @property
    def text(self) -> str | None: ...
    @property
    def tail(self) -> str | None: ...
    def get(self, key: str, /) -> str | None: ...
    def find(self, path: str, /) -> Element | None: ...
    def findall(self, path: str, /) -> list[Element]: ...
    def findtext(self, path: str, /) -> str | None: ...
    def iter(self, *tags: str) -> Iterator[Element]: ...
    def items(self) -> list[tuple[str, str]]: ...
    def getparent(self) -> Element | None: ...
    def __iter__(self) -> Iterator[Element]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Element: ...


class Damaged(Exception):
    """Not XML, not even in part."""


def parse(data: bytes) -> tuple[Element, bool]:
    """The root, and whether the part was whole; Damaged if nothing of it is XML."""
    data = usual(data)
    try:
        return _lxml.fromstring(data, _parser(recover=False)), True
    except _lxml.XMLSyntaxError:
        root = _recovered(data)
    if root is None:
        raise Damaged
    return root, False


def rows(data: bytes, *tags: str) -> Iterator[Element]:
    """The elements of these names as they end, each forgotten once the next is asked for.

    For parts with a million rows, which as a tree would take gigabytes. A part that breaks off gives what
    stands before the break, and then raises Damaged.
    """
    events = _lxml.iterparse(
        io.BytesIO(usual(data)),
        events=("end",),
        tag=tags,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        for _, element in events:
            yield element
            # Emptied, and the empty shells before it unhooked: else they add up over a million rows. Those
            # after it may be there already, because the parser runs ahead.
            element.clear(keep_tail=False)
            parent = element.getparent()
            while parent is not None and element.getprevious() is not None:
                del parent[0]
    except _lxml.XMLSyntaxError as exc:
        raise Damaged from exc


def serialised(element: Element) -> bytes:
    """The element as a document of its own."""
    return _lxml.tostring(element, encoding="utf-8", xml_declaration=True, with_tail=False)


def local(element: Element) -> str:
    """The name without its namespace; "" for what is no element."""
    tag: Any = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def usual(data: bytes) -> bytes:
    """The part with the namespaces of the "strict" variant replaced by the usual ones."""
    if _STRICT_HOST not in data[:_STRICT_WITHIN_BYTES]:
        return data
    for strict, name in _STRICT:
        data = data.replace(strict, _USUAL_HOST + name)
    return data


def _parser(*, recover: bool) -> Any:
    return _lxml.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=recover,
    )


def _recovered(data: bytes) -> Element | None:
    try:
        return _lxml.fromstring(data, _parser(recover=True))
    except _lxml.XMLSyntaxError:
        return None
