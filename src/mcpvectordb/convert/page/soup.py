"""HTML to a tree, with the end tags that HTML lets authors leave out.

The only thing here is the tree and small questions to it; what to drop or rewrite is decided in
clean.py and shape.py. Imports bs4: import this module only where a page is converted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString, PageElement, PreformattedString

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Start a line of their own. Those markdownify does not know are renamed to div before it sees them.
UNKNOWN_BLOCKS = (
    "main",
    "header",
    "footer",
    "aside",
    "nav",
    "figure",
    "details",
    "form",
    "fieldset",
    "address",
    "center",
    "hgroup",
    "dialog",
    "search",
    "summary",
    "legend",
    "textarea",
)
BLOCKS = frozenset(
    {"p", "div", "section", "article", "blockquote", "ul", "ol", "li", "dl", "dt", "dd", "pre", "hr"}
    | {"table", "thead", "tbody", "tfoot", "tr", "caption", "figcaption", "select", "option", "body"}
).union(HEADINGS, UNKNOWN_BLOCKS)

# A start tag (left) ends these open elements, found going up no further than the barrier (right).
_ROWS = frozenset({"tr", "td", "th"})
_SECTIONS = frozenset({"thead", "tbody", "tfoot", "caption", "colgroup"})
_TABLE = frozenset({"table"})
_IMPLIED: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", "table"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl", "table"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl", "table"})),
    "option": (frozenset({"option"}), frozenset({"select", "datalist"})),
    "td": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "th": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "tr": (_ROWS | {"caption", "colgroup"}, _TABLE),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (_ROWS | _SECTIONS, _TABLE)),
}
_ENDS_PARAGRAPH = BLOCKS - {"li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "legend"}
_IN_HEAD = frozenset({"title", "meta", "link", "base", "script", "style", "noscript", "template"})
_SCRIPTS = frozenset({"script", "style", "title", "template"})
_CELLS = frozenset({"td", "th", "caption"})
_PARAGRAPH = frozenset({"p"})
_ENDS_SEARCH = (BLOCKS - _PARAGRAPH) | _CELLS
_TABLE_PARTS = frozenset({"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"})

# Browsers too build nothing deeper. Of what is, the lines are kept: so to ask an element what it stands in,
# or what it ends with, takes no more steps than this, however deep a page was made to be.
_DEEPEST = 512

_BLANKS = re.compile(r"\s+")
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*>")


class _Indexed(Tag):
    """bs4 looks for a child from the first one on, for each that is dropped or replaced.

    A page is gone through in its order: near the last that was found, the next is found at once.
    """

    _found_at = 0

    def index(self, element: PageElement) -> int:
        contents, before = self.contents, min(self._found_at, len(self.contents)) - 1
        after = before + 1
        while before >= 0 or after < len(contents):
            if after < len(contents) and contents[after] is element:
                self._found_at = after
                return after
            if before >= 0 and contents[before] is element:
                self._found_at = before
                return before
            before, after = before - 1, after + 1
        raise ValueError("Tag.index: element not in tag")


class _Page(BeautifulSoup, _Indexed):
    """Python's parser never ends an element by itself: <li>a<li>b would be a list in a list."""

    def reset(self) -> None:
        super().reset()
        self._too_deep: Counter[str] = Counter()

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Tag | None:
        if len(self.tagStack) > _DEEPEST and name not in _SCRIPTS:
            self._too_deep[name] += 1
            if name in BLOCKS or name in ("br", *_CELLS):
                super().handle_starttag("br", None, None, {})
                super().handle_endtag("br")
            return None
        self.endData()
        self._end_implied(name)
        return super().handle_starttag(name, *args, **kwargs)

    def handle_endtag(self, name: str, nsprefix: str | None = None) -> None:
        if self._too_deep[name] > 0:
            self._too_deep[name] -= 1
            return
        if name not in _TABLE_PARTS and self._is_beyond_cell(name):
            return
        super().handle_endtag(name, nsprefix)

    def _is_beyond_cell(self, name: str) -> bool:
        """A stray </div> in a cell must not end the table around it."""
        if not self.open_tag_counter.get(name):
            return False
        for tag in reversed(self.tagStack):
            if tag.name == name:
                return False
            if tag.name in _CELLS:
                return True
        return False

    def _end_implied(self, name: str) -> None:
        current = self.currentTag
        if current is not None and current.name == "title":
            self._popToTag("title")
        if self.open_tag_counter.get("head") and name not in _IN_HEAD:
            self._popToTag("head")
        if name in _ENDS_PARAGRAPH and self.open_tag_counter.get("p"):
            self._end_up_to(_PARAGRAPH, _ENDS_SEARCH)
        if name in _IMPLIED:
            self._end_up_to(*_IMPLIED[name])

    def _end_up_to(self, ended: frozenset[str], barrier: frozenset[str]) -> None:
        if not any(self.open_tag_counter.get(name) for name in ended):
            return
        outermost = 0
        for index in range(len(self.tagStack) - 1, 0, -1):
            name = self.tagStack[index].name
            if name in ended:
                outermost = index
            elif name in barrier:
                break
        while outermost and len(self.tagStack) > outermost:
            self.popTag()


def parse(html: str) -> BeautifulSoup:
    # No tag begins after the last one has ended; for each that seems to, the parser would search to the end.
    last = html.rfind(">") + 1
    html = html[:last] + html[last:].replace("<", "&lt;")
    # bs4 warns on stderr of an XML declaration, and of one line without tags; neither is wrong here.
    page = _Page(
        "\n" + _XML_DECLARATION.sub("", html, count=1), "html.parser", element_classes={Tag: _Indexed}
    )
    for node in page.find_all(string=lambda text: isinstance(text, PreformattedString)):
        # Comments, declarations, processing instructions.
        node.extract()
    return page


def is_gone(tag: Tag) -> bool:
    """Whether it was dropped. bs4's own property searches the whole subtree for a tag of that name."""
    return bool(vars(tag).get("_decomposed"))


def attribute(tag: Tag, name: str) -> str:
    value = tag.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else " ".join(value)


def tokens(tag: Tag) -> set[str]:
    """The whole words of id and class, in lower case."""
    return set(f"{attribute(tag, 'id')} {attribute(tag, 'class')}".lower().split())


def collapsed(text: str) -> str:
    return _BLANKS.sub(" ", text).strip()


def text_of(tag: Tag) -> str:
    return collapsed(tag.get_text(" "))


def lined_text(root: Tag) -> str:
    """The text with a line for each block and cell; by a stack of our own, so no depth is too deep."""
    parts: list[str] = []
    # What is still to come, last first; a string among them is a line end that closes a block.
    pending: list[PageElement | str] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Tag):
            edge = "\n" if node.name in BLOCKS or node.name in ("br", "td", "th") else ""
            parts.append(edge)
            pending += [edge, *reversed(node.contents)]
        else:
            parts.append(str(node))
    return "".join(parts)


class Sizes:
    """How many characters, and how many of them in links, each element holds; counted in one pass,
    because asking each of 5,000 nested elements for its text would take 12 million steps.
    """

    def __init__(self, root: Tag) -> None:
        self._text: defaultdict[int, int] = defaultdict(int)
        self._links: defaultdict[int, int] = defaultdict(int)
        self._with_main: set[int] = set()
        # Backwards through the document, children come before their parents.
        for node in reversed([root, *root.descendants]):
            parent = id(node.parent)
            if isinstance(node, NavigableString):
                self._text[parent] += len(collapsed(node))
            elif isinstance(node, Tag):
                own = id(node)
                self._text[parent] += self._text[own]
                self._links[parent] += self._text[own] if node.name == "a" else self._links[own]
                if own in self._with_main or is_main(node):
                    self._with_main.add(parent)

    def text(self, tag: Tag) -> int:
        return self._text[id(tag)]

    def is_mostly_links(self, tag: Tag) -> bool:
        return self._links[id(tag)] >= 0.6 * self._text[id(tag)]

    def holds_main(self, tag: Tag) -> bool:
        return id(tag) in self._with_main


def is_main(tag: Tag) -> bool:
    return tag.name in ("main", "article") or attribute(tag, "role") in ("main", "article")
