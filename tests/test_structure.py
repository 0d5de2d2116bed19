"""The tree is the architecture: who may import whom, who owns which dependency, how long a module may be.

Everything is read from the source with `ast`, so an import inside a function, under TYPE_CHECKING or
through `importlib.import_module("…")` counts like any other.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mcpvectordb"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400

# A part is a module of the package or a folder in it, and may import what stands beside it. The order is the
# flow: nothing imports what comes below it. Stages do not know each other, nor the settings.
VALUES = {"errors", "models"}
ALLOWED: dict[str, set[str]] = {
    "__init__": set(),
    "errors": set(),
    "models": {"errors"},
    "work": set(),  # what a piece of work is given: two functions and a folder
    "settings": VALUES,
    "guard": VALUES,  # pure predicates, for the stages that read
    "charsets": set(),  # one table of names, for what servers declare and what documents do
    "fetch": VALUES | {"guard", "charsets"},
    "sources": VALUES | {"guard", "fetch"},
    "folders": VALUES | {"guard", "sources"},
    "convert": VALUES | {"charsets"},
    "blocks": VALUES,
    "chunk": VALUES | {"blocks"},
    "memory": set(),  # what the system is told of memory that is free
    "embed": VALUES | {"memory"},
    "store": VALUES | {"memory"},
    "rank": VALUES,
    "search": VALUES | {"embed", "store", "rank"},
    "ingest": VALUES | {"work", "sources", "convert", "chunk", "embed", "store"},
    "reindex": VALUES | {"work", "chunk", "embed", "store", "ingest"},  # as an ingest, from the stored text
    "checks": VALUES,
    "stored": VALUES | {"store"},  # the files that documents keep beside the table
    "jobs": VALUES | {"work", "sources", "folders", "convert", "store", "stored", "ingest", "checks"},
    "checkup": VALUES | {"store", "jobs"},
    "wishes": {"settings", "embed"},
    "vectordb": VALUES
    | {"work", "settings", "checks", "guard", "sources", "convert", "embed", "store", "search", "ingest"}
    | {"reindex", "jobs", "checkup", "wishes"},
    "web": VALUES | {"guard"},  # hosting: knows of no document
    "contract": VALUES,  # what every way in over a wire shares: the border for arguments, the answers
    "kb_settings": VALUES | {"settings"},
    "server": VALUES | {"settings", "vectordb", "web", "contract"},
    "engine": VALUES | {"settings", "kb_settings", "checks", "vectordb", "web", "contract"},
    "kb": VALUES | {"kb_settings", "checks", "web", "contract"},  # never the core: it holds no data
    "cli": VALUES | {"settings", "kb_settings", "vectordb", "web", "server", "engine", "kb"},
    "__main__": {"cli"},
}
# The version stands in the package itself, and every part may say it.
ALWAYS = {"__init__"}

# Three speak HTTP, each with rules of its own: fetch/ to addresses a caller names, under guard, embed/ to the
# hub of models, kb/ to its engine. Three take file locks: the store for its writers, embed/ for who downloads
# a model, kb/ for whose uploads those are. server/ and kb/ say what our two MCP servers do, contract/ what
# their answers look like, web/ how any is reached over HTTP; engine/ is an application of its own.
SHARED = {
    "httpx": {"fetch", "embed", "kb"},
    "filelock": {"store", "embed", "kb"},
    "mcp": {"server", "web", "kb"},
    "mcp_types": {"server", "contract", "kb"},
    "starlette": {"web", "engine", "kb"},
}
OWNERS = {
    "lancedb": "store",
    "pyarrow": "store",
    "snowballstemmer": "store",
    "onnxruntime": "embed",
    "tokenizers": "embed",
    "torch": "embed",
    "transformers": "embed",
    "sentence_transformers": "embed",
    "httpcore": "fetch",
    "psutil": "convert",
    "markitdown": "convert",
    "pypdfium2": "convert",
    "xlrd": "convert",
    "olefile": "convert",
    "lxml": "convert",
    "bs4": "convert",
    "charset_normalizer": "convert",
    "uvicorn": "web",
    "python_multipart": "engine",
    "sqlite3": "jobs",
    "click": "cli",
}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(source: str, package: tuple[str, ...]) -> set[str]:
    """The dotted names that a module of this package imports, wherever it does so.

    `from a import b` gives both a and a.b, because b may be a module.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                above = package[: len(package) - node.level + 1] if node.level else ()
                base = ".".join([*above, *([node.module] if node.module else [])])
                names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                names.add(name)
    return names


def imports_of(path: Path) -> set[str]:
    package = ("mcpvectordb", *path.relative_to(PACKAGE).parent.parts)
    return imported(path.read_text(encoding="utf-8"), package)


def parts_imported(path: Path) -> set[str]:
    """The other parts of the package that a module imports."""
    inner = {name.split(".")[1] for name in imports_of(path) if name.startswith("mcpvectordb.")}
    return (inner & ALLOWED.keys()) - {part_of(path)}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import lancedb.query", {"lancedb.query"}),
        ("from mcpvectordb import store", {"mcpvectordb", "mcpvectordb.store"}),
        ("from . import rows", {"mcpvectordb.embed", "mcpvectordb.embed.rows"}),
        ("from ..store import Store", {"mcpvectordb.store", "mcpvectordb.store.Store"}),
        ("from .. import store", {"mcpvectordb", "mcpvectordb.store"}),
        ("def f():\n    import pyarrow", {"pyarrow"}),
        ("if TYPE_CHECKING:\n    import mcp", {"mcp"}),
        ("importlib.import_module('pyarrow.compute')", {"pyarrow.compute"}),
        ("import_module('bs4')", {"bs4"}),
        ("__import__('click')", {"click"}),
    ],
)
def test_an_import_is_seen_however_it_is_written(source: str, names: set[str]) -> None:
    assert imported(source, ("mcpvectordb", "embed")) == names


def test_the_import_table_names_every_part_and_no_other() -> None:
    assert {part_of(path) for path in MODULES} == ALLOWED.keys()


def test_the_import_table_goes_one_way() -> None:
    above: set[str] = set()
    for part, allowed in ALLOWED.items():
        assert allowed <= above, f"{part} may import {allowed - above}, which come after it"
        above.add(part)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_comes_before_it_in_the_flow(path: Path) -> None:
    assert parts_imported(path) <= ALLOWED[part_of(path)] | ALWAYS


@pytest.mark.parametrize("dependency", [*OWNERS, *SHARED])
def test_a_big_dependency_is_imported_by_its_owner_alone(dependency: str) -> None:
    users = {
        part_of(path) for path in MODULES if dependency in {name.split(".")[0] for name in imports_of(path)}
    }
    assert users == (SHARED[dependency] if dependency in SHARED else {OWNERS[dependency]})


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_outgrows_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_prints_because_stdout_is_the_protocols(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after running code."""
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    return {name.split(".")[0] for name in run.stderr.split()}


ALL_HELP = """
import click
from mcpvectordb.cli import main
def show(group, path):
    for name, command in group.commands.items():
        main([*path, name, "--help"], standalone_mode=False)
        if isinstance(command, click.Group):
            show(command, [*path, name])
show(main, [])
"""


@pytest.mark.parametrize(
    "code",
    ["main(['--help'], standalone_mode=False)", "main(['--version'], standalone_mode=False)", ALL_HELP],
    ids=["help", "version", "every command"],
)
def test_help_loads_neither_the_protocol_nor_the_core(code: str) -> None:
    loaded = loaded_by(f"from mcpvectordb.cli import main\n{code}")
    assert not loaded & {
        "mcp",
        "lancedb",
        "pyarrow",
        "numpy",
        "onnxruntime",
        "tokenizers",
        "markitdown",
        "bs4",
    }


def test_a_server_that_has_answered_nothing_has_loaded_no_store_no_model_and_no_converter() -> None:
    loaded = loaded_by(
        "from pathlib import Path\n"
        "from mcpvectordb.server import build_server\n"
        "from mcpvectordb.settings import Settings\n"
        "from mcpvectordb.vectordb import VectorDB\n"
        "build_server(VectorDB(Settings(home=Path('nowhere'))))"
    )
    assert not loaded & {"lancedb", "pyarrow", "numpy", "onnxruntime", "tokenizers", "markitdown", "bs4"}
    assert "mcp" in loaded


def test_the_gateway_never_loads_the_core() -> None:
    script = (
        "import sys, mcpvectordb.kb.http\nprint(*(n for n in sys.modules if n.startswith('mcpvectordb.')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    parts = {name.split(".")[1] for name in run.stdout.split()}
    assert parts == {
        "errors",
        "models",
        "guard",
        "checks",
        "settings",
        "contract",
        "kb_settings",
        "kb",
        "web",
    }
    loaded = loaded_by("import mcpvectordb.kb.http")
    assert not loaded & {"lancedb", "pyarrow", "numpy", "onnxruntime", "tokenizers", "markitdown", "bs4"}


def test_the_licence_lies_beside_the_code() -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
