"""Numbers in cells, the way a sheet shows them: dates, times, percentages, currencies and units. Pure.

Dates are in ISO form whatever the sheet's, so that they can be compared and searched for. A number keeps all
the digits it has: a sheet that shows two of them still holds the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

Kind = Literal["number", "percent", "date", "time", "date and time", "duration", "padded"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    kind: Kind = "number"
    before: str = ""
    after: str = ""
    digits: int = 0  # of a padded number


GENERAL = Form()

# Formats that a workbook names by number alone.
BUILT_IN = {
    **{
        9: "0%",
        10: "0.00%",
        14: "yyyy-mm-dd",
        15: "d-mmm-yy",
        16: "d-mmm",
        17: "mmm-yy",
        18: "h:mm",
        19: "h:mm:ss",
    },
    **{20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0"},
    **dict.fromkeys([*range(27, 32), 36, *range(50, 55), 57, 58], "yyyy-mm-dd"),
    **dict.fromkeys([32, 33, 34, 35, 55, 56], "h:mm:ss"),
}

_TOKENS = re.compile(
    r'"([^"]*)"'  # 1: text as it is
    r"|\\(.)"  # 2: one letter as it is
    r"|\[\$([^\]-]*)[^\]]*\]"  # 3: a currency
    r"|(\[(?:h+|m+|s+)\])"  # 4: hours that go on past 24
    r"|\[[^\]]*\]|[_*]."  # colours, conditions, blanks
    r"|(General)"  # 5
    r"|([0#?][0#?.,/]*(?:E[+-][0#?]+)?|\.[0#?]+)"  # 6: digits
    r"|(%)"  # 7
    r"|(AM/PM|A/P|[ymdhsegabYMDHSEGAB]+)"  # 8: parts of dates
    r"|(.)",  # 9
    re.S,
)
_DURATION = re.compile(r"\[(?:h+|m+|s+)\]", re.I)
_FIRST_DAY, _FIRST_DAY_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
_LAST_DAY = 2_958_465
_SECONDS = 86_400


@lru_cache(maxsize=4096)
def form_of(code: str) -> Form:
    """What a number format does to a number."""
    code = code[:200]
    section = _first_section(code)
    before: list[str] = []
    after: list[str] = []
    letters = ""
    digits: list[str] = []
    is_percent = False
    for found in _TOKENS.finditer(section):
        text, letter, currency, running, general, places, percent, parts, other = found.groups()
        if running:
            return Form(kind="duration")
        if parts:
            letters += parts.lower()
        elif percent:
            is_percent = True
        elif general or places:
            digits.append(places or "")
        else:
            shown = text or letter or currency or other or ""
            (after if digits else before).append(shown)
    if letters and not digits:
        return _date_form(letters)
    if not digits or len(digits) > 1 or "/" in digits[0] or letters:
        return GENERAL
    if is_percent:
        return Form(kind="percent")
    if re.fullmatch("0{2,}", digits[0]) and not "".join([*before, *after]).strip():
        return Form(kind="padded", digits=len(digits[0]))
    return Form(before="".join(before).strip("- ()"), after="".join(after).strip("- ()"))


def shown(value: float, form: Form, *, is_1904: bool = False) -> str:
    """The number as its format means it."""
    if form.kind == "number":
        plain = plain_number(abs(value))
        # Letters stand apart from the digits, signs of currency do not.
        before = f"{form.before} " if form.before[-1:].isalnum() else form.before
        after = f" {form.after}" if form.after[:1].isalnum() or form.after[:1] in "€£¥₽" else form.after
        return f"{'-' if value < 0 else ''}{before}{plain}{after if form.after else ''}"
    if form.kind == "percent":
        return f"{plain_number(float(f'{value * 100:.12g}'))}%"
    if form.kind == "padded":
        return (
            plain_number(value).zfill(form.digits)
            if value >= 0 and value == int(value)
            else plain_number(value)
        )
    if form.kind == "duration":
        return _duration(value)
    return _moment(value, form.kind, is_1904=is_1904)


def plain_number(value: float) -> str:
    """Whole numbers without a point, others with as many digits as a sheet keeps."""
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:.15g}"


def _first_section(code: str) -> str:
    """The part for positive numbers: up to the first semicolon that is not quoted."""
    quoted = False
    for index, character in enumerate(code):
        if character == '"':
            quoted = not quoted
        elif character == ";" and not quoted and code[index - 1 : index] != "\\":
            return code[:index]
    return code


def _date_form(letters: str) -> Form:
    has_day = any(letter in letters for letter in "ydg") or ("m" in letters and not set(letters) & set("hs"))
    has_time = bool(set(letters) & set("hs"))
    if has_day and has_time:
        return Form(kind="date and time")
    return Form(kind="time" if has_time else "date")


def _duration(value: float) -> str:
    seconds = round(abs(value) * _SECONDS) if abs(value) < 1e9 else 0
    hours, rest = divmod(seconds, 3600)
    return f"{'-' if value < 0 else ''}{hours}:{rest // 60:02}:{rest % 60:02}"


def _moment(value: float, kind: Kind, *, is_1904: bool) -> str:
    if not 0 <= value <= _LAST_DAY:
        return plain_number(value)
    if not is_1904 and value < 60:
        # 1900 was no leap year, but the first spreadsheets thought so: days before March are one off.
        value += 1 if value >= 1 else 0
    seconds = round(value * _SECONDS)
    moment = (_FIRST_DAY_1904 if is_1904 else _FIRST_DAY) + timedelta(seconds=seconds)
    clock = moment.strftime("%H:%M:%S" if moment.second else "%H:%M")
    if kind == "time" and value < 1:
        return clock
    day = f"{moment:%Y-%m-%d}"
    return f"{day} {clock}" if seconds % _SECONDS else day
