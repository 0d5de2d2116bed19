"""mcpvectordb: your documents, searchable by your AI assistant, on your own machine."""

__version__ = "0.2.0"
