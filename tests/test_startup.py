"""What is imported before it is needed: nothing heavy, so that a client's start never waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mcpvectordb
from support import PATIENCE_S, environment, serving

HEAVY = {
    "httpx",
    "lancedb",
    "lxml",
    "markitdown",
    "numpy",
    "onnxruntime",
    "psutil",
    "pyarrow",
    "sentence_transformers",
    "tokenizers",
    "torch",
}


def imported(stderr: str) -> set[str]:
    """The top-level packages in what `-X importtime` says."""
    lines = [line for line in stderr.splitlines() if line.startswith("import time:")]
    assert lines
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_a_server_that_has_listed_its_tools_has_imported_nothing_heavy(tmp_path: Path) -> None:
    with serving(tmp_path / "database", python=("-X", "importtime")) as server:
        assert len(server.tools) >= 7
    packages = imported(server.stderr)
    assert {"mcp", "mcpvectordb"} <= packages
    assert packages & HEAVY == set()


@pytest.mark.parametrize("command", ["engine", "kb", "serve"])
def test_help_of_a_server_imports_nothing_that_serves(tmp_path: Path, command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mcpvectordb", command, "--help"],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    assert "--port" in ended.stdout
    assert imported(ended.stderr) & (HEAVY | {"mcp", "mcp_types", "starlette", "uvicorn"}) == set()


@pytest.mark.parametrize(
    ("option", "says"),
    [("--help", "claude mcp add"), ("-h", "stdio"), ("--version", mcpvectordb.__version__)],
)
def test_help_and_version_import_neither_the_sdk_nor_anything_heavy(
    tmp_path: Path, option: str, says: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mcpvectordb", option],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    assert says in ended.stdout
    assert imported(ended.stderr) & (HEAVY | {"mcp", "mcp_types"}) == set()
