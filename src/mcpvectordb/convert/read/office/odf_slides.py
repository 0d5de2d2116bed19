"""The pages of an OpenDocument presentation or drawing."""

from __future__ import annotations

import re

from .flow import Flow, tidy
from .names import DRAWING, PRESENTATION, STYLE, SVG
from .odf_styles import Styles
from .odf_text import Writer, is_shape
from .tree import Element, local

# Shapes whose tops differ by less (0.1 inch) stand in one row.
_ROW_MM = 2.54
_LENGTH = re.compile(r"(-?\d+(?:\.\d+)?)(mm|cm|in|pt|pc|px)?")
_MM = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 0.3528, "pc": 4.233, "px": 0.2646}
_NEVER = frozenset({"page-number", "page"})
_FOOTERS = frozenset({"footer", "header", "date-time"})


class OdfPages:
    def __init__(self, styles: Styles, writer: Writer) -> None:
        self._styles = styles
        self._writer = writer
        self._seen: set[str] = set()
        self._has_titles = False

    def page(self, page: Element) -> str:
        titles, content = Flow(), Flow()
        for shape in _in_order([child for child in page if is_shape(child)]):
            kind = shape.get(f"{PRESENTATION}class") or ""
            if kind == "title" and not titles:
                self._writer.shape(shape, titles)
            elif kind in _FOOTERS:
                self._footer(shape, content)
            elif kind not in _NEVER:
                self._writer.shape(shape, content)
                content.gap()
        notes = Flow()
        for holder in page:
            if local(holder) == "notes":
                for shape in holder:
                    if is_shape(shape) and shape.get(f"{PRESENTATION}class") not in _NEVER | _FOOTERS:
                        self._writer.shape(shape, notes)
        comments, self._writer.comments = self._writer.comments, []
        return self._joined(self._title(page, titles, bool(content or notes)), content, notes, comments)

    def _footer(self, shape: Element, content: Flow) -> None:
        inner = Flow()
        self._writer.shape(shape, inner)
        if inner.in_cell() not in self._seen:
            self._seen.add(inner.in_cell())
            content.extend(inner)

    def _title(self, page: Element, titles: Flow, has_content: bool) -> str:
        title = titles.in_cell()
        style = page.get(f"{DRAWING}style-name") or ""
        path = f"{STYLE}drawing-page-properties"
        shown = self._styles.setting("drawing-page", style, path, f"{PRESENTATION}visibility")
        if shown == "hidden" and (title or has_content):
            title = f"{title} (hidden slide)" if title else "Hidden slide"
        # Else the slide would seem to go on under the last slide's title, or its notes.
        title = title or ("Untitled slide" if self._has_titles and has_content else "")
        self._has_titles |= bool(title)
        return title

    def _joined(self, title: str, content: Flow, notes: Flow, comments: list[str]) -> str:
        flow = Flow()
        flow.heading(2, title)
        flow.extend(content)
        if notes:
            flow.heading(3, "Notes:")
            flow.extend(notes)
        if comments:
            flow.heading(3, "Comments:")
        for comment in comments:
            flow.item(0, "-", comment)
        return tidy(flow.text())


def _in_order(shapes: list[Element]) -> list[Element]:
    """Row by row from the top, each from the left."""
    placed = sorted(((_mm(shape, "y"), _mm(shape, "x"), i) for i, shape in enumerate(shapes)))
    rows: list[list[tuple[float, float, int]]] = []
    for place in placed:
        if rows and place[0] - rows[-1][0][0] < _ROW_MM:
            rows[-1].append(place)
        else:
            rows.append([place])
    return [shapes[i] for row in rows for _, _, i in sorted(row, key=lambda place: (place[1], place[2]))]


def _mm(shape: Element, axis: str) -> float:
    found = _LENGTH.fullmatch(shape.get(f"{SVG}{axis}") or "")
    if found is None:
        # A group has no place of its own; that of its first shape will do.
        return _mm(shape[0], axis) if local(shape) == "g" and len(shape) else 1e6
    return float(found[1]) * _MM.get(found[2] or "mm", 1.0)
