"""Texts to tokens, the same way for every runtime, so that both read the same input.

Imports tokenizers, and only when a text comes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import embed_errors
from .files import verified
from .hub import Hub
from .models import Model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

# Texts are tokenised in such portions: the tokenizer's own objects take a hundred bytes for each token.
_PORTION_TEXTS = 256
_PORTION_CHARS = 400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """A text as the model reads it, special tokens included, cut to what it takes."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Texts padded to the longest of them."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    types: NDArray[np.int64]


class Tokens:
    def __init__(self, model: Model, hub: Hub | None, runtime: str) -> None:
        self._model = model
        self._hub = hub
        self._runtime = runtime
        self._loading = threading.Lock()
        self._tokenizer: Tokenizer | None = None

    @property
    def special(self) -> int:
        return self._load().num_special_tokens_to_add(False)

    def count(self, text: str) -> int:
        tokenizer = self._load()
        with embed_errors(f"tokenise a text for {self._model.name}"):
            return len(tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        import numpy as np  # noqa: PLC0415 - start-up must not pay for it

        tokenizer = self._load()
        with embed_errors(f"tokenise texts for {self._model.name}"):
            encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
            # Cut here and not by the tokenizer's own truncation, which would cap `count` too.
            room = self._model.max_tokens - tokenizer.num_special_tokens_to_add(False)
            found: list[Encoded] = []
            for encoding in encodings:
                encoding.truncate(room)
                whole = tokenizer.post_process(encoding)
                ids, types = (np.asarray(part, dtype=np.int64) for part in (whole.ids, whole.type_ids))
                found.append(Encoded(ids=ids, types=types))
            return found

    def close(self) -> None:
        with self._loading:
            self._tokenizer = None

    def _load(self) -> Tokenizer:
        with self._loading:
            if self._tokenizer is None:
                path = verified(self._model, "tokenizer", self._hub, self._runtime)
                with embed_errors(f"load {path}"):
                    from tokenizers import Tokenizer  # noqa: PLC0415 - start-up must not pay for it

                    tokenizer = Tokenizer.from_file(str(path))
                    # Published files bake in a fixed padding and a shorter length than the model takes.
                    tokenizer.no_padding()
                    tokenizer.no_truncation()
                self._tokenizer = tokenizer
            return self._tokenizer


def portions(texts: Sequence[str]) -> Iterator[range]:
    """Positions of texts in portions bounded by number and by characters."""
    start = chars = 0
    for position, text in enumerate(texts):
        chars += len(text)
        if position > start and (position - start >= _PORTION_TEXTS or chars > _PORTION_CHARS):
            yield range(start, position)
            start, chars = position, len(text)
    if start < len(texts):
        yield range(start, len(texts))


def plan_batches(lengths: Sequence[int], max_texts: int, max_padded_tokens: int) -> list[list[int]]:
    """Positions grouped by length, so that little is padded; a text over the bound goes alone."""
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Ascending, so this length is the width that the whole batch would be padded to.
        size = len(batches[-1]) + 1 if batches else 0
        if batches and size <= max_texts and size * lengths[position] <= max_padded_tokens:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def padded(texts: Sequence[Encoded]) -> Batch:
    import numpy as np  # noqa: PLC0415 - start-up must not pay for it

    shape = (len(texts), max(len(text.ids) for text in texts))
    ids, mask, types = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for row, text in enumerate(texts):
        length = len(text.ids)
        ids[row, :length] = text.ids
        mask[row, :length] = 1
        types[row, :length] = text.types
    return Batch(ids=ids, mask=mask, types=types)
