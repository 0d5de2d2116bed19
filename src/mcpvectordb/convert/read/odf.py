"""OpenDocument files to Markdown: text (odt, ott), sheets (ods, ots), slides (odp, otp), drawings (odg).

Also the flat variants (fodt, fods, fodp), which are one XML file. What the file is, its content says. Sheets
and slides are pages; a text document has none, because where its pages end only a layout could tell.
"""

from __future__ import annotations

import posixpath
import re

from mcpvectordb.errors import ConversionError

from . import Read
from .office.flow import Flow, Pages, tidy
from .office.names import DC, OFFICE, STYLE
from .office.odf_sheets import each_sheet
from .office.odf_slides import OdfPages
from .office.odf_styles import Styles
from .office.odf_text import Writer
from .office.package import Package
from .office.prose import one_line, paragraph
from .office.titles import useful_title
from .office.tree import Damaged, Element, local, parse

_BODY = re.compile(rb"<office:(text|spreadsheet|presentation|drawing)\b")
_KINDS = {
    b"text": "an OpenDocument text",
    b"spreadsheet": "an OpenDocument spreadsheet",
    b"presentation": "an OpenDocument presentation",
    b"drawing": "an OpenDocument drawing",
}
_MOST_NAMED = 5
_TOO_DEEP = "The document is nested too deeply for Markdown; its plain text was indexed, without headings."


def read(data: bytes, file_name: str) -> Read:
    source = _Packed(data, file_name) if data.startswith(b"PK") else _Flat(data, file_name)
    found = _BODY.search(source.content)
    kind = found[1] if found else b"text"
    writer = Writer(source.styles, source.embedded)
    pages = Pages()
    notice = ""
    if kind == b"spreadsheet":
        notice = _read_sheets(source, writer, pages)
    elif kind == b"text":
        notice = _read_text(source, writer, pages)
    else:
        _read_slides(source, writer, pages)
    if not pages.text:
        if source.damaged:
            raise source.unreadable(f"{source.damaged[0]} is damaged")
        raise ConversionError(
            f"{file_name} holds no text ({_KINDS[kind]} with only pictures, or nothing at all): "
            "if it shows scanned pages, run them through OCR and add the result."
        )
    notices = [notice, source.notice()]
    return Read(
        text=pages.text,
        title=source.title(),
        pages=pages.marks,
        notice=" ".join(each for each in notices if each),
    )


class _Flat:
    """The whole document in one XML file."""

    def __init__(self, data: bytes, file_name: str) -> None:
        self.content = data
        self.file_name = file_name
        self.styles = Styles()
        self.damaged: list[str] = []
        self._root: Element | None = None

    def tree(self) -> Element | None:
        """The root of the content."""
        if self._root is None:
            try:
                self._root, is_whole = parse(self.content)
            except Damaged:
                raise self.unreadable("it is not XML") from None
            if not is_whole:
                self.damaged.append(self.file_name)
            self.styles.read(self._root)
        return self._root

    def unreadable(self, why: str) -> ConversionError:
        return _unreadable(self.file_name, why)

    def embedded(self, reference: str) -> Element | None:
        return None

    def title(self) -> str:
        found = re.search(rb"<dc:title>([^<]*)</dc:title>", self.content[:100_000])
        return useful_title(found[1].decode("utf-8", "replace")) if found else ""

    def margins(self) -> Element | None:
        root = self.tree()
        return root.find(f"{OFFICE}master-styles") if root is not None else None

    def notice(self) -> str:
        return f"{self.file_name} breaks off; what could be read of it was indexed." if self.damaged else ""


class _Packed:
    """Content, styles and properties as parts of a zip."""

    def __init__(self, data: bytes, file_name: str) -> None:
        self._package = Package(data, file_name, "an OpenDocument file")
        self.damaged = self._package.damaged
        if b"encryption-data" in (self._package.read("META-INF/manifest.xml") or b""):
            raise self._package.protected()
        content = self._package.read("content.xml")
        if content is None:
            raise self.unreadable("content.xml is missing")
        self.content = content
        self._styles_root = self._package.tree("styles.xml")
        self.styles = Styles(self._styles_root)

    def tree(self) -> Element | None:
        root = self._package.tree("content.xml")
        if root is None:
            raise self.unreadable("content.xml is damaged")
        self.styles.read(root)
        return root

    def unreadable(self, why: str) -> ConversionError:
        return self._package.unreadable(why)

    def embedded(self, reference: str) -> Element | None:
        """The content of an object in this package."""
        return self._package.tree(posixpath.normpath(posixpath.join(reference, "content.xml")))

    def title(self) -> str:
        root = self._package.tree("meta.xml")
        found = next(root.iter(f"{DC}title"), None) if root is not None else None
        return useful_title(found.text or "") if found is not None else ""

    def margins(self) -> Element | None:
        root = self._styles_root
        return root.find(f"{OFFICE}master-styles") if root is not None else None

    def notice(self) -> str:
        return self._package.notice()


_Source = _Flat | _Packed


def _body(source: _Source) -> Element | None:
    root = source.tree()
    body = root.find(f"{OFFICE}body") if root is not None else None
    return body[0] if body is not None and len(body) else None


def _read_text(source: _Source, writer: Writer, pages: Pages) -> str:
    body = _body(source)
    if body is None:
        return ""
    flow = Flow()
    try:
        writer.write(body, flow)
    except RecursionError:
        lines = [
            one_line("".join(part.text or "" for part in one.iter()))
            for one in body.iter()
            if local(one) == "p"
        ]
        pages.add(0, tidy("\n\n".join(paragraph(line) for line in lines)))
        return _TOO_DEEP
    flow.raw("\n".join(f"[^{i}]: {note}" for i, note in enumerate(writer.notes, 1) if note))
    comments, writer.comments = writer.comments, []
    _write_margins(source.margins(), writer, flow)
    if comments:
        flow.heading(2, "Comments")
    for comment in comments:
        flow.item(0, "-", comment)
    pages.add(0, tidy(flow.text()))
    return ""


def _write_margins(masters: Element | None, writer: Writer, flow: Flow) -> None:
    """Headers and footers, each once, without page numbers."""
    seen: set[str] = set()
    for margin in masters.iter(f"{STYLE}header", f"{STYLE}footer") if masters is not None else ():
        inner = Flow()
        writer.has_page_number = False
        writer.write(margin, inner)
        text = inner.in_cell()
        is_page_number = writer.has_page_number and len(text.split()) <= 2
        if text and text not in seen and not is_page_number:
            seen.add(text)
            flow.paragraph(f"{local(margin).capitalize()}: {text}")


def _read_sheets(source: _Source, writer: Writer, pages: Pages) -> str:
    number = 0
    cut: list[str] = []
    try:
        for number, sheet in enumerate(each_sheet(source.content, source.styles, writer), 1):
            content = Flow()
            sheet.grid.write(content)
            content.gap()
            content.extend(sheet.shapes)
            if content:
                flow = Flow()
                flow.heading(2, f"{sheet.name} (hidden sheet)" if sheet.is_hidden else sheet.name)
                flow.extend(content)
                pages.add(number, tidy(flow.text()))
            cut += [f"sheet {sheet.name or number}: {what}" for what in sheet.cut]
    except Damaged:
        source.damaged.append("content.xml")
    return _cut_notice(cut)


def _cut_notice(cut: list[str]) -> str:
    if not cut:
        return ""
    listed = "; ".join([*cut[:_MOST_NAMED], *(["…"] if len(cut) > _MOST_NAMED else [])])
    return f"What is repeated very often was indexed a few times only ({listed})."


def _read_slides(source: _Source, writer: Writer, pages: Pages) -> None:
    body = _body(source)
    slides = OdfPages(source.styles, writer)
    drawn = [page for page in body if local(page) == "page"] if body is not None else []
    for number, page in enumerate(drawn, 1):
        pages.add(number, slides.page(page))


def _unreadable(file_name: str, why: str) -> ConversionError:
    return ConversionError(
        f"{file_name} could not be read as an OpenDocument file ({why}): "
        "open it in the program it comes from, save it again, and add that file."
    )
