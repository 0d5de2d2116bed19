"""Subtitles to the text that was spoken or sung: SubRip, WebVTT, SBV, SubStation and lyrics (LRC).

A sentence that runs over several cues must be found as a sentence, so cues are joined into paragraphs and the
time stands only where a paragraph begins: `[00:01:23] Name: text`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mcpvectordb.convert.text import decode
from mcpvectordb.errors import ConversionError, UnsupportedType

from . import Read
from .lines import one_line, tidied

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,:](\d{1,3}))?"
_TIMING = re.compile(rf"\s*{_TIME}\s*(?:--?>|,(?=\d+:\d\d:))\s*{_TIME}(?![\d:])")
_NUMBER = re.compile(r"\s*\d+\s*$")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]*)>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|</?>|<\d[\d:.]*>|\{\\[^{}]*\}|\{[A-Za-z]:[^{}]*\}")
# Lyrics: a line under one time or several, and times within it for its words.
_SUNG = re.compile(r"\s*((?:\[\d{1,3}:\d{1,2}(?:[.:]\d{1,3})?\]\s*)+)(.*)")
_SUNG_TIME = re.compile(r"\[(\d+):(\d+)")
_LINE_SUNG_S = 4.0
# Drawings of SubStation: coordinates, no words.
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_FIELDS = "layer,start,end,style,name,marginl,marginr,marginv,effect,text"

# A paragraph ends with a sentence once it is this long, and anyway once no sentence has ended for long:
# machine captions have no full stops.
_PARAGRAPH_S = 30.0
_LONGEST_PARAGRAPH_S = 120.0
_PAUSE_S = 1.0
_LONG_PAUSE_S = 10.0
_SENTENCE_END = re.compile(r"[.!?…。！？؟۔♪][\"'”’»)\]」』]*$")
# Chinese and Japanese are written without blanks, so a line's end is none.
_CJK = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uff60]"
_NO_BLANK = re.compile(f"(?<={_CJK}) (?={_CJK})")
# Captions that roll up show the last line again in a cue that follows at once.
_AT_ONCE_S = 0.2
_UNTIMED = "{} holds no times of subtitles; it was indexed as plain text."


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cue:
    start: float
    end: float
    speaker: str
    lines: tuple[str, ...]


def read(data: bytes, file_name: str) -> Read:
    text = decode(data)
    if text is None:
        raise UnsupportedType(f"{file_name} is not text, so it holds no subtitles: check what it is.")
    cues = list(_cues(text))
    spoken = [part for cue in cues for part in _by_speaker(cue)]
    if spoken:
        return Read(text=tidied("\n\n".join(_paragraphs(_unrolled(spoken)))), is_markdown=False)
    if not cues and not text.lstrip().startswith("WEBVTT") and (plain := tidied(text)).strip():
        return Read(text=plain, is_markdown=False, notice=_UNTIMED.format(file_name))
    raise ConversionError(f"{file_name} holds no subtitles with text: there is nothing to index.")


def _cues(text: str) -> Iterator[_Cue]:
    lines = text.split("\n")
    if any(line.strip().lower() == "[events]" for line in lines):
        return _dialogue([line.strip() for line in lines])
    if not any(_TIMING.match(line) for line in lines) and any(_SUNG.match(line) for line in lines):
        return _lyrics(lines)
    is_vtt = text.lstrip().startswith("WEBVTT")
    return _timed(lines, ends_at_blank=is_vtt)


def _timed(lines: list[str], *, ends_at_blank: bool) -> Iterator[_Cue]:
    """Cues of SubRip, WebVTT and SBV: a line with two times, and below it the text."""
    found = [(index, timing) for index, line in enumerate(lines) if (timing := _TIMING.match(line))]
    for position, (index, timing) in enumerate(found):
        is_last = position + 1 == len(found)
        body = lines[index + 1 : len(lines) if is_last else found[position + 1][0]]
        if ends_at_blank:
            body = _up_to_blank(body, is_last=is_last)
        else:
            # Editors leave blank lines within a text and none before a number, so the number tells.
            while body and not body[-1].strip():
                body.pop()
            if body and not is_last and _NUMBER.match(body[-1]):
                body.pop()
        times = timing.groups()
        yield _Cue(start=_seconds(times[:4]), end=_seconds(times[4:]), speaker="", lines=tuple(body))


def _up_to_blank(body: list[str], *, is_last: bool) -> list[str]:
    for index, line in enumerate(body):
        if not line.strip():
            return body[:index]
    # No blank line at all before the next time: the line right above it may be its name.
    return body if is_last or not body or not _NUMBER.match(body[-1]) else body[:-1]


def _dialogue(lines: list[str]) -> Iterator[_Cue]:
    """Cues of SubStation, in the order of their times: files keep them in any order."""
    fields = _FIELDS.split(",")
    cues: list[_Cue] = []
    in_events = False
    for line in lines:
        kind, _, rest = line.partition(":")
        if line.startswith("["):
            in_events = line.strip().lower() == "[events]"
        elif in_events and kind.strip().lower() == "format":
            fields = [name.strip().lower() for name in rest.split(",")]
        elif in_events and kind.strip().lower() == "dialogue" and not _DRAWING.search(rest):
            values = dict(zip(fields, rest.strip().split(",", len(fields) - 1), strict=False))
            start, end = (_clock(values.get(name, "")) for name in ("start", "end"))
            said = re.sub(r"\\[Nn]", "\n", values.get("text", "")).replace("\\h", " ")
            speaker = one_line(values.get("name", values.get("actor", "")))
            cues.append(_Cue(start=start, end=end, speaker=speaker, lines=tuple(said.split("\n"))))
    return iter(sorted(cues, key=lambda cue: cue.start))


def _lyrics(lines: list[str]) -> Iterator[_Cue]:
    """The lines of a song in the order they stand in, each under its first time."""
    for line in lines:
        if found := _SUNG.match(line):
            minutes, seconds = _SUNG_TIME.findall(found[1])[0]
            start = int(minutes) * 60.0 + int(seconds)
            yield _Cue(start=start, end=start + _LINE_SUNG_S, speaker="", lines=(found[2],))


def _clock(time: str) -> float:
    found = re.match(_TIME, time.strip())
    return _seconds(found.groups()) if found else 0.0


def _seconds(groups: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (group or "0" for group in groups)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction) / 10 ** len(fraction)


def _by_speaker(cue: _Cue) -> Iterator[_Cue]:
    """The cue without tags; one for each voice, where it names voices."""
    speaker, text = cue.speaker, "\n".join(cue.lines)
    pieces = _VOICE.split(text)
    for voice, said in zip([speaker, *pieces[1::2]], pieces[::2], strict=True):
        said, _, after = said.partition("</v>")
        for name, part in ((voice, said), (speaker, after)):
            lines = (one_line(html.unescape(_TAG.sub("", line))) for line in part.split("\n"))
            if spoken := tuple(line for line in lines if line):
                yield replace(cue, speaker=one_line(html.unescape(name)), lines=spoken)


def _unrolled(cues: Iterable[_Cue]) -> Iterator[_Cue]:
    """The cues without the lines that only stay on the screen from the cue before."""
    shown: tuple[str, ...] = ()
    last: _Cue | None = None
    for cue in cues:
        lines = cue.lines
        if last and cue.speaker == last.speaker and cue.start - last.end < _AT_ONCE_S:
            lines = _new_lines(shown, lines)
        shown, last = cue.lines, cue
        if lines:
            yield replace(cue, lines=lines)


def _new_lines(shown: tuple[str, ...], lines: tuple[str, ...]) -> tuple[str, ...]:
    for count in range(min(len(shown), len(lines)), 0, -1):
        if shown[-count:] == lines[:count]:
            return lines[count:]
    before, now = " ".join(shown), " ".join(lines)
    # Word by word: "so we" is followed by "so we went".
    return (now[len(before) :].strip(),) if now.startswith(f"{before} ") else lines


def _paragraphs(cues: Iterable[_Cue]) -> Iterator[str]:
    parts: list[str] = []
    first: _Cue | None = None
    last: _Cue | None = None
    for cue in cues:
        if first and last and _is_new_paragraph(first, last, cue):
            yield _paragraph(first, parts)
            parts, first = [], None
        first, last = first or cue, cue
        parts += cue.lines
    if first:
        yield _paragraph(first, parts)


def _is_new_paragraph(first: _Cue, last: _Cue, cue: _Cue) -> bool:
    pause, length = cue.start - last.end, cue.start - first.start
    if cue.speaker != first.speaker or pause >= _LONG_PAUSE_S or length >= _LONGEST_PARAGRAPH_S:
        return True
    is_whole = _SENTENCE_END.search(last.lines[-1]) is not None
    return length >= _PARAGRAPH_S and (is_whole or pause >= _PAUSE_S)


def _paragraph(first: _Cue, parts: list[str]) -> str:
    seconds = int(first.start)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    name = f"{first.speaker}: " if first.speaker else ""
    return f"[{time}] {name}{_NO_BLANK.sub('', ' '.join(parts))}"
