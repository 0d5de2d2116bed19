"""Run a model with ONNX Runtime.

The only module that imports onnxruntime, and only when a text comes. It must not know any model by name:
what differs is in the description.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcpvectordb.errors import EmbeddingError

from .errors import embed_errors
from .files import verified
from .hub import Hub
from .models import Model
from .pooling import pool
from .tokens import Encoded, Tokens, padded, plan_batches, portions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .models import Vectors

# Two cores, 300 mixed Cranfield texts (2-256 tokens) with MiniLM int8, texts/s: one by one 70; batches of
# 512/16 (padded tokens/texts) 77, 1024/8 77, 1024/16 77, 2048/32 75, 4096/32 69. Bigger batches only pad.
_MAX_PADDED_TOKENS = 1024
# Runs side by side on one session: texts alone then go as fast as batches (78 texts/s; short texts 493
# against 337 one by one and 482 in batches) and keep vectors that depend on nothing but the text.
_LANES = 2
# ORT severity 3 = error: its warnings about the graph are of no use to a user.
_LOG_ERRORS_ONLY = 3


class _Node(Protocol):
    name: str


class _Session(Protocol):
    """The part of onnxruntime.InferenceSession in use; onnxruntime ships no types."""

    def get_inputs(self) -> Sequence[_Node]: ...
    def get_outputs(self) -> Sequence[_Node]: ...
    def run(self, output_names: Sequence[str], input_feed: dict[str, NDArray[np.int64]]) -> list[Any]: ...


class OnnxEmbedder:
    """An `Embedder`. Loads the tokenizer with the first count, the model with the first embedding."""

    def __init__(self, model: Model, hub: Hub | None = None) -> None:
        self._model = model
        self._hub = hub
        self._tokens = Tokens(model, hub, "onnx")
        # Guards loading only: a query must be able to run beside a bulk batch.
        self._loading = threading.Lock()
        self._session: _Session | None = None

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
            # A run under way holds its own reference and ends well.
            self._session = None

    def _embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np  # noqa: PLC0415 - start-up must not pay for it

        vectors = np.zeros((len(texts), self._model.dimensions), dtype=np.float32)
        if not texts:
            return vectors
        session = self._load_session()
        # No threads for a single text: a query is in a hurry.
        lanes = ThreadPoolExecutor(_LANES, thread_name_prefix="embed") if len(texts) > 1 else nullcontext()
        with lanes as pool:
            for portion in portions(texts):
                encoded = self._tokens.encode([texts[position] for position in portion])
                lengths = [len(text.ids) for text in encoded]
                batches = plan_batches(lengths, self._model.max_batch, _MAX_PADDED_TOKENS)

                def run(
                    batch: Sequence[int], start: int = portion.start, encoded: list[Encoded] = encoded
                ) -> None:
                    rows = [start + position for position in batch]
                    vectors[rows] = self._run(session, [encoded[position] for position in batch])

                if pool is None:
                    run(batches[0])
                    continue
                # The longest first: the last ones to finish are then short.
                running = [pool.submit(run, batch) for batch in reversed(batches)]
                try:
                    for future in running:
                        future.result()  # raises what a lane raised
                finally:
                    # After a failure the batches still waiting are dropped, not worked off.
                    for future in running:
                        future.cancel()
        return vectors

    def _run(self, session: _Session, texts: Sequence[Encoded]) -> Vectors:
        import numpy as np  # noqa: PLC0415 - start-up must not pay for it

        batch = padded(texts)
        known = {"input_ids": batch.ids, "attention_mask": batch.mask, "token_type_ids": batch.types}
        wanted = [node.name for node in session.get_inputs()]
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise EmbeddingError(f"The model {self._model.name} asks for unknown inputs: {unknown}.")
        with embed_errors(f"run the model {self._model.name}"):
            output = session.run([_output_name(session)], {name: known[name] for name in wanted})[0]
        return pool(self._model, np.asarray(output, dtype=np.float32), batch.mask)

    def _load_session(self) -> _Session:
        with self._loading:
            if self._session is None:
                path = verified(self._model, "model", self._hub)
                if any(file.role == "weights" for file in self._model.files):
                    verified(self._model, "weights", self._hub)
                with embed_errors(f"load {path}"):
                    # It ships no types: _Session says what we use of it.
                    import onnxruntime  # noqa: PLC0415 - slow to start  # pyright: ignore[reportMissingTypeStubs]

                    ort = cast(Any, onnxruntime)
                    options = ort.SessionOptions()  # 0 threads by default: all cores
                    # Spinning burns a core between runs, and this process mostly waits.
                    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                    options.log_severity_level = _LOG_ERRORS_ONLY
                    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                self._session = cast(_Session, session)
            return self._session


def _output_name(session: _Session) -> str:
    """The finished sentence vector where the model offers one, else the first output.

    Not any 2-d output: BERT exports carry a pooler_output, which is no sentence embedding.
    """
    names = [node.name for node in session.get_outputs()]
    return "sentence_embedding" if "sentence_embedding" in names else names[0]
