"""What every runtime offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .models import Model

if TYPE_CHECKING:
    from .models import Vectors


class Embedder(Protocol):
    """One model, ready to use from any thread. Prefixes are added here, never by the caller."""

    @property
    def model(self) -> Model: ...

    @property
    def special_tokens(self) -> int:
        """How many tokens the tokenizer adds to every text."""
        ...

    def count_tokens(self, text: str) -> int:
        """The text's tokens without special ones and without the model's prefix."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row per text, in the order given."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """One vector, 1-d; a text too long for the model is cut."""
        ...

    def close(self) -> None:
        """Free the model's memory. The next call loads it again."""
        ...
