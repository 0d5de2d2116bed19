"""Embedders for tests that are not about meaning: real ones, small enough to read.

Each class can be handed to `VectorDB(load=…)` as it is. They carry the description of the model they are
loaded for, because a database finds its model by name and refuses vectors of any other.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcpvectordb.embed import MODELS, Embedder, Model
from mcpvectordb.errors import EmbeddingError
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB

_WORD = re.compile(r"\w+")
_BUCKETS = 64


class WordEmbedder:
    """Counts words into 64 buckets: same words, same direction. Stable across processes (no hash())."""

    special_tokens = 0

    def __init__(self, model: Model = MODELS["minilm"], runtime: str = "onnx") -> None:
        self.model = model
        self.runtime = runtime

    def count_tokens(self, text: str) -> int:
        return len(_WORD.findall(text))

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.model.dimensions, dtype=np.float32)
        for word in _WORD.findall(text.lower()):
            vector[zlib.crc32(word.encode()) % _BUCKETS] += 1.0
        # A text without words points somewhere too: no direction at all cannot be compared.
        vector[_BUCKETS] = 0.0 if vector.any() else 1.0
        return vector / np.linalg.norm(vector)

    def close(self) -> None:
        pass


class CountingEmbedder(WordEmbedder):
    """Remembers the texts that were embedded. Made by `CountingLoader`, which counts how often."""

    def __init__(self, model: Model, runtime: str, texts: list[str]) -> None:
        super().__init__(model, runtime)
        self.texts = texts

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts.extend(texts)
        return super().embed_documents(texts)


class CountingLoader:
    """A `load` that knows what was loaded and embedded through it."""

    def __init__(self) -> None:
        self.loads = 0
        self.texts: list[str] = []

    def __call__(self, model: Model, runtime: str) -> Embedder:
        self.loads += 1
        return CountingEmbedder(model, runtime, self.texts)


class FailingEmbedder(WordEmbedder):
    """Works until `failing` is set, as a model does whose file is damaged while the program runs."""

    MESSAGE = "The model file is damaged. Install it again."

    def __init__(
        self, model: Model = MODELS["minilm"], runtime: str = "onnx", *, failing: bool = True
    ) -> None:
        super().__init__(model, runtime)
        self.failing = failing

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._check()
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self._check()
        return super().embed_query(text)

    def _check(self) -> None:
        if self.failing:
            raise EmbeddingError(self.MESSAGE)


class BlockingEmbedder(WordEmbedder):
    """Sets `reached` when it is asked for documents, then waits for `go`."""

    def __init__(self, model: Model = MODELS["minilm"], runtime: str = "onnx") -> None:
        super().__init__(model, runtime)
        self.reached = threading.Event()
        self.go = threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.reached.set()
        if not self.go.wait(timeout=30):
            raise EmbeddingError("Nobody let the blocked embedder go on.")
        return super().embed_documents(texts)


def use(embedder: Embedder) -> Callable[[Model, str], Embedder]:
    """A `load` that gives this embedder."""
    return lambda _model, _runtime: embedder


def words_db(
    home: Path, *, load: Callable[[Model, str], Embedder] = WordEmbedder, **settings: object
) -> VectorDB:
    """A database in home whose vectors are counts of words."""
    return VectorDB(Settings.model_validate({"home": home, "model": "minilm", **settings}), load=load)
