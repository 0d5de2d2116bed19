"""What a Word document's styles say of a paragraph or a run: heading, title, quote, code, list. Pure.

Headings are told by their outline level, because styles have their names in any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .names import WORD
from .tree import Element

_HEADING_NAME = re.compile(
    r"(?:heading|überschrift|titre|título|titolo|encabezado|kop|rubrik|overskrift|otsikko|nagłówek|nadpis|címsor"
    r"|заголовок|επικεφαλίδα|başlık|標題|标题|見出し|제목|عنوان|כותרת)[ _]?([1-9])",
    re.I,
)
_CODE_NAME = re.compile(
    r"(?:(?:source|program|inline|python|sql|java|c|xml|bash)[ _-]?)?code"
    r"(?:[ _-]?(?:block|snippet|example|listing|sample|text|line|char|inline|zchn|car))*"
    r"|html[ _-]?(?:code|preformatted|keyboard|sample|typewriter)(?: char)?|preformatted(?:[ _-]?text)?"
    r"|program[ _-]?listing|verbatim(?:[ _-]?char)?|macro(?:[ _-]?text)?|source[ _-]?text|terminal|console",
    re.I,
)
_QUOTE_NAME = re.compile(r"(?:intense )?quote|quotations?|block[ _]?(?:text|quote)", re.I)
_MONOSPACED = re.compile(
    r"courier.*|consolas|menlo|monaco|lucida (?:console|sans typewriter)|ocr a.*|terminal|fixedsys"
    r"|.*\b(?:mono|monospaced?|code|typewriter)\b.*|.*mono(?:[ -].*)?",
    re.I,
)
_OFF = ("0", "false", "off", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParagraphStyle:
    heading: int = 0  # 1 to 9; 0 is none
    is_quote: bool = False
    is_code: bool = False
    is_monospaced: bool = False
    list_id: str = ""
    list_level: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStyle:
    is_bold: bool = False
    is_italic: bool = False
    is_struck: bool = False
    is_code: bool = False
    is_monospaced: bool | None = None


def code_name(name: str) -> bool:
    """Whether a style of this name is one for code."""
    return _CODE_NAME.fullmatch(name[:80]) is not None


def heading_name(name: str) -> int:
    """The level of heading that a style of this name is for; 0 if it is for none."""
    if name.lower() == "title":
        return 1
    found = _HEADING_NAME.fullmatch(name[:80])
    return int(found[1]) if found else 0


def quote_name(name: str) -> bool:
    return _QUOTE_NAME.fullmatch(name[:80]) is not None


def monospaced_name(font: str) -> bool:
    """Whether a font of this name is one in which code is set."""
    return _MONOSPACED.fullmatch(font.strip(" '\"")[:80]) is not None


def is_on(properties: Element | None, *names: str) -> bool | None:
    """Whether one of these is switched on; None if none of them is mentioned."""
    if properties is None:
        return None
    for name in names:
        found = properties.find(f"{WORD}{name}")
        if found is not None:
            return found.get(f"{WORD}val") not in _OFF
    return None


def value(element: Element | None, path: str) -> str | None:
    found = element.find(path) if element is not None else None
    return found.get(f"{WORD}val") if found is not None else None


def number(text: str | None) -> int | None:
    """A small whole number; None for anything else."""
    return int(text) if text and len(text) < 10 and re.fullmatch(r"-?\d+", text, re.A) else None


def monospaced(properties: Element | None) -> bool | None:
    """Whether the font is one in which code is set; None if no font is named."""
    fonts = properties.find(f"{WORD}rFonts") if properties is not None else None
    if fonts is None:
        return None
    name = fonts.get(f"{WORD}ascii") or fonts.get(f"{WORD}hAnsi")
    if name:
        return monospaced_name(name)
    return False if fonts.get(f"{WORD}asciiTheme") else None


class Styles:
    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, Element] = {}
        self._paragraphs: dict[str, ParagraphStyle] = {}
        self._runs: dict[str, RunStyle] = {}
        self._default = ""
        defaults = None
        if root is not None:
            for style in root.findall(f"{WORD}style"):
                style_id = style.get(f"{WORD}styleId") or ""
                self._styles[style_id] = style
                if style.get(f"{WORD}type") == "paragraph" and style.get(f"{WORD}default") in (
                    "1",
                    "true",
                    "on",
                ):
                    self._default = style_id
            defaults = root.find(f"{WORD}docDefaults/{WORD}rPrDefault/{WORD}rPr")
        # A document typed in Courier throughout is not code throughout.
        self.is_monospaced = bool(monospaced(defaults)) or self.paragraph("").is_monospaced

    def paragraph(self, style_id: str) -> ParagraphStyle:
        if style_id not in self._paragraphs:
            self._paragraphs[style_id] = self._paragraph(style_id or self._default)
        return self._paragraphs[style_id]

    def run(self, style_id: str) -> RunStyle:
        if style_id not in self._runs:
            self._runs[style_id] = self._run(style_id)
        return self._runs[style_id]

    def list_of(self, style_id: str) -> str:
        """The list that a list style stands for."""
        return value(self._styles.get(style_id), f"{WORD}pPr/{WORD}numPr/{WORD}numId") or ""

    def _paragraph(self, style_id: str) -> ParagraphStyle:
        chain = list(self._chain(style_id))
        names = [_name(style) for style in chain] or [style_id]
        list_id = next((found for style in chain if (found := _in_paragraph(style, "numPr/numId"))), "")
        levels = (number(_in_paragraph(style, "numPr/ilvl")) for style in chain)
        fonts = (monospaced(style.find(f"{WORD}rPr")) for style in chain)
        return ParagraphStyle(
            heading=self._heading(chain, style_id),
            is_quote=any(quote_name(name) for name in names),
            is_code=any(code_name(name) for name in names),
            is_monospaced=next((font for font in fonts if font is not None), False),
            list_id=list_id,
            list_level=next((level for level in levels if level is not None), 0),
        )

    def _run(self, style_id: str) -> RunStyle:
        chain = list(self._chain(style_id))
        properties = [style.find(f"{WORD}rPr") for style in chain]
        names = [_name(style) for style in chain] or [style_id]

        def first(*tags: str) -> bool:
            return next((on for each in properties if (on := is_on(each, *tags)) is not None), False)

        return RunStyle(
            is_bold=first("b"),
            is_italic=first("i"),
            is_struck=first("strike", "dstrike"),
            is_code=any(code_name(name) for name in names),
            is_monospaced=next((on for each in properties if (on := monospaced(each)) is not None), None),
        )

    def _heading(self, chain: list[Element], style_id: str) -> int:
        for style in chain:
            outline = number(_in_paragraph(style, "outlineLvl"))
            if outline is not None:
                return outline + 1 if 0 <= outline <= 8 else 0
            if level := heading_name(_name(style)):
                return level
        # A style that is used and not defined has only its id to speak for it.
        return 0 if chain else heading_name(style_id)

    def _chain(self, style_id: str) -> Iterator[Element]:
        """The style, and those it is based on."""
        seen: set[str] = set()
        while style_id in self._styles and style_id not in seen:
            seen.add(style_id)
            style = self._styles[style_id]
            yield style
            style_id = value(style, f"{WORD}basedOn") or ""


def _name(style: Element) -> str:
    return (value(style, f"{WORD}name") or style.get(f"{WORD}styleId") or "").strip()


def _in_paragraph(style: Element, path: str) -> str | None:
    return value(style, f"{WORD}pPr/" + "/".join(f"{WORD}{step}" for step in path.split("/")))
