"""Word documents become Markdown with nothing lost, whatever the program that wrote them left out or broke.

The documents are written by hand, part by part, because only so can they hold what real ones do: tracked
changes, content controls, text boxes, parts that are damaged.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from pathlib import Path

import pytest

from mcpvectordb.convert.read import Read
from mcpvectordb.convert.read.word import read
from mcpvectordb.errors import ConversionError

SAMPLES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"

NAMESPACES = " ".join(
    [
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"',
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"',
        'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"',
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"',
        'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"',
        'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"',
        'xmlns:wpg="http://schemas.microsoft.com/office/word/2010/wordprocessingGroup"',
        'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"',
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"',
        'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"',
        'xmlns:v="urn:schemas-microsoft-com:vml"',
    ]
)
TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STYLES = """
<w:style w:type="paragraph" w:default="1" w:styleId="Standard"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/>
  <w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Eigene"><w:name w:val="Kapitelkopf"/>
  <w:basedOn w:val="berschrift2"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/>
  <w:basedOn w:val="berschrift1"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Inhalt"><w:name w:val="TOC Heading"/>
  <w:basedOn w:val="berschrift1"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="HTML"><w:name w:val="HTML Preformatted"/></w:style>
<w:style w:type="paragraph" w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
"""
NUMBERING = """
<w:abstractNum w:abstractNumId="0">
  <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
  <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%2)"/></w:lvl>
</w:abstractNum>
<w:abstractNum w:abstractNumId="1">
  <w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="\uf0b7"/></w:lvl>
  <w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/></w:lvl>
</w:abstractNum>
<w:abstractNum w:abstractNumId="2">
  <w:lvl w:ilvl="0"><w:numFmt w:val="upperRoman"/><w:lvlText w:val="Part %1"/></w:lvl>
  <w:lvl w:ilvl="1"><w:numFmt w:val="decimal"/><w:isLgl/><w:lvlText w:val="%1.%2"/></w:lvl>
</w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>
<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="3"><w:abstractNumId w:val="2"/></w:num>
<w:num w:numId="4"><w:abstractNumId w:val="0"/>
  <w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>
"""


def part(name: str, inner: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?><w:{name} {NAMESPACES}>{inner}</w:{name}>'


def docx(body: str, relations: str = "", **parts: str) -> bytes:
    """A document with this body, and these further parts by the name of their file in word/."""
    known = {"styles": part("styles", STYLES), "numbering": part("numbering", NUMBERING)} | parts
    links = "".join(
        f'<Relationship Id="part-{name}" Type="{TYPES}/{re.sub(r"[0-9]+$", "", name)}" Target="{name}.xml"/>'
        for name in known
        if name != "core"
    )
    root = f'<Relationship Id="r1" Type="{TYPES}/officeDocument" Target="word/document.xml"/>'
    files = {
        "_rels/.rels": f'<Relationships xmlns="p">{root}</Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="p">{links}{relations}</Relationships>',
        "word/document.xml": part("document", f"<w:body>{body}</w:body>"),
    }
    files |= {f"word/{name}.xml": text for name, text in known.items() if name != "core"}
    if "core" in parts:
        files["docProps/core.xml"] = (
            '<cp:p xmlns:cp="c" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>{parts['core']}</dc:title></cp:p>"
        )
    return zipped(files)


def zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(text: str, properties: str = "") -> str:
    """A paragraph of plain text, or of runs if it begins with a tag."""
    inner = text if text.startswith("<") else run(text)
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def style(name: str) -> str:
    return f'<w:pStyle w:val="{name}"/>'


def listed(number: int, level: int = 0) -> str:
    return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'


def table(*rows: list[str]) -> str:
    def cell(text: str) -> str:
        return f"<w:tc>{text if text.startswith('<') else p(text)}</w:tc>"

    lines = [f"<w:tr>{''.join(map(cell, row))}</w:tr>" for row in rows]
    return f"<w:tbl>{''.join(lines)}</w:tbl>"


def field(instruction: str, result: str) -> str:
    def mark(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    code = f"<w:r><w:instrText>{instruction}</w:instrText></w:r>"
    return mark("begin") + code + mark("separate") + result + mark("end")


def box(inner: str) -> str:
    return f"<wps:wsp><wps:txbx><w:txbxContent>{inner}</w:txbxContent></wps:txbx></wps:wsp>"


def text_of(body: str, relations: str = "", **parts: str) -> str:
    return read(docx(body, relations, **parts), "a.docx").text


def test_headings_are_told_by_outline_level_in_any_language() -> None:
    body = [
        p("Bericht", style("Titel")),
        p("Inhalt", style("Inhalt")),
        p("Eins", style("berschrift1")),
        p("Zwei", style("Eigene")),
        p("Direkt", '<w:outlineLvl w:val="2"/>'),
        p("Ohne Stil", style("Heading4")),
        p("Text"),
    ]
    assert text_of("".join(body)) == (
        "# Bericht\n\nInhalt\n\n# Eins\n\n## Zwei\n\n### Direkt\n\n#### Ohne Stil\n\nText"
    )


def test_lists_keep_their_numbers_letters_and_levels() -> None:
    body = [
        p("one", listed(1)),
        p("two", listed(1)),
        p("first", listed(1, 1)),
        p("second", listed(1, 1)),
        p("three", listed(1)),
        p("Between"),
        p("four", listed(1)),
        p("anew", listed(4)),
        p("Bullets"),
        p("a", listed(2)),
        p("b", listed(2, 1)),
    ]
    assert text_of("".join(body)) == (
        "1. one\n2. two\n    - (a) first\n    - (b) second\n3. three\n\nBetween\n\n4. four\n1. anew\n\n"
        "Bullets\n\n- a\n    - b"
    )


def test_a_numbered_heading_shows_its_number() -> None:
    body = p("Scope", style("berschrift1") + listed(3)) + p("Terms", style("berschrift2") + listed(3, 1))
    assert text_of(body) == "# Part I Scope\n\n## 1.1 Terms"


def test_emphasis_stands_around_words_and_never_inside_one() -> None:
    bold, italic = "<w:b/>", "<w:i/>"
    body = p(
        run("A ")
        + run("bold ", bold)
        + run("phrase", bold)
        + run(" and ")
        + run("both", bold + italic)
        + run(".")
    )
    body += p(run("un") + run("believ", bold) + run("able") + run(" gone", "<w:strike/>"))
    assert text_of(body) == "A **bold phrase** and ***both***.\n\nunbelievable ~~gone~~"


def test_tracked_insertions_stay_and_deletions_go() -> None:
    gone = '<w:del w:id="1" w:author="A"><w:r><w:delText>old</w:delText></w:r></w:del>'
    new = f'<w:ins w:id="2" w:author="A">{run("new")}</w:ins>'
    moved = f"<w:moveFrom>{run('elsewhere')}</w:moveFrom><w:moveTo>{run(' here')}</w:moveTo>"
    joined = p("Half a ", "<w:rPr><w:del/></w:rPr>") + p("sentence.")
    row = f"<w:tbl><w:tr><w:trPr><w:del/></w:trPr><w:tc>{p('dropped row')}</w:tc></w:tr></w:tbl>"
    assert text_of(p(run("The ") + gone + new + moved) + joined + row) == "The new here\n\nHalf a sentence."


def test_content_controls_give_what_they_hold_at_every_level() -> None:
    def control(inner: str) -> str:
        return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>"

    cell = f"<w:tc>{p('in cell')}</w:tc>"
    rows = control(f"<w:tr>{control(cell)}<w:tc>{p('beside')}</w:tc></w:tr>")
    body = control(p("block")) + p(run("in ") + control(run("line"))) + f"<w:tbl>{rows}</w:tbl>"
    assert text_of(body) == "block\n\nin line\n\n| in cell | beside |\n| --- | --- |"


def test_check_boxes_show_whether_they_are_ticked() -> None:
    def control(state: int) -> str:
        check = f'<w14:checkbox><w14:checked w14:val="{state}"/></w14:checkbox>'
        return f"<w:sdt><w:sdtPr>{check}</w:sdtPr><w:sdtContent>{run('☒')}</w:sdtContent></w:sdt>"

    old = (
        '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData>'
        "</w:fldChar></w:r><w:r><w:instrText>FORMCHECKBOX</w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    body = p(control(1) + run(" Tea")) + p(control(0) + run(" Milk")) + p(run("Old: ") + old)
    assert text_of(body) == "- [x] Tea\n- [ ] Milk\n\nOld: [x]"


def test_text_boxes_and_grouped_shapes_follow_their_line_once() -> None:
    group = f"<wpg:wgp>{box(p('First box'))}<wpg:grpSp>{box(p('Second box'))}</wpg:grpSp></wpg:wgp>"
    new = f"<w:drawing><wp:anchor>{group}</wp:anchor></w:drawing>"
    inner = f"<v:textbox><w:txbxContent>{p('First box')}</w:txbxContent></v:textbox>"
    old = f"<w:pict><v:shape>{inner}</v:shape></w:pict>"
    choice = f'<mc:Choice Requires="wpg">{new}</mc:Choice><mc:Fallback>{old}</mc:Fallback>'
    body = p(run("Line") + f"<w:r><mc:AlternateContent>{choice}</mc:AlternateContent></w:r>") + p("Next")
    assert text_of(body) == "Line\n\nFirst box\n\nSecond box\n\nNext"


def test_a_text_box_of_an_old_program_is_read_too() -> None:
    inner = f"<v:textbox><w:txbxContent>{p('Old box')}</w:txbxContent></v:textbox>"
    assert text_of(p(f"<w:r><w:pict><v:shape>{inner}</v:shape></w:pict></w:r>")) == "Old box"


def test_pictures_leave_their_description_and_no_address_is_followed() -> None:
    relation = (
        f'<Relationship Id="x" Type="{TYPES}/image" Target="http://192.0.2.1/i.png" TargetMode="External"/>'
    )
    picture = (
        '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="Picture 1" descr="A [red] duck"/>'
        '<a:graphic><a:blip r:link="x"/></a:graphic></wp:inline></w:drawing></w:r>'
    )
    assert text_of(p(run("See") + picture + run("here")), relation) == "See ![A (red) duck]() here"


def test_footnotes_endnotes_and_comments_are_listed_after_the_text() -> None:
    def note(kind: str, note_id: int, text: str, more: str = "") -> str:
        return f'<w:{kind} w:id="{note_id}" {more}>{p(text)}</w:{kind}>'

    body = p(
        run("Fact")
        + '<w:r><w:endnoteReference w:id="1"/></w:r><w:r><w:footnoteReference w:id="7"/></w:r>'
        + '<w:commentRangeStart w:id="3"/>'
        + run(" and claim")
        + '<w:commentRangeEnd w:id="3"/><w:r><w:commentReference w:id="3"/></w:r>'
    )
    text = text_of(
        body,
        footnotes=part(
            "footnotes", note("footnote", 0, "sep", 'w:type="separator"') + note("footnote", 7, "Low")
        ),
        endnotes=part("endnotes", note("endnote", 1, "Far")),
        comments=part("comments", note("comment", 3, "Really?", 'w:author="Ann"')),
    )
    assert text == (
        "Fact[^1][^2] and claim\n\n[^1]: Far\n[^2]: Low\n\n## Comments\n\n- Ann on “and claim”: Really?"
    )


def test_headers_and_footers_come_once_and_page_numbers_not_at_all() -> None:
    page = field("PAGE", run("3"))
    text = text_of(
        p("Body"),
        header1=part("hdr", p("ACME internal", style("berschrift1"))),
        header2=part("hdr", p("ACME internal")),
        footer1=part("ftr", p(run("Page ") + page) + p("Draft 7")),
    )
    assert text == "Body\n\nHeader: ACME internal\n\nFooter: Draft 7"


def test_links_keep_their_target_where_it_says_more_than_the_text() -> None:
    targets = ["https://example.org/a b", "mailto:a@example.org", "javascript:alert(1)"]
    relation = "".join(
        f'<Relationship Id="h{i}" Type="{TYPES}/hyperlink" Target="{target}" TargetMode="External"/>'
        for i, target in enumerate(targets, 1)
    )
    body = [
        p(f'<w:hyperlink r:id="h1">{run("the ")}{run("rules", "<w:b/>")}</w:hyperlink>'),
        p(f'<w:hyperlink r:id="h2">{run("a@example.org")}</w:hyperlink>'),
        p(f'<w:hyperlink r:id="h3">{run("click")}</w:hyperlink>'),
        p(f'<w:hyperlink w:anchor="top">{run("up")}</w:hyperlink>'),
        p(field(' HYPERLINK "https://example.org/f" ', run("a field"))),
        p(field(' HYPERLINK \\l "here" ', run("a place"))),
    ]
    assert text_of("".join(body), relation) == (
        "[the **rules**](https://example.org/a%20b)\n\na@example.org\n\nclick\n\nup\n\n"
        "[a field](https://example.org/f)\n\na place"
    )


def test_a_field_shows_its_result_and_never_its_instruction() -> None:
    nested = field("IF " + field("MERGEFIELD x", run("hidden")) + ' = "a"', run("shown"))
    simple = f'<w:fldSimple w:instr=" DATE ">{run("1 May")}</w:fldSimple>'
    assert text_of(p(nested + run(", ") + simple)) == "shown, 1 May"


def test_a_field_that_never_ends_does_not_swallow_the_document() -> None:
    start = p('<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>TOC</w:instrText></w:r>')
    text = text_of(start + "".join(p(f"line {n}") for n in range(60)))
    assert "line 59" in text


def test_code_is_fenced_as_written_and_words_in_code_type_are_marked() -> None:
    mono = '<w:rFonts w:ascii="Courier New"/>'
    body = [
        p("def f():", style("HTML")),
        p("    return 1", style("HTML")),
        p(run("Call ") + run("f_1()", mono) + run(" now")),
        p(run("x = {1};", mono)),
        p(run("  y = 2", mono)),
        p(run("Dear Sir, this letter is typed", mono)),
        p("Thank you", style("Zitat")),
    ]
    text = text_of("".join(body[:5]) + body[6] + body[5])
    assert text == (
        "```\ndef f():\n    return 1\n```\n\nCall `f_1()` now\n\n```\nx = {1};\n  y = 2\n```\n\n"
        "> Thank you\n\nDear Sir, this letter is typed"
    )


def test_formulas_become_latex() -> None:
    def m(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    fraction = f"<m:f><m:num>{m('a')}</m:num><m:den>{m('2π')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{m('x')}</m:e><m:sup>{m('2')}</m:sup></m:sSup>"
    total = (
        f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{m("i=1")}</m:sub><m:sup>{m("n")}</m:sup>'
        f"<m:e>{power}</m:e></m:nary>"
    )
    limit = f"<m:limLow><m:e>{m('lim')}</m:e><m:lim>{m('x→0')}</m:lim></m:limLow>"
    function = f"<m:func><m:fName>{limit}</m:fName><m:e>{m('f')}</m:e></m:func>"
    body = p(run("So ") + f"<m:oMath>{fraction}</m:oMath>")
    body += p(f"<m:oMathPara><m:oMath>{total}</m:oMath></m:oMathPara>") + p(f"<m:oMath>{function}</m:oMath>")
    assert text_of(body) == ("So $\\frac{a}{2\\pi }$\n\n$$\\sum_{i=1}^{n} x^{2}$$\n\n$\\lim_{x\\to0} f$")


def test_merged_cells_keep_the_columns_in_line_and_pipes_do_not_break_them() -> None:
    def cell(text: str, properties: str) -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text) if text else '<w:p/>'}</w:tc>"

    rows = [
        cell("Wide", '<w:gridSpan w:val="2"/>') + cell("a|b", ""),
        cell("Tall", '<w:vMerge w:val="restart"/>') + cell("1", "") + cell("2", ""),
        cell("", "<w:vMerge/>") + cell("3", "") + cell("4", ""),
    ]
    body = f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"
    assert text_of(body) == "| Wide |  | a\\|b |\n| --- | --- | --- |\n| Tall | 1 | 2 |\n| Tall | 3 | 4 |"


def test_a_table_in_a_cell_stays_in_it() -> None:
    inner = table(["x", "y"], ["1", "2"])
    body = table(["Key", "Value"], ["plain", "text"], ["nested", inner + p("after")], ["last", "row"])
    assert text_of(body) == (
        "| Key | Value |\n| --- | --- |\n| plain | text |\n| nested | x, y; 1, 2 after |\n| last | row |"
    )


def test_a_table_that_only_lays_out_the_page_gives_its_blocks() -> None:
    side = p("Skills", style("berschrift1")) + p("Rowing", listed(2))
    assert text_of(table([side, p("Anna") + p("Oslo")])) == "# Skills\n\n- Rowing\n\nAnna\n\nOslo"
    assert text_of(table(["Note well"])) == "Note well"


def test_a_chart_gives_its_title_and_numbers() -> None:
    def points(*values: str) -> str:
        return "".join(f'<c:pt idx="{i}"><c:v>{v}</c:v></c:pt>' for i, v in enumerate(values))

    chart = (
        f"<c:chartSpace {NAMESPACES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Catch</a:t></a:r></a:p>"
        "</c:rich></c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache>"
        f"{points('Cod')}</c:strCache></c:strRef></c:tx><c:cat><c:strRef><c:strCache>{points('May', 'June')}"
        f"</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache>{points('1', '0.30000000000000004')}"
        "</c:numCache></c:numRef></c:val><c:dLbls><c:dLbl><c:idx/><c:tx><c:rich><a:p><a:r><a:t>a record</a:t>"
        "</a:r></a:p></c:rich></c:tx></c:dLbl></c:dLbls></c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"
    )
    relation = f'<Relationship Id="ch" Type="{TYPES}/chart" Target="chart9.xml"/>'
    drawing = (
        '<w:r><w:drawing><wp:inline><a:graphic><c:chart r:id="ch"/></a:graphic></wp:inline></w:drawing></w:r>'
    )
    text = text_of(p(run("Fig. 1") + drawing), relation, chart9=chart)
    assert text == "Fig. 1\n\n**Catch**\n\n|  | Cod |\n| --- | --- |\n| May | 1 |\n| June | 0.3 |\n\na record"


def test_symbols_breaks_and_odd_characters_come_out_as_text() -> None:
    odd = (
        '<w:r><w:sym w:font="Wingdings" w:char="F0FC"/><w:t>ok</w:t><w:br/>'
        "<w:t>next</w:t><w:tab/><w:t>tab</w:t></w:r>"
    )
    quiet = run("soft\u00adhyphen\u200b") + "<w:r><w:noBreakHyphen/></w:r>" + run("x  y")
    drop = p("O", '<w:framePr w:dropCap="drop"/>') + p("nce upon a time")
    assert text_of(p(odd) + p(quiet) + drop + p("# not a heading")) == (
        "✓ok\nnext tab\n\nsofthyphen-x y\n\nOnce upon a time\n\n\\# not a heading"
    )


def test_right_to_left_and_cjk_text_is_left_as_it_is() -> None:
    body = p("שלום עולם") + p("مرحبا\u200cبك") + p("東京都　千代田区")
    assert text_of(body) == "שלום עולם\n\nمرحبا\u200cبك\n\n東京都 千代田区"


def test_a_web_page_that_the_document_takes_in_is_read() -> None:
    relation = f'<Relationship Id="alt" Type="{TYPES}/aFChunk" Target="chunk.xml"/>'
    html = "<html><body><h2>Imported</h2><p>From a page</p></body></html>"
    text = text_of(p("Before") + '<w:altChunk r:id="alt"/>' + p("After"), relation, chunk=html)
    assert text == "Before\n\n## Imported\n\nFrom a page\n\nAfter"


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Annual report 2024", "Annual report 2024"),
        ("  Two\n lines ", "Two lines"),
        ("", ""),
        ("Untitled", ""),
        ("Microsoft Word - draft.doc", ""),
        ("letter_final.docx", ""),
        ("12", ""),
    ],
)
def test_the_title_is_the_documents_own_if_it_is_one(written: str, title: str) -> None:
    assert read(docx(p("x"), core=written), "a.docx").title == title


@pytest.mark.parametrize(
    "chunk",
    [
        r"{\rtf1\ansi Words within\par}",
        "MIME-Version: 1.0\r\nContent-Type: text/html\r\n"
        "Content-Transfer-Encoding: base64\r\n\r\nPHA+V29yZHMgd2l0aGluPC9wPg==\r\n",
    ],
)
def test_an_rtf_text_or_a_saved_page_that_the_document_takes_in_is_read(chunk: str) -> None:
    relation = '<Relationship Id="alt" Type="x/aFChunk" Target="chunk.xml"/>'
    text = text_of(p("Before") + '<w:altChunk r:id="alt"/>' + p("After"), relation, chunk=chunk)
    assert text.startswith("Before")
    assert "Words within" in text
    assert "PHA+" not in text and "rtf1" not in text


def test_a_part_whose_checksum_is_wrong_is_read_to_its_end() -> None:
    data = docx(p("Words as they were"))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entry = archive.getinfo("word/document.xml")
    at = data.rindex(struct.pack("<I", entry.CRC))
    read_again = read(data[:at] + b"\0\0\0\0" + data[at + 4 :], "a.docx")
    assert read_again.text == "Words as they were"
    assert "Parts of a.docx are damaged (word/document.xml)" in read_again.notice


def test_the_strict_variant_reads_like_the_usual_one() -> None:
    usual = docx(p("Eins", style("berschrift1")) + p("Text"))
    files: dict[str, str] = {}
    with zipfile.ZipFile(io.BytesIO(usual)) as archive:
        for name in archive.namelist():
            text = archive.read(name).decode("utf-8")
            text = text.replace(
                "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
                "http://purl.oclc.org/ooxml/wordprocessingml/main",
            )
            files[name] = text.replace(TYPES, "http://purl.oclc.org/ooxml/officeDocument/relationships")
    assert read(zipped(files), "a.docx").text == "# Eins\n\nText"


def test_names_of_parts_may_be_spelt_with_backslashes_and_capitals() -> None:
    with zipfile.ZipFile(io.BytesIO(docx(p("Found")))) as archive:
        files = {name: archive.read(name).decode("utf-8") for name in archive.namelist()}
    files["Word\\Document.xml"] = files.pop("word/document.xml")
    assert read(zipped(files), "a.docx").text == "Found"


def test_what_stands_before_the_damage_is_read_and_the_damage_is_told() -> None:
    with zipfile.ZipFile(io.BytesIO(docx(p("First") + p("Second")))) as archive:
        files = {name: archive.read(name).decode("utf-8") for name in archive.namelist()}
    files["word/document.xml"] = files["word/document.xml"].partition("Second")[0]
    result = read(zipped(files), "a.docx")
    assert result.text == "First"
    assert result.notice.startswith("Parts of a.docx are damaged (word/document.xml)")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (docx(p("text"))[:300], "a.docx could not be read as a Word document (its archive is damaged"),
        (
            zipped({"word/styles.xml": "<a/>"}),
            "a.docx could not be read as a Word document (its main part is",
        ),
        (
            zipped({"word/document.xml": "no xml"}),
            "a.docx could not be read as a Word document (its main part",
        ),
        (docx(""), "a.docx holds no text"),
        (b"", "a.docx could not be read"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.docx is protected by a password",
        ),
    ],
    ids=["cut off", "no document", "not xml", "empty", "no bytes", "password"],
)
def test_a_file_that_cannot_be_read_says_why_and_what_to_do(data: bytes, said: str) -> None:
    with pytest.raises(ConversionError) as caught:
        read(data, "a.docx")
    assert str(caught.value).startswith(said)


def test_an_entity_in_a_part_is_not_expanded() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd"><!ENTITY b "boom">]>'
    with zipfile.ZipFile(io.BytesIO(docx(p("safe &b;&e; text")))) as archive:
        files = {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}
    files["word/document.xml"] = files["word/document.xml"].replace("?>", f"?>{bomb}", 1)
    text = read(zipped(files), "a.docx").text
    assert "boom" not in text
    assert "root:" not in text
    assert text.startswith("safe")


def test_nesting_beyond_reason_still_gives_the_text() -> None:
    deep = "<w:smartTag>" * 230 + run("deep") + "</w:smartTag>" * 230
    assert "deep" in text_of(p("top") + p(deep))


def collapsed(text: str) -> str:
    """As a reader would compare it: without Markdown's marks, on one line."""
    return " ".join(re.sub(r"[*`|\\]", " ", text).split())


def samples(folder: str) -> list[tuple[Path, str]]:
    manifest = SAMPLES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = [line.split("\t") for line in manifest.read_text(encoding="utf-8").splitlines()[1:]]
    return [(SAMPLES / row[0], row[3]) for row in rows if row[0].startswith(f"{folder}/") and len(row) > 3]


@pytest.mark.skipif(not SAMPLES.exists(), reason="the shared sample files are not here")
@pytest.mark.parametrize(("path", "phrases"), samples("docx"), ids=lambda value: getattr(value, "name", ""))
def test_a_sample_holds_the_phrases_its_manifest_names(path: Path, phrases: str) -> None:
    result: Read = read(path.read_bytes(), path.name)
    text = collapsed(result.text)
    assert [phrase for phrase in phrases.split(" || ") if collapsed(phrase) not in text] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f]|[ \t]$|\n\n\n|base64", result.text, re.M)
