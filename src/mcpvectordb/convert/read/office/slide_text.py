"""The text of a shape: paragraphs with their bullets, numbers and links.

Whether a paragraph has a bullet is said in the paragraph, else in the shape, else in the layout, else in the
master: whoever speaks first wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .charts import letters
from .flow import Flow
from .formula import latex
from .names import DRAW, MATH, R
from .package import Package
from .prose import Format, Span, inline
from .tree import Element, local
from .word_numbers import formatted

_LEVELS = 9
# The forms of automatic numbers: arabicPeriod, alphaLcParenR, romanUcParenBoth, …
_AUTO = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc)(\w*)")
_FORMS = {
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}


def write_body(
    body: Element, flow: Flow, package: Package, part: str, inherited: Sequence[Element] = ()
) -> None:
    """The paragraphs of a text body; inherited are the list styles that may speak for it, nearest first."""
    own = body.find(f"{DRAW}lstStyle")
    styles = [*([own] if own is not None else []), *inherited]
    counts: dict[int, int] = {}
    for paragraph in body.iter(f"{DRAW}p"):
        text = inline(list(spans(paragraph, package, part)))
        if not text:
            continue
        properties = paragraph.find(f"{DRAW}pPr")
        level = _level(properties)
        mark = _mark(properties, level, styles)
        for deeper in [place for place in counts if place > level]:
            del counts[deeper]
        if mark is None:
            counts.pop(level, None)
            flow.paragraph(text)
        elif local(mark) == "buAutoNum":
            counts[level] = counts.get(level, _start(mark) - 1) + 1
            flow.item(level, *_numbered(mark, counts[level], text))
        else:
            counts.pop(level, None)
            flow.item(level, "-", text)


def spans(paragraph: Element, package: Package, part: str) -> Iterator[Span]:
    for element in paragraph:
        name = local(element)
        if name == "r":
            yield Span(element.findtext(f"{DRAW}t") or "", Format(link=_link(element, package, part)))
        elif name == "br":
            yield Span("\n")
        elif name == "fld" and element.get("type") != "slidenum":
            yield Span(element.findtext(f"{DRAW}t") or "")
        elif name in ("AlternateContent", "m"):
            formulas = [latex(one) for one in element.iter(f"{MATH}oMath")]
            yield Span(" ".join(f"${formula}$" for formula in formulas if formula))


def plain_body(body: Element) -> str:
    """The letters of a text body, a line for each paragraph."""
    lines = [letters(one) for one in body.iter(f"{DRAW}p")]
    return "\n".join(line for line in lines if line.strip())


def _link(run: Element, package: Package, part: str) -> str:
    click = run.find(f"{DRAW}rPr/{DRAW}hlinkClick")
    relation = package.relations(part).get(click.get(f"{R}id") or "") if click is not None else None
    return relation.target if relation and relation.is_external else ""


def _level(properties: Element | None) -> int:
    level = properties.get("lvl") or "" if properties is not None else ""
    return min(int(level), _LEVELS - 1) if level.isdecimal() and len(level) < 3 else 0


def _mark(properties: Element | None, level: int, styles: Iterable[Element]) -> Element | None:
    """The bullet or number before a paragraph; None if it has none."""
    candidates = [properties, *(style.find(f"{DRAW}lvl{level + 1}pPr") for style in styles)]
    for candidate in candidates:
        for element in candidate if candidate is not None else ():
            name = local(element)
            if name == "buNone":
                return None
            if name in ("buChar", "buBlip", "buAutoNum"):
                return element
    return None


def _start(mark: Element) -> int:
    start = mark.get("startAt") or "1"
    return int(start) if start.isdecimal() and len(start) < 6 else 1


def _numbered(mark: Element, count: int, text: str) -> tuple[str, str]:
    found = _AUTO.match(mark.get("type") or "")
    form, style = (found[1], found[2]) if found else ("arabic", "Period")
    shown = formatted(count, _FORMS.get(form, "decimal"))
    after = {"ParenBoth": ")", "ParenR": ")", "Period": "."}.get(style, ".")
    label = f"({shown})" if style == "ParenBoth" else f"{shown}{after}"
    is_markdown = form == "arabic" and style != "ParenBoth"
    return (label, text) if is_markdown else ("-", f"{label} {text}")
