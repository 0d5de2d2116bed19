"""What is drawn on a PDF page beside its text: rules, boxes and pictures. Draws and decodes nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .lines import Box, turned
from .raw import raw

# Maps and diagrams have tens of thousands of paths, and no table.
_MOST_OBJECTS = 20_000
_MOST_SEGMENTS = 4_000
_FEW_SEGMENTS = 600
_MOST_DEPTH = 4
# Thinner than this is a line, in points; shorter than this is a speck.
_THIN = 3.0
_SHORT = 3.0
# A box smaller than this is an arrow's head, a bullet, a letter drawn as a shape.
_SMALL = 6.0
# The segments of what PDF's operator for rectangles draws.
_RECTANGLE = 5


@dataclass(slots=True)
class Drawn:
    """Rules as (position, start, end): level ones at y from x to x, upright ones at x from y to y."""

    level: list[tuple[float, float, float]] = field(default_factory=list[tuple[float, float, float]])
    upright: list[tuple[float, float, float]] = field(default_factory=list[tuple[float, float, float]])

    def add(self, box: Box) -> None:
        x0, y0, x1, y1 = box
        if y1 - y0 <= _THIN and x1 - x0 >= _SHORT:
            self.level.append(((y0 + y1) / 2, x0, x1))
        elif x1 - x0 <= _THIN and y1 - y0 >= _SHORT:
            self.upright.append(((x0 + x1) / 2, y0, y1))


def drawn_on(page: Any, quarter: int, characters: int) -> Drawn:
    """The rules of a page, turned with its text; none where there are too many to be a table's."""
    drawn = Drawn()
    # A table has more characters than lines; a map has not.
    budget = min(_MOST_SEGMENTS, _FEW_SEGMENTS + characters)
    for thing, kind, matrix in _things(page):
        if kind != raw.FPDF_PAGEOBJ_PATH:
            continue
        budget -= 1
        if budget < 0:
            return Drawn()
        box = _bounds(thing, matrix)
        if box is None:
            continue
        width, height = box[2] - box[0], box[3] - box[1]
        if height <= _THIN or width <= _THIN:
            drawn.add(turned(box, quarter))
        elif width >= _SMALL and height >= _SMALL:
            count: int = raw.FPDFPath_CountSegments(thing)
            budget -= count
            if budget < 0:
                return Drawn()
            for segment in _sides(box) if count == _RECTANGLE else _segments(thing, count, matrix):
                drawn.add(turned(segment, quarter))
    return drawn


def _sides(box: Box) -> tuple[Box, Box, Box, Box]:
    x0, y0, x1, y1 = box
    return (x0, y0, x1, y0), (x0, y1, x1, y1), (x0, y0, x0, y1), (x1, y0, x1, y1)


def is_pictured(page: Any) -> bool:
    """Whether a page without text shows something all the same: a picture, or letters drawn as outlines."""
    left, bottom, right, top = page_box(page)
    area = max((right - left) * (top - bottom), 1.0)
    paths = 0
    for thing, kind, matrix in _things(page):
        if kind == raw.FPDF_PAGEOBJ_PATH:
            paths += 1
        elif kind in (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING):
            box = _bounds(thing, matrix)
            # A dot or a hairline that some producers draw as a picture leaves the page blank.
            if box is None or (box[2] - box[0]) * (box[3] - box[1]) > 0.005 * area:
                return True
        if paths > 10:
            return True
    return False


def page_box(page: Any) -> Box:
    """The part of the page that is shown."""
    rect = raw.FS_RECTF()
    raw.FPDF_GetPageBoundingBox(page, ctypes.byref(rect))
    return rect.left, rect.bottom, rect.right, rect.top


def _things(page: Any) -> Iterator[tuple[Any, int, Any]]:
    """The objects of a page, those inside its forms too, with the matrix of the form they stand in."""
    left = _MOST_OBJECTS

    def walk(count: int, get: Any, owner: Any, matrix: Any, depth: int) -> Iterator[tuple[Any, int, Any]]:
        nonlocal left
        get_kind = raw.FPDFPageObj_GetType
        for index in range(count):
            left -= 1
            if left < 0:
                return
            thing = get(owner, index)
            kind: int = get_kind(thing)
            if kind == raw.FPDF_PAGEOBJ_FORM and depth < _MOST_DEPTH:
                inner = raw.FPDFFormObj_CountObjects(thing)
                yield from walk(
                    inner, raw.FPDFFormObj_GetObject, thing, _product(_matrix(thing), matrix), depth + 1
                )
            else:
                yield thing, kind, matrix

    yield from walk(raw.FPDFPage_CountObjects(page), raw.FPDFPage_GetObject, page, None, 0)


def _matrix(thing: Any) -> Any:
    matrix = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(thing, ctypes.byref(matrix)):
        return None
    return matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f


def _product(inner: Any, outer: Any) -> Any:
    if inner is None or outer is None:
        return outer if inner is None else inner
    a, b, c, d, e, f = inner
    A, B, C, D, E, F = outer
    return (
        a * A + b * C,
        a * B + b * D,
        c * A + d * C,
        c * B + d * D,
        e * A + f * C + E,
        e * B + f * D + F,
    )


def _placed(x: float, y: float, matrix: Any) -> tuple[float, float]:
    if matrix is None:
        return x, y
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


_edges = [ctypes.c_float() for _ in range(4)]
_edge_references = [ctypes.byref(edge) for edge in _edges]


def _bounds(thing: Any, matrix: Any) -> Box | None:
    if not raw.FPDFPageObj_GetBounds(thing, *_edge_references):
        return None
    left, bottom, right, top = (edge.value for edge in _edges)
    return _box(_placed(left, bottom, matrix), _placed(right, top, matrix))


def _box(one: tuple[float, float], other: tuple[float, float]) -> Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1])


# A box with round corners has no more.
_MOST_ROUNDED = 20


def _segments(path: Any, count: int, outer: Any) -> Iterator[Box]:
    """The straight parts of a path as boxes without width."""
    matrix = _product(_matrix(path), outer)
    x, y = ctypes.c_float(), ctypes.c_float()
    start = last = (0.0, 0.0)
    for index in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = _placed(x.value, y.value, matrix)
        kind: int = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            yield _box(last, point)
        elif count > _MOST_ROUNDED:
            return  # a drawing
        last = point
        if raw.FPDFPathSegment_GetClose(segment):
            yield _box(last, start)
            last = start
