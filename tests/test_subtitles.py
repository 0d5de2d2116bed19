"""Subtitles to what was said."""

from __future__ import annotations

import pytest

from mcpvectordb.convert.read import Read, subtitles
from mcpvectordb.errors import ConversionError, UnsupportedType


def said(text: str, file_name: str = "a.srt") -> str:
    read = subtitles.read(text.encode(), file_name)
    assert not read.is_markdown
    assert not read.notice
    return read.text


def srt(*cues: tuple[str, str, str]) -> str:
    return "\n".join(f"{n}\n{start} --> {end}\n{text}\n" for n, (start, end, text) in enumerate(cues, 1))


def test_a_sentence_over_two_cues_is_one_sentence() -> None:
    text = srt(
        ("00:00:01,000", "00:00:02,500", "The ship left"),
        ("00:00:02,600", "00:00:04,000", "harbour at dawn."),
    )
    assert said(text) == "[00:00:01] The ship left harbour at dawn."


def test_time_marks_stand_between_sentences_only() -> None:
    cues = [
        (f"00:{s // 60:02}:{s % 60:02},000", f"00:{s // 60:02}:{s % 60 + 3:02},900", f"part {s}{dot}")
        for s, dot in zip(range(0, 120, 4), [",", "."] * 15, strict=True)
    ]
    paragraphs = said(srt(*cues)).split("\n\n")
    assert [paragraph[:10] for paragraph in paragraphs] == [
        "[00:00:00]",
        "[00:00:32]",
        "[00:01:04]",
        "[00:01:36]",
    ]
    assert all(paragraph.endswith(".") for paragraph in paragraphs)


def test_captions_without_full_stops_get_a_mark_now_and_then() -> None:
    cues = [(f"00:{s // 60:02}:{s % 60:02},000", f"00:{(s + 5) // 60:02}:{(s + 5) % 60:02},000", f"word{s}")
            for s in range(0, 600, 5)]  # fmt: skip
    text = said(srt(*cues))
    assert 4 <= text.count("[00:0") <= 6


def test_voices_are_named_where_they_change() -> None:
    vtt = """WEBVTT - Title

STYLE
::cue { color: red }

NOTE a remark
over two lines

intro
00:01.000 --> 00:02.000 align:left position:10%
<v.loud Ann Lee>Did you <i>see</i> &amp; hear

00:02.000 --> 00:03.000
<v Ann Lee>it?</v>

NOTE between

00:03.000 --> 00:04.000
<v Bo>Yes.</v> <c.noise>(laughs)</c>
"""
    assert said(vtt, "a.vtt") == (
        "[00:00:01] Ann Lee: Did you see & hear it?\n\n[00:00:03] Bo: Yes.\n\n[00:00:03] (laughs)"
    )


def test_rolling_captions_are_told_once() -> None:
    vtt = """WEBVTT
Kind: captions

00:00:00.000 --> 00:00:02.000
so<00:00:00.500><c> today</c><00:00:01.000><c> we</c>

00:00:02.000 --> 00:00:02.010
so today we

00:00:02.010 --> 00:00:04.000
so today we
look at<00:00:03.000><c> rivers</c>

00:00:04.000 --> 00:00:04.010
look at rivers

00:00:04.010 --> 00:00:06.000
look at rivers
and lakes
"""
    assert said(vtt, "a.vtt") == "[00:00:00] so today we look at rivers and lakes"


def test_what_is_said_again_after_a_while_stays() -> None:
    text = srt(("00:00:01,000", "00:00:02,000", "No!"), ("00:00:03,000", "00:00:04,000", "No!"))
    assert said(text) == "[00:00:01] No! No!"


def test_tags_positions_and_numbers_go() -> None:
    text = '1\n00:00:01,000 --> 00:00:02,000 X1:10 X2:20\n{\\an8}<font color="#fff">Hello</font>\n2\n'
    assert said(text + "00:00:02,000 --> 00:00:03,000\nin 1984\n\n3\n") == "[00:00:01] Hello in 1984 3"


def test_blank_lines_within_a_text_lose_nothing() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nfirst\n\nsecond\n\n2\n00:00:02,000 --> 00:00:03,000\nthird\n"
    assert said(text) == "[00:00:01] first second third"


def test_chinese_lines_are_joined_without_a_blank() -> None:
    text = srt(("00:00:01,000", "00:00:02,000", "我们今天"), ("00:00:02,000", "00:00:03,000", "去学校。"))
    assert said(text) == "[00:00:01] 我们今天去学校。"


def test_sbv_is_read() -> None:
    assert said("0:00:01.000,0:00:02.000\nHello\nthere.\n\n0:00:03.000,0:00:04.000\nBye.\n", "a.sbv") == (
        "[00:00:01] Hello there. Bye."
    )


def test_substation_dialogue_is_read_in_time_without_its_drawings() -> None:
    ass = """[Script Info]
Title: x

[V4+ Styles]
Format: Name, Fontname
Style: Default,Arial

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:05.00,0:00:06.00,Default,,0,0,0,,{\\i1}Second{\\i0}, with a comma.
Dialogue: 0,0:00:01.00,0:00:02.00,Default,Ann,0,0,0,,First\\Nline.
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,not said
Dialogue: 0,0:00:07.00,0:00:08.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0
"""
    assert said(ass, "a.ass") == "[00:00:01] Ann: First line.\n\n[00:00:05] Second, with a comma."


def test_a_text_without_times_is_plain_text_with_a_notice() -> None:
    assert subtitles.read(b"Only some words.", "a.srt") == Read(
        text="Only some words.",
        is_markdown=False,
        notice="a.srt holds no times of subtitles; it was indexed as plain text.",
    )


@pytest.mark.parametrize("data", [b"", b"WEBVTT\n\nNOTE nothing\n", b"1\n00:00:01,000 --> 00:00:02,000\n\n"])
def test_subtitles_without_words_are_an_error(data: bytes) -> None:
    with pytest.raises(ConversionError, match=r"a\.vtt holds no subtitles with text"):
        subtitles.read(data, "a.vtt")


def test_binary_content_is_refused() -> None:
    with pytest.raises(UnsupportedType):
        subtitles.read(bytes(range(256)) * 10, "a.srt")


def test_other_encodings_are_read() -> None:
    text = srt(("00:00:01,000", "00:00:02,000", "Où est la gare ?"))
    for encoding in ("cp1252", "utf-16", "utf-8-sig"):
        assert subtitles.read(text.encode(encoding), "a.srt").text == "[00:00:01] Où est la gare ?"


def test_lyrics_are_read_line_by_line_under_their_first_time() -> None:
    song = "[ti:Song]\n[00:12.00]Line one,\n[00:15.20][01:15.20]the refrain.\n[00:18]\n"
    assert said(song, "a.lrc") == "[00:00:12] Line one, the refrain."


def test_substation_is_read_with_blanks_before_its_lines() -> None:
    lines = [
        "[Script Info]",
        "[Events]",
        "Format: Start, End, Text",
        r"Dialogue: 0:00:01.00,0:00:02.00,Hi\Nyou.",
    ]
    assert said("\n".join(f" {line}" for line in lines), "a.ass") == "[00:00:01] Hi you."
