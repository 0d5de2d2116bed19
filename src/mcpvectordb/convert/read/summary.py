"""The title that an old Office file has in its properties.

They are numbered values in a stream of their own; olefile reads them, and leaves text as the bytes it is.
"""

from __future__ import annotations

import io
from typing import Any, cast

import olefile  # pyright: ignore

from mcpvectordb.charsets import codec_of

from .office.titles import useful_title

_STREAM = "\x05SummaryInformation"
_CODE_PAGE, _TITLE = 1, 2
_UTF_8 = 65001


def title_of(data: bytes) -> str:
    """ "" if it has none; a file that is damaged there, or no OLE file at all, has none."""
    try:
        with cast(Any, olefile).OleFileIO(io.BytesIO(data)) as ole:
            values = cast("dict[int, object]", ole.getproperties(_STREAM))
    # olefile raises what its arithmetic runs into on damaged files; a title is not worth the document.
    except Exception:  # noqa: BLE001
        return ""
    title, page = values.get(_TITLE), values.get(_CODE_PAGE)
    if isinstance(title, bytes):
        # A signed number of two bytes.
        number = page & 0xFFFF if isinstance(page, int) else 0
        codec = "utf-8" if number == _UTF_8 else codec_of(f"cp{number}") or "cp1252"
        title = title.decode(codec, "replace")
    return useful_title(title.rstrip("\0")) if isinstance(title, str) else ""
