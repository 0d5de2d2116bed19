"""Settings of the knowledge base: `KB_*` variables, for the engine and for the gateway in front of it.

One table for both, because both are often started from one environment; a misspelt name is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from .errors import ConfigError
from .settings import listed, read

PREFIX = "KB_"
# What a header can carry, and no blank that somebody would not see.
Key = Annotated[str, StringConstraints(pattern=r"^[!-~]*$", max_length=4096)]


class KbSettings(BaseModel):
    """All there is to set. The field descriptions are the text of docs/kb.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    api_key: Key = Field(
        "",
        repr=False,
        description="The engine's key: it demands it as a bearer token, and the gateway sends it. "
        "Without one the engine listens on loopback only.",
    )
    libraries: str = Field(
        "kb", description="The libraries the engine sees; notes and uploads go to the first."
    )
    engine_url: str = Field("http://127.0.0.1:8000", description="Where the gateway finds the engine.")
    mcp_api_key: Key = Field(
        "",
        repr=False,
        description="The gateway's key: agents send it as a bearer token. Without one anybody may call.",
    )
    allowed_hosts: str = Field(
        "",
        description="Names by which the two are called besides loopback, separated by commas: `engine`, "
        "`kb.example.org`.",
    )
    allowed_origins: str = Field(
        "", description="Origins beside their own whose pages may use the two, separated by commas."
    )
    staging: Path = Field(
        default_factory=lambda: user_cache_path("mcpvectordb", appauthor=False) / "uploads",
        description="Folder where the gateway keeps uploads until they are whole.",
    )
    max_upload_mb: int = Field(50, ge=1, le=2000, description="Larger uploads are refused.")
    max_uploads: int = Field(20, ge=1, le=1000, description="Uploads under way at one time.")
    upload_s: float = Field(
        600.0, ge=0.1, le=86_400, description="An upload not finished within this time is removed."
    )
    call_timeout_s: float = Field(45.0, ge=0.1, le=600, description="How long a call waits for the engine.")

    @property
    def library_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(listed(self.libraries)))

    @property
    def host_names(self) -> tuple[str, ...]:
        return listed(self.allowed_hosts)

    @property
    def origin_names(self) -> tuple[str, ...]:
        return listed(self.allowed_origins)


def load(environ: Mapping[str, str] = os.environ) -> KbSettings:
    """Settings from the environment, or a ConfigError that names the variable and what it takes."""
    settings = read(KbSettings, PREFIX, environ)
    if not settings.library_names:
        raise ConfigError("KB_LIBRARIES names no library. Leave it out for `kb`, or name one.")
    return settings
