"""PowerPoint presentations (pptx, pptm, ppsx, potx) to Markdown, a page for each slide.

Slides come in the order of the show, hidden ones too, and their notes and comments stand with them. Reads
the parts of the package itself: a picture that is broken, or a part that is missing, costs that part alone.
"""

from __future__ import annotations

from mcpvectordb.errors import ConversionError

from . import Read
from .office.flow import Flow, Pages, tidy
from .office.names import DRAW, SLIDE, R
from .office.package import Package
from .office.prose import one_line
from .office.slide_places import Sheet, Sheets
from .office.slide_shapes import Shapes
from .office.slide_text import plain_body
from .office.tree import Element, local

_AUTHOR_PARTS = ("commentAuthors", "authors")


def read(data: bytes, file_name: str) -> Read:
    package = Package(data, file_name, "a PowerPoint presentation")
    show = _Show(package)
    pages = Pages()
    for number, part in enumerate(show.slides, 1):
        pages.add(number, show.slide(part))
    if not pages.text:
        if package.damaged:
            raise package.unreadable(f"{package.damaged[0]} is missing or damaged")
        raise ConversionError(
            f"{file_name} holds no text (only pictures, or no slides at all): "
            "if its slides are scans or screenshots, run them through OCR and add the result."
        )
    return Read(text=pages.text, title=package.title(), pages=pages.marks, notice=package.notice())


class _Show:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._sheets = Sheets(package)
        self._seen: set[str] = set()
        self._has_titles = False
        main = package.main("ppt/presentation.xml")
        root = package.tree(main)
        self._rtl = root is not None and root.get("rtl") in ("1", "true")
        self.slides = self._ordered(main, root)
        self._authors = self._read_authors(main)

    def slide(self, part: str) -> str:
        root = self._package.tree(part)
        if root is None:
            if part not in self._package.damaged:
                self._package.damaged.append(part)
            return ""
        try:
            return self._slide(part, root)
        except RecursionError:
            # Groups in groups beyond reason: the letters are still there.
            return tidy("\n\n".join(plain_body(body) for body in root.iter(f"{SLIDE}txBody")))

    def _slide(self, part: str, root: Element) -> str:
        tree = root.find(f"{SLIDE}cSld/{SLIDE}spTree")
        shapes = Shapes(self._package, part, self._sheets.behind(part), rtl=self._rtl, seen=self._seen)
        content = Flow()
        if tree is not None:
            shapes.write(tree, content)
            if not shapes.title:
                content = Flow()
                shapes.take_title(tree)
                shapes.write(tree, content)
            self._seen |= shapes.shown
        notes, comments = self._notes(part), self._comments(part)
        is_hidden = root.get("show") in ("0", "false")
        if is_hidden and (shapes.title or content or notes or comments):
            shapes.title = f"{shapes.title} (hidden slide)" if shapes.title else "Hidden slide"
        flow = Flow()
        # Else the slide would seem to go on under the last slide's title, or its notes.
        title = shapes.title or ("Untitled slide" if self._has_titles and (content or notes) else "")
        self._has_titles |= bool(title)
        flow.heading(2, title)
        flow.extend(content)
        if notes:
            flow.heading(3, "Notes:")
            flow.extend(notes)
        if comments:
            flow.heading(3, "Comments:")
            flow.extend(comments)
        return tidy(flow.text())

    def _ordered(self, main: str, root: Element | None) -> list[str]:
        """The slides in the order of the show; in that of their names where the show is damaged."""
        ids = root.findall(f"{SLIDE}sldIdLst/{SLIDE}sldId") if root is not None else []
        relations = self._package.relations(main)
        found = [relations[id_].target for one in ids if (id_ := one.get(f"{R}id") or "") in relations]
        if any(self._package.has(name) for name in found):
            # A slide is shown once; a file may name one a hundred thousand times.
            return list(dict.fromkeys(found))
        return [name for name in self._package.names("ppt/slides/") if name.endswith(".xml")]

    def _notes(self, part: str) -> Flow:
        flow = Flow()
        for name in self._package.related(part, "notesSlide"):
            root = self._package.tree(name)
            tree = root.find(f"{SLIDE}cSld/{SLIDE}spTree") if root is not None else None
            if tree is not None:
                shapes = Shapes(self._package, name, (Sheet(), Sheet()), rtl=self._rtl, seen=self._seen)
                shapes.write(tree, flow)
                self._seen |= shapes.shown
        return flow

    def _comments(self, part: str) -> Flow:
        flow = Flow()
        for name in self._package.related(part, "comments"):
            root = self._package.tree(name)
            for comment in root.iter() if root is not None else ():
                # Newer programs keep threads of replies; older ones a plain list.
                if local(comment) not in ("cm", "reply"):
                    continue
                author = self._authors.get(comment.get("authorId") or "", "")
                text = one_line(_comment_text(comment))
                if text:
                    flow.item(int(local(comment) == "reply"), "-", f"{author}: {text}" if author else text)
        return flow

    def _read_authors(self, main: str) -> dict[str, str]:
        authors: dict[str, str] = {}
        for kind in _AUTHOR_PARTS:
            for name in self._package.related(main, kind):
                root = self._package.tree(name)
                for author in root if root is not None else ():
                    authors[author.get("id") or ""] = one_line(author.get("name") or "")
        return authors


def _comment_text(comment: Element) -> str:
    for child in comment:
        if local(child) == "text":
            return child.text or ""
        if local(child) == "txBody":
            return " ".join(text.text or "" for text in child.iter(f"{DRAW}t"))
    return ""
