"""Texts to vectors.

Owns onnxruntime, tokenizers, sentence-transformers and torch; nothing of theirs, nor their exceptions, leaves
this package. Importing it loads neither them nor numpy: the work begins with the first text. It must not know
of documents, chunks or settings. It goes to the network only for a model that is not on this machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from mcpvectordb.errors import ConfigError

from .choice import AUTO, Models, ModelStatus, Wish
from .describe import Choices, from_record, record
from .download import Download, Progress
from .files import is_available
from .hub import Hub
from .models import DEFAULT, MODELS, OFFLINE, Model, find_model
from .onnx import OnnxEmbedder
from .protocol import Embedder
from .torch_runtime import TorchEmbedder

if TYPE_CHECKING:
    from .models import Vectors as Vectors

__all__ = [
    "AUTO",
    "DEFAULT",
    "MODELS",
    "OFFLINE",
    "Choices",
    "Download",
    "Embedder",
    "Hub",
    "Model",
    "ModelStatus",
    "Models",
    "Progress",
    "Wish",
    "embed_hash",
    "find_model",
    "from_record",
    "is_available",
    "load",
    "record",
]

RUNTIMES = ("onnx", "sentence-transformers")


def load(model: Model, runtime: str = "onnx", hub: Hub | None = None) -> Embedder:
    """An embedder for the model; its files are looked for when the first text comes."""
    if runtime == "onnx":
        return OnnxEmbedder(model, hub)
    if runtime == "sentence-transformers":
        return TorchEmbedder(model, hub)
    raise ConfigError(f"There is no runtime {runtime!r}. Known runtimes: {', '.join(RUNTIMES)}.")


def embed_hash(model: Model, text: str) -> str:
    """Identifies the vector of a document text: same model, prefix and text, same hash."""
    # As one JSON list, so that no part can run into the next. ASCII escapes keep lone surrogates legal.
    parts = [model.identity, model.document_prefix, text]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
