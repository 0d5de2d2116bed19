"""One reader per family of formats: bytes to Markdown, with page marks beside it.

A reader is a function `read(data, file_name) -> Read`. Readers run in the worker process only, so they may
import heavy libraries at the top. They open no file and no connection, and what they cannot read they say in
a ConversionError: one sentence with the file's name, the fact and the next step.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcpvectordb.models import PageMark


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    text: str
    title: str = ""  # the document's own; without one, its first heading or its name will do
    is_markdown: bool = True
    pages: tuple[PageMark, ...] = ()
    notice: str = ""
