"""What OpenDocument styles say: of runs, paragraphs, lists and the numbers of headings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .names import FO, STYLE, TEXT
from .prose import PLAIN, Format
from .tree import Element, local
from .word_numbers import formatted
from .word_styles import code_name, monospaced_name, quote_name

_ENCODED = re.compile(r"_([0-9a-f]{2,4})_")
_HEADING = re.compile(r"Heading ([1-9])")
_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    heading: int = 0
    is_code: bool = False
    is_quote: bool = False
    is_numbered: bool = True  # whether it shows the number or bullet of its list
    list_style: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListLevel:
    is_bullet: bool
    form: str = ""
    before: str = ""
    after: str = ""
    start: int = 1
    shown_levels: int = 1


class Styles:
    def __init__(self, *roots: Element | None) -> None:
        self._styles: dict[tuple[str, str], Element] = {}
        self._lists: dict[str, dict[int, ListLevel]] = {}
        self.outline: dict[int, ListLevel] = {}
        self._fonts: dict[str, str] = {}
        self._formats: dict[str, Format] = {}
        self._paragraphs: dict[str, Paragraph] = {}
        for root in roots:
            if root is not None:
                self.read(root)

    def format(self, name: str) -> Format:
        """What a run's style changes; bold set against a bold heading does not matter here."""
        if name not in self._formats:
            self._formats[name] = self._format(name)
        return self._formats[name]

    def paragraph(self, name: str) -> Paragraph:
        if name not in self._paragraphs:
            self._paragraphs[name] = self._paragraph(name)
        return self._paragraphs[name]

    def list_levels(self, name: str) -> dict[int, ListLevel]:
        return self._lists.get(name, {})

    def setting(self, family: str, name: str, path: str, attribute: str) -> str:
        """A property of a style, or of those it takes after; "" if none has it."""
        for style in self._chain(family, name):
            found = style.find(path)
            value = found.get(attribute) if found is not None else None
            if value is not None:
                return value
        return ""

    def read(self, root: Element) -> None:
        for style in root.iter(f"{STYLE}style"):
            key = style.get(f"{STYLE}family") or "", style.get(f"{STYLE}name") or ""
            self._styles[key] = style
        for style in root.iter(f"{TEXT}list-style"):
            self._lists[style.get(f"{STYLE}name") or ""] = dict(_levels(style))
        for style in root.iter(f"{TEXT}outline-style"):
            self.outline = dict(_levels(style))
        for font in root.iter(f"{STYLE}font-face"):
            family = next((value for key, value in font.items() if key.endswith("}font-family")), "")
            self._fonts[font.get(f"{STYLE}name") or ""] = family

    def _chain(self, family: str, name: str) -> Iterator[Element]:
        seen: set[str] = set()
        while (family, name) in self._styles and name not in seen:
            seen.add(name)
            style = self._styles[family, name]
            yield style
            name = style.get(f"{STYLE}parent-style-name") or ""

    def _format(self, name: str) -> Format:
        if not name:
            return PLAIN

        def of(attribute: str) -> str:
            return self.setting("text", name, f"{STYLE}text-properties", attribute)

        font = of(f"{STYLE}font-name")
        family = self._fonts.get(font, font) or of(f"{FO}font-family")
        weight = of(f"{FO}font-weight")
        return Format(
            is_bold=weight == "bold" or (weight.isdecimal() and int(weight) >= 600),
            is_italic=of(f"{FO}font-style") in ("italic", "oblique"),
            is_struck=of(f"{STYLE}text-line-through-style") not in ("", "none"),
            is_code=monospaced_name(family) or any(code_name(each) for each in self._names("text", name)),
        )

    def _names(self, family: str, name: str) -> list[str]:
        # The last may take after one that is defined nowhere: its name says what it is all the same.
        parents = [style.get(f"{STYLE}parent-style-name") or "" for style in self._chain(family, name)]
        chain = [name, *parents]
        return [_ENCODED.sub(lambda found: chr(int(found[1], 16)), each) for each in chain]

    def _paragraph(self, name: str) -> Paragraph:
        names = self._names("paragraph", name)
        lists = [style.get(f"{STYLE}list-style-name") for style in self._chain("paragraph", name)]
        numbering = self.setting("paragraph", name, f"{STYLE}paragraph-properties", f"{TEXT}enable-numbering")
        return Paragraph(
            heading=next((_level(each) for each in names if _level(each)), 0),
            is_code=any(code_name(each) for each in names),
            is_quote=any(quote_name(each) for each in names),
            is_numbered=numbering != "false",
            list_style=next((each for each in lists if each is not None), ""),
        )


def _level(name: str) -> int:
    if name == "Title":
        return 1
    found = _HEADING.fullmatch(name)
    return int(found[1]) if found else 0


def _levels(style: Element) -> Iterator[tuple[int, ListLevel]]:
    for level in style:
        number = level.get(f"{TEXT}level") or ""
        if not number.isdecimal():
            continue
        start, levels = level.get(f"{TEXT}start-value") or "", level.get(f"{TEXT}display-levels") or ""
        yield (
            int(number),
            ListLevel(
                is_bullet=local(level) in ("list-level-style-bullet", "list-level-style-image"),
                form=level.get(f"{STYLE}num-format") or "",
                before=level.get(f"{STYLE}num-prefix") or "",
                after=level.get(f"{STYLE}num-suffix") or "",
                start=int(start) if start.isdecimal() and len(start) < 7 else 1,
                shown_levels=int(levels) if levels.isdecimal() and len(levels) < 3 else 1,
            ),
        )


def label(levels: dict[int, ListLevel], counts: dict[int, int], level: int) -> str:
    """The number before a paragraph on that level, as shown; "" if it has none."""
    here = levels.get(level)
    if here is None or here.is_bullet or here.form not in _FORMS:
        return ""
    numbers = [
        formatted(counts.get(each, 1), _FORMS.get(levels[each].form, "decimal"))
        for each in range(max(1, level - here.shown_levels + 1), level + 1)
        if each in levels and (each == level or levels[each].form in _FORMS)
    ]
    return f"{here.before}{'.'.join(numbers)}{here.after}".strip()
