"""Fields of an RTF text: an instruction, and the result that a program last put there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mcpvectordb.convert.read.office.prose import Format
from mcpvectordb.convert.read.office.symbols import symbol

_PAGE_NUMBERS = frozenset({"PAGE", "NUMPAGES", "SECTIONPAGES", "SECTION"})
_HYPERLINK = re.compile(r"""\s*HYPERLINK\s+(?:"([^"]*)"|([^\s"\\]\S*))""", re.I)
_SYMBOL = re.compile(r"""\s*SYMBOL\s+(0x[0-9a-f]{1,6}|\d{1,7})(?:.*?\\f\s+"?([^"\\]+))?""", re.I)
_LONGEST = 5_000
# The state of a check box that is as its maker left it.
_UNCHANGED = 25


@dataclass(slots=True)
class Field:
    settings: dict[str, int] = field(default_factory=dict[str, int])  # of a form field
    _parts: list[str] = field(default_factory=list[str])
    _length: int = 0

    def add(self, text: str, _: Format) -> None:
        if self._length < _LONGEST:
            self._length += len(text)
            self._parts.append(text)

    @property
    def is_page_number(self) -> bool:
        return self._name in _PAGE_NUMBERS

    @property
    def target(self) -> str:
        """Where a link leads; "" for no link, or one to a place in the document."""
        found = _HYPERLINK.match(self._instruction)
        return (found[1] or found[2] or "") if found else ""

    @property
    def replaces_result(self) -> bool:
        return self._name in ("SYMBOL", "FORMCHECKBOX")

    @property
    def shown(self) -> str:
        """What stands in place of a result."""
        if self._name == "FORMCHECKBOX":
            state = self.settings.get("ffres", _UNCHANGED)
            state = self.settings.get("ffdefres", 0) if state == _UNCHANGED else state
            return "[x] " if state else "[ ] "
        if found := _SYMBOL.match(self._instruction):
            return symbol((found[2] or "").strip(), f"{int(found[1], 0):x}")
        return ""

    @property
    def _instruction(self) -> str:
        return "".join(self._parts)

    @property
    def _name(self) -> str:
        words = self._instruction.split(maxsplit=1)
        return words[0].upper() if words else ""
