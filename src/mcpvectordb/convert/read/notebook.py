"""Jupyter notebooks, formats 2 to 4: text as it stands, code in fences, and what the code put out.

Outputs are kept as text alone: pictures and widgets are dropped, colours taken off, and what a program wrote
thousands of lines of is cut where nobody reads on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from mcpvectordb.convert.page import to_markdown
from mcpvectordb.convert.text import decode
from mcpvectordb.errors import ConversionError

from . import Read
from .lines import closed, fenced, one_line, tidied
from .structured import read_json

_Fields = Mapping[str, object]

_LONGEST_OUTPUT = 20_000
# HTML is mostly markup; beyond this it is a chart with its data, and the plain text beside it will do.
_LONGEST_HTML = 500_000
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# A progress bar writes its line anew each time; the last one is what was left on the screen.
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")
# Pictures kept in the notebook itself.
_IMAGE = re.compile(r"!\[([^\]]*)\]\(\s*<?(?:attachment:|data:)[^)]*\)")
_IMAGE_TAG = re.compile(r"<img\b[^<>]*\bsrc\s*=\s*[\"']?(?:data|attachment):[^<>]*>", re.I)
# "<Figure size 640x480 with 1 Axes>" beside the picture that it stands for.
_PLACEHOLDER = re.compile(r"\s*<[^<>\n]*>\s*")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_OLD_NAMES = {"text": "text/plain", "html": "text/html", "markdown": "text/markdown", "latex": "text/latex"}
_IN_LINES = frozenset({"source", "input", *_OLD_NAMES})


def read(data: bytes, file_name: str) -> Read:
    notebook = _notebook(data)
    if notebook is None:
        return read_json(data, file_name)
    metadata = _fields(notebook.get("metadata"))
    language = _language(metadata)
    parts = [part for cell in _cells(notebook) for part in _cell(cell, language) if part.strip()]
    text = tidied("\n\n".join(parts))
    if not text.strip():
        raise ConversionError(f"{file_name} holds no text (its cells are empty): there is nothing to index.")
    title = metadata.get("title")
    return Read(text=text, title=one_line(title) if isinstance(title, str) else "")


def _notebook(data: bytes) -> _Fields | None:
    """The notebook; None if this is anything else, valid JSON or not."""
    text = decode(data)
    if text is None:
        return None
    try:
        value: object = json.loads(text, strict=False, parse_int=str)
    except (ValueError, RecursionError):
        return None
    fields = _fields(value)
    return fields if isinstance(fields.get("cells", fields.get("worksheets")), list) else None


def _language(metadata: _Fields) -> str:
    info, kernel = _fields(metadata.get("language_info")), _fields(metadata.get("kernelspec"))
    for name in (info.get("name"), kernel.get("language"), metadata.get("language"), kernel.get("name")):
        if isinstance(name, str) and name:
            # A kernel without a language is named python3.
            language = "python" if re.fullmatch(r"i?python\d?", name.lower()) else name.lower()
            return language if _LANGUAGE.fullmatch(language) else ""
    return "python"


def _cells(notebook: _Fields) -> Iterator[_Fields]:
    """Formats 2 and 3 keep them in worksheets."""
    yield from map(_fields, _list(notebook.get("cells")))
    for sheet in map(_fields, _list(notebook.get("worksheets"))):
        for cell in map(_fields, _list(sheet.get("cells"))):
            outputs = [_with_line_ends(_fields(output)) for output in _list(cell.get("outputs"))]
            yield {**_with_line_ends(cell), "outputs": outputs}


def _with_line_ends(fields: _Fields) -> _Fields:
    """Lines are kept without their ends in format 2, and in format 3 by some programs."""
    return {key: _ended(value) if key in _IN_LINES else value for key, value in fields.items()}


def _ended(value: object) -> object:
    lines = [line for line in _list(value) if isinstance(line, str)]
    return value if not lines or lines[0].endswith(("\n", "\r")) else "\n".join(lines)


def _cell(cell: _Fields, language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input")))
    kind = cell.get("cell_type")
    if kind == "code":
        own = cell.get("language")
        language = own if isinstance(own, str) and _LANGUAGE.fullmatch(own) else language
        if source.strip():
            yield fenced(source.strip("\n"), language)
        yield from _outputs(_list(cell.get("outputs")))
    elif kind == "heading":
        level = str(cell.get("level", 1))
        yield f"{'#' * (int(level) if level in ('1', '2', '3', '4', '5', '6') else 1)} {one_line(source)}"
    else:
        yield closed(_IMAGE_TAG.sub("", _IMAGE.sub(r"\1", source)))


def _outputs(outputs: Iterable[object]) -> Iterator[str]:
    printed: list[str] = []
    for output in map(_fields, outputs):
        if output.get("output_type") == "stream":
            # What was printed bit by bit belongs together.
            printed.append(_joined(output.get("text")))
            continue
        yield _screen("".join(printed))
        printed = []
        yield _error(output) if output.get("output_type") in ("error", "pyerr") else _shown(output)
    yield _screen("".join(printed))


def _error(output: _Fields) -> str:
    summary = f"{output.get('ename', '')}: {output.get('evalue', '')}".strip(": ")
    trace = "\n".join(line for line in _list(output.get("traceback")) if isinstance(line, str))
    return _screen(trace if one_line(_plain(summary)) in one_line(_plain(trace)) else f"{summary}\n{trace}")


def _shown(output: _Fields) -> str:
    """What a cell showed, in the form that says most."""
    data = _fields(output.get("data")) or {_OLD_NAMES.get(key, key): value for key, value in output.items()}
    if _WIDGET in data:
        return ""
    plain = _joined(data.get("text/plain"))
    if markdown := _joined(data.get("text/markdown")):
        return closed(_cut(_IMAGE.sub(r"\1", markdown)))
    html = _joined(data.get("text/html"))
    if (
        html
        and len(html) <= _LONGEST_HTML
        and ("<table" in html or not plain or _PLACEHOLDER.fullmatch(plain))
    ):
        shown = _from_html(html)
        if shown.strip():
            return closed(_cut(shown))
    if not plain:
        return _screen(_joined(data.get("text/latex")))
    is_picture = any(kind.startswith("image/") or kind in ("png", "jpeg", "svg") for kind in data)
    return "" if is_picture and _PLACEHOLDER.fullmatch(plain) else _screen(plain)


def _from_html(html: str) -> str:
    try:
        return to_markdown(html)
    except ConversionError:
        # The plain text beside it says the same.
        return ""


def _screen(text: str) -> str:
    text = _plain(text)
    return fenced(_cut(tidied(text))) if text.strip() else ""


def _plain(text: str) -> str:
    return _OVERWRITTEN.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_OUTPUT:
        return text
    return f"{text[:_LONGEST_OUTPUT]}\n[{len(text) - _LONGEST_OUTPUT:,} more characters of output left out]"


def _joined(source: object) -> str:
    """Text is kept as one string or as a list of lines that carry their ends."""
    if isinstance(source, str):
        return source
    return "".join(line for line in _list(source) if isinstance(line, str))


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _fields(value: object) -> _Fields:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
