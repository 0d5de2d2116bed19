"""Characters of symbol fonts to Unicode. Data and one look-up."""

from __future__ import annotations

import re

# From 0x61 and 0x41 on, the font Symbol holds the Greek alphabet in this order.
_SMALL_GREEK = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_CAPITAL_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
_SYMBOL = {
    **{0x61 + index: letter for index, letter in enumerate(_SMALL_GREEK)},
    **{0x41 + index: letter for index, letter in enumerate(_CAPITAL_GREEK)},
    **{code: chr(code) for code in [*range(0x20, 0x40), 0x5B, 0x5D, 0x7B, 0x7C, 0x7D]},
    **{0x22: "∀", 0x24: "∃", 0x27: "∍", 0x2D: "−", 0xA3: "≤", 0xA5: "∞", 0xAB: "↔", 0xAC: "←", 0xAD: "↑"},
    **{0xAE: "→", 0xAF: "↓", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×", 0xB5: "∝", 0xB6: "∂", 0xB7: "•"},
    **{0xB8: "÷", 0xB9: "≠", 0xBA: "≡", 0xBB: "≈", 0xBC: "…", 0xC5: "⊕", 0xC6: "∅", 0xC7: "∩", 0xC8: "∪"},
    **{0xCC: "⊂", 0xCD: "⊆", 0xCE: "∈", 0xCF: "∉", 0xD1: "∇", 0xD2: "®", 0xD3: "©", 0xD4: "™", 0xD5: "∏"},
    **{0xD6: "√", 0xD7: "⋅", 0xD8: "¬", 0xDB: "⇔", 0xDC: "⇐", 0xDE: "⇒", 0xE5: "∑", 0xF2: "∫"},
}
_WINGDINGS = {
    **{0x28: "☎", 0x2A: "✉", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "❑", 0x72: "❒"},
    **{0x75: "◆", 0x76: "❖", 0x9F: "•", 0xA7: "▪", 0xA8: "☐", 0xB7: "•", 0xD8: "➢", 0xDF: "←", 0xE0: "→"},
    **{0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"},
}
_WINGDINGS_2 = {0x50: "✓", 0x4F: "✗", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐", 0x2A: "☐"}


def symbol(font: str, code: str) -> str:
    """The character that a symbol font shows for a code in hexadecimal digits; "" if unknown."""
    if not re.fullmatch(r"[0-9A-Fa-f]{1,6}", code):
        return ""
    point = int(code, 16)
    is_private = 0xF000 <= point <= 0xF0FF
    low = point - 0xF000 if is_private else point
    table = {"symbol": _SYMBOL, "wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2}.get(
        font.strip().lower()
    )
    if table is not None and low <= 0xFF:
        return table.get(low, "")
    return "" if is_private or point > 0x10FFFF or 0xD800 <= point <= 0xDFFF else chr(point)
