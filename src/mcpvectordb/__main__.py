"""`python -m mcpvectordb`."""

from .cli import run

run()
