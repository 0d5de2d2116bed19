"""Where shapes stand on a slide, and the order in which a reader meets them.

A placeholder without a place of its own stands where its layout, or its master, has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .names import DRAW, SLIDE
from .package import Package
from .tree import Element, local

# Shapes whose tops differ by less (0.1 inch) stand in one row.
_ROW_EMU = 91_440
_TITLES = frozenset({"title", "ctrTitle"})
_FAR = 1 << 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Placeholder:
    kind: str = "obj"
    index: str = "0"

    @property
    def is_title(self) -> bool:
        return self.kind in _TITLES

    @property
    def is_on_master(self) -> str:
        """The kind that a master knows it by."""
        if self.is_title:
            return "title"
        return self.kind if self.kind in ("dt", "ftr", "sldNum") else "body"


def placeholder(shape: Element) -> Placeholder | None:
    for holder in shape:
        if local(holder).startswith("nv"):
            found = holder.find(f"{SLIDE}nvPr/{SLIDE}ph")
            if found is not None:
                return Placeholder(kind=found.get("type") or "obj", index=found.get("idx") or "0")
    return None


@dataclass(slots=True)
class Sheet:
    """A layout or a master: its placeholders, and the list styles of a master."""

    shapes: list[tuple[Placeholder, Element]] = field(default_factory=list[tuple[Placeholder, Element]])
    styles: Element | None = None

    def by_index(self, wanted: Placeholder) -> Element | None:
        for same in ("index", "kind"):
            for known, shape in self.shapes:
                if getattr(known, same) == getattr(wanted, same) and known.is_title == wanted.is_title:
                    return shape
        return None

    def by_kind(self, wanted: Placeholder) -> Element | None:
        return next(
            (shape for known, shape in self.shapes if known.is_on_master == wanted.is_on_master), None
        )


class Sheets:
    """The layouts and masters of a presentation, each read once."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._known: dict[str, Sheet] = {}

    def behind(self, slide: str) -> tuple[Sheet, Sheet]:
        """The layout of a slide, and that layout's master."""
        layouts = self._package.related(slide, "slideLayout")
        masters = self._package.related(layouts[0], "slideMaster") if layouts else []
        return self._sheet(layouts), self._sheet(masters)

    def _sheet(self, parts: list[str]) -> Sheet:
        if not parts:
            return Sheet()
        if parts[0] not in self._known:
            root = self._package.tree(parts[0])
            sheet = Sheet()
            if root is not None:
                sheet.styles = root.find(f"{SLIDE}txStyles")
                sheet.shapes = [
                    (known, shape)
                    for shape in root.iter(f"{SLIDE}sp", f"{SLIDE}pic")
                    if (known := placeholder(shape)) is not None
                ]
            self._known[parts[0]] = sheet
        return self._known[parts[0]]


def _ancestors(own: Placeholder | None, layout: Sheet, master: Sheet) -> list[Element]:
    """The placeholders that a placeholder takes after, nearest first."""
    if own is None:
        return []
    found = [layout.by_index(own), master.by_kind(own)]
    return [one for one in found if one is not None]


def list_styles(shape: Element, layout: Sheet, master: Sheet) -> list[Element]:
    """What may speak for the bullets of a shape's text, nearest first."""
    own = placeholder(shape)
    if own is None:
        return []
    styles = [one.find(f"{SLIDE}txBody/{DRAW}lstStyle") for one in _ancestors(own, layout, master)]
    name = "titleStyle" if own.is_title else "bodyStyle"
    styles.append(master.styles.find(f"{SLIDE}{name}") if master.styles is not None else None)
    return [style for style in styles if style is not None]


def in_reading_order(shapes: list[Element], layout: Sheet, master: Sheet, *, rtl: bool) -> list[Element]:
    """The title first, then row by row from the top, each row in the direction of the script."""
    first: list[Element] = []
    rest: list[tuple[tuple[int, int], Element]] = []
    for shape in shapes:
        own = placeholder(shape)
        if own is not None and own.is_title:
            first.append(shape)
        else:
            rest.append((_place(shape, own, layout, master), shape))
    rest.sort(key=lambda one: one[0][1])
    rows: list[list[tuple[tuple[int, int], Element]]] = []
    for one in rest:
        if rows and one[0][1] - rows[-1][0][0][1] < _ROW_EMU:
            rows[-1].append(one)
        else:
            rows.append([one])
    for row in rows:
        row.sort(key=lambda one: -one[0][0] if rtl else one[0][0])
    return [*first, *(shape for row in rows for _, shape in row)]


def _place(shape: Element, own: Placeholder | None, layout: Sheet, master: Sheet) -> tuple[int, int]:
    for one in [shape, *_ancestors(own, layout, master)]:
        for offset in _offsets(one):
            x, y = offset.get("x") or "", offset.get("y") or ""
            if x.lstrip("-").isdecimal() and y.lstrip("-").isdecimal():
                return int(x), int(y)
    return 0, _FAR


def _offsets(shape: Element) -> Iterator[Element]:
    """A shape's own place, not that of the shapes in it."""
    for child in shape:
        if local(child) in ("spPr", "grpSpPr"):
            found = child.find(f"{DRAW}xfrm/{DRAW}off")
        elif local(child) == "xfrm":
            found = child.find(f"{DRAW}off")
        elif local(child) in ("Choice", "Fallback") and len(child):
            yield from _offsets(child[0])
            continue
        else:
            continue
        if found is not None:
            yield found
