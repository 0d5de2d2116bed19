"""The title of a Markdown text. Pure: the text itself is never changed."""

from __future__ import annotations

import re

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.*)((?:\n[ \t]+\S.*)*)", re.M | re.I)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
# What ends a paragraph, or cannot be the text over a heading's underline.
_NOT_PARAGRAPH = re.compile(
    r"\s*$| {4}|\t| {0,3}(?:[>|]|[-*+][ \t]|\d{1,9}[.)][ \t]|([-*_])[ \t]*(?:\1[ \t]*){2,}$)"
)

_CODE_SPAN = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)")
_INLINE = (
    (re.compile(r"!\[([^\]]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"\[([^\]]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"<((?:https?|mailto):[^>\s]+)>"), r"\1"),
    (re.compile(r"</?[A-Za-z][^>]*>"), ""),
    (re.compile(r"(?<!\\)(\*{1,3}|~~)(?=\S)(.+?)(?<=[^\s\\])\1"), r"\2"),
    # Underscores inside words are letters: snake_case.
    (re.compile(r"(?<![\w\\])(_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"[ \t]*\{[#.:][^}]*\}[ \t]*$"), ""),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
# Marks that never close are searched for from each that opens.
_LONGEST_HEADING = 1000


def title(text: str) -> str:
    """The front matter's title, else the first heading, else ""."""
    front = _FRONT_MATTER.match(text)
    if front is None:
        return _first_heading(text)
    return _front_title(front[2]) or _first_heading(text[front.end() :])


def _front_title(front: str) -> str:
    found = _FRONT_TITLE.search(front)
    if found is None:
        return ""
    value, more = found[1].strip(), " ".join(found[2].split())
    if value[:1] in (">", "|"):
        value = ""
    value = f"{value} {more}".strip()
    if value[:1] in ("'", '"'):
        quote = value[0]
        inside = re.match(r'"((?:[^"\\]|\\.)*)"' if quote == '"' else r"'((?:[^']|'')*)'", value)
        if inside is None:
            return value
        return re.sub(r"\\(.)", r"\1", inside[1]) if quote == '"' else inside[1].replace("''", "'")
    return re.split(r"\s#", value, maxsplit=1)[0].strip()


def _first_heading(text: str) -> str:
    fence = ""
    paragraph: list[str] = []
    # A comment becomes nothing, but keeps its lines apart. None begins behind the last one's end.
    end = text.rfind("-->") + 3 if "-->" in text else 0
    for line in (_COMMENT.sub("", text[:end]) + text[end:]).split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
            continue
        if mark:
            fence, paragraph = mark[1], []
            continue
        atx = _ATX.match(line[:_LONGEST_HEADING])
        found = atx[1] or "" if atx else ""
        if paragraph and _UNDERLINE.match(line):
            found = " ".join(paragraph)
        if found and (heading := _plain(found)):
            return heading
        if atx or (
            _NOT_PARAGRAPH.match(line) and not (paragraph and line.startswith((" ", "\t")) and line.strip())
        ):
            paragraph = []
        else:
            paragraph.append(line.strip())
    return ""


def _plain(heading: str) -> str:
    """Without emphasis, links' targets, tags and escapes; the text of code spans stays as it is."""
    heading = heading[:_LONGEST_HEADING]
    parts: list[str] = []
    end = 0
    # Marks are taken off around code, so that `__init__` keeps its underscores.
    codes: list[str] = []
    for span in _CODE_SPAN.finditer(heading):
        parts += [heading[end : span.start()], f"\ue000{len(codes)}\ue001"]
        codes.append(span[2].strip())
        end = span.end()
    plain = "".join([*parts, heading[end:]])
    for pattern, replacement in _INLINE:
        plain = pattern.sub(replacement, plain)
    for index, code in enumerate(codes):
        plain = plain.replace(f"\ue000{index}\ue001", code)
    return " ".join(plain.split())
