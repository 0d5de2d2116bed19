"""Word documents (docx, docm, dotx) to Markdown.

Reads the parts of the package itself rather than through HTML: what other ways drop (content controls, text
boxes, comments, headers, code, tracked changes, list numbers) is then in reach, and it takes a fraction of
the time. Footnotes follow the text, then headers and footers, each once, and the comments come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpvectordb.convert.text import decode_html
from mcpvectordb.errors import ConversionError

from . import Read
from .office.flow import Flow, tidy
from .office.names import WORD
from .office.package import Package
from .office.prose import one_line, paragraph
from .office.tree import Element, local
from .office.word_body import Body
from .office.word_numbers import Numbers
from .office.word_runs import Notes, Runs
from .office.word_styles import Styles

_KIND = "a Word document"
_MIME = re.compile(rb"\s*(?:MIME-Version|Content-Type|From|Subject|Date)\s*:", re.I)
_TOO_DEEP = "The document is nested too deeply for Markdown; its plain text was indexed, without headings."


def read(data: bytes, file_name: str) -> Read:
    package = Package(data, file_name, _KIND)
    document = _Document(package)
    notice = ""
    try:
        text = document.text()
    except RecursionError:
        text, notice = document.plain_text(), _TOO_DEEP
    if not text:
        if package.damaged:
            raise package.unreadable(f"{package.damaged[0]} is damaged")
        raise ConversionError(
            f"{file_name} holds no text (only pictures, or nothing at all): "
            "if it shows scanned pages, run them through OCR and add the result."
        )
    notices = [notice, package.notice()]
    return Read(text=text, title=package.title(), notice=" ".join(each for each in notices if each))


class _Document:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._main = package.main("word/document.xml")
        root = package.tree(self._main)
        if root is None:
            raise package.unreadable("its main part is missing or damaged")
        self._root = root
        self._styles = Styles(self._part("styles"))
        self._numbers = Numbers(self._part("numbering"), self._styles)
        self._notes = Notes()

    def text(self) -> str:
        body = self._root.find(f"{WORD}body")
        flow = Flow()
        self._write(self._main, self._root if body is None else body, flow)
        self._write_notes(flow)
        self._write_margins(flow)
        self._write_comments(flow)
        return tidy(flow.text())

    def plain_text(self) -> str:
        """The letters alone, for a document that nests beyond reason."""
        paragraphs = self._root.iter(f"{WORD}p")
        lines = ["".join(text.text or "" for text in one.iter(f"{WORD}t")) for one in paragraphs]
        return tidy("\n\n".join(paragraph(one_line(line)) for line in lines))

    def _part(self, kind: str) -> Element | None:
        names = self._package.related(self._main, kind)
        return self._package.tree(names[0]) if names else None

    def _write(self, part: str, holder: Element, flow: Flow, *, has_headings: bool = True) -> None:
        runs = Runs(self._package, part, self._styles, self._notes)
        body = Body(
            self._package,
            runs,
            self._styles,
            self._numbers,
            take_in=self._taken_in,
            has_headings=has_headings,
        )
        body.write(holder, flow)

    def _write_notes(self, flow: Flow) -> None:
        texts: dict[str, str] = {}
        for kind in ("footnote", "endnote"):
            for part, note in self._each(f"{kind}s", kind):
                inner = Flow()
                self._write(part, note, inner, has_headings=False)
                if note.get(f"{WORD}type") in (None, "normal") and inner:
                    texts[self._notes.mark(kind, note.get(f"{WORD}id") or "")] = inner.in_cell()
        # Each begins with a mark of its own, and they stand in the order the text has them.
        known = [f"[^{number}]" for number in sorted(self._notes.order.values())]
        flow.raw("\n".join(f"{mark}: {texts[mark]}" for mark in known if mark in texts))

    def _write_margins(self, flow: Flow) -> None:
        """Headers and footers; most sections repeat those of the section before."""
        seen: set[str] = set()
        for kind in ("header", "footer"):
            for part in self._package.related(self._main, kind):
                root = self._package.tree(part)
                inner = Flow()
                if root is not None:
                    self._write(part, root, inner, has_headings=False)
                text = inner.in_cell()
                if text and text not in seen:
                    seen.add(text)
                    flow.paragraph(f"{kind.capitalize()}: {text}")

    def _write_comments(self, flow: Flow) -> None:
        items: list[str] = []
        for part, comment in self._each("comments", "comment"):
            inner = Flow()
            self._write(part, comment, inner, has_headings=False)
            author = one_line(comment.get(f"{WORD}author") or "")
            anchor = one_line(self._notes.anchors.get(comment.get(f"{WORD}id") or "", ""))
            about = f"on “{anchor}”" if anchor else ""
            lead = " ".join(each for each in (author, about) if each)
            if inner:
                items.append(f"{lead}: {inner.in_cell()}" if lead else inner.in_cell())
        if items:
            flow.heading(2, "Comments")
        for item in items:
            flow.item(0, "-", item)

    def _each(self, kind: str, name: str) -> Iterator[tuple[str, Element]]:
        for part in self._package.related(self._main, kind):
            root = self._package.tree(part)
            for element in root if root is not None else ():
                if local(element) == name:
                    yield part, element

    def _taken_in(self, relation_id: str) -> str:
        """A web page or another document that this one takes in whole."""
        part = self._package.target(self._main, relation_id)
        data = self._package.read(part) if part else None
        if not data:
            return ""
        try:
            if data.startswith(b"PK\x03\x04"):
                return _Document(Package(data, part, _KIND)).text()
            if data.lstrip()[:5] == b"{\\rtf":
                from .rtf import read as read_rtf  # noqa: PLC0415

                return read_rtf(data, part).text
            if _MIME.match(data):
                # A page with its pictures, saved as a mail.
                from .mail import read_eml  # noqa: PLC0415

                return read_eml(data, part).text
            html = decode_html(data)
            if html is None or "<" not in html:
                return paragraph(html or "")
            # Heavy, and hardly a document needs it.
            from mcpvectordb.convert.page import convert_html  # noqa: PLC0415

            return convert_html(html, part).text
        except ConversionError:
            self._package.damaged.append(part)
            return ""
