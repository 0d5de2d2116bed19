"""The bullets and numbers that Word writes before paragraphs, counted as Word counts them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .names import WORD
from .tree import Element
from .word_styles import Styles, number, value

_DEEPEST = 9
_PLACE = re.compile(r"%([1-9])")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"))
_ROMAN_SMALL = ((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
_HAN = "〇一二三四五六七八九"


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    form: str = "decimal"
    text: str = ""
    start: int = 1
    is_legal: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _List:
    abstract: str
    levels: dict[int, Level]
    restarts: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What stands before a paragraph: a bullet, or a number as shown."""

    is_bullet: bool
    text: str = ""


class Numbers:
    def __init__(self, root: Element | None, styles: Styles) -> None:
        self._lists: dict[str, _List] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._started: set[str] = set()
        if root is not None:
            self._read(root, styles)

    def next(self, list_id: str, level: int) -> Label | None:
        """The label of the next paragraph of that list; None if it has none."""
        known = self._lists.get(list_id)
        if known is None:
            return None
        level = min(max(level, 0), _DEEPEST - 1)
        here = known.levels.get(level, Level())
        counts = self._counts.setdefault(known.abstract, {})
        if list_id not in self._started:
            self._started.add(list_id)
            for place, start in known.restarts.items():
                counts[place] = start - 1
        for above in range(level):
            counts.setdefault(above, known.levels.get(above, Level()).start)
        counts[level] = counts.get(level, here.start - 1) + 1
        for below in [place for place in counts if place > level]:
            del counts[below]
        if here.form == "bullet":
            return Label(is_bullet=True)
        text = _PLACE.sub(lambda found: _counted(known, counts, int(found[1]) - 1, here), here.text)
        return Label(is_bullet=False, text=text.strip()) if text.strip() else None

    def _read(self, root: Element, styles: Styles) -> None:
        abstracts: dict[str, Element] = {
            one.get(f"{WORD}abstractNumId") or "": one for one in root.findall(f"{WORD}abstractNum")
        }
        of_list: dict[str, str] = {
            one.get(f"{WORD}numId") or "": value(one, f"{WORD}abstractNumId") or ""
            for one in root.findall(f"{WORD}num")
        }
        for one in root.findall(f"{WORD}num"):
            list_id = one.get(f"{WORD}numId") or ""
            abstract = of_list[list_id]
            found = abstracts.get(abstract)
            # A list may borrow another's levels through a list style.
            borrowed = value(found, f"{WORD}numStyleLink")
            if borrowed:
                abstract = of_list.get(styles.list_of(borrowed), abstract)
                found = abstracts.get(abstract, found)
            levels = _levels(found) if found is not None else {}
            restarts: dict[int, int] = {}
            for override in one.findall(f"{WORD}lvlOverride"):
                place = number(override.get(f"{WORD}ilvl")) or 0
                start = number(value(override, f"{WORD}startOverride"))
                if start is not None:
                    restarts[place] = start
                levels |= _levels(override)
            self._lists[list_id] = _List(abstract=abstract, levels=levels, restarts=restarts)


def _levels(element: Element) -> dict[int, Level]:
    levels: dict[int, Level] = {}
    for one in element.findall(f"{WORD}lvl"):
        place = number(one.get(f"{WORD}ilvl")) or 0
        start = number(value(one, f"{WORD}start"))
        levels[place] = Level(
            form=value(one, f"{WORD}numFmt") or "decimal",
            text=value(one, f"{WORD}lvlText") or "",
            start=1 if start is None else start,
            is_legal=one.find(f"{WORD}isLgl") is not None,
        )
    return levels


def _counted(known: _List, counts: dict[int, int], place: int, here: Level) -> str:
    level = known.levels.get(place, Level())
    return formatted(counts.get(place, level.start), "decimal" if here.is_legal else level.form)


def formatted(count: int, form: str) -> str:
    """A count the way a list shows it; forms that are rare come out in digits."""
    if count <= 0 or count > 9999:
        return str(count)
    if form in ("lowerLetter", "upperLetter"):
        letter = chr(ord("a") + (count - 1) % 26) * min((count - 1) // 26 + 1, 20)
        return letter if form == "lowerLetter" else letter.upper()
    if form in ("lowerRoman", "upperRoman"):
        roman = _roman(count)
        return roman if form == "lowerRoman" else roman.upper()
    if form == "decimalZero":
        return f"{count:02}"
    if form == "none":
        return ""
    if form.startswith("decimalEnclosedCircle") and count <= 20:
        return chr(0x2460 + count - 1)
    if form in _HAN_FORMS and count < 100:
        return _han(count)
    return str(count)


_HAN_FORMS = frozenset(
    {
        "chineseCounting",
        "chineseCountingThousand",
        "japaneseCounting",
        "taiwaneseCounting",
        "taiwaneseCountingThousand",
        "ideographDigital",
    }
)


def _roman(count: int) -> str:
    parts: list[str] = []
    for size, letters in (*_ROMAN, *_ROMAN_SMALL):
        times, count = divmod(count, size)
        parts.append(letters * times)
    return "".join(parts)


def _han(count: int) -> str:
    tens, ones = divmod(count, 10)
    lead = "" if tens == 0 else f"{'' if tens == 1 else _HAN[tens]}十"
    return lead + (_HAN[ones] if ones or not tens else "")
