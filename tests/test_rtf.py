"""RTF becomes Markdown: text in order, in any code page, with its tables, lists, notes and links."""

from __future__ import annotations

import random

import pytest

from converting import CONVERTER
from mcpvectordb.convert.read.rtf import body as rtf_body
from mcpvectordb.convert.read.rtf import read
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import Converted, Source

FONTS = (
    rb"{\fonttbl{\f0\froman\fcharset0 Times New Roman;}{\f1\fnil\fcharset204{\*\fname Arial;}Arial Cyr;}"
    rb"{\f2\ftech\fcharset2 Symbol;}{\f3\fmodern\fcharset128 MS Mincho;}{\f4\fnil\fcharset2 Wingdings;}"
    rb"{\f5\fswiss\fcharset238 Arial CE;}}"
)
STYLES = (
    rb"{\stylesheet{\ql Normal;}{\s1\sbasedon0\outlinelevel0 heading 1;}{\s2\sbasedon0 \'dcberschrift 2;}"
    rb"{\s3\sbasedon2 Mine;}{\s4 Title;}{\s5 HTML Preformatted;}{\s6 Quote;}{\*\cs10 \additive Default;}}"
)


def rtf(body: bytes, head: bytes = rb"\ansi\ansicpg1252\deff0") -> bytes:
    return rb"{\rtf1" + head + FONTS + STYLES + rb"\pard\plain " + body + b"}"


def text_of(body: bytes, head: bytes = rb"\ansi\ansicpg1252\deff0") -> str:
    return read(rtf(body, head), "a.rtf").text


def converted(data: bytes, name: str = "a.rtf") -> Converted:
    return CONVERTER.convert(Source(name=name, library="d", kind="file", data=data, file_name=name))


def row(*cells: bytes, edges: tuple[int, ...] = ()) -> bytes:
    rights = edges or tuple(1000 * (place + 1) for place in range(len(cells)))
    definition = b"".join(rb"\cellx%d" % right for right in rights)
    return (
        rb"\trowd" + definition + rb"\pard\intbl " + b"".join(cell + rb"\cell " for cell in cells) + rb"\row "
    )


def test_paragraphs_emphasis_and_signs() -> None:
    body = (
        rb"A {\b bold} and {\i slanted} word, not in\b si\b0 de; {\strike gone}.\par"
        b"\r\nsecond\r\n line\\line broken\\par\\pard\\par "
        rb"\ldblquote Quoted\rdblquote\emdash it\rquote s a co\-op, "
        rb"non\_breaking\~space: \\ \{ \}\tab end\par"
    )
    assert text_of(body) == (
        "A **bold** and *slanted* word, not inside; ~~gone~~.\n\nsecond line\nbroken\n\n"
        "“Quoted”—it’s a coop, non-breaking space: \\ { } end"
    )


def test_the_converter_gives_text_title_and_type() -> None:
    head = rb"\ansi\deff0{\info{\author Somebody}{\title The lease \'a7 4}{\doccomm no text}}"
    result = converted(rtf(rb"Rent is due on the first.\par", head))
    assert (result.text, result.title, result.file_type) == (
        "Rent is due on the first.",
        "The lease § 4",
        "rtf",
    )
    assert converted(rtf(rb"\s4 Report\par\pard text\par")).title == "Report"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"caf\'e9 \'80 5", "café € 5"),
        (rb"{\f1 \'cf\'f0\'e8\'e2\'e5\'f2} x\'e9", "Привет xé"),
        (rb"{\f3 \'93\'fa\'96\'7b\'83A\'83\\}", "日本アソ"),
        (rb"{\f5 \'bf\'f3\'b3w}", "żółw"),
        (rb"{\f2 \'61\'b7} {\f4 \'fc}", "α• ✓"),
        (rb"\u1055\'cf\u1088\'f0 \u8217?s", "Пр ’s"),
        (rb"\uc2\u26085\'93\'fa\u26412\'96\'7b.", "日本."),
        (rb"{\uc0\u8364}5 \u-10179?\u-8704?!", "€5 😀!"),
        (rb"\u-3913?x", "•x"),
        (rb"{\uc1\u8212\emdash}x", "—x"),
        (rb"{\upr{plain}{\*\ud{better \u322?}}} end", "better ł end"),
        ("raw é and “quotes”".encode(), "raw é and “quotes”"),
        (b"raw caf\xe9", "raw café"),
    ],
)
def test_letters_of_any_code_page_come_out_right(body: bytes, text: str) -> None:
    assert text_of(body + rb"\par") == text


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (rb"\ansi\ansicpg1251\deff9", "Привет"),
        (rb"\mac\deff9", "œÓË‚ÂÚ"),
        (rb"\pca\deff9", "¤ÐÞÔÕ‗"),
        (rb"\ansi\ansicpg99999\deff9", "Ïðèâåò"),
    ],
)
def test_the_document_s_code_page_is_heard(head: bytes, text: str) -> None:
    code = {"œÓË‚ÂÚ": rb"\'cf\'ee\'e8\'e2\'e5\'f2", "¤ÐÞÔÕ‗": rb"\'cf\'d1\'e8\'e2\'e5\'f2"}
    assert text_of(code.get(text, rb"\'cf\'f0\'e8\'e2\'e5\'f2") + rb"\par", head) == text


def test_a_western_font_is_in_the_document_s_code_page_if_no_other_font_is() -> None:
    only = rb"{\rtf1\ansi\ansicpg1251\deff0{\fonttbl{\f0\fcharset0 Arial;}}\f0 \'cf\'f0\'e8\par}"
    assert read(only, "a.rtf").text == "При"
    assert text_of(rb"\f0 \'e9\par", rb"\ansi\ansicpg1251\deff0") == "é"


def test_headings_come_from_outline_levels_and_styles() -> None:
    body = (
        rb"\pard\s4 Report\par\pard\s1{\listtext 1.\tab}One {\b bold}\par\pard\s2 Zwei\par\pard\s3 Own\par"
        rb"\pard\outlinelevel2 Three\par\pard\s1\outlinelevel9 none\par"
    )
    assert text_of(body) == "# Report\n\n# 1. One bold\n\n## Zwei\n\n## Own\n\n### Three\n\n# none"


def test_code_and_quotes_are_told_by_their_styles() -> None:
    body = rb"\pard\s5 if x:\par   y = 1\par\par z\par\pard\s6 Said he.\par\pard end\par"
    assert text_of(body) == "```\nif x:\n  y = 1\n\nz\n```\n\n> Said he.\n\nend"


def test_lists_keep_their_marks_and_levels() -> None:
    body = (
        rb"\pard\ls1{\listtext\f2\'b7\tab}first\par"
        rb"\pard\ls1\ilvl1{\listtext\f0 o\tab}inner\par"
        rb"\pard\ls1{\listtext\f2\'b7\tab}second\par\pard text\par"
        rb"\pard{\pntext\f0 1.\tab}{\*\pn\pnlvlbody\pndec{\pntxta .}}one\par"
        rb"\pard{\pntext\f0 2.\tab}two\par\pard between\par"
        rb"\pard{\listtext a)\tab}letter\par\pard apart\par"
        rb"\pard\li360\bullet \tab typed\par\pard\li720 \bullet\tab deeper\par"
    )
    assert text_of(body) == (
        "- first\n    - inner\n- second\n\ntext\n\n1. one\n2. two\n\nbetween\n\n- a) letter\n\napart\n\n"
        "- typed\n    - deeper"
    )


def test_tables_are_tables() -> None:
    body = rb"before\par" + row(rb"{\b Name}", rb"Size\par in m") + row(b"Boat", b"7|8") + rb"\pard after\par"
    assert text_of(body) == ("before\n\n| **Name** | Size in m |\n| --- | --- |\n| Boat | 7\\|8 |\n\nafter")


def test_merged_cells_keep_the_others_in_their_columns() -> None:
    merged = (
        rb"\trowd\clvmgf\cellx1000\cellx2000\cellx3000\pard\intbl Sum\cell b\cell c\cell\row"
        rb"\trowd\clvmrg\cellx1000\cellx2000\cellx3000\pard\intbl\cell d\cell e\cell\row"
    )
    wide = row(b"wide", b"last", edges=(2010, 3000))
    assert text_of(merged + wide + rb"\pard\par") == (
        "| Sum | b | c |\n| --- | --- | --- |\n| Sum | d | e |\n| wide |  | last |"
    )


def test_a_table_in_a_cell_is_read_in_its_place() -> None:
    inner = (
        rb"\pard\intbl\itap2 n1\nestcell n2\nestcell{\*\nesttableprops\trowd\cellx500\cellx900\nestrow}"
        rb"{\nonesttables\par}"
    )
    body = (
        rb"\trowd\cellx1000\cellx2000\pard\intbl out\par "
        + inner
        + rb"\pard\intbl\itap1 more\cell right\cell\row"
    )
    assert text_of(body + row(b"x", b"y") + rb"\pard end\par") == (
        "out\n\n| n1 | n2 |\n| --- | --- |\n\nmore\n\nright\n\nx | y\n\nend"
    )


def test_a_table_whose_paragraphs_do_not_say_so_or_that_never_ends_is_kept() -> None:
    assert text_of(rb"\trowd\cellx10\cellx900 a\cell b\cell\row\trowd c\cell d\cell\row\pard e\par") == (
        "| a | b |\n| --- | --- |\n| c | d |\n\ne"
    )
    assert text_of(row(b"a", b"b") + rb"\trowd\cellx1000\cellx2000\intbl c\cell d") == (
        "| a | b |\n| --- | --- |\n| c | d |"
    )


def test_fields_show_their_results_and_links_lead_somewhere() -> None:
    body = (
        rb'See {\field{\*\fldinst{HYPERLINK "https://example.org/x"}}{\fldrslt{\ul the {\b page}}}} and '
        rb'{\field{\*\fldinst HYPERLINK \\l "below"}{\fldrslt below}}, page '
        rb"{\field{\*\fldinst PAGE}{\fldrslt 7}}"
        rb"{\field{\*\fldinst SYMBOL 252 \\f Wingdings \\s 12}{\fldrslt ?}} "
        rb"{\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres1{\*\ffname Box}}}}{\fldrslt}}done "
        rb"{\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres25\ffdefres0}}}{\fldrslt}}open\par"
    )
    assert text_of(body) == ("See [the **page**](https://example.org/x) and below, page ✓ [x] done [ ] open")


def test_notes_margins_and_comments_follow_the_text_once() -> None:
    body = (
        rb"{\header \pard Sea House Ltd\par}{\footer\pard Page {\field{\*\fldinst PAGE}{\fldrslt 1}}\par}"
        rb"Text{\super\chftn}{\footnote\pard{\super\chftn} First \b note\par}, more"
        rb"{\footnote\ftnalt\pard Last.\par}{\*\atnid AB}{\*\atnauthor Ann}\chatn"
        rb"{\*\annotation{\*\atnref 1}{\*\atndate 12}\pard Really?\par} end\par"
        rb"\sect{\headerr \pard Sea House Ltd\par}{\headerf\pard First page\par}"
    )
    assert text_of(body) == (
        "Text[^1], more[^2] end\n\n[^1]: First **note**\n[^2]: Last.\n\nHeader: Sea House Ltd\n\n"
        "Header: First page\n\n## Comments\n\n- Ann: Really?"
    )


def test_hidden_and_deleted_text_and_what_programs_keep_for_themselves_stay_out() -> None:
    body = (
        rb"{\*\generator Some Word;}{\*\themedata 504b0304}Shown{\v  hidden}{\deleted  gone}{\revised  new}"
        rb"{\xe{\v entry}}{\*\bkmkstart place}{\*\bkmkend place}{\*\unknown {nested {text}}}"
        rb"{\object\objemb{\*\objdata 0105}{\result{\pard result\par}}}"
    )
    assert text_of(body) == "Shown newresult"


def test_pictures_leave_their_description_and_shapes_their_text() -> None:
    body = (
        rb"A {\*\shppict{\pict{\*\picprop{\sp{\sn wzDescription}{\sv a lighthouse}}}\pngblip 89504e47 0d0a}}"
        rb"{\nonshppict{\pict\wmetafile8 0100}} B\par"
        rb"{\shp{\*\shpinst\shpleft0{\sp{\sn shapeType}{\sv 202}}{\shptxt\pard In the box\par}}"
        rb"{\shprslt{\*\do{\dptxbx{\dptxbxtext\pard In the box\par}}}}}after\par"
    )
    assert text_of(body) == "A ![a lighthouse]() B\n\nafter\n\nIn the box"


def test_formulas_keep_their_letters() -> None:
    body = (
        rb"So {\mmath{\*\moMath{\mr E=m}{\msSup{\msSupPr{\mctrlPr\f0 junk}}{\me{\mr c}}{\msup{\mr 2}}}"
        rb"{\mf{\mfPr x}{\mnum{\mr a}}{\mden{\mr b}}}}}.\par"
    )
    assert text_of(body) == "So E=mc^2a/b."


def test_binary_data_is_passed_over_whatever_is_in_it() -> None:
    assert text_of(rb"a{\pict\bin12 }}}}{{{{\\\par}b\par") == "ab"
    assert text_of(rb"a{\*\foo\bin4 }}{{}b\par") == "ab"
    assert text_of(rb"a\bin3 {}}b\par") == "ab"
    assert text_of(rb"a\par{\pict\bin99999999 rest") == "a"


def test_a_text_that_breaks_off_is_read_as_far_as_it_goes_and_says_so() -> None:
    whole = rtf(
        rb"One.\par{\b Two.\par {\pict 0102}}" + row(b"a", b"b") + rb"\pard {\footnote note} End.\par"
    )
    for end in range(whole.index(b"One."), len(whole)):
        try:
            result = read(whole[:end], "a.rtf")
        except ConversionError:
            continue
        assert result.notice == "a.rtf breaks off; what there is of it was indexed."
    cut = read(whole[: whole.index(b"b\\cell")], "a.rtf")
    assert cut.text.startswith("One.\n\n**Two.**")
    assert read(whole, "a.rtf").notice == ""


def test_a_group_closed_too_early_does_not_end_the_text_but_junk_after_the_end_is_none() -> None:
    assert text_of(rb"one\par}two\par") == "one\n\ntwo"
    assert read(rtf(rb"one\par") + b"\r\n\0\0 junk", "a.rtf").text == "one"


def test_no_depth_of_groups_is_too_deep() -> None:
    deep = b"{" * 300_000
    assert text_of(deep + b"deep" + b"}" * 300_000 + rb" end\par") == "deep end"
    assert text_of(deep + b"cut off") == "cut off"
    nested = b"".join(rb"\pard\intbl\itap%d x\nestcell " % depth for depth in range(1, 5000))
    assert "x" in text_of(nested)


@pytest.mark.parametrize(
    "data",
    [
        rb"{\rtf1\ansi}",
        rb"{\rtf1{\pict 0102}}",
        rb"{\rtfoo text}",
        b"{\\rtf1 " + random.Random(1).randbytes(20_000).replace(b"}", b"").replace(b"{", b""),
    ],
    ids=["empty", "picture", "another word", "noise"],
)
def test_what_holds_no_text_or_no_rtf_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(ConversionError, match=r"^a\.rtf (?:holds no text|begins like RTF, but)"):
        converted(data)


def test_hostile_words_and_numbers_do_no_harm() -> None:
    body = (
        rb"\u99999999999 \f-1 \s-5 \cellx-9999999999\trowd\itap9999999\cell\uc999999 x\row"
        rb"\nestrow\nestcell\row"
        rb"\clvmrg\fldrslt\fldinst\ud\sv\sn\'zz\'\u\bin-5\outlinelevel99\pard\par"
    )
    assert "zz" in text_of(body + rb"\pard text\par")


@pytest.mark.parametrize(
    "make",
    [
        rb"{\b word} \'e9\u8364? ",
        rb"\trowd\cellx1000\cellx2000\intbl a\cell b\cell\row ",
        rb"{\footnote note}",
        rb"{\field{\*\fldinst HYPERLINK x}{\fldrslt y}}",
        rb"\trowd\cellx10\clvmrg",
        rb"{\*\foo {",
        rb"\bin2 }{",
        b"}",
    ],
)
def test_no_repetition_makes_reading_take_for_ever(make: bytes) -> None:
    """In time that grows with the square of the text, any of these takes longer than the converter has."""
    assert converted(rtf(rb"first\par" + make * 40_000 + rb" end\par")).text.startswith("first")


def test_megabytes_of_pictures_cost_little_memory_and_no_text() -> None:
    picture = rb"{\*\shppict{\pict\pngblip " + (b"89504e470d0a1a0a" * 8 + b"\r\n") * 80_000 + b"}}"
    result = converted(rtf(rb"before\par" + picture * 2 + rb"after\par"))
    assert result.text == "before\n\nafter"


def test_outlook_s_packed_rtf_is_unpacked() -> None:
    plain = rtf(rb"Packed words.\par")
    stored = len(plain).to_bytes(4, "little") * 2 + b"MELA" + bytes(4) + plain
    assert rtf_body.text(stored) == "Packed words."
    # The example of [MS-OXRTFCP] 4.1.1.
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert rtf_body.unpacked(packed) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    assert rtf_body.text(packed) == "hello world"
    assert rtf_body.text(packed[:40]) == "hello w"
    assert rtf_body.text(packed[:12]) == ""
