"""Charts and SmartArt diagrams of Office files to tables and lists. Pure.

What a chart shows is cached beside its references to a workbook, so no workbook is opened for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .flow import Flow
from .names import CHART, CHART_2014, DIAGRAM, DRAW
from .prose import one_line
from .tree import Element, local

# A diagram's points that hold its looks and its arrows, not its text.
_NO_NODES = frozenset({"pres", "parTrans", "sibTrans", "doc"})


def drawn_text(element: Element) -> str:
    """All the text of a DrawingML element on one line, its paragraphs apart."""
    return one_line(" ".join(letters(paragraph) for paragraph in element.iter(f"{DRAW}p")))


def letters(paragraph: Element) -> str:
    """The text of a DrawingML paragraph; its line breaks stay, else the words around them would be one."""
    found = paragraph.iter(f"{DRAW}t", f"{DRAW}br")
    return "".join("\n" if local(one) == "br" else one.text or "" for one in found)


def write_chart(root: Element, flow: Flow) -> None:
    """Title, axis titles, and the numbers as a table: a row for each category, a column for each series."""
    if root.tag.startswith(CHART_2014):
        _write_new_chart(root, flow)
        return
    title = root.find(f"{CHART}chart/{CHART}title")
    if title is not None:
        flow.paragraph(f"**{heading}**" if (heading := _title(title)) else "")
    area = root.find(f"{CHART}chart/{CHART}plotArea")
    if area is None:
        return
    axes = [_title(found) for axis in area if (found := axis.find(f"{CHART}title")) is not None]
    flow.paragraph(" / ".join(axis for axis in axes if axis))
    flow.table(_chart_rows(list(area.iter(f"{CHART}ser"))))
    # Labels that somebody wrote by hand at points of the chart.
    labels = [_title(text) for label in area.iter(f"{CHART}dLbl") for text in label.findall(f"{CHART}tx")]
    flow.paragraph("; ".join(label for label in labels if label))


def write_diagram(root: Element, flow: Flow) -> None:
    """The nodes of a SmartArt diagram as a nested list."""
    texts: dict[str, str] = {}
    for point in root.iter(f"{DIAGRAM}pt"):
        text = point.find(f"{DIAGRAM}t")
        if point.get("type") not in _NO_NODES and text is not None:
            texts[point.get("modelId") or ""] = drawn_text(text)
    children: dict[str, list[tuple[int, str]]] = {}
    for link in root.iter(f"{DIAGRAM}cxn"):
        order = link.get("srcOrd") or "0"
        if link.get("type") in (None, "parOf") and order.isdecimal():
            children.setdefault(link.get("srcId") or "", []).append((int(order), link.get("destId") or ""))
    tops = [point.get("modelId") or "" for point in root.iter(f"{DIAGRAM}pt") if point.get("type") == "doc"]
    pending = [(0, top) for top in reversed(tops)]
    while pending:
        level, node = pending.pop()
        text = texts.pop(node, "")
        if text:
            flow.item(level, "-", text)
        below = level + 1 if text else level
        # Taken out, so that a diagram whose nodes point in a circle comes to an end.
        pending += [(below, child) for _, child in sorted(children.pop(node, []), reverse=True)]
    for text in texts.values():
        flow.item(0, "-", text)


def _title(element: Element) -> str:
    cached = [value.text or "" for value in element.iter(f"{CHART}v")]
    return drawn_text(element) or one_line(" ".join(cached))


def _chart_rows(series: list[Element]) -> list[list[str]]:
    header = [""]
    columns: list[dict[int, str]] = []
    labels: dict[int, str] = {}
    for one in series:
        name = one.find(f"{CHART}tx")
        header.append(_title(name) if name is not None else "")
        for tag in ("cat", "xVal"):
            found = one.find(f"{CHART}{tag}")
            if found is not None:
                for index, label in _points(found).items():
                    labels.setdefault(index, label)
        values = next((v for tag in ("val", "yVal") if (v := one.find(f"{CHART}{tag}")) is not None), None)
        columns.append(_points(values) if values is not None else {})
    indexes = sorted({*labels, *(index for column in columns for index in column)})
    rows = [[labels.get(i, ""), *(column.get(i, "") for column in columns)] for i in indexes]
    return [header, *rows] if rows or any(header) else []


def _points(element: Element) -> dict[int, str]:
    """The cached values by their place; labels of several levels are joined, the outer one first."""
    levels = list(element.iter(f"{CHART}lvl"))
    if not levels:
        return dict(_each_point(element))
    inner, *outer = [dict(_each_point(level)) for level in levels]
    joined: dict[int, str] = {}
    last = [""] * len(outer)
    for index in sorted(inner):
        last = [level.get(index, known) for level, known in zip(outer, last, strict=True)]
        joined[index] = " ".join(part for part in [*reversed(last), inner[index]] if part)
    return joined


def _each_point(element: Element) -> Iterator[tuple[int, str]]:
    for point in element.iter(f"{CHART}pt"):
        index = point.get("idx") or ""
        if index.isdecimal():
            yield int(index), shown_number(point.findtext(f"{CHART}v") or "")


def shown_number(text: str) -> str:
    """A cached number without the noise of its binary form; any other text as it is."""
    if len(text) < 12 or not text.lstrip("-")[:1].isdecimal():
        return one_line(text)
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return one_line(text)


def _write_new_chart(root: Element, flow: Flow) -> None:
    """The chart types of 2016 (waterfall, treemap, …): columns of labels and numbers."""
    for title in root.iter(f"{CHART_2014}title"):
        flow.paragraph(f"**{text}**" if (text := drawn_text(title)) else "")
    for data in root.iter(f"{CHART_2014}data"):
        columns = [
            [one_line(point.text or "") for point in level.iter(f"{CHART_2014}pt")]
            for level in data.iter(f"{CHART_2014}lvl")
        ]
        longest = max((len(column) for column in columns), default=0)
        rows = [[column[i] if i < len(column) else "" for column in columns] for i in range(longest)]
        names = [one_line(text.text or "") for text in root.iter(f"{CHART_2014}v")]
        header = [*[""] * (len(columns) - len(names)), *names][: len(columns)]
        flow.table([header, *rows] if any(header) else rows)


def is_chart(part_root: Element) -> bool:
    return local(part_root) == "chartSpace"
