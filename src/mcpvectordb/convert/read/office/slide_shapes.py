"""The shapes of a slide, in the order a reader meets them: text, tables, charts, diagrams, pictures."""

from __future__ import annotations

from .charts import drawn_text, is_chart, write_chart, write_diagram
from .flow import Flow
from .names import CHART, CHART_2014, DIAGRAM, DRAW, R
from .package import Package
from .prose import image, inline
from .slide_places import Sheet, in_reading_order, list_styles, placeholder
from .slide_text import plain_body, spans, write_body
from .tree import Element, local

_SHAPES = frozenset({"sp", "grpSp", "graphicFrame", "pic", "cxnSp", "AlternateContent", "contentPart"})
_LONGEST_TITLE = 80
_WIDEST_SPAN = 100


class Shapes:
    """Writes the shapes of one slide. Footers that other slides have shown are left out."""

    def __init__(
        self, package: Package, part: str, sheets: tuple[Sheet, Sheet], *, rtl: bool, seen: set[str]
    ) -> None:
        self._package = package
        self._part = part
        self._layout, self._master = sheets
        self._rtl = rtl
        self._seen = seen
        self.shown: set[str] = set()  # footers that this slide is the first to show
        self.title = ""
        self._titled: Element | None = None  # the shape that gave the title, where no placeholder did

    def write(self, holder: Element, flow: Flow) -> None:
        shapes = [child for child in holder if local(child) in _SHAPES]
        for shape in in_reading_order(shapes, self._layout, self._master, rtl=self._rtl):
            self._one(shape, flow)
            flow.gap()

    def take_title(self, holder: Element) -> None:
        """A slide without a title has one for its readers if its topmost text is a short line.

        After this the slide is written anew, its footers too.
        """
        self.shown.clear()
        shapes = [child for child in holder if local(child) == "sp"]
        for shape in in_reading_order(shapes, self._layout, self._master, rtl=self._rtl):
            body = _child(shape, "txBody")
            text = plain_body(body).strip() if body is not None else ""
            own = placeholder(shape)
            if text and not (own and own.is_on_master in ("dt", "ftr", "sldNum")):
                if "\n" not in text and len(text) <= _LONGEST_TITLE:
                    self.title = text
                    self._titled = shape
                return

    def _one(self, shape: Element, flow: Flow) -> None:
        name = local(shape)
        if shape is self._titled:
            return
        if name == "grpSp":
            self.write(shape, flow)
        elif name == "AlternateContent":
            self._alternative(shape, flow)
        elif name == "graphicFrame":
            self._frame(shape, flow)
        elif name in ("sp", "cxnSp"):
            self._text(shape, flow)
        else:
            self._described(shape, flow)

    def _alternative(self, shape: Element, flow: Flow) -> None:
        for choice in shape:
            inner = Flow()
            self.write(choice, inner)
            if inner:
                flow.extend(inner)
                return

    def _text(self, shape: Element, flow: Flow) -> None:
        body = _child(shape, "txBody")
        own = placeholder(shape)
        if body is None or not plain_body(body).strip():
            formulas = Flow()
            if body is not None:
                write_body(body, formulas, self._package, self._part)
            if formulas:
                flow.extend(formulas)
            elif own is None:
                self._described(shape, flow)
            return
        if own and own.kind == "sldNum":
            return
        if own and own.kind in ("dt", "ftr", "hdr"):
            text = plain_body(body)
            if text not in self._seen and text not in self.shown:
                self.shown.add(text)
                flow.paragraph(text)
            return
        if own and own.is_title and not self.title:
            self.title = " ".join(
                inline(list(spans(one, self._package, self._part))) for one in body.iter(f"{DRAW}p")
            ).strip()
            return
        styles = list_styles(shape, self._layout, self._master)
        write_body(body, flow, self._package, self._part, styles)

    def _frame(self, frame: Element, flow: Flow) -> None:
        inner = Flow()
        table = next(frame.iter(f"{DRAW}tbl"), None)
        if table is not None:
            inner.table(_rows(table, self._package, self._part))
        for chart in frame.iter(f"{CHART}chart", f"{CHART_2014}chart"):
            self._write_part(chart.get(f"{R}id"), inner)
        for diagram in frame.iter(f"{DIAGRAM}relIds"):
            self._write_part(diagram.get(f"{R}dm"), inner)
        if not inner:
            inner.paragraph(drawn_text(frame))
        self._described(frame, flow)
        flow.extend(inner)

    def _write_part(self, relation_id: str | None, flow: Flow) -> None:
        part = self._package.target(self._part, relation_id)
        root = self._package.tree(part) if part else None
        if root is not None:
            (write_chart if is_chart(root) else write_diagram)(root, flow)

    def _described(self, shape: Element, flow: Flow) -> None:
        """What is said of a picture, for those who cannot see it."""
        for holder in shape:
            if local(holder).startswith("nv"):
                properties = _child(holder, "cNvPr")
                if properties is not None:
                    flow.paragraph(image(properties.get("descr") or properties.get("title") or ""))


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if local(child) == name), None)


def _rows(table: Element, package: Package, part: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in table.findall(f"{DRAW}tr"):
        texts: list[str] = []
        for cell in row.findall(f"{DRAW}tc"):
            lines = [inline(list(spans(one, package, part))) for one in cell.iter(f"{DRAW}p")]
            text = " ".join(line for line in lines if line)
            # Text over several rows belongs to each of them.
            if cell.get("vMerge") in ("1", "true") and not text and rows and len(texts) < len(rows[-1]):
                text = rows[-1][len(texts)]
            texts.append(text)
        rows.append(texts)
    return rows
