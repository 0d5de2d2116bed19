"""A web page, read by convert/page."""

from __future__ import annotations

from mcpvectordb.convert.page import convert_html
from mcpvectordb.convert.text import decode_html
from mcpvectordb.errors import UnsupportedType

from . import Read


def read(data: bytes, file_name: str) -> Read:
    html = decode_html(data)
    if html is None:
        raise UnsupportedType(f"{file_name} is not text, so it is not a web page: check what it is.")
    return convert_html(html, file_name)
