"""A web page to Markdown: parse, clean, reshape, and hand to markitdown's HTML converter.

Never gives markitdown an address or a path: it would fetch them. Imports markitdown and bs4 at the
top, so this module itself is imported only when there is a page to convert.
"""

from __future__ import annotations

import io
import re

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from markitdown import StreamInfo
from markitdown.converters import HtmlConverter

from mcpvectordb.convert.read import Read
from mcpvectordb.errors import ConversionError

from .clean import drop_clutter, drop_scripts
from .shape import Code, reshape
from .soup import Sizes, attribute, collapsed, lined_text, parse

# If less than this share is left, what looked like clutter was the page.
_LEAST_KEPT = 0.1

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_ENDS = re.compile(r"[ \t]+$", re.M)
_BLANK_LINES = re.compile(r"\n{3,}")

# What a link out of a mail or book must begin with to lead anywhere.
_ABSOLUTE = re.compile(r"\s*(?:https?:|ftp:|mailto:|tel:|doi:|urn:|//)", re.I)

_UTF8_PAGE = StreamInfo(mimetype="text/html", extension=".html", charset="utf-8")
_TOO_DEEP = "The page is nested too deeply for Markdown; its plain text was indexed, without headings."


def convert_html(html: str, file_name: str) -> Read:
    try:
        title, text, is_markdown = _converted(html)
        title, text = _CONTROLS.sub("", title), _CONTROLS.sub("", text)
    # What a parser can trip over in the web's HTML has no end, and none of it is a bug of the caller.
    except Exception as exc:
        raise ConversionError(
            f"{file_name} could not be read as HTML ({type(exc).__name__}: {exc}): "
            "open it in a browser, save it again or as plain text, and add that."
        ) from exc
    if not text:
        raise ConversionError(
            f"{file_name} holds no text (only markup or scripts): if a browser shows text there, "
            "save the page from the browser and add that file."
        )
    return Read(text=text, title=title, is_markdown=is_markdown, notice="" if is_markdown else _TOO_DEEP)


def to_markdown(html: str) -> str:
    """A mail's body, a book's chapter, a cell's output: all of it, for in these nothing is clutter.

    Targets that lead nowhere outside of the mail or book (relative ones, cid:) leave their text, images their
    alternative text, and tables of one column, which are there for their looks, their lines.
    """
    try:
        page = parse(html)
        root = _root(page)
        drop_scripts(root)
        _reduce_to_part(root)
        code = reshape(page, root)
        try:
            text = _to_markdown(root, code)
        except RecursionError:
            text = _to_plain_text(root, code)
    # As above: what a parser can trip over has no end.
    except Exception as exc:
        raise ConversionError(f"The HTML could not be read ({type(exc).__name__}: {exc}).") from exc
    return _CONTROLS.sub("", text)


def _reduce_to_part(root: Tag) -> None:
    for tag in root.find_all("img"):
        tag.replace_with(NavigableString(attribute(tag, "alt")))
    for tag in root.find_all("a"):
        if not _ABSOLUTE.match(attribute(tag, "href")):
            tag.unwrap()
    for table in root.find_all("table"):
        # One with a table in it is there for its looks anyway.
        if table.find("table") is None and _is_one_column(table):
            table["role"] = "presentation"


def _is_one_column(table: Tag) -> bool:
    return all(len(row.find_all(["td", "th"], recursive=False)) < 2 for row in table.find_all("tr"))


def _converted(html: str) -> tuple[str, str, bool]:
    page = parse(html)
    title = _title(page)
    root = _root(page)
    drop_scripts(root)
    size = Sizes(root).text(root)
    drop_clutter(root)
    if Sizes(root).text(root) < _LEAST_KEPT * size:
        page = parse(html)
        root = _root(page)
        drop_scripts(root)
    code = reshape(page, root)
    if not root.get_text(strip=True) and not root.find("img"):
        return title, "", True
    try:
        return title, _to_markdown(root, code), True
    except RecursionError:
        return title, _to_plain_text(root, code), False


def _root(page: BeautifulSoup) -> Tag:
    bodies = page.find_all("body")
    # Two pages glued together have two bodies; then the whole is the page.
    return bodies[0] if len(bodies) == 1 and not page.find_all("frameset") else page


def _title(page: BeautifulSoup) -> str:
    for tag in page.find_all("title"):
        # A drawing has titles too.
        if not tag.find_parent("svg") and (title := collapsed(tag.get_text())):
            return title
    for tag in page.find_all("meta", attrs={"property": "og:title"}):
        if title := collapsed(attribute(tag, "content")):
            return title
    heading = page.find("h1")
    return collapsed(heading.get_text()).rstrip(" ¶🔗") if heading else ""


def _to_markdown(root: Tag, code: Code) -> str:
    stream = io.BytesIO(str(root).encode("utf-8", "replace"))
    # Escapes would hide snake_case from the word index; the text is read by models, not rendered.
    result = HtmlConverter().convert(
        stream, _UTF8_PAGE, strict=True, escape_underscores=False, escape_asterisks=False
    )
    return code.put_back(_tidy(result.markdown))


def _to_plain_text(root: Tag, code: Code) -> str:
    lines = (" ".join(line.split()) for line in lined_text(root).split("\n"))
    return code.put_back_plain(_tidy("\n".join(lines)))


def _tidy(text: str) -> str:
    return _BLANK_LINES.sub("\n\n", _LINE_ENDS.sub("", text)).strip()
