"""What is documented exists, and what exists is documented: tools, parameters, settings, links, versions."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from mcp.client.client import Client
from mcp_types import Tool
from pydantic_core import PydanticUndefined

from mcpvectordb import __version__
from mcpvectordb.cli import main
from mcpvectordb.kb.tools import TOOLS as KB_TOOLS
from mcpvectordb.kb_settings import PREFIX as KB_PREFIX
from mcpvectordb.kb_settings import KbSettings
from mcpvectordb.server import build_server
from mcpvectordb.settings import PREFIX, Settings
from mcpvectordb.vectordb import VectorDB

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import docs  # noqa: E402

COMMANDS = dict(docs.commands())
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```[^\n]*$", flags=re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Defaults that the machine decides are told in words.
IN_WORDS = {"home": "the platform's user data folder"}


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Without fenced code: an example names things but documents none."""
    return FENCE.sub("", text)


def sections(text: str) -> dict[str, str]:
    """The second-level sections by their heading."""
    parts = re.split(r"^## (.+)$", prose(text), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str, first_column: str) -> Iterator[list[str]]:
    """The cells of every table whose first column has this heading."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif inside and not set(line) <= set("|-: "):
            yield cells
        elif cells[0] == first_column:
            inside = True


def names_in(cells: Iterator[list[str]]) -> set[str]:
    """What the first cells name in backticks; one row may tell of several."""
    return {name for row in cells for name in CODE.findall(row[0])}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tool]:
    """The tools as a client is told of them."""

    async def listed() -> dict[str, Tool]:
        db = VectorDB(Settings(home=tmp_path_factory.mktemp("docs")))
        async with Client(build_server(db)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    return asyncio.run(listed())


@pytest.fixture(scope="module")
def spec() -> dict[str, str]:
    """The sections of the tool specification that are about a tool, by its name."""
    found = sections(page("docs/tool-spec.md"))
    return {CODE.findall(title)[0]: text for title, text in found.items() if title.startswith("`")}


def fields(schema: dict[str, Any], *, top: bool) -> set[str]:
    """The fields of a successful answer, with those of the objects in it unless top."""
    (success,) = [branch for branch in schema["anyOf"] if branch["title"] != "Error"]
    inner = [] if top else schema.get("$defs", {}).values()
    return {name for branch in (success, *inner) for name in branch.get("properties", {})}


def test_tool_spec_and_server_name_the_same_tools(tools: dict[str, Tool], spec: dict[str, str]) -> None:
    assert spec.keys() == tools.keys()


def test_the_readmes_table_names_the_same_tools(tools: dict[str, Tool]) -> None:
    assert names_in(rows(sections(page("README.md"))["Tools"], "tool")) == tools.keys()


def test_every_parameter_is_documented_with_its_default_and_no_other_is(
    tools: dict[str, Tool], spec: dict[str, str]
) -> None:
    published = {
        (name, parameter, json.dumps(schema["default"]) if "default" in schema else "required")
        for name, tool in tools.items()
        for parameter, schema in tool.input_schema.get("properties", {}).items()
    }
    documented = {
        (name, cells[0].strip("`"), cells[2].strip("`"))
        for name, text in spec.items()
        for cells in rows(text, "parameter")
    }
    assert documented == published


def test_the_bounds_of_a_number_stand_in_its_row(tools: dict[str, Tool], spec: dict[str, str]) -> None:
    for name, tool in tools.items():
        told = {cells[0].strip("`"): cells[-1] for cells in rows(spec[name], "parameter")}
        for parameter, schema in tool.input_schema.get("properties", {}).items():
            # Beyond a thousand a bound is there for safety, and nobody plans by it.
            if schema.get("type") == "integer" and schema.get("maximum", 10**9) <= 1000:
                assert f"{schema['minimum']} to {schema['maximum']}" in told[parameter], (name, parameter)


def test_every_field_of_an_answer_is_documented(tools: dict[str, Tool], spec: dict[str, str]) -> None:
    missing = {
        (name, field)
        for name, tool in tools.items()
        for field in fields(tool.output_schema or {}, top=False) - set(CODE.findall(spec[name]))
    }
    assert not missing


def test_every_top_field_has_a_row_and_every_row_a_field(
    tools: dict[str, Tool], spec: dict[str, str]
) -> None:
    for name, tool in tools.items():
        schema = tool.output_schema or {}
        documented = names_in(rows(spec[name], "field"))
        assert fields(schema, top=True) <= documented <= fields(schema, top=False), name


def settings_table() -> dict[str, tuple[str, str, str]]:
    """What each variable's default, range and first bound should read as."""
    table: dict[str, tuple[str, str, str]] = {}
    for name, field in Settings.model_fields.items():
        default = "none" if field.default in (None, "") else f"`{field.default}`"
        default = IN_WORDS[name] if field.default is PydanticUndefined else default
        bounds = {
            key: getattr(one, key) for one in field.metadata for key in ("ge", "le") if hasattr(one, key)
        }
        table[f"{PREFIX}{name.upper()}"] = (
            default,
            *(f"{bounds[k]:g}" if bounds else "" for k in ("ge", "le")),
        )
    return table


def test_every_setting_is_documented_with_its_default_and_range() -> None:
    documented = {cells[0].strip("`"): cells for cells in rows(page("docs/configuration.md"), "variable")}
    assert documented.keys() == settings_table().keys()
    for name, (default, least, most) in settings_table().items():
        assert documented[name][1] == default, name
        if least:
            assert documented[name][2] == f"{least} to {most}", name


def test_the_readme_gives_settings_the_same_defaults() -> None:
    told = {cells[0].strip("`"): cells[1] for cells in rows(page("README.md"), "variable")}
    assert told
    assert told == {name: settings_table()[name][0] for name in told if name in settings_table()}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_names_a_setting_that_there_is_not(path: Path) -> None:
    named = set(re.findall(rf"{PREFIX}[A-Z][A-Z_]*", path.read_text(encoding="utf-8")))
    assert named <= settings_table().keys()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_names_a_setting_of_the_knowledge_base_that_there_is_not(path: Path) -> None:
    # KB_BIND is a variable of compose.yaml alone.
    known = {f"{KB_PREFIX}{name.upper()}" for name in KbSettings.model_fields} | {"KB_BIND"}
    assert set(re.findall(rf"\b{KB_PREFIX}[A-Z][A-Z_]*", path.read_text(encoding="utf-8"))) <= known


def test_the_readme_names_the_knowledge_bases_tools_and_no_other() -> None:
    named = set(re.findall(r"\bkb_\w+", page("README.md")))
    assert named == {tool.name for tool in KB_TOOLS}


def anchors(path: Path) -> set[str]:
    """The ids that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text(encoding="utf-8")), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    for link in LINK.findall(prose(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert file.is_relative_to(ROOT), f"{link} leads out of the repository"
        assert not anchor or file.suffix != ".md" or anchor in anchors(file), link


def test_the_changelogs_newest_version_is_this_one() -> None:
    newest = re.search(r"^## \[?([^\s\]]+)", page("CHANGELOG.md"), flags=re.M)
    assert newest is not None
    assert newest[1] == __version__


def test_the_tool_spec_tells_this_version() -> None:
    assert re.findall(r"^\| version \| ([\w.]+) \|$", page("docs/tool-spec.md"), flags=re.M) == [__version__]


def test_the_generated_parts_of_the_docs_are_as_the_code_makes_them() -> None:
    for name in {page for page, _ in docs.PARTS}:
        text = page(f"docs/{name}")
        assert docs.written(name, text) == text, "run `make docs`"


def parsed(line: str) -> None:
    """See that the command line in a line of shell is understood, as far as that goes without running it."""
    words = shlex.split(line, comments=True)
    words = words[words.index("mcpvectordb") + 1 :]
    ends = next((n for n, word in enumerate(words) if word in ("|", ">", "<", "&&")), None)
    words = words[:ends]
    group: click.Command = main
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
        group = group.commands[words.pop(0)]
    if "--help" not in words and "--version" not in words:
        group.make_context(line, words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_commands_help_has_words_for_each_option_and_argument_and_an_example(name: str) -> None:
    command = COMMANDS[name]
    context = click.Context(command)
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name
        else:
            metavar = param.make_metavar(context).strip("[].")
            assert metavar in (command.help or "").partition(docs.EXAMPLE)[0], metavar
    examples = docs.examples(command)
    assert any(f"{name} " in f"{example} " for example in examples)
    for example in examples:
        if example.startswith("mcpvectordb ") or "| mcpvectordb " in example:
            parsed(example)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_line_in_a_page_is_understood(path: Path) -> None:
    for fence in re.findall(r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.M | re.S):
        for line in fence.splitlines():
            if line.startswith("mcpvectordb "):
                parsed(line)
