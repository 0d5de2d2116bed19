"""A model's description from its own configuration files, as sentence-transformers writes them.

Pure: it is handed the files' names and a way to read a small JSON file. Data only; a repository's code is
neither read nor run. What the files do not say for certain is asked for: a wrong prefix or pooling gives
vectors that look right and find nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from mcpvectordb.errors import ConfigError

from .models import MODELS, MOST_TOKENS, Cut, Model, ModelFile, Pooling, with_dimensions

Json = Mapping[str, Any]
Read = Callable[[str], Json | list[Json] | None]  # None where there is no such file

# What is read of a repository to describe it.
CONFIG_FILES = (
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer_config.json",
)
NO_PREFIX = "none"  # a variable set to nothing is not set, so "no prefix" needs a word
_ONNX = ("onnx/model.onnx", "model.onnx")
_PRECISIONS = (
    ("int8", re.compile(r"int8|quantized|q8")),
    ("int4", re.compile(r"q4|int4|bnb4")),
    ("fp16", re.compile(r"fp16|float16|_o4\b")),
)
_RUN_BY_US = frozenset({"Transformer", "Pooling", "Normalize"})
_LIBRARY = "sentence_transformers."
_TORCH_EXTRAS = ("special_tokens_map.json", "vocab.txt", "added_tokens.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """A step of a sentence-transformers model."""

    type: str
    path: str  # its folder; "" for the repository itself

    @property
    def kind(self) -> str:
        """Its name without its package, which has changed between versions."""
        return self.type.rpartition(".")[2]

    @property
    def config(self) -> str:
        return f"{self.path}/config.json" if self.path else "config.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What the user says of a model; None or "" leaves it to the model's own files."""

    dimensions: int = 0
    file: str = ""
    pooling: Pooling | None = None
    document_prefix: str | None = None
    query_prefix: str | None = None

    def contradict(self, model: Model) -> bool:
        """Whether vectors of this model, as it is described, are not what these choices ask for."""
        asked: list[tuple[object, object]] = [
            (self.dimensions or None, model.dimensions),
            (self.file or None, next((f.path for f in model.files if f.role == "model"), "")),
            (self.pooling, model.pooling),
            (_prefix(self.document_prefix), model.document_prefix),
            (_prefix(self.query_prefix), model.query_prefix),
        ]
        return any(wanted is not None and wanted != has for wanted, has in asked)


def describe(
    *,
    name: str,
    repository: str,
    revision: str,
    paths: Collection[str],
    read: Read,
    choices: Choices,
    runtime: str,
    folder: str = "",
) -> Model:
    """The model that these files are, or a ConfigError that names the setting to give."""
    config = _object(read("config.json"))
    if not config:
        raise ConfigError(f"{name} has no config.json, so it is no embedding model. Check MCPVECTORDB_MODEL.")
    if "tokenizer.json" not in paths:
        raise ConfigError(
            f"{name} has no tokenizer.json, and no other tokenizer is run. Choose another model."
        )
    known = next((model for model in MODELS.values() if model.repository == repository), None)
    onnx = _onnx_file(name, paths, choices.file, runtime)
    precision = _precision(onnx)
    if runtime == "sentence-transformers" and precision != "fp32":
        raise ConfigError(
            f"The sentence-transformers runtime gives fp32 vectors and {onnx} is {precision}. "
            "Set MCPVECTORDB_RUNTIME=onnx, or MCPVECTORDB_MODEL_FILE to an fp32 file."
        )
    modules = modules_of(read("modules.json"))
    own_code = next((module.type for module in modules if not module.type.startswith(_LIBRARY)), "")
    if own_code:
        raise ConfigError(
            f"{name} brings code of its own ({own_code}), and no code of a model is ever run. "
            "Choose another model."
        )
    foreign = sorted({module.kind for module in modules} - _RUN_BY_US)
    if foreign and runtime == "onnx":
        raise ConfigError(
            f"{name} has modules that ONNX files do not carry ({', '.join(foreign)}). Install "
            "`mcpvectordb[sentence-transformers]` and set MCPVECTORDB_RUNTIME=sentence-transformers."
        )
    width = _width(name, config, modules, read)
    document_prefix, query_prefix = _prefixes(name, read, choices, known)
    described = Model(
        name=name,
        repository=repository,
        revision=revision,
        precision=precision,
        dimensions=width,
        max_tokens=_max_tokens(name, config, read),
        files=_files(name, onnx, paths, modules),
        document_prefix=document_prefix,
        query_prefix=query_prefix,
        pooling=choices.pooling or ("own" if foreign else _pooling(name, modules, read, known)),
        normalise=True,
        cut=_cut(config),
        max_batch=16 if precision in ("fp32", "fp16") else 1,
        folder=folder,
    )
    return with_dimensions(described, choices.dimensions)


def record(model: Model) -> dict[str, object]:
    """What a database keeps of its model: enough to use it again without asking anybody."""
    known = MODELS.get(model.name)
    kept: dict[str, object] = {"name": model.name, **model.identity}
    if known is None or with_dimensions(known, model.dimensions) != model:
        kept["description"] = asdict(model)
    return kept


def from_record(kept: Mapping[str, object]) -> Model:
    """The model that a database was made with."""
    name, description = str(kept["name"]), kept.get("description")
    if isinstance(description, Mapping):
        values = dict(cast("Mapping[str, Any]", description))
        try:
            files = tuple(ModelFile(**file) for file in values.pop("files"))
            return Model(**values, files=files)
        except (KeyError, TypeError) as exc:
            raise ConfigError(
                f"The description of the model {name} in database.json is not valid: {exc}. Name it by "
                "MCPVECTORDB_MODEL, or restore database.json from a backup."
            ) from exc
    model = next((each for each in MODELS.values() if _is(each, kept)), None)
    if model is None:
        raise ConfigError(
            f"This database was made with {kept.get('repository')} at revision {kept.get('revision')}, which "
            "this version does not describe. Name it by MCPVECTORDB_MODEL=repository@revision, or run "
            "`mcpvectordb reindex --model nomic`."
        )
    return with_dimensions(model, int(cast("int", kept["dimensions"])))


def _is(model: Model, kept: Mapping[str, object]) -> bool:
    return all(kept.get(key) == model.identity[key] for key in ("repository", "revision", "precision"))


def _object(found: object) -> Json:
    return cast("Json", found) if isinstance(found, dict) else {}


def _onnx_file(name: str, paths: Collection[str], asked: str, runtime: str) -> str:
    """The ONNX file to run; "" where the other runtime runs the model and there is none."""
    there_are = sorted(path for path in paths if path.endswith(".onnx"))
    if asked:
        if asked in paths:
            return asked
        raise ConfigError(
            f"{name} has no file {asked}. MCPVECTORDB_MODEL_FILE may be: {', '.join(there_are) or 'none'}."
        )
    usual = next((path for path in _ONNX if path in paths), "")
    if usual or runtime != "onnx":
        return usual
    if len(there_are) == 1:
        return there_are[0]
    if there_are:
        raise ConfigError(
            f"{name} has several ONNX files: set MCPVECTORDB_MODEL_FILE to one of {', '.join(there_are)}."
        )
    raise ConfigError(
        f"{name} has no ONNX file. Install `mcpvectordb[sentence-transformers]` and set "
        "MCPVECTORDB_RUNTIME=sentence-transformers, or choose another model."
    )


def _precision(onnx: str) -> str:
    return next((precision for precision, pattern in _PRECISIONS if pattern.search(onnx.lower())), "fp32")


def modules_of(found: object) -> tuple[Module, ...]:
    """What modules.json says."""
    listed = cast("list[object]", found) if isinstance(found, list) else []
    said = [_object(module) for module in listed]
    return tuple(Module(type=str(each.get("type", "")), path=str(each.get("path", ""))) for each in said)


def _width(name: str, config: Json, modules: Sequence[Module], read: Read) -> int:
    for module in reversed(modules):
        if module.kind == "Dense":
            dense = _object(read(module.config)).get("out_features")
            if isinstance(dense, int):
                return dense
            raise ConfigError(f"{module.config} of {name} does not say how wide its vectors are.")
    width = config.get("hidden_size") or config.get("n_embd") or config.get("dim") or config.get("d_model")
    if not isinstance(width, int):
        raise ConfigError(
            f"The config.json of {name} does not say how wide its vectors are. Choose another model."
        )
    return width


def _max_tokens(name: str, config: Json, read: Read) -> int:
    lengths = (
        _object(read("sentence_bert_config.json")).get("max_seq_length"),
        config.get("max_position_embeddings") or config.get("n_positions"),
        _object(read("tokenizer_config.json")).get("model_max_length"),
    )
    found = [length for length in lengths if isinstance(length, int) and length > 0]
    if not found:
        raise ConfigError(
            f"The configuration of {name} does not say how long a text may be. Choose another model."
        )
    return min(MOST_TOKENS, *found)


def _pooling(name: str, modules: Sequence[Module], read: Read, known: Model | None) -> Pooling:
    if known is not None:
        return known.pooling
    theirs = (module.config for module in modules if module.kind == "Pooling" and module.path)
    path = next(theirs, "1_Pooling/config.json")
    config = _object(read(path))
    modes = {
        str(key).removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, value in config.items()
        if str(key).startswith("pooling_mode_") and value is True
    }
    said = config.get("pooling_mode")
    modes |= {said} if isinstance(said, str) else set(cast("list[str]", said or []))
    if modes in ({"mean"}, {"cls"}) and config.get("include_prompt", True):
        return cast("Pooling", modes.pop())
    if modes:
        raise ConfigError(
            f"{name} pools its tokens in a way that is not run here ({', '.join(sorted(modes))}). "
            "Choose another model."
        )
    raise ConfigError(
        f"{name} does not say how its tokens become one vector: "
        "set MCPVECTORDB_MODEL_POOLING to mean or cls, as its card says."
    )


def _prefixes(name: str, read: Read, choices: Choices, known: Model | None) -> tuple[str, str]:
    """The prefixes of documents and queries. Empty prompts prove nothing: nomic's own files have none."""
    document, query = _prefix(choices.document_prefix), _prefix(choices.query_prefix)
    if document is not None and query is not None:
        return document, query
    if known is not None:
        said = (known.document_prefix, known.query_prefix)
    else:
        prompts = _object(_object(read("config_sentence_transformers.json")).get("prompts"))
        said = (
            str(prompts.get("document") or prompts.get("passage") or ""),
            str(prompts.get("query") or ""),
        )
        if said == ("", ""):
            raise ConfigError(
                f"{name} does not say which prefixes it expects: set MCPVECTORDB_MODEL_DOCUMENT_PREFIX and "
                f"MCPVECTORDB_MODEL_QUERY_PREFIX, as its card says (`{NO_PREFIX}` where it wants none)."
            )
    return said[0] if document is None else document, said[1] if query is None else query


def _prefix(asked: str | None) -> str | None:
    return "" if asked == NO_PREFIX else asked


def _cut(config: Json) -> Cut:
    # Of other models the files do not say whether they were trained for it; who asks for it should know.
    return "layer-norm" if config.get("model_type") == "nomic_bert" else "plain"


def _below(folder: str, paths: Collection[str]) -> list[str]:
    return [path for path in paths if path.startswith(f"{folder}/")]


def _files(name: str, onnx: str, paths: Collection[str], modules: Sequence[Module]) -> tuple[ModelFile, ...]:
    files = [ModelFile(role="tokenizer", path="tokenizer.json")]
    if onnx:
        files.append(ModelFile(role="model", path=onnx))
        files += [
            ModelFile(role="weights", path=path) for path in (f"{onnx}_data", f"{onnx}.data") if path in paths
        ]
    # Only safetensors: other formats of weights can carry code.
    weights = [path for path in paths if path.endswith(".safetensors") and "/" not in path]
    for module in modules:
        if module.path and (theirs := _below(module.path, paths)):
            weights += [path for path in theirs if path.endswith(".safetensors")]
            if module.kind == "Dense" and not {*weights} & {*theirs}:
                raise ConfigError(
                    f"{name} keeps the weights of {module.path} in a format that can carry code, and only "
                    "safetensors are read. Choose another model."
                )
    if weights:
        configs = {path for path in paths if path.endswith("config.json") and not path.startswith("onnx/")}
        small = {*CONFIG_FILES, *_TORCH_EXTRAS, *configs, "model.safetensors.index.json"}
        files += [ModelFile(role="torch", path=path) for path in sorted({*weights, *(small & {*paths})})]
    return tuple(files)
