"""Runs of formatted text to one line or paragraph of Markdown. Pure.

Emphasis and links are written so that a word stays whole: a mark inside a word would cut it in two for the
word index. Nothing is escaped but what would open a heading or a code block that the document does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffc\ufffe\uffff]")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_BLANKS = re.compile("[ \t\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_EVERY_BLANK = re.compile(r"\s+")
# Symbol fonts keep their signs here; without the font only the common ones can be told.
_PRIVATE = re.compile("[\uf000-\uf0ff]")
_SIGNS = {
    "\uf0b7": "•",
    "\uf0a7": "▪",
    "\uf0d8": "➢",
    "\uf076": "❖",
    "\uf0fc": "✓",
    "\uf0fb": "✗",
    "\uf06f": "☐",
    "\uf0a8": "☐",
    "\uf071": "☐",
    "\uf0fe": "☑",
    "\uf0fd": "☒",
    "\uf0e0": "→",
    "\uf0df": "←",
    "\uf0de": "→",
    "\uf0f0": "⇒",
    "\uf04a": "☺",
}
_LOOKS_LIKE_MARKUP = re.compile(r"^([ ]{0,3})(?=#{1,6}(?:\s|$)|```|~~~|(?:-+|=+)[ ]*$)", re.M)
_UNSAFE_TARGET = re.compile(r"\s*(?:javascript|vbscript|data):", re.I)
_TICKS = re.compile("`+")
_MACHINE_MADE = re.compile(r"\s*(?:Description automatically generated|AI-generated content may be).*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    is_bold: bool = False
    is_italic: bool = False
    is_struck: bool = False
    is_code: bool = False
    link: str = ""


PLAIN = Format()


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    format: Format = PLAIN


def clean(text: str) -> str:
    """Without control and invisible characters; line ends are \\n, other blanks one space each run."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text
    text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))
    text = _BLANKS.sub(" ", _INVISIBLE.sub("", text))
    return _PRIVATE.sub(lambda found: _SIGNS.get(found[0], ""), text)


def clean_code(text: str) -> str:
    """Like clean, but blanks stay where they are; a tab is four of them."""
    text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))
    return _INVISIBLE.sub("", text).replace("\t", "    ").replace("\u00a0", " ")


def one_line(text: str) -> str:
    return _EVERY_BLANK.sub(" ", clean(text)).strip()


def paragraph(text: str) -> str:
    """The text as a paragraph that Markdown takes for nothing else."""
    lines = [line.strip(" ") for line in text.split("\n")]
    text = "\n".join(line for line in lines if line)
    return _LOOKS_LIKE_MARKUP.sub(r"\1\\", text)


def plain(spans: Iterable[Span]) -> str:
    return clean("".join(span.text for span in spans)).strip()


def inline(spans: Sequence[Span]) -> str:
    """The runs as Markdown, with emphasis and links; line breaks stay."""
    merged = _merged(spans)
    parts: list[str] = []
    index = 0
    while index < len(merged):
        target = merged[index].format.link
        end = index + 1
        while target and end < len(merged) and merged[end].format.link == target:
            end += 1
        before = merged[index - 1].text[-1:] if index else ""
        after = merged[end].text[:1] if end < len(merged) else ""
        inner = _marked(merged[index:end], before, after)
        parts.append(link(inner, target) if target else inner)
        index = end
    return "".join(parts).strip()


def link(text: str, target: str) -> str:
    """The text as a link, unless the target says no more than the text, or is none to follow."""
    shown = text.strip()
    target = re.sub(r"[\x00-\x20]+", "%20", target.strip())
    if not target or target.startswith("#") or _UNSAFE_TARGET.match(target.replace("%20", "")):
        return text
    if not shown or _bare(shown) == _bare(target):
        return text or target
    if target.count("(") != target.count(")"):
        target = target.replace("(", "%28").replace(")", "%29")
    if shown.count("[") != shown.count("]"):
        shown = shown.replace("[", "(").replace("]", ")")
    # A link over several lines is one line, and the blanks around it stay outside.
    lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{lead}[{_EVERY_BLANK.sub(' ', shown)}]({target}){tail}"


def image(alt: str) -> str:
    """What is left of a picture: its description."""
    alt = _MACHINE_MADE.sub("", one_line(alt))
    return f" ![{alt.replace('[', '(').replace(']', ')')}]() " if alt else ""


def code_span(text: str) -> str:
    tick = "`" * max([1, *(len(run) + 1 for run in _TICKS.findall(text))])
    return f"{tick} {text} {tick}" if "`" in text else f"{tick}{text}{tick}"


def _bare(target: str) -> str:
    target = target.removeprefix("<").removesuffix(">").casefold().strip("* ")
    target = re.sub(r"^(?:mailto:|https?://)(?:www\.)?|^www\.", "", target)
    return target.rstrip("/")


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of one format become one span, and blanks take the format around them."""
    kept: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if not span.text.strip() and span.format.link == "" and kept:
            # Not yet known what follows: blanks go with the span before, and move out of its marks later.
            if kept[-1].format.link == "":
                kept[-1] = Span(kept[-1].text + span.text, kept[-1].format)
            else:
                kept.append(Span(span.text))
        elif kept and kept[-1].format == span.format:
            kept[-1] = Span(kept[-1].text + span.text, span.format)
        else:
            kept.append(span)
    cleaned = [Span(clean(span.text), span.format) for span in kept]
    return [span for span in cleaned if span.text]


def _marked(spans: Sequence[Span], before: str, after: str) -> str:
    parts: list[str] = []
    for index, span in enumerate(spans):
        left = spans[index - 1].text[-1:] if index else before
        right = spans[index + 1].text[:1] if index + 1 < len(spans) else after
        parts.append(_emphasised(span, left, right))
    return "".join(parts)


def _emphasised(span: Span, left: str, right: str) -> str:
    text, form = span.text, span.format
    core = text.strip()
    if not core or replace(form, link="") == PLAIN:
        return text
    lead, tail = text[: text.index(core[0])], text[len(text.rstrip()) :]
    cuts_word = (not lead and left.isalnum() and core[0].isalnum()) or (
        not tail and right.isalnum() and core[-1].isalnum()
    )
    if cuts_word or not any(character.isalnum() for character in core):
        return text
    if form.is_code:
        return f"{lead}{code_span(_EVERY_BLANK.sub(' ', core))}{tail}"
    marks = ("**" if form.is_bold else "") + ("*" if form.is_italic else "")
    strike = "~~" if form.is_struck else ""
    return f"{lead}{strike}{marks}{core}{marks[::-1]}{strike}{tail}"
