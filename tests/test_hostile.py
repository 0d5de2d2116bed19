"""Texts made to take for ever, and files that are not what their names say: one answer each, and soon."""

from __future__ import annotations

import io
import zipfile

import pytest

from converting import CONVERTER
from mcpvectordb.convert import markdown
from mcpvectordb.errors import UnsupportedType
from mcpvectordb.models import Converted, Source


def converted(data: bytes, name: str) -> Converted:
    return CONVERTER.convert(Source(name=name, library="d", kind="file", data=data, file_name=name))


@pytest.mark.parametrize(
    "html",
    [
        "<table><tr><td>" * 2000 + "words",
        "<b><div>" * 30_000 + "words",
        "<blockquote><a href=#x>" * 30_000 + "words",
        "<pre>x" * 20_000 + "words",
        "<div>" * 30_000 + "</p>" * 30_000 + "words",
        "x<a>x</a>" * 30_000 + "words",
        "x<img>" * 30_000 + "words",
        '<p title="' + "<a " * 100_000 + "words",
        "<!--" * 100_000 + "words",
        "-->" + "<!--" * 100_000 + "words",
        "<![CDATA[" * 60_000 + "> words",
    ],
    ids=[
        "tables in tables",
        "blocks in emphasis",
        "links in quotes",
        "code in code",
        "ends of nothing",
        "links to nothing",
        "pictures of nothing",
        "tags without end",
        "comments without end",
        "comments after one",
        "sections",
    ],
)
def test_no_page_takes_for_ever(html: str) -> None:
    """In time that grows with the square of the page, any of these takes longer than the converter has."""
    assert converted(html.encode(), "a.html").text.rstrip("`)(#x]\n").endswith("words")


def test_what_stands_too_deep_for_a_tree_keeps_its_lines_and_what_follows_its_place() -> None:
    page = (
        "<p>top" + "<div>" * 700 + "<p>one<b>two</b></p><script>no</script><p>three" + "</div>" * 700 + "end"
    )
    assert converted(page.encode(), "a.html").text.split("\n\n") == ["top", "onetwo", "three", "end"]


def test_a_mail_of_tables_in_tables_is_read() -> None:
    mail = b"Subject: s\nContent-Type: text/html\n\n" + b"<table><tr><td>" * 800 + b"words"
    assert converted(mail, "a.eml").text.endswith("words")


def test_tables_within_a_layout_keep_their_rows() -> None:
    inner = b"<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    page = b"<table><tr><td>left</td><td>" + inner + b"</td></tr></table>"
    assert converted(page, "a.html").text == "left\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 200_000,
        "-->" + "<!--" * 200_000,
        "# " + "[" * 200_000,
        "# a" + " " * 200_000 + "b",
        "# " + "`a" * 100_000,
        "# " + "<a" * 100_000,
    ],
)
def test_no_text_makes_the_search_for_its_title_take_for_ever(text: str) -> None:
    """It runs in the server itself, where nothing would end it."""
    assert markdown.title(f"{text}\n\n# The title") in ("The title", markdown.title(text))


def test_a_source_of_backticks_is_fenced_at_once() -> None:
    """It is read in the server itself, too, and each longer fence was once looked for in the whole text."""
    text = f"x = '{'`' * 1_000_000}'"
    fence = "`" * 1_000_001
    assert converted(text.encode(), "a.py").text == f"{fence}python\n{text}\n{fence}\n"


def test_a_comment_hides_a_heading_and_what_follows_it_does_not() -> None:
    assert markdown.title("<!-- # No -->\n<!--\n# Nor this\n-->\n# Yes\n<!-- # open") == "Yes"


@pytest.mark.parametrize(
    ("name", "data", "file_type", "text"),
    [
        (
            "a.doc",
            b"<html><body><p>Exported from a browser</p></body></html>",
            "html",
            "Exported from a browser",
        ),
        ("a.aspx", b"<!DOCTYPE html><p>Served once</p>", "html", "Served once"),
        (
            "a.xls",
            b"<?xml version='1.0'?><Workbook xmlns='urn:schemas-microsoft-com:office:spreadsheet'><Worksheet>"
            b"<Table><Row><Cell><Data>Boat</Data></Cell><Cell><Data>7</Data></Cell></Row></Table></Worksheet>"
            b"</Workbook>",
            "xml",
            "| Boat | 7 |\n| --- | --- |",
        ),
        ("a.doc", rb"{\rtf1\ansi Rich text\par}", "rtf", "Rich text"),
    ],
)
def test_a_file_is_read_by_what_is_in_it(name: str, data: bytes, file_type: str, text: str) -> None:
    result = converted(data, name)
    assert (result.file_type, result.text) == (file_type, text)


def test_a_text_of_an_unknown_extension_is_still_refused() -> None:
    with pytest.raises(UnsupportedType, match=r"a\.xyz has the extension \.xyz"):
        converted(b"plain words", "a.xyz")


@pytest.mark.parametrize(
    "inner",
    [
        b"{w}" * 150_000,
        b"{" * 150_000 + b"w" + b"}" * 150_000,
        b"{\\shptxt w" * 20_000 + b"}" * 20_000,
        b"{\\footnote w" * 20_000 + b"}" * 20_000,
    ],
    ids=["groups", "groups in groups", "boxes in boxes", "notes in notes"],
)
def test_no_rtf_of_groups_takes_for_ever(inner: bytes) -> None:
    assert converted(b"{\\rtf1 begin " + inner + b" end}", "a.rtf").text.startswith("begin")


def test_no_presentation_takes_for_ever_for_naming_a_slide_again_and_again() -> None:
    """Each name has five bytes once packed, and each cost the reading of a slide."""
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    names = (
        f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="{relations}"'
        ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    )
    related = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{relations}/{{}}" Target="{{}}"/></Relationships>'
    )
    shape = "<p:sp><p:txBody><a:p><a:r><a:t>word</a:t></a:r></a:p></p:txBody></p:sp>"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_rels/.rels", related.format("officeDocument", "ppt/presentation.xml"))
        file.writestr("ppt/_rels/presentation.xml.rels", related.format("slide", "slides/slide1.xml"))
        listed = '<p:sldId r:id="r1"/>' * 200_000
        file.writestr(
            "ppt/presentation.xml",
            f"<p:presentation {names}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
        )
        file.writestr(
            "ppt/slides/slide1.xml",
            f"<p:sld {names}><p:cSld><p:spTree>{shape * 2000}</p:spTree></p:cSld></p:sld>",
        )
    result = converted(buffer.getvalue(), "a.pptx")
    assert result.text.count("word") == 2000
    assert len(result.pages) == 1
