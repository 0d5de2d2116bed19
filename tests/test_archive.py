"""Zip files made to hurt: refused before anything unpacks them, each in one sentence."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from converting import CONVERTER
from mcpvectordb.convert import archive
from mcpvectordb.convert.archive import ArchiveLimits
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import Source

LAUGHS = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><l>&b;</l>'


def packed(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)
    return buffer.getvalue()


def refusal(data: bytes, *, doctypes: bool = False, limits: ArchiveLimits | None = None) -> str:
    with pytest.raises(ConversionError) as caught:
        archive.check(data, "a.docx", doctypes=doctypes, limits=limits)
    return str(caught.value)


def test_an_ordinary_archive_passes() -> None:
    archive.check(packed(("word/document.xml", b"<w>words</w>"), ("word/media/a.png", b"\x89PNG")), "a.docx")
    archive.check(packed(("mimetype", b"application/epub+zip"), method=zipfile.ZIP_STORED), "a.epub")


def test_a_small_file_that_unpacks_to_gigabytes_is_refused() -> None:
    blanks = bytes(1024 * 1024)
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("word/document.xml", "w") as part,
    ):
        for _ in range(1100):
            part.write(blanks)
    data = buffer.getvalue()
    assert len(data) < 2 * 1024 * 1024
    assert refusal(data) == (
        "a.docx would unpack to 1,100 MB; no more than 400 MB are unpacked. "
        "Split it, or save it without its pictures, and add that."
    )


def test_a_part_that_is_larger_than_it_says_is_refused() -> None:
    data = bytearray(packed(("word/document.xml", bytes(5_000_000))))
    directory = data.rindex(b"PK\x01\x02")
    for at in (directory + 24, 22):  # the size unpacked, in the directory and before the part itself
        struct.pack_into("<I", data, at, 1000)
    assert refusal(bytes(data)) == (
        "a.docx is damaged (word/document.xml is larger than it says): get it again and add that."
    )


def test_parts_that_share_their_bytes_are_refused() -> None:
    data = bytearray(packed(("a.xml", b"a" * 5000), ("b.xml", b"b" * 5000)))
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    struct.pack_into("<I", data, second + 42, 0)  # where the second part begins
    assert refusal(bytes(data)) == "a.docx is damaged (its parts overlap): get it again and add that."


def test_more_parts_than_any_document_has_are_refused() -> None:
    data = packed(*((f"{number}.xml", b"") for number in range(30)))
    assert "holds 30 parts; no more than 20 are unpacked" in refusal(data, limits=ArchiveLimits(members=20))


def test_parts_nested_too_deeply_are_refused() -> None:
    assert "nests its parts too deeply" in refusal(packed(("a/" * 60 + "b.xml", b"<b/>")))


def test_a_locked_part_is_said_to_need_its_password_removed() -> None:
    data = bytearray(packed(("word/document.xml", b"words")))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 8] |= 1
    data[6] |= 1
    assert "is protected by a password" in refusal(bytes(data))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_xml_that_defines_entities_is_refused(method: int, encoding: str) -> None:
    bomb = packed(("word/document.xml", LAUGHS.decode().encode(encoding)), method=method)
    assert "its XML defines entities or a document type" in refusal(bomb)
    assert "its XML defines entities or a document type" in refusal(bomb, doctypes=True)


def test_a_definition_cut_in_two_by_unpacking_is_seen() -> None:
    # Unpacked a megabyte at a time: the mark stands across the first border.
    text = b" " * (1024 * 1024 - 5) + LAUGHS
    assert "its XML defines entities" in refusal(packed(("word/document.xml", text)))


def test_a_books_page_may_have_a_document_type() -> None:
    page = b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "xhtml11.dtd"><html><p>words</p></html>'
    book = packed(("chapter.xhtml", page))
    archive.check(book, "a.epub", doctypes=True)
    assert "defines entities or a document type" in refusal(packed(("word/document.xml", page)))


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.99])
def test_a_cut_archive_is_called_damaged(keep: float) -> None:
    data = packed(("word/document.xml", bytes(range(256)) * 100), ("b.xml", b"words"))
    assert "a.docx is damaged" in refusal(data[: int(len(data) * keep)])


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx", "a.odt", "a.epub"])
def test_a_bomb_by_any_name_is_refused_by_the_converter_and_the_next_file_is_read(name: str) -> None:
    inside = {"docx": "word/document.xml", "xlsx": "xl/workbook.xml", "pptx": "ppt/presentation.xml"}
    parts = [(inside.get(name[2:], "content.xml"), LAUGHS)]
    if name == "a.epub":
        parts = [("mimetype", b"application/epub+zip"), ("META-INF/container.xml", LAUGHS)]
    if name == "a.odt":
        parts = [("mimetype", b"application/vnd.oasis.opendocument.text"), ("content.xml", LAUGHS)]
    data = packed(*parts, method=zipfile.ZIP_STORED)
    with pytest.raises(ConversionError, match="its XML defines entities"):
        CONVERTER.convert(Source(name=name, library="d", kind="file", data=data, file_name=name))
    page = Source(name="b", library="d", kind="file", data=b"<p>words</p>", file_name="b.html")
    assert CONVERTER.convert(page).text == "words"


def test_a_picture_or_a_page_taken_in_may_have_a_document_type() -> None:
    drawing = b'<!DOCTYPE svg [<!ENTITY ns "http://ns.example/">]><svg xmlns="&ns;"/>'
    archive.check(
        packed(("word/media/1.svg", drawing), ("word/chunk.html", b"<!DOCTYPE html><p>x")), "a.docx"
    )


def test_the_list_of_parts_of_an_old_opendocument_may_have_a_document_type() -> None:
    manifest = b'<!DOCTYPE manifest:manifest PUBLIC "-//OpenOffice.org//DTD Manifest 1.0//EN" "Manifest.dtd">'
    manifest += b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    office = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
    words = (
        f'<office:document-content xmlns:office="{office}" xmlns:text="{office.replace("office:", "text:")}">'
    )
    words += "<office:body><office:text><text:p>Ahoy there</text:p></office:text></office:body>"
    content = f"{words}</office:document-content>".encode()
    data = packed(("META-INF/manifest.xml", manifest), ("content.xml", content))
    source = Source(name="a.odt", library="l", kind="file", data=data, file_name="a.odt")
    assert CONVERTER.convert(source).text == "Ahoy there"
