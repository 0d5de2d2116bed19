"""Writes the parts of docs/ that are made from the code: `make docs`. A test checks that they are up to date.

python scripts/docs.py          write them
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mcpvectordb import cli
from mcpvectordb.cli.base import EXIT_CODES
from mcpvectordb.contract import knowledge
from mcpvectordb.contract.arguments import input_schema
from mcpvectordb.convert import CODE, DOCUMENTS
from mcpvectordb.engine.operations import ALWAYS, BASE, OPERATIONS
from mcpvectordb.kb.tools import TOOLS
from mcpvectordb.kb_settings import PREFIX, KbSettings

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLE = "\b\nExample:"


def formats() -> str:
    """The table of formats."""
    rows = [
        f"| {entry.description.removeprefix('a ').removeprefix('an ')} | `{entry.file_type}` | "
        f"{' '.join(f'`{extension}`' for extension in entry.extensions)} |"
        for entry in DOCUMENTS
    ]
    code = ", ".join(f"{entry.language} (`{'` `'.join(entry.extensions)}`)" for entry in CODE)
    head = ["| format | `file_type` | extensions |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + f"\n\nSource code, fenced with its language: {code}."


def commands(group: click.Group = cli.main, path: str = "mcpvectordb") -> Iterator[tuple[str, click.Command]]:
    """Every command by its whole name, in the order of the help."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def examples(command: click.Command) -> list[str]:
    """The lines under `Example:` in a command's help."""
    return inspect.cleandoc(command.help or "").partition(EXAMPLE)[2].replace("\n    ", "\n").split("\n")[1:]


def command_sections() -> str:
    """What each command's help says, as a section of a page."""
    return "\n\n".join(_section(path, command) for path, command in commands())


def exit_codes() -> str:
    """The table of exit codes."""
    rows = [f"| {code} | {means} |" for code, means in EXIT_CODES.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])


def _section(path: str, command: click.Command) -> str:
    words = inspect.cleandoc(command.help or "").partition(EXAMPLE)[0].strip()
    context = click.Context(command)
    arguments = [param.make_metavar(context) for param in command.params if isinstance(param, click.Argument)]
    rows = [_row(param, context) for param in command.params if isinstance(param, click.Option)]
    table = "\n".join(["| option | default | |", "|---|---|---|", *rows])
    parts = [
        f"### `{' '.join([path, *arguments])}`",
        *(paragraph.replace("\n", " ") for paragraph in words.split("\n\n")),
        "\n".join(["```sh", *examples(command), "```"]),
        *([table] if rows else []),
    ]
    return "\n\n".join(parts)


def _row(option: click.Option, context: click.Context) -> str:
    names = [f"`{name}`" for name in (*option.opts, *option.secondary_opts)]
    if not option.is_flag:
        names[-1] += f" `{option.make_metavar(context).strip('[]').replace('|', ', ')}`"
    default, told = "", option.help or ""
    if option.required:
        default = "required"
    elif option.secondary_opts:
        default = f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    elif option.show_default:
        default = f"`{option.get_default(context)}`"
    if isinstance(option.type, click.IntRange) and option.type.max is not None:
        told += f" {option.type.min} to {option.type.max}."
    # Outside code, a table takes | for its own and a page takes <key> for HTML.
    return f"| {', '.join(names)} | {default} | {told.replace('|', chr(92) + '|').replace('<', '&lt;')} |"


def kb_tools() -> str:
    """The gateway's tools, each with its parameters."""
    return "\n\n".join(
        f"### `{tool.name}`\n\n{tool.description}\n\n{_parameters(input_schema(tool.arguments))}"
        for tool in TOOLS
    )


def kb_calls() -> str:
    """The engine's calls, each with what it takes."""
    sections: list[str] = []
    for one in OPERATIONS:
        asked = one.query or one.body
        parts = [f"### `{one.method} {BASE}{one.path}`", f"{one.summary}."]
        if asked is not None:
            parts.append(_parameters(input_schema(asked)))
        if one.takes_file:
            parts.append("Or `multipart/form-data`: a part `file` with its name, and `tags`.")
        answers = " or ".join(f"`{model.__name__}`" for model in one.answers)
        refusals = ", ".join(str(status) for status in sorted({*ALWAYS, *one.errors}))
        parts.append(f"Answers {one.status} with {answers}; or {refusals}.")
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


def kb_shapes() -> str:
    """What the answers hold."""
    shapes = {model for one in OPERATIONS for model in one.answers}
    named = {knowledge.Hit, knowledge.Document, knowledge.Chunk, *shapes}
    rows = [
        f"| `{model.__name__}` | {', '.join(f'`{name}`' for name in model.model_fields)} |"
        for model in sorted(named, key=lambda model: model.__name__)
    ]
    return "\n".join(["| shape | fields |", "|---|---|", *rows])


def kb_settings() -> str:
    """The table of `KB_*` variables."""
    rows: list[str] = []
    for name, field in KbSettings.model_fields.items():
        default = "" if field.default_factory is not None else field.default
        shown = f"`{default}`" if default != "" else "none"
        if field.default_factory is not None:
            shown = "the platform's user cache folder"
        rows.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def _parameters(schema: dict[str, Any]) -> str:
    """A table of what an object may hold."""
    if not schema["properties"]:
        return "No parameters."
    rows: list[str] = []
    for name, one in schema["properties"].items():
        default = f"`{json.dumps(one['default'])}`" if "default" in one else "required"
        rows.append(f"| `{name}` | {_type(one)} | {default} | {one.get('description', '')} |")
    return "\n".join(["| name | type | default | |", "|---|---|---|---|", *rows])


def _type(schema: dict[str, Any]) -> str:
    branches = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    (one,) = branches
    if "enum" in one:
        return ", ".join(f"`{choice}`" for choice in one["enum"])
    low, high = one.get("minimum"), one.get("maximum")
    words = {"array": "list of strings"}.get(one["type"], one["type"])
    # Beyond a thousand a bound is there for safety, and nobody plans by it.
    return f"{words}, {low} to {high}" if high is not None and high <= 1000 else words


PARTS = {
    ("kb.md", "tools"): kb_tools,
    ("kb.md", "calls"): kb_calls,
    ("kb.md", "shapes"): kb_shapes,
    ("kb.md", "settings"): kb_settings,
    ("formats.md", "formats"): formats,
    ("cli.md", "exit codes"): exit_codes,
    ("cli.md", "commands"): command_sections,
}


def written(name: str, text: str) -> str:
    """A page with its generated parts as they should be."""
    for (page, part), make in PARTS.items():
        if page == name:
            start, end = f"<!-- {part}: made by `make docs` -->\n", f"<!-- end of {part} -->"
            before, _, rest = text.partition(start)
            text = f"{before}{start}\n{make()}\n\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    for page in {page for page, _ in PARTS}:
        path = DOCS / page
        path.write_text(written(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
