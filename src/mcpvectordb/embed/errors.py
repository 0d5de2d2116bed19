"""The border where exceptions of the libraries that run models become ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mcpvectordb.errors import EmbeddingError, VectorDBError


@contextmanager
def embed_errors(action: str) -> Generator[None]:
    """Nothing above embed/ sees an exception of onnxruntime, tokenizers, torch or transformers."""
    try:
        yield
    except VectorDBError:
        raise
    except Exception as exc:  # they raise subclasses of plain Exception, or Exception itself
        raise EmbeddingError(f"Could not {action}: {exc}") from exc
