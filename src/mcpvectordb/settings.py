"""Settings: `MCPVECTORDB_*` variables, read and checked once at the edge and passed down as plain values.

A misspelt variable would simply never be looked up, so `load` refuses any `MCPVECTORDB_*` name it does
not know and suggests the nearest one. (That leaves nothing for pydantic-settings to do.)
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ConfigError

PREFIX = "MCPVECTORDB_"
ModelT = TypeVar("ModelT", bound=BaseModel)


def default_home() -> Path:
    return user_data_path("mcpvectordb", appauthor=False)


class Settings(BaseModel):
    """All there is to set. The field descriptions are the text of docs/configuration.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Field(
        default_factory=default_home,
        description="Folder that holds the database. Default: the platform's user data folder.",
    )
    model: str = Field(
        "auto",
        description="Embedding model: `auto` (the database's own; for a new one `nomic`, or `minilm` where "
        "the hub cannot be reached), `nomic`, `nomic-fp32`, `minilm`, a repository of the hub "
        "(`organisation/name`, `organisation/name@revision`) or a folder.",
    )
    model_dimensions: int = Field(
        0, ge=0, le=8192, description="Cut vectors to so many dimensions (nomic: 64 to 768); 0 keeps all."
    )
    model_file: str = Field(
        "", description="Which ONNX file of a repository or folder to run, where it has several."
    )
    model_pooling: Literal["", "mean", "cls"] = Field(
        "", description="How a model's tokens become one vector, where its own files do not say."
    )
    model_document_prefix: str = Field(
        "", description="What a model wants in front of a passage, where its own files do not say; or `none`."
    )
    model_query_prefix: str = Field(
        "", description="What a model wants in front of a query, where its own files do not say; or `none`."
    )
    model_idle_s: float = Field(
        900.0,
        ge=0,
        le=86_400,
        description="The model leaves memory after this time unused; 0 keeps it.",
    )
    runtime: Literal["auto", "onnx", "sentence-transformers"] = Field(
        "auto",
        description="What runs the model. `auto` is `onnx`, and `sentence-transformers` only where that "
        "extra is installed, finds a graphics processor and the model is fp32.",
    )
    hub_connect_s: float = Field(
        10.0, ge=0.1, le=600, description="A hub that has not answered within this time is away."
    )
    hub_stall_s: float = Field(
        30.0, ge=0.1, le=600, description="A download to which nothing has come for this time is given up."
    )
    chunk_tokens: int = Field(
        256,
        ge=64,
        le=512,
        description="Longest passage, in tokens of the model, prefix and context included.",
    )
    max_file_mb: int = Field(50, ge=1, le=2000, description="Files larger than this are refused.")
    ignore: str = Field(
        "",
        description="Files and folders that are passed over when a folder is indexed: patterns as in "
        ".gitignore, separated by commas.",
    )
    convert_timeout_s: float = Field(
        120.0, ge=1, le=3600, description="A file that takes longer to convert is given up."
    )
    convert_memory_mb: int = Field(
        512, ge=256, le=16_384, description="A file that needs more memory to convert is given up."
    )
    max_text_mb: int = Field(25, ge=1, le=500, description="A file that holds more text is refused.")
    url_timeout_s: float = Field(30.0, ge=1, le=600, description="A page that takes longer is given up.")
    url_allow: str = Field(
        "",
        description="Hosts, addresses or networks that may be fetched although they are not public, "
        "separated by commas.",
    )
    call_timeout_s: float = Field(
        45.0,
        ge=0.1,
        le=600,
        description="A tool call answers within this time; longer work goes on behind it.",
    )
    token: str = Field(
        "", repr=False, description="Token that `serve` asks its clients for; beyond this machine it must."
    )
    token_file: Path | None = Field(
        None, description="File with more tokens, one a line; # begins a comment."
    )
    allowed_hosts: str = Field(
        "",
        description="Names beside its own that `serve` may be called by, separated by commas: `name` with "
        "any port, `name:port`, or `*`.",
    )
    allowed_origins: str = Field(
        "", description="Origins beside its own whose pages may use `serve`, separated by commas."
    )
    shutdown_s: float = Field(
        6.0, ge=0, le=600, description="How long `serve` lets running calls finish once it is told to end."
    )
    lock_timeout_s: float = Field(
        30.0, ge=0.1, le=600, description="How long a write waits for another process that is writing."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="What is logged to stderr: one line a call at INFO, never document text."
    )
    log_file: Path | None = Field(
        None, description="Also log to this file (rotated at 5 MB, three old ones kept)."
    )

    @property
    def url_allowed(self) -> tuple[str, ...]:
        return listed(self.url_allow)

    @property
    def allowed_host_names(self) -> tuple[str, ...]:
        return listed(self.allowed_hosts)

    @property
    def allowed_origin_names(self) -> tuple[str, ...]:
        return listed(self.allowed_origins)

    @property
    def ignored(self) -> tuple[str, ...]:
        return listed(self.ignore)


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the environment, or a ConfigError that names the variable and what it takes."""
    # Before it is a Path, which makes one slash of the two.
    home = next((value for name, value in environ.items() if name.upper() == f"{PREFIX}HOME"), "")
    if "://" in home:
        raise ConfigError(f"{PREFIX}HOME must be a local folder, not {home}.")
    settings = read(Settings, PREFIX, environ)
    files = {
        name: _absolute(name, path)
        for name in ("log_file", "token_file")
        if (path := getattr(settings, name)) is not None
    }
    return settings.model_copy(update={"home": _absolute("home", settings.home), **files})


def read(model: type[ModelT], prefix: str, environ: Mapping[str, str]) -> ModelT:
    """The variables of this prefix as a model; one that the model does not know is refused."""
    known = {f"{prefix}{name.upper()}" for name in model.model_fields}
    for name in sorted(environ):
        # Windows folds the case of variable names; we do so everywhere.
        if name.upper().startswith(prefix) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(sorted(known))}."
            raise ConfigError(f"There is no setting {name}. {hint}")
    values = {
        name.upper().removeprefix(prefix).lower(): value
        for name, value in environ.items()
        if name.upper().startswith(prefix) and value
    }
    try:
        return model.model_validate(values)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = f"{prefix}{'.'.join(str(part) for part in first['loc']).upper()}"
        # A key must not be logged for being misspelt.
        shown = "" if name.endswith(("KEY", "TOKEN")) else f" (it is {first['input']!r})"
        raise ConfigError(f"{name} is not valid: {first['msg']}{shown}.") from exc


def listed(value: str) -> tuple[str, ...]:
    """The parts between the commas."""
    return tuple(name for part in value.split(",") if (name := part.strip()))


def _absolute(name: str, path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as exc:  # ~somebody who is not known here
        raise ConfigError(f"{PREFIX}{name.upper()} is not valid: {exc} (it is {str(path)!r}).") from exc
