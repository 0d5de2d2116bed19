"""One story of an RTF text (its body, a note, a header, a text box) to blocks: paragraphs, items, tables.

Paragraphs and cells come one after the other and say at their end what they were; nothing nests in RTF but
by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from mcpvectordb.convert.read.office.cells import Cell, write_table
from mcpvectordb.convert.read.office.flow import Flow
from mcpvectordb.convert.read.office.prose import Format, Span, clean_code, inline, one_line

_ORDERED = re.compile(r"\d{1,9}[.)]")
# A list that a program wrote by hand, with a tab after the mark or a bullet that is nothing else.
_TYPED = re.compile(r"\s*(?:([•▪◦‣●○■□➢❖·–-])\t+|[•▪◦‣●]\s+|(\d{1,3}[.)])\t+)(?=\S)")
_NO_HEADING = 9
# Beyond this, where a cell stands on the page says no more than its place in the row.
_MOST_EDGES = 63
_DEEPEST_TABLE = 16
_HAIR = 60  # in twentieths of a point


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    heading: int = 0
    is_code: bool = False
    is_quote: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """What \\pard resets."""

    style: int = 0
    outline: int = _NO_HEADING
    is_in_table: bool = False
    nesting: int = 0
    is_listed: bool = False
    level: int = 0
    indent: int = 0

    @property
    def depth(self) -> int:
        return min(_DEEPEST_TABLE, self.nesting or int(self.is_in_table))


@dataclass(slots=True)
class Edge:
    """The definition of a cell: where it ends, and whether it goes on with the one above or before it."""

    right: int = 0
    is_below: bool = False
    is_beside: bool = False


@dataclass(slots=True)
class _Table:
    rows: list[list[tuple[int, Flow, bool]]] = field(default_factory=list[list[tuple[int, Flow, bool]]])
    cells: list[Flow] = field(default_factory=list[Flow])
    cell: Flow = field(default_factory=Flow)


class Story:
    def __init__(self, styles: Callable[[int], Style], *, has_headings: bool = True) -> None:
        self._styles = styles
        self._has_headings = has_headings
        self._flow = Flow()
        self._spans: list[Span] = []
        self._tables: list[_Table] = []
        self._edges: dict[int, list[Edge]] = {}
        self._boxes: list[Flow] = []
        self.marker = ""  # of a list, as the program showed it
        self.has_page_number = False
        self.depth = 0  # how many stories it stands in

    def add(self, text: str, form: Format) -> None:
        self._spans.append(Span(text, form))

    def add_box(self, box: Flow) -> None:
        """A text box, which follows the paragraph it stands at."""
        self._boxes.append(box)

    def define_row(self, depth: int) -> None:
        self._edges[depth] = [Edge()]

    def edge(self, depth: int) -> Edge:
        """The cell that is being defined."""
        return self._edges.setdefault(depth, [Edge()])[-1]

    def define_cell(self, depth: int, right: int) -> None:
        self.edge(depth).right = right
        self._edges[depth].append(Edge())

    def end_paragraph(self, paragraph: Paragraph) -> None:
        depth = paragraph.depth
        if depth == 0 and self._tables and self._tables[0].cells:
            # A row that was begun goes on until it ends, whether its paragraphs say so or not.
            depth = 1
        self._end(paragraph, depth)

    def end_cell(self, paragraph: Paragraph, depth: int) -> None:
        self._end(paragraph, depth)
        table = self._tables[depth - 1]
        table.cells.append(table.cell)
        table.cell = Flow()

    def end_row(self, paragraph: Paragraph, depth: int) -> None:
        if any(span.text.strip() for span in self._spans):
            self.end_cell(paragraph, depth)
        self._at(depth)
        self._end_row(depth)

    def finish(self, paragraph: Paragraph) -> Flow:
        if self._spans or self._boxes:
            self.end_paragraph(paragraph)
        self._at(0)
        return self._flow

    def _end_row(self, depth: int) -> None:
        table = self._tables[depth - 1]
        cells, table.cells = table.cells, []
        if table.cell:
            cells.append(table.cell)
            table.cell = Flow()
        edges = self._edges.get(depth, [])[:-1]
        if len(edges) != len(cells):
            edges = [Edge(right=(place + 1) * 10 * _HAIR) for place in range(len(cells))]
        left = 0
        row: list[tuple[int, Flow, bool]] = []
        for cell, edge in zip(cells, edges, strict=True):
            if not edge.is_beside or cell:
                row.append((left, cell, edge.is_below and not cell))
            left = edge.right
        table.rows.append(row)

    def _end(self, paragraph: Paragraph, depth: int) -> None:
        spans, self._spans = self._spans, []
        marker, self.marker = self.marker, ""
        boxes, self._boxes = self._boxes, []
        flow = self._at(depth)
        self._write(flow, paragraph, spans, marker)
        for box in boxes:
            flow.extend(box)

    def _at(self, depth: int) -> Flow:
        """The flow of the table cell that deep, once deeper tables are done."""
        while len(self._tables) > depth:
            self._close_table()
        while len(self._tables) < depth:
            self._tables.append(_Table())
        return self._tables[-1].cell if self._tables else self._flow

    def _close_table(self) -> None:
        if self._tables[-1].cells or self._tables[-1].cell:
            self._end_row(len(self._tables))
        rows = self._tables.pop().rows
        flow = self._tables[-1].cell if self._tables else self._flow
        columns = _columns({left for row in rows for left, _, _ in row})
        if len(columns) > _MOST_EDGES:
            columns = {}
        write_table([_row(row, columns) for row in rows], flow)

    def _write(self, flow: Flow, paragraph: Paragraph, spans: list[Span], marker: str) -> None:
        style = self._styles(paragraph.style)
        if not any(span.text.strip() for span in spans):
            if style.is_code:
                flow.code("")
            return
        if heading := self._heading(paragraph, style):
            text = inline([Span(span.text, Format(link=span.format.link)) for span in spans])
            number = one_line(marker)
            is_number = any(letter.isalnum() for letter in number)
            flow.heading(heading, f"{number} {text}" if is_number else text)
            return
        if style.is_code:
            flow.code(clean_code("".join(span.text for span in spans)).rstrip())
            return
        marker, spans = _marked(paragraph, one_line(marker), spans)
        text = inline(spans)
        if not marker:
            (flow.quote if style.is_quote else flow.paragraph)(text)
            return
        level = paragraph.level if paragraph.is_listed else paragraph.indent
        if _ORDERED.fullmatch(marker):
            flow.item(level, marker, text)
        else:
            flow.item(level, "-", text if marker == "-" else f"{marker} {text}")

    def _heading(self, paragraph: Paragraph, style: Style) -> int:
        if not self._has_headings:
            return 0
        return paragraph.outline + 1 if paragraph.outline < _NO_HEADING else style.heading


def _row(cells: list[tuple[int, Flow, bool]], columns: dict[int, int]) -> list[Cell]:
    column = -1
    row: list[Cell] = []
    for left, flow, is_continued in cells:
        # Edges may be wrong or not known, but two cells are never in one column.
        column = max(column + 1, columns.get(left, 0))
        row.append(Cell(column=column, flow=flow, is_continued=is_continued))
    return row


def _columns(edges: set[int]) -> dict[int, int]:
    """The column of each edge; those a hair's breadth apart are one."""
    columns: dict[int, int] = {}
    column, first = -1, 0
    for edge in sorted(edges):
        if column < 0 or edge - first > _HAIR:
            column, first = column + 1, edge
        columns[edge] = column
    return columns


def _marked(paragraph: Paragraph, marker: str, spans: list[Span]) -> tuple[str, list[Span]]:
    """The mark of a list's item, "" for none, and what follows it."""
    if marker:
        # Word's second bullet is a round letter in a typewriter font.
        is_bullet = marker == "o" or not any(letter.isalnum() for letter in marker)
        return ("-" if is_bullet else marker), spans
    head = "".join(span.text for span in spans[:4])
    typed = _TYPED.match(head)
    if typed is None:
        return ("-" if paragraph.is_listed else ""), spans
    rest = typed.end()
    kept: list[Span] = []
    for span in spans:
        cut = min(rest, len(span.text))
        rest -= cut
        kept.append(Span(span.text[cut:], span.format))
    return typed[2] or "-", kept
