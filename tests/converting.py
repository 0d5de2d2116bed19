"""One converter for all tests: its worker process is started once, as in a server."""

from __future__ import annotations

from mcpvectordb.convert import Converter

CONVERTER = Converter()
