"""Rewrite a cleaned page into the HTML that markdownify turns into good Markdown.

Nothing is dropped here but what has no text. Code leaves the page altogether: it is put aside
exactly as written, and comes back after the conversion, which would change its spaces.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString

from .code import CLOSE, OPEN, Code
from .soup import BLOCKS, HEADINGS, UNKNOWN_BLOCKS, attribute, is_gone, text_of, tokens

_LANGUAGE = re.compile(
    r"(?:language-|lang-|highlight-source-|highlight-text-|highlight-|brush:\s*)([\w+#.-]{1,30})"
)
_NO_LANGUAGE = frozenset({"default", "none", "auto", "plaintext", "nohighlight"})
_LINE_NUMBERS = frozenset({"linenos", "lineno", "linenodiv", "gutter", "line-numbers-rows", "blob-num"})

_RENAMED = {
    **dict.fromkeys(UNKNOWN_BLOCKS, "div"),
    **dict.fromkeys(("summary", "legend", "textarea"), "p"),
    **dict.fromkeys(("menu", "dir", "select"), "ul"),
    "option": "li",
    # markitdown would write <u> tags into the text.
    "u": "span",
}
_EMPHASIS = ("b", "strong", "i", "em", "s", "del", "strike", "code", "kbd", "samp", "sub", "sup")
_PARTS = ("thead", "tbody", "tfoot", "tr", "td", "th", "caption")

_PLACES = frozenset({"pre", "code", "td", "th"})
_BLANKS = re.compile(r"\s+")
_INVISIBLE = re.compile(f"[\u00ad\u200b\u2060\ufeff{OPEN}{CLOSE}]")
# At the start of a line these would open a heading or a code block that the page does not have.
_LOOKS_LIKE_MARKUP = re.compile(r"(\s*)(#{1,6}(?:\s|$)|```|~~~)")
_UNSAFE_TARGET = re.compile(r"\s*(?:javascript|vbscript|data):", re.I)
# No real table is wider, and a page may claim any number.
_WIDEST_SPAN = 50


def reshape(page: BeautifulSoup, root: Tag) -> Code:
    """Rewrite the tree in place. The order matters: the text is tidied before marks stand in it."""
    for tag in root.find_all("img"):
        _reshape_image(tag)
    _reshape_text(root)
    _free_blocks(page, root)
    code = Code()
    for tag in root.find_all("pre"):
        # Code in code went aside with it.
        if not is_gone(tag) and tag.find_parent("pre") is None:
            _put_code_aside(page, tag, code)
    parts = _parts_of_tables(root)
    for table in root.find_all("table"):
        _reshape_table(page, table, parts[id(table)])
    for tag in root.find_all(list(_RENAMED)):
        tag.name = _RENAMED[tag.name]
    return code


def _put_code_aside(page: BeautifulSoup, tag: Tag, code: Code) -> None:
    for part in tag.find_all(True):
        if not is_gone(part) and (part.name == "button" or _is_line_numbers(part)):
            part.decompose()
    text = _code_text(tag)
    if not text.strip() or _is_line_numbers(tag) or (tag.parent and _is_line_numbers(tag.parent)):
        tag.decompose()
        return
    if "\n" in text:
        # A cell holds one line: a table around code is there for its looks.
        for table in tag.find_parents("table"):
            _flatten(table)
    holder = page.new_tag("p")
    holder.string = code.put_aside(_language(tag), text)
    tag.replace_with(holder)


def _is_line_numbers(tag: Tag) -> bool:
    return bool(tokens(tag) & _LINE_NUMBERS) and not re.sub(r"[\d\s]", "", tag.get_text())


def _code_text(tag: Tag) -> str:
    parts: list[str] = []
    for node in tag.descendants:
        if isinstance(node, NavigableString):
            parts.append(str(node))
        elif isinstance(node, Tag) and (
            node.name == "br" or (node.name in BLOCKS and parts and not parts[-1].endswith("\n"))
        ):
            parts.append("\n")
    # HTML ignores a line end right after <pre>; the others around the code show nothing either.
    return "\n".join(line.rstrip("\r") for line in "".join(parts).split("\n")).strip("\n").rstrip()


def _language(tag: Tag) -> str:
    around = [tag.find("code"), tag, *list(tag.parents)[:2]]
    for element in around:
        if not isinstance(element, Tag):
            continue
        named = attribute(element, "data-lang") or attribute(element, "data-language")
        found = _LANGUAGE.search(attribute(element, "class"))
        language = named or (found[1] if found else "")
        if re.fullmatch(r"[\w+#.-]{1,30}", language) and language.lower() not in _NO_LANGUAGE:
            return language
    return ""


def _flatten(table: Tag) -> None:
    for part in [table, *table.find_all(_PARTS)]:
        part.name = "div"


def _parts_of_tables(root: Tag) -> defaultdict[int, list[Tag]]:
    """The parts of each table without those of tables in it; in one pass, however deep they stand."""
    around: dict[int, Tag | None] = {}  # the table that an element stands in
    parts: defaultdict[int, list[Tag]] = defaultdict(list)
    for tag in root.find_all(True):
        parent = tag.parent
        table = parent if parent is not None and parent.name == "table" else around.get(id(parent))
        around[id(tag)] = table
        if table is not None and tag.name in _PARTS:
            parts[id(table)].append(tag)
    return parts


def _reshape_table(page: BeautifulSoup, table: Tag, parts: list[Tag]) -> None:
    is_layout = attribute(table, "role") in ("presentation", "none") or table.find(["table", *HEADINGS])
    if is_layout:
        # Tables inside keep their rows: only those of this table are its layout.
        for part in (table, *parts):
            part.name = "div"
        return
    for part in table.find_all(["col", "colgroup"]):
        part.decompose()
    for caption in table.find_all("caption"):
        # Left inside, it would stand where markdownify looks for the first row.
        caption.name = "p"
        table.insert_before(caption.extract())
    rows = table.find_all("tr")
    for index, row in enumerate(rows):
        for position, cell in enumerate(row.find_all(["td", "th"], recursive=False)):
            _reshape_cell(page, cell, rows[index + 1 :], position)


def _reshape_cell(page: BeautifulSoup, cell: Tag, below: list[Tag], position: int) -> None:
    spans = {name: _span(cell, name) for name in ("colspan", "rowspan")}
    for name, span in spans.items():
        del cell[name]
        if span > 1 and name == "colspan":
            cell[name] = str(span)
    # Text over several rows belongs to each of them, and keeps the columns in line.
    for row in below[: spans["rowspan"] - 1]:
        if row.parent is not cell.find_parent(["thead", "tbody", "tfoot", "table"]):
            break
        repeated = page.new_tag(cell.name, attrs={"colspan": str(spans["colspan"])})
        repeated.string = text_of(cell)
        others = row.find_all(["td", "th"], recursive=False)
        if position < len(others):
            others[position].insert_before(repeated)
        else:
            row.append(repeated)


def _span(cell: Tag, name: str) -> int:
    value = attribute(cell, name)
    return min(_WIDEST_SPAN, max(1, int(value))) if value.isascii() and value.isdigit() else 1


def _reshape_image(tag: Tag) -> None:
    alt = " ".join(attribute(tag, "alt").split())
    source = attribute(tag, "src") or attribute(tag, "data-src")
    if not alt:
        tag.decompose()
    elif not source or _UNSAFE_TARGET.match(source):
        tag.replace_with(NavigableString(alt))
    else:
        tag["alt"] = alt.replace("[", "(").replace("]", ")")


def _free_blocks(page: BeautifulSoup, root: Tag) -> None:
    """Links without a target go, and neither links nor emphasis go around paragraphs."""
    holders = {id(parent) for parent in _parents_of_blocks(root)}
    for tag in root.find_all(["a", "label", *_EMPHASIS]):
        target = re.sub(r"[\x00-\x20]+", "%20", attribute(tag, "href").strip())
        if tag.name == "a" and (not target or _UNSAFE_TARGET.match(re.sub("%20", "", target))):
            tag.unwrap()
        elif id(tag) in holders and tag.find_parent("pre") is None:
            # Of links in links, the innermost is the one that is clicked.
            if tag.name == "a" and tag.find("a") is None:
                _hand_down(page, tag, target)
            tag.unwrap()


def _parents_of_blocks(root: Tag) -> Iterator[Tag]:
    seen: set[int] = set()
    for block in root.find_all(list(BLOCKS)):
        parent = block.parent
        # Whoever was seen before has had its own parents seen too.
        while parent is not None and id(parent) not in seen:
            seen.add(id(parent))
            yield parent
            parent = parent.parent


def _hand_down(page: BeautifulSoup, link: Tag, target: str) -> None:
    """The first heading, or else the first line, of a linked block takes the link over."""
    blocks = [tag for tag in link.find_all(list(BLOCKS)) if tag.get_text(strip=True)]
    headings = [tag for tag in blocks if tag.name in HEADINGS]
    leaves = [tag for tag in blocks if tag.name != "pre" and not tag.find(list(BLOCKS))]
    for heir in (headings or leaves)[:1]:
        inner = page.new_tag("a", attrs={"href": target})
        for child in list(heir.contents):
            inner.append(child.extract())
        heir.append(inner)


def _reshape_text(root: Tag) -> None:
    # What each element stands in, handed down in document order: asking for parents takes too long
    # in deep pages.
    places: dict[int, frozenset[str]] = {}
    nothing: frozenset[str] = frozenset()
    for node in list(root.descendants):
        place = places.get(id(node.parent), nothing)
        if isinstance(node, Tag):
            places[id(node)] = place | {node.name} if node.name in _PLACES else place
        elif isinstance(node, NavigableString) and "pre" not in place:
            text = _tidied(node, place)
            if text != node:
                node.replace_with(NavigableString(text))


def _tidied(node: NavigableString, place: frozenset[str]) -> str:
    text = _BLANKS.sub(" ", _INVISIBLE.sub("", node))
    if place & {"td", "th"}:
        text = text.replace("|", "\\|")
    if "code" not in place and (found := _LOOKS_LIKE_MARKUP.match(text)):
        text = f"{found[1]}\\{text[found.end(1) :]}"
    return text
