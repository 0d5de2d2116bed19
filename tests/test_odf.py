"""OpenDocument files become Markdown: text, sheets and slides, packed or flat, whole or damaged."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest

from converting import CONVERTER
from mcpvectordb.convert.read import Read
from mcpvectordb.convert.read.odf import read
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import PageMark, Source

SAMPLES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"

ODF = "urn:oasis:names:tc:opendocument:xmlns:"
NAMESPACES = " ".join(
    [
        *(
            f'xmlns:{name}="{ODF}{name}:1.0"'
            for name in ("office", "text", "table", "style", "presentation", "chart")
        ),
        f'xmlns:draw="{ODF}drawing:1.0"',
        f'xmlns:svg="{ODF}svg-compatible:1.0"',
        f'xmlns:fo="{ODF}xsl-fo-compatible:1.0"',
        'xmlns:xlink="http://www.w3.org/1999/xlink"',
        'xmlns:dc="http://purl.org/dc/elements/1.1/"',
    ]
)
STYLES = """
<style:style style:name="B" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>
<style:style style:name="I" style:family="text"><style:text-properties fo:font-style="italic"/></style:style>
<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Title"/>
<style:style style:name="Title" style:family="paragraph" style:parent-style-name="Heading"/>
<style:style style:name="Subtitle" style:family="paragraph" style:parent-style-name="Heading"/>
<style:style style:name="Heading" style:family="paragraph"/>
<style:style style:name="C" style:family="paragraph" style:parent-style-name="Preformatted_20_Text"/>
<style:style style:name="hid" style:family="table"><style:table-properties table:display="false"/></style:style>
<style:style style:name="off" style:family="drawing-page">
  <style:drawing-page-properties presentation:visibility="hidden"/></style:style>
<text:list-style style:name="N">
  <text:list-level-style-number text:level="1" style:num-suffix="." style:num-format="1"/>
  <text:list-level-style-number text:level="2" style:num-prefix="(" style:num-suffix=")" style:num-format="a"/>
</text:list-style>
<text:list-style style:name="L"><text:list-level-style-bullet text:level="1" text:bullet-char="•"/></text:list-style>
"""


def content(kind: str, body: str) -> str:
    styles = f"<office:automatic-styles>{STYLES}</office:automatic-styles>"
    inner = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    return f"<office:document-content {NAMESPACES}>{styles}{inner}</office:document-content>"


def zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def odf(kind: str, body: str, **more: str) -> bytes:
    return zipped({"content.xml": content(kind, body)} | {f"{name}.xml": text for name, text in more.items()})


def read_as(kind: str, body: str, **more: str) -> Read:
    return read(odf(kind, body, **more), "a.odf")


def text_of(body: str, **more: str) -> str:
    return read_as("text", body, **more).text


def p(text: str, style: str = "") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def items(*texts: str) -> str:
    return "".join(f"<text:list-item>{text}</text:list-item>" for text in texts)


def listed(style: str, *texts: str, more: str = "") -> str:
    return f'<text:list text:style-name="{style}" {more}>{items(*texts)}</text:list>'


def row(*cells: str, more: str = "") -> str:
    return f"<table:table-row {more}>{''.join(cells)}</table:table-row>"


def cell(text: str = "", more: str = "") -> str:
    inner = text if text.startswith("<") or not text else p(text)
    return f"<table:table-cell {more}>{inner}</table:table-cell>"


def box(inner: str, more: str = "") -> str:
    return f"<draw:frame {more}><draw:text-box>{inner}</draw:text-box></draw:frame>"


COVERED = "<table:covered-table-cell/>"


def test_headings_paragraphs_and_runs() -> None:
    body = [
        p("Report", "P1"),
        p("for all", "Subtitle"),
        '<text:h text:outline-level="1">One</text:h>',
        '<text:h text:outline-level="3">Deep <text:span text:style-name="B">bold</text:span></text:h>',
        p(
            'A <text:span text:style-name="B">bold<text:s/>word</text:span>,\n <text:span text:style-name="I">i</text:span>'
        ),
        p('a<text:s text:c="3"/>b<text:tab/>c<text:line-break/>d'),
        p(
            'see <text:a xlink:href="https://example.org/x">the page</text:a> and <text:a xlink:href="#y">below</text:a>'
        ),
        p("x = 1", "C"),
        p('<text:s text:c="2"/>y = 2', "C"),
    ]
    assert text_of("".join(body)) == (
        "# Report\n\nfor all\n\n# One\n\n### Deep bold\n\nA **bold word**, *i*\n\na b c\nd\n\n"
        "see [the page](https://example.org/x) and below\n\n```\nx = 1\n  y = 2\n```"
    )


def test_numbered_headings_show_their_numbers() -> None:
    outline = (
        f"<office:document-styles {NAMESPACES}><office:styles><text:outline-style>"
        '<text:outline-level-style text:level="1" style:num-format="1"/>'
        '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/>'
        "</text:outline-style></office:styles></office:document-styles>"
    )
    heads = "".join(f'<text:h text:outline-level="{n}">h</text:h>' for n in (1, 2, 2, 1, 2))
    assert text_of(heads, styles=outline) == "# 1 h\n\n## 1.1 h\n\n## 1.2 h\n\n# 2 h\n\n## 2.1 h"


def test_lists_keep_their_numbers_letters_and_levels() -> None:
    inner = f"<text:list>{items(p('x'), p('y'))}</text:list>"
    body = listed("N", p("one"), p("two") + inner, p("three") + p("more"))
    body += p("Between") + listed("N", p("four"), more='text:continue-numbering="true"')
    body += listed("N", p("anew")) + listed("L", p("dot"))
    assert text_of(body) == (
        "1. one\n2. two\n    - (a) x\n    - (b) y\n3. three\n    more\n\nBetween\n\n4. four\n1. anew\n- dot"
    )


def test_notes_and_comments_are_listed_after_the_text() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body></text:note>"
    )
    said = "<office:annotation><dc:creator>Ann</dc:creator><dc:date>2024</dc:date>{}</office:annotation>"
    body = p(f"Fact{note.format(p('Low'))} stands{said.format(p('Really?'))}.{note.format(p('End'))}")
    assert text_of(body) == "Fact[^1] stands.[^2]\n\n[^1]: Low\n[^2]: End\n\n## Comments\n\n- Ann: Really?"


def test_deleted_text_is_gone_and_what_was_put_in_stays() -> None:
    changes = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>old words</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
    )
    assert text_of(changes + p('Now <text:change-start text:change-id="a"/>new<text:change-end/> text')) == (
        "Now new text"
    )


def test_frames_boxes_and_pictures_follow_their_line() -> None:
    picture = "<draw:frame><draw:image/><svg:title>A duck</svg:title></draw:frame>"
    group = f"<draw:g>{box(p('In group'))}<draw:rect>{p('In shape')}</draw:rect></draw:g>"
    body = p(f"Line{box(p('Boxed'))}{picture} goes on") + group
    assert text_of(body) == "Line goes on\n\nBoxed\n\n![A duck]()\n\nIn group\n\nIn shape"


def test_sections_and_indexes_are_looked_into() -> None:
    index = f"<text:table-of-content><text:index-body>{p('1 One')}</text:index-body></text:table-of-content>"
    assert text_of(f"<text:section>{p('In section')}</text:section>{index}") == "In section\n\n1 One"


def test_tables_keep_merged_cells_in_line_and_nested_ones_inside() -> None:
    nested = f"<table:table>{row(cell('x'), cell('y'))}{row(cell('1'), cell('2'))}</table:table>"
    wide = row(cell("Wide", 'table:number-columns-spanned="2"'), COVERED, cell("c"))
    rows = [
        f"<table:table-header-rows>{wide}</table:table-header-rows>",
        row(cell("Tall", 'table:number-rows-spanned="2"'), cell("1"), cell("a|b")),
        row(COVERED, cell("2"), cell("z")),
        row(cell("n"), cell(nested), cell("same", 'table:number-columns-repeated="2"')),
    ]
    assert text_of(f"<table:table>{''.join(rows)}</table:table>") == (
        "| Wide |  | c |  |\n| --- | --- | --- | --- |\n| Tall | 1 | a\\|b |  |\n| Tall | 2 | z |  |\n"
        "| n | x, y; 1, 2 | same | same |"
    )


def test_headers_and_footers_come_once_without_page_numbers() -> None:
    pages = "".join(
        f"<style:master-page><style:header>{p('ACME')}</style:header>"
        f"<style:footer>{p('Page <text:page-number>3</text:page-number>')}</style:footer></style:master-page>"
        for _ in range(2)
    )
    styles = f"<office:document-styles {NAMESPACES}><office:master-styles>{pages}</office:master-styles></office:document-styles>"
    assert text_of(p("Body"), styles=styles) == "Body\n\nHeader: ACME"


def test_a_chart_within_the_document_gives_its_title_and_numbers() -> None:
    data = f"<table:table>{row(cell(), cell('Cod'))}{row(cell('May'), cell('3'))}</table:table>"
    chart = f"<chart:chart><chart:title>{p('Catch')}</chart:title>{data}</chart:chart>"
    files = {
        "content.xml": content("text", p('<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>')),
        "Object 1/content.xml": content("chart", chart),
    }
    assert read(zipped(files), "a.odt").text == "**Catch**\n\n|  | Cod |\n| --- | --- |\n| May | 3 |"


def value(kind: str, value: str, shown: str) -> str:
    name = {"date": "date-value", "time": "time-value", "boolean": "boolean-value"}.get(kind, "value")
    return cell(shown, f'office:value-type="{kind}" office:{name}="{value}"')


def test_sheets_come_in_order_with_values_as_they_are_meant() -> None:
    said = f"<office:annotation><dc:creator>Ann</dc:creator>{p('Sure?')}</office:annotation>{p('3')}"
    rows = [
        row(cell("kind"), cell("value")),
        row(cell("day"), value("date", "2024-03-01", "1 Mar 24")),
        row(cell("moment"), value("date", "2024-03-01T14:30:00", "14h30")),
        row(cell("clock"), value("time", "PT09H15M00S", "9:15 AM")),
        row(cell("share"), value("percentage", "0.256", "26%")),
        row(cell("price"), value("currency", "1234.5", "1.234,50 €")),
        row(cell("long"), value("float", "1234.5678", "1 234,57")),
        row(cell("unit"), value("float", "12", "12 kg")),
        row(cell("truth"), value("boolean", "true", "WAHR")),
        row(cell("formula"), '<table:table-cell table:formula="of:=[.A1]+1"/>'),
        row(
            cell("said"),
            f'<table:table-cell office:value-type="float" office:value="3">{said}</table:table-cell>',
        ),
    ]
    first = f'<table:table table:name="Values">{"".join(rows)}</table:table>'
    empty = f'<table:table table:name="Empty">{row(cell())}</table:table>'
    hidden = f'<table:table table:name="Back" table:style-name="hid">{row(cell("k"))}</table:table>'
    result = read_as("spreadsheet", first + empty + hidden)
    assert result.text == (
        "## Values\n\n| kind | value |\n| --- | --- |\n| day | 2024-03-01 |\n| moment | 2024-03-01 14:30 |\n"
        "| clock | 09:15 |\n| share | 25.6% |\n| price | 1.234,50 € |\n| long | 1234.5678 |\n| unit | 12 kg |\n"
        "| truth | TRUE |\n| formula | =[.A1]+1 |\n| said | 3 |\n\n- B11 (Ann): Sure?\n\n## Back (hidden sheet)\n\nk"
    )
    assert result.pages == (
        PageMark(offset=0, page=1),
        PageMark(offset=result.text.index("## Back"), page=3),
    )


def test_rows_and_cells_that_repeat_a_million_times_cost_no_more_than_one() -> None:
    wide, tall = 'table:number-columns-repeated="16384"', 'table:number-rows-repeated="1048576"'
    rows = [
        row(cell("a"), cell("b"), cell("", wide)),
        row(cell("", wide), more=tall),
        row(cell("", wide), more=tall),
        row(cell("again"), cell("x"), more=tall),
    ]
    text = read_as("spreadsheet", f'<table:table table:name="S">{"".join(rows)}</table:table>').text
    assert text.startswith("## S\n\n| a | b |\n| --- | --- |\n\n| again | x |")
    assert 2 <= text.count("again") <= 100


def test_what_is_repeated_more_often_than_is_indexed_is_said() -> None:
    wide, tall = 'table:number-columns-repeated="1000"', 'table:number-rows-repeated="1000"'
    rows = (
        row(cell("head"))
        + row(cell("x", wide), more=tall)
        + row(cell("y"), more='table:number-rows-repeated="9"')
    )
    result = read_as("spreadsheet", f'<table:table table:name="S">{rows}</table:table>')
    assert result.notice == (
        "What is repeated very often was indexed a few times only "
        "(sheet S: cell A2 (1,000 times); sheet S: row 2 (1,000 times))."
    )
    assert len(result.text) < 60_000
    assert result.text.count("y") == 9


def test_all_that_a_sheet_repeats_has_a_limit_too() -> None:
    wide = 'table:number-columns-repeated="100"'
    rows = row(cell("x", wide), more='table:number-rows-repeated="50"') * 1000
    result = read_as("spreadsheet", f'<table:table table:name="S">{rows}</table:table>')
    assert len(result.text) < 1_000_000
    assert result.notice.endswith("; …).")


def test_drawings_on_a_sheet_follow_its_cells() -> None:
    table = f"<table:shapes>{box(p('Note on sheet'))}</table:shapes>{row(cell('v'))}"
    assert read_as("spreadsheet", f'<table:table table:name="S">{table}</table:table>').text == (
        "## S\n\nv\n\nNote on sheet"
    )


def slide(inner: str, more: str = "") -> str:
    return f"<draw:page {more}>{inner}</draw:page>"


def at(x: float, y: float, kind: str = "") -> str:
    return f'svg:x="{x}cm" svg:y="{y}cm" presentation:class="{kind}"'


def test_slides_are_pages_with_titles_notes_and_shapes_in_reading_order() -> None:
    notes = f"<presentation:notes>{box(p('Say this'), at(1, 1, 'notes'))}</presentation:notes>"
    shapes = box(p("right"), at(12, 5)) + box(p("left"), at(1, 5.1)) + box(p("Start"), at(1, 9, "title"))
    number = box(p("7"), at(1, 18, "page-number"))
    footer = box(p("ACME"), at(1, 18, "footer"))
    pages = [
        slide(shapes + number + footer + notes),
        slide(""),
        slide(box(p("Back"), at(1, 1, "title")) + footer, 'draw:style-name="off"'),
        slide(box(p("no title"), at(1, 1))),
    ]
    result = read_as("presentation", "".join(pages))
    assert result.text == (
        "## Start\n\nleft\n\nright\n\nACME\n\n### Notes:\n\nSay this\n\n## Back (hidden slide)\n\n"
        "## Untitled slide\n\nno title"
    )
    assert [mark.page for mark in result.pages] == [1, 3, 4]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text", p("Title", "P1") + p("flat"), "# Title\n\nflat"),
        (
            "spreadsheet",
            f'<table:table table:name="S">{row(cell("a"), cell("b"))}</table:table>',
            "## S\n\n| a | b |",
        ),
        ("presentation", slide(box(p("T"), at(1, 1, "title"))), "## T"),
    ],
)
def test_a_flat_file_reads_like_a_packed_one(kind: str, body: str, text: str) -> None:
    meta = "<office:meta><dc:title>Flat title</dc:title></office:meta>"
    flat = content(kind, body).replace("office:document-content", "office:document")
    data = f'<?xml version="1.0"?>{flat.replace("<office:automatic", meta + "<office:automatic", 1)}'.encode()
    result = read(data, "a.fodt")
    assert result.text.startswith(text)
    assert result.title == "Flat title"


def test_flat_files_and_files_packed_again_by_hand_are_known_for_what_they_are() -> None:
    sheet = f'<table:table table:name="S">{row(cell("a"), cell("b"))}</table:table>'
    flat = content("spreadsheet", sheet).replace("office:document-content", "office:document").encode()
    by_hand = zipped({"content.xml": content("spreadsheet", sheet), "META-INF/manifest.xml": "<m/>"})
    for data, name, kind in ((flat, "a.fods", "fodt"), (by_hand, "a.ods", "ods"), (by_hand, "a", "odt")):
        source = Source(name=name, library="l", kind="file", data=data, file_name=name)
        result = CONVERTER.convert(source)
        assert (result.text.split("\n")[0], result.file_type, result.notice) == ("## S", kind, "")


def test_a_drawing_is_read_page_by_page() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.graphics")
        archive.writestr("content.xml", content("drawing", slide(box(p("words in a box")))))
    source = Source(name="a.odg", library="l", kind="file", data=stream.getvalue(), file_name="a.odg")
    result = CONVERTER.convert(source)
    assert (result.text, result.file_type) == ("words in a box", "odg")


def test_the_title_comes_from_the_properties() -> None:
    meta = f"<office:document-meta {NAMESPACES}><office:meta><dc:title>{{}}</dc:title></office:meta></office:document-meta>"
    assert read_as("text", p("x"), meta=meta.format("Ship's log")).title == "Ship's log"
    assert read_as("text", p("x"), meta=meta.format("Untitled 1")).title == ""


def test_what_stands_before_the_damage_is_read_and_the_damage_is_told() -> None:
    for kind, body in (
        ("text", p("First") + p("Second")),
        (
            "spreadsheet",
            f'<table:table table:name="S">{row(cell("First"))}{row(cell("Second"))}</table:table>',
        ),
    ):
        data = zipped({"content.xml": content(kind, body).partition("Second")[0]})
        result = read(data, "a.odf")
        assert result.text.endswith("First")
        assert "content.xml" in result.notice


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            odf("text", p("x"))[:200],
            "a.odf could not be read as an OpenDocument file (its archive is damaged",
        ),
        (
            zipped({"meta.xml": "<a/>"}),
            "a.odf could not be read as an OpenDocument file (content.xml is missing",
        ),
        (odf("text", ""), "a.odf holds no text"),
        (b"", "a.odf could not be read as an OpenDocument file"),
        (
            zipped({"content.xml": "?", "META-INF/manifest.xml": "<manifest:encryption-data/>"}),
            "a.odf is protected by a password",
        ),
    ],
    ids=["cut off", "no content", "empty", "no bytes", "password"],
)
def test_a_file_that_cannot_be_read_says_why_and_what_to_do(data: bytes, said: str) -> None:
    with pytest.raises(ConversionError) as caught:
        read(data, "a.odf")
    assert str(caught.value).startswith(said)


def test_nesting_beyond_reason_still_gives_the_text() -> None:
    deep = "<text:section>" * 235 + p("deep") + "</text:section>" * 235
    assert "deep" in text_of(p("top") + deep)


def collapsed(text: str) -> str:
    return " ".join(re.sub(r"[*`|\\#~]", "", text).split())


def samples(folder: str) -> list[tuple[Path, str]]:
    manifest = SAMPLES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = [line.split("\t") for line in manifest.read_text(encoding="utf-8").splitlines()[1:]]
    return [(SAMPLES / one[0], one[3]) for one in rows if one[0].startswith(f"{folder}/") and len(one) > 3]


@pytest.mark.skipif(not SAMPLES.exists(), reason="the shared sample files are not here")
@pytest.mark.parametrize(("path", "phrases"), samples("odf"), ids=lambda each: getattr(each, "name", ""))
def test_a_sample_holds_the_phrases_its_manifest_names(path: Path, phrases: str) -> None:
    result = read(path.read_bytes(), path.name)
    text = collapsed(result.text)
    assert [phrase for phrase in phrases.split(" || ") if collapsed(phrase) not in text] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f]|[ \t]$|\n\n\n", result.text, re.M)
    assert [mark.page for mark in result.pages] == (
        [] if path.suffix == ".odt" else sorted({m.page for m in result.pages})
    )
