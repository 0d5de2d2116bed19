"""JSON and XML: data to text in which every value can be found.

Nothing is fetched and no entity is defined: XML that defines entities is refused, since a few lines of them
can unfold to gigabytes.
"""

from __future__ import annotations

from mcpvectordb.convert.page import convert_html
from mcpvectordb.convert.text import decode, decode_html
from mcpvectordb.errors import ConversionError, UnsupportedType

from . import Read, flat_office, json_text
from .lines import fenced, one_line, tidied
from .xml import data as xml_data
from .xml import prose as xml_prose
from .xml import tree as xml_tree

_NOTHING = frozenset({"{}", "[]", "null", '""', "[{}]", "[[]]"})
_LINES = (".jsonl", ".ndjson")
# A record this long is read in lines.
_RECORD_CHARS = 1000
_TITLE_CHARS = 300


def read_json(data: bytes, file_name: str) -> Read:
    text = decode(data)
    if text is None:
        raise UnsupportedType(f"{file_name} is not text, so it is not JSON: check what it is.")
    text = text.strip()
    if "".join(text[:100].split()) in _NOTHING or not text:
        raise ConversionError(f"{file_name} holds no values: there is nothing to index.")
    if file_name.lower().endswith(_LINES):
        return _json_lines(text, file_name)
    try:
        fault = json_text.fault(text)
    except RecursionError:
        return _plain(text, f"{file_name} is nested too deeply to be laid out; it was indexed as plain text.")
    if not fault:
        laid_out = text if json_text.is_laid_out(text) else json_text.laid_out(text)
        return Read(text=fenced(tidied(laid_out), "json"))
    if _is_json_lines(text):
        return _json_lines(text, file_name)
    return _plain(text, f"{file_name} is not valid JSON ({fault}); it was indexed as plain text.")


def read_xml(data: bytes, file_name: str) -> Read:
    text = decode_html(data)
    if text is None:
        raise UnsupportedType(f"{file_name} is not text, so it is not XML: check what it is.")
    if not text.strip():
        raise ConversionError(f"{file_name} holds no text: there is nothing to index.")
    if (office := flat_office.read(data, file_name)) is not None:
        return office
    try:
        tree = xml_tree.parse(text)
        if tree is None:
            return _plain(text, f"{file_name} could not be read as XML; it was indexed as plain text.")
        if xml_tree.name_of(tree.root) == "html":
            return convert_html(text, file_name)
        is_prose = xml_prose.is_prose(tree.root)
        markdown = xml_prose.to_markdown(tree.root) if is_prose else xml_data.to_markdown(tree)
    except xml_tree.DefinesEntities as exc:
        raise ConversionError(
            f"{file_name} defines XML entities, which are not expanded because they can unfold to gigabytes: "
            "save it without its <!ENTITY …> definitions and add that."
        ) from exc
    except RecursionError:
        return _plain(text, f"{file_name} is nested too deeply for XML; it was indexed as plain text.")
    if not (markdown := tidied(markdown)).strip():
        raise ConversionError(
            f"{file_name} holds no text (only markup or drawings): if a program shows text there, "
            "save it from there as PDF or text and add that."
        )
    title = xml_prose.title(tree.root) if is_prose else ""
    notice = f"{file_name} is not well-formed XML ({tree.fault}); what could be read was indexed."
    return Read(text=markdown, title=title[:_TITLE_CHARS], notice=notice if tree.fault else "")


def _is_json_lines(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()][:5]
    try:
        return len(lines) > 1 and not any(map(json_text.fault, lines))
    except RecursionError:
        return False


def _json_lines(text: str, file_name: str) -> Read:
    """One record a line, as it was; those in which words are hidden, or too long to read, in several."""
    records: list[str] = []
    faults = 0
    for line in text.split("\n"):
        line = line.strip()
        if not line:
            continue
        try:
            is_sound = not json_text.fault(line)
        except RecursionError:
            is_sound = False
        faults += not is_sound
        if is_sound and (len(line) > _RECORD_CHARS or not json_text.is_laid_out(line)):
            line = json_text.laid_out(line, one_line_chars=_RECORD_CHARS)
        is_block = "\n" in line
        records += ["", line, ""] if is_block else [line]
    plural = "lines were" if faults != 1 else "line was"
    notice = f"{faults} {plural} not valid JSON in {file_name}; indexed as plain text." if faults else ""
    return Read(text=fenced(tidied("\n".join(records)), "json"), notice=notice)


def _plain(text: str, notice: str) -> Read:
    return Read(text=tidied(text), is_markdown=False, notice=one_line(notice))
