"""From what a model puts out to the vector of a text: pooled, cut, of length one. Pure numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpvectordb.errors import EmbeddingError

from .models import Model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .models import Vectors

_LAYER_NORM_EPSILON = 1e-5  # torch's own, which the model was trained with


def pool(model: Model, output: Vectors, mask: NDArray[np.int64]) -> Vectors:
    """One vector per text of what the model put out; 2-d output is pooled already, 3-d is per token."""
    import numpy as np  # noqa: PLC0415 - start-up must not pay for it

    name, width = model.name, model.full_width
    if output.ndim not in (2, 3) or output.shape[-1] != width:
        raise EmbeddingError(
            f"The model {name} gave an output of shape {output.shape}; "
            f"its description says {width} dimensions."
        )
    if output.ndim == 2:
        vectors = output
    elif model.pooling == "own":
        raise EmbeddingError(
            f"The ONNX file of {name} puts out tokens, not finished vectors: "
            "set MCPVECTORDB_MODEL_POOLING to mean or cls, as its card says."
        )
    elif model.pooling == "cls":
        vectors = output[:, 0]
    else:
        weights = mask[:, :, np.newaxis].astype(np.float32)
        vectors = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return finished(model, vectors)


def finished(model: Model, vectors: Vectors) -> Vectors:
    """Pooled vectors, cut and normalised as the description says."""
    import numpy as np  # noqa: PLC0415 - start-up must not pay for it

    is_cut = model.dimensions < model.full_width
    if is_cut and model.cut == "layer-norm":
        centred = vectors - vectors.mean(axis=1, keepdims=True)
        vectors = centred / np.sqrt(vectors.var(axis=1, keepdims=True) + _LAYER_NORM_EPSILON)
    vectors = vectors[:, : model.dimensions]
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A norm is finite only if every component is.
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        raise EmbeddingError(
            f"The model {model.name} gave a vector that is zero or not finite; "
            "its file may be damaged or not fit this processor."
        )
    return (vectors / norms if model.normalise or is_cut else vectors).astype(np.float32)
