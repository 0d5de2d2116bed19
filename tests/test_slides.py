"""Presentations become Markdown slide by slide, with everything that is on a slide or goes with it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from mcpvectordb.convert.read.slides import read
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import PageMark

SAMPLES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"
TITLE_ONLY, BLANK, BULLETS = 5, 6, 1
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def saved(show: Any) -> bytes:
    stream = io.BytesIO()
    show.save(stream)
    return stream.getvalue()


def slide(show: Any, title: str = "", layout: int = TITLE_ONLY) -> Any:
    made = show.slides.add_slide(show.slide_layouts[layout])
    if title:
        made.shapes.title.text = title
    return made


def box(made: Any, text: str, left: float, top: float) -> Any:
    shape = made.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1))
    shape.text_frame.text = text
    return shape


def text_of(show: Any) -> str:
    return read(saved(show), "a.pptx").text


def changed(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The package with its files changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_slides_come_in_order_each_with_its_page_and_title() -> None:
    show = Presentation()
    slide(show, "First")
    slide(show, layout=BLANK)
    last = slide(show, "Last")
    box(last, "Some text", 1, 2)
    result = read(saved(show), "a.pptx")
    assert result.text == "## First\n\n## Last\n\nSome text"
    assert result.pages == (PageMark(offset=0, page=1), PageMark(offset=10, page=3))


def test_shapes_are_read_row_by_row_with_the_title_first() -> None:
    show = Presentation()
    made = slide(show, "Title")
    box(made, "bottom", 1, 5)
    box(made, "right", 5, 2)
    box(made, "left", 1, 2.05)
    group = made.shapes.add_group_shape()
    for text, left, top in (("in group below", 1, 4), ("in group above", 1, 3)):
        shape = group.shapes.add_textbox(Inches(left), Inches(top), Inches(1), Inches(1))
        shape.text_frame.text = text
    assert text_of(show) == "## Title\n\nleft\n\nright\n\nin group above\n\nin group below\n\nbottom"


def test_bullets_come_from_the_layout_and_nest_by_level() -> None:
    show = Presentation()
    made = slide(show, "List", BULLETS)
    frame = made.placeholders[1].text_frame
    frame.text = "one"
    for text, level in (("inner", 1), ("2. typed number", 0)):
        added = frame.add_paragraph()
        added.text, added.level = text, level
    assert text_of(show) == "## List\n\n- one\n    - inner\n2. typed number"


def test_a_table_keeps_its_merged_cells_in_line() -> None:
    show = Presentation()
    made = slide(show, "T")
    table = made.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(4), Inches(2)).table
    for row, values in enumerate((("Wide", "", "c"), ("Tall", "1", "2"), ("", "3", "a|b"))):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 0).merge(table.cell(2, 0))
    assert text_of(show) == (
        "## T\n\n| Wide |  | c |\n| --- | --- | --- |\n| Tall | 1 | 2 |\n| Tall | 3 | a\\|b |"
    )


def test_a_chart_gives_its_title_and_its_numbers() -> None:
    show = Presentation()
    made = slide(show, "C")
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Sales", (1.5, 2))
    data.add_series("Costs", (3, None))
    frame = made.shapes.add_chart(
        XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(2), Inches(4), Inches(3), data
    )
    frame.chart.has_title = True
    frame.chart.chart_title.text_frame.text = "By region"
    assert text_of(show) == (
        "## C\n\n**By region**\n\n|  | Sales | Costs |\n| --- | --- | --- |\n"
        "| East | 1.5 | 3 |\n| West | 2 |  |"
    )


def test_notes_links_and_descriptions_are_kept() -> None:
    show = Presentation()
    made = slide(show, "N")
    frame = box(made, "", 1, 2).text_frame
    run = frame.paragraphs[0].add_run()
    run.text, run.hyperlink.address = "the rules", "https://example.org/r"
    picture = made.shapes.add_picture(io.BytesIO(PIXEL), Inches(1), Inches(4))
    picture._element.nvPicPr.cNvPr.set("descr", "A boat")
    made.notes_slide.notes_text_frame.text = "Say this.\nAnd that."
    assert text_of(show) == (
        "## N\n\n[the rules](https://example.org/r)\n\n![A boat]()\n\n### Notes:\n\nSay this.\n\nAnd that."
    )


def test_a_hidden_slide_is_read_and_says_so() -> None:
    show = Presentation()
    slide(show, "Shown")
    slide(show, "Kept back")._element.set("show", "0")
    assert text_of(show) == "## Shown\n\n## Kept back (hidden slide)"


def test_a_slide_without_a_title_does_not_go_on_under_the_last_one() -> None:
    show = Presentation()
    slide(show, "Titled")
    short, long = slide(show, layout=BLANK), slide(show, layout=BLANK)
    box(short, "Looks like a title", 1, 1)
    box(short, "below", 1, 3)
    box(long, "word " * 40, 1, 1)
    text = text_of(show)
    assert text.startswith("## Titled\n\n## Looks like a title\n\nbelow\n\n## Untitled slide\n\nword word")


def test_line_breaks_keep_the_words_around_them_apart() -> None:
    show = Presentation()
    made = slide(show, layout=BLANK)
    box(made, "First line\vsecond line", 1, 1)
    assert text_of(show) == "First line\nsecond line"


@pytest.mark.parametrize("titles", [("A", "B"), ("", "B"), ("", "")])
def test_footers_come_once_and_slide_numbers_not_at_all(titles: tuple[str, str]) -> None:
    footer = (
        '<p:sp xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:nvSpPr><p:cNvPr id="9" name="x"/>'
        '<p:cNvSpPr/><p:nvPr><p:ph type="{}" idx="20"/></p:nvPr></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/>'
        "<a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody></p:sp></p:spTree>"
    )

    def add(files: dict[str, bytes]) -> None:
        for name in ("ppt/slides/slide1.xml", "ppt/slides/slide2.xml"):
            for kind, text in (("ftr", "ACME"), ("sldNum", "77")):
                files[name] = files[name].replace(b"</p:spTree>", footer.format(kind, text).encode())

    show = Presentation()
    for title in titles:
        slide(show, title)
    first, second = (f"## {title}\n\n" if title else "" for title in titles)
    assert read(changed(saved(show), add), "a.pptx").text == f"{first}ACME\n\n{second}".rstrip()


def test_comments_of_both_kinds_stand_with_their_slide() -> None:
    p188 = 'xmlns:p188="http://schemas.microsoft.com/office/powerpoint/2018/8/main"'
    a = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'

    def add(files: dict[str, bytes]) -> None:
        files["ppt/comments/c1.xml"] = (
            b'<p:cmLst xmlns:p="p"><p:cm authorId="0"><p:text>Old</p:text></p:cm></p:cmLst>'
        )
        files["ppt/comments/c2.xml"] = (
            f'<p188:cmLst {p188} {a}><p188:cm authorId="{{A}}"><p188:replyLst><p188:reply authorId="0">'
            "<p188:txBody><a:p><a:r><a:t>Reply</a:t></a:r></a:p></p188:txBody></p188:reply></p188:replyLst>"
            "<p188:txBody><a:p><a:r><a:t>New</a:t></a:r></a:p></p188:txBody></p188:cm></p188:cmLst>"
        ).encode()
        files["ppt/commentAuthors.xml"] = (
            b'<p:l xmlns:p="p"><p:cmAuthor id="0" name="Ann"/><p:cmAuthor id="{A}" name="Bo"/></p:l>'
        )
        relate(files, "ppt/_rels/presentation.xml.rels", "commentAuthors", "commentAuthors.xml")
        relate(files, "ppt/slides/_rels/slide1.xml.rels", "comments", "../comments/c1.xml")
        relate(files, "ppt/slides/_rels/slide1.xml.rels", "comments", "../comments/c2.xml")

    show = Presentation()
    slide(show, "S")
    text = read(changed(saved(show), add), "a.pptx").text
    assert text == "## S\n\n### Comments:\n\n- Ann: Old\n- Bo: New\n    - Ann: Reply"


def relate(files: dict[str, bytes], name: str, kind: str, target: str) -> None:
    added = f'<Relationship Id="x{len(files[name])}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
    files[name] = files[name].replace(b"</Relationships>", f"{added}</Relationships>".encode())


def frame(inner: str) -> bytes:
    return (
        '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="8" name="x"/><p:cNvGraphicFramePr/><p:nvPr/>'
        f"</p:nvGraphicFramePr><a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"
        "</p:spTree>"
    ).encode()


def test_a_diagram_is_a_nested_list_even_if_its_nodes_point_in_a_circle() -> None:
    dgm = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
    a = "http://schemas.openxmlformats.org/drawingml/2006/main"

    line_break = "</a:t></a:r><a:br/><a:r><a:t>"

    def point(node: str, text: str) -> str:
        return f'<d:pt modelId="{node}"><d:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></d:t></d:pt>'

    def add(files: dict[str, bytes]) -> None:
        links = (("0", "2", 1), ("0", "1", 0), ("1", "3", 0), ("3", "1", 0))
        files["ppt/diagrams/data1.xml"] = (
            f'<d:dataModel xmlns:d="{dgm}" xmlns:a="{a}"><d:ptLst><d:pt modelId="0" type="doc"/>'
            f"{point('1', 'Plan')}{point('2', 'Do')}{point('3', f'De{line_break}tails')}"
            '<d:pt modelId="9" type="pres"/>'
            "</d:ptLst>"
            + "".join(f'<d:cxn srcId="{s}" destId="{d}" srcOrd="{o}"/>' for s, d, o in links)
            + "</d:dataModel>"
        ).encode()
        relate(files, "ppt/slides/_rels/slide1.xml.rels", "diagramData", "../diagrams/data1.xml")
        found = re.search(rb'Id="(x\d+)"', files["ppt/slides/_rels/slide1.xml.rels"])
        assert found
        ids = f'<d:relIds xmlns:d="{dgm}" xmlns:r="{RELATIONS}" r:dm="{found[1].decode()}"/>'
        files["ppt/slides/slide1.xml"] = files["ppt/slides/slide1.xml"].replace(b"</p:spTree>", frame(ids))

    show = Presentation()
    slide(show, "S")
    assert read(changed(saved(show), add), "a.pptx").text == "## S\n\n- Plan\n    - De tails\n- Do"


def test_a_frame_of_an_unknown_kind_gives_its_text() -> None:
    def add(files: dict[str, bytes]) -> None:
        name = "ppt/slides/slide1.xml"
        inner = '<x:odd xmlns:x="x"><a:p><a:r><a:t>Odd but there</a:t></a:r></a:p></x:odd>'
        files[name] = files[name].replace(b"</p:spTree>", frame(inner))

    show = Presentation()
    slide(show, "S")
    assert read(changed(saved(show), add), "a.pptx").text == "## S\n\nOdd but there"


def three() -> bytes:
    show = Presentation()
    for title in ("One", "Two", "Three"):
        slide(show, title)
    return saved(show)


def test_a_missing_slide_is_told_and_the_others_keep_their_numbers() -> None:
    result = read(changed(three(), lambda files: files.pop("ppt/slides/slide2.xml") and None), "a.pptx")
    assert result.text == "## One\n\n## Three"
    assert [mark.page for mark in result.pages] == [1, 3]
    assert "ppt/slides/slide2.xml" in result.notice


def test_without_its_main_part_the_slides_come_in_the_order_of_their_names() -> None:
    def lose(files: dict[str, bytes]) -> None:
        files["ppt/presentation.xml"] = b"gone"
        del files["[Content_Types].xml"]

    result = read(changed(three(), lose), "a.pptx")
    assert result.text == "## One\n\n## Two\n\n## Three"
    assert "ppt/presentation.xml" in result.notice


def test_groups_in_groups_beyond_reason_still_give_their_text() -> None:
    deep = b"<p:grpSp>" * 200 + b"<p:sp><p:txBody><a:p><a:r><a:t>deep</a:t></a:r></a:p></p:txBody></p:sp>"
    deep += b"</p:grpSp>" * 200 + b"</p:spTree>"

    def nest(files: dict[str, bytes]) -> None:
        name = "ppt/slides/slide1.xml"
        files[name] = files[name].replace(b"</p:spTree>", deep)

    assert "deep" in read(changed(three(), nest), "a.pptx").text


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Our plan", "Our plan"),
        ("PowerPoint Presentation", ""),
        ("Présentation PowerPoint", ""),
        ("Slide 1", ""),
    ],
)
def test_the_title_is_the_presentations_own_if_it_is_one(written: str, title: str) -> None:
    show = Presentation()
    slide(show, "S")
    show.core_properties.title = written
    assert read(saved(show), "a.pptx").title == title


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (three()[:2000], "a.pptx could not be read as a PowerPoint presentation (its archive is damaged"),
        (saved(Presentation()), "a.pptx holds no text"),
        (b"", "a.pptx could not be read"),
    ],
    ids=["cut off", "empty", "no bytes"],
)
def test_a_file_that_cannot_be_read_says_why_and_what_to_do(data: bytes, said: str) -> None:
    with pytest.raises(ConversionError) as caught:
        read(data, "a.pptx")
    assert str(caught.value).startswith(said)


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001f61738"
    "550000000049454e44ae426082"
)


def collapsed(text: str) -> str:
    return " ".join(re.sub(r"[*`|\\#]|\[|\]\([^)]*\)|^ *- ", " ", text, flags=re.M).split())


def samples(folder: str) -> list[tuple[Path, str]]:
    manifest = SAMPLES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = [line.split("\t") for line in manifest.read_text(encoding="utf-8").splitlines()[1:]]
    return [(SAMPLES / row[0], row[3]) for row in rows if row[0].startswith(f"{folder}/") and len(row) > 3]


@pytest.mark.skipif(not SAMPLES.exists(), reason="the shared sample files are not here")
@pytest.mark.parametrize(("path", "phrases"), samples("pptx"), ids=lambda value: getattr(value, "name", ""))
def test_a_sample_holds_the_phrases_its_manifest_names(path: Path, phrases: str) -> None:
    result = read(path.read_bytes(), path.name)
    text = collapsed(result.text)
    assert [phrase for phrase in phrases.split(" || ") if collapsed(phrase) not in text] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f]|[ \t]$|\n\n\n", result.text, re.M)
    assert all(result.text[mark.offset] not in "\n " for mark in result.pages)
