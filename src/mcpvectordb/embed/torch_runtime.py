"""Run a model with sentence-transformers: the second runtime, for graphics processors and for parity.

Imports sentence-transformers and torch, and only when a text comes: they take seconds. Tokens, prefixes and
what happens to the pooled vector are the same code as in the other runtime. No code of a repository is run.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcpvectordb.errors import EmbeddingError

from .errors import embed_errors
from .files import locate
from .hub import Hub
from .models import Model
from .pooling import pool
from .tokens import Encoded, Tokens, padded, plan_batches, portions

if TYPE_CHECKING:
    from .models import Vectors

_RUNTIME = "sentence-transformers"
_MAX_TEXTS = 64
_CPU_PADDED_TOKENS = 1024
_GPU_PADDED_TOKENS = 16_384
# Weights of heads that give no sentence vector; published files come without them.
_UNUSED = ("pooler.",)


def is_installed() -> bool:
    return find_spec("sentence_transformers") is not None


@cache
def has_accelerator() -> bool:
    """Whether this runtime is installed and has more than the processor. Takes seconds, once, if it is."""
    return is_installed() and accelerator() != "cpu"


def accelerator() -> str:
    """What torch runs on: a graphics processor by its kind, or the processor."""
    return _device(importlib.import_module("torch"))


class TorchEmbedder:
    """An `Embedder`. Loads the tokenizer with the first count, the model with the first embedding."""

    def __init__(self, model: Model, hub: Hub | None = None) -> None:
        self._model = model
        self._hub = hub
        self._tokens = Tokens(model, hub, _RUNTIME)
        self._loading = threading.Lock()
        self._loaded: Any = None

    @property
    def model(self) -> Model:
        return self._model

    @property
    def special_tokens(self) -> int:
        return self._tokens.special

    def count_tokens(self, text: str) -> int:
        return self._tokens.count(text)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._model.document_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        return self._embed([self._model.query_prefix + text])[0]

    def close(self) -> None:
        self._tokens.close()
        with self._loading:
            self._loaded = None

    def _embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np  # noqa: PLC0415 - start-up must not pay for it

        vectors = np.zeros((len(texts), self._model.dimensions), dtype=np.float32)
        if not texts:
            return vectors
        loaded = self._load()
        most = _CPU_PADDED_TOKENS if str(loaded.device) == "cpu" else _GPU_PADDED_TOKENS
        for portion in portions(texts):
            encoded = self._tokens.encode([texts[position] for position in portion])
            for batch in plan_batches([len(text.ids) for text in encoded], _MAX_TEXTS, most):
                rows = [portion.start + position for position in batch]
                vectors[rows] = self._run(loaded, [encoded[position] for position in batch])
        return vectors

    def _run(self, loaded: Any, texts: Sequence[Encoded]) -> Vectors:
        torch = importlib.import_module("torch")
        batch = padded(texts)
        arrays = {"input_ids": batch.ids, "attention_mask": batch.mask, "token_type_ids": batch.types}
        # Not `encode`, which sets padding on the tokenizer it shares between threads.
        with embed_errors(f"run the model {self._model.name}"), torch.inference_mode():
            features = {
                name: torch.from_numpy(array).to(loaded.device)
                for name, array in arrays.items()
                if name in loaded.tokenizer.model_input_names
            }
            # Pooled as the description says, which the user may have had to: a folder without a pooling
            # configuration is mean to the library.
            wanted = "sentence_embedding" if self._model.pooling == "own" else "token_embeddings"
            output: Vectors = loaded(features)[wanted].float().cpu().numpy()
        return pool(self._model, output, batch.mask)

    def _load(self) -> Any:
        with self._loading:
            if self._loaded is None:
                if not is_installed():
                    raise EmbeddingError(
                        "The runtime sentence-transformers is not installed: run "
                        '`pip install "mcpvectordb[sentence-transformers]"`, or set MCPVECTORDB_RUNTIME=onnx.'
                    )
                folder = str(locate(self._model, self._hub, _RUNTIME)["torch"])
                with embed_errors(f"load the model {self._model.name} with sentence-transformers"):
                    torch = importlib.import_module("torch")
                    weights = {"use_safetensors": True, "dtype": torch.float32}
                    self._check_weights(folder, weights)
                    loaded = importlib.import_module("sentence_transformers").SentenceTransformer(
                        folder,
                        device=_device(torch),
                        local_files_only=True,
                        trust_remote_code=False,
                        model_kwargs=weights,
                    )
                    loaded.eval()
                self._loaded = loaded
            return self._loaded

    def _check_weights(self, folder: str, weights: dict[str, Any]) -> None:
        """Refuse a file that lacks weights: the library makes them up at random, with a warning only."""
        transformers = importlib.import_module("transformers")
        _, said = transformers.AutoModel.from_pretrained(
            folder, output_loading_info=True, local_files_only=True, trust_remote_code=False, **weights
        )
        missing = sorted(key for key in said["missing_keys"] if not key.startswith(_UNUSED))
        if missing:
            raise EmbeddingError(
                f"The weights of {self._model.name} do not fit its configuration: {len(missing)} are missing "
                f"({missing[0]}, …). Set MCPVECTORDB_RUNTIME=onnx."
            )


def _device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
