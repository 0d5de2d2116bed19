"""EPUB books to Markdown."""

from __future__ import annotations

import io
import zipfile

import pytest

from mcpvectordb.convert.read import Read, book
from mcpvectordb.errors import ConversionError

CONTAINER = """<?xml version="1.0"?>
<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
METADATA = """<dc:title>The  Rivers</dc:title><dc:creator>Ann Lee</dc:creator><dc:creator>Bo Ray</dc:creator>
<dc:publisher>Press</dc:publisher><dc:identifier>urn:uuid:1</dc:identifier>
<dc:description>&lt;p&gt;All about &lt;b&gt;water&lt;/b&gt;.&lt;/p&gt;</dc:description>"""


def page(body: str) -> str:
    return f"""<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>{body}</body></html>"""


def package(items: dict[str, str], metadata: str = METADATA, spine: str = "") -> str:
    """A package of items by id: "href" or "href|properties"."""
    manifest = ""
    for name, value in items.items():
        href, _, properties = value.partition("|")
        kind = "application/x-dtbncx+xml" if href.endswith(".ncx") else "application/xhtml+xml"
        manifest += f'<item id="{name}" href="{href}" media-type="{kind}" properties="{properties}"/>'
    order = spine.split() or list(items)
    itemrefs = "".join(f'<itemref idref="{name}"/>' for name in order)
    return (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata>{metadata}</metadata><manifest>{manifest}</manifest><spine>{itemrefs}</spine></package>"
    )


def epub(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in {"mimetype": "application/epub+zip", **files}.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def simple(body: str, **more: str) -> Read:
    files = {"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package({"a": "a.xhtml"}, "")}
    return book.read(epub({**files, "OEBPS/a.xhtml": page(body), **more}), "b.epub")


def test_chapters_come_in_reading_order_below_what_the_book_says_of_itself() -> None:
    files = {
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package({"two": "2.xhtml", "one": "1.xhtml"}, spine="one two one"),
        "OEBPS/1.xhtml": page("<h1>Source</h1><p>It <i>rises</i>.</p>"),
        "OEBPS/2.xhtml": page("<h1>Mouth</h1><p>It ends.</p>"),
    }
    assert book.read(epub(files), "b.epub") == Read(
        title="The Rivers",
        text="# The Rivers\n\nAuthor: Ann Lee, Bo Ray\nPublisher: Press\n\nAll about **water**.\n\n"
        "# Source\n\nIt *rises*.\n\n# Mouth\n\nIt ends.",
    )


def test_links_within_the_book_leave_their_text_and_pictures_their_description() -> None:
    read = simple(
        '<p>See <a href="b.xhtml#x">chapter two</a>, <a href="https://x.org">the site</a>'
        ' and <img src="m.png" alt="a map"/>.<a id="p5"/></p><nav><p>kept</p></nav><aside>Note.</aside>'
    )
    assert read.text == "See chapter two, [the site](https://x.org) and a map.\n\nkept\n\nNote."


def test_tables_of_contents_are_left_out_and_name_chapters_without_headings() -> None:
    ncx = """<ncx><navMap><navPoint><navLabel><text>The Source</text></navLabel><content src="a.xhtml#top"/>
</navPoint></navMap></ncx>"""
    files = {
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package(
            {"nav": "nav.xhtml|nav", "a": "a.xhtml", "ncx": "toc.ncx"}, "", spine="nav a"
        ),
        "OEBPS/nav.xhtml": page('<nav><a href="a.xhtml">Contents entry</a></nav>'),
        "OEBPS/toc.ncx": ncx,
        "OEBPS/a.xhtml": page("<p class='title'>THE SOURCE</p><p>It rises.</p>"),
    }
    assert book.read(epub(files), "b.epub").text == "## Contents entry\n\nTHE SOURCE\n\nIt rises."


@pytest.mark.parametrize(
    ("href", "name"),
    [
        ("my%20chapter.xhtml", "OEBPS/my chapter.xhtml"),
        ("my%20chapter.xhtml", "OEBPS/my%20chapter.xhtml"),
        ("../Text/One.xhtml", "Text/One.xhtml"),
        ("text/ONE.xhtml", "OEBPS/Text/one.xhtml"),
        ("caf%C3%A9.xhtml", "OEBPS/cafe\u0301.xhtml"),
        ("../../../one.xhtml", "one.xhtml"),
    ],
)
def test_chapters_are_found_by_the_names_books_call_them(href: str, name: str) -> None:
    files = {
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package({"a": href}),
        name: page("<p>Here.</p>"),
    }
    read = book.read(epub(files), "b.epub")
    assert read.text.endswith("Here.")
    assert not read.notice


def test_a_missing_and_a_damaged_chapter_leave_the_rest_with_a_notice() -> None:
    files = {
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package({"a": "a.xhtml", "b": "b.xhtml", "c": "c.xhtml"}),
        "OEBPS/a.xhtml": page("<p>First.</p>"),
        "OEBPS/c.xhtml": page("<p>Flipped!</p>"),
    }
    data = epub(files).replace(b"Flipped!", b"Flopped!")
    read = book.read(data, "b.epub")
    assert read.text.endswith("First.")
    assert read.notice == (
        "2 chapters are missing or damaged in b.epub (b.xhtml, c.xhtml); the rest was indexed."
    )


@pytest.mark.parametrize("container", ["", "<container><broken", CONTAINER.replace("OEBPS/book", "nowhere")])
def test_the_package_is_found_without_a_sound_container(container: str) -> None:
    files = {"OEBPS/book.opf": package({"a": "a.xhtml"}), "OEBPS/a.xhtml": page("<p>Here.</p>")}
    read = book.read(epub({"META-INF/container.xml": container, **files}), "b.epub")
    assert (read.title, read.notice) == ("The Rivers", "")
    assert read.text.endswith("Here.")


def test_without_a_package_pages_are_read_by_name() -> None:
    read = book.read(epub({"b.html": page("<p>Second.</p>"), "a.html": page("<p>First.</p>")}), "b.epub")
    assert read.text == "First.\n\nSecond."
    assert (
        read.notice == "b.epub has no list of its chapters; its pages were read in the order of their names."
    )


def lock(path: str, algorithm: str) -> str:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        'xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
        f'<enc:EncryptionMethod Algorithm="{algorithm}"/>'
        f'<enc:CipherData><enc:CipherReference URI="{path}"/></enc:CipherData>'
        "</enc:EncryptedData></encryption>"
    )


AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"


def test_a_book_locked_by_its_shop_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"b\.epub is protected by its shop \(DRM\)"):
        simple("<p>x</p>", **{"META-INF/encryption.xml": lock("OEBPS/a.xhtml", AES)})


@pytest.mark.parametrize(
    ("path", "algorithm"), [("OEBPS/f.otf", "http://www.idpf.org/2008/embedding"), ("OEBPS/cover.jpg", AES)]
)
def test_locked_fonts_and_pictures_are_no_hindrance(path: str, algorithm: str) -> None:
    assert simple("<p>x</p>", **{"META-INF/encryption.xml": lock(path, algorithm)}).text == "x"


def test_a_title_that_says_nothing_is_none() -> None:
    files = {"META-INF/container.xml": CONTAINER, "OEBPS/a.xhtml": page("<h1>Real</h1>")}
    files["OEBPS/book.opf"] = package({"a": "a.xhtml"}, "<dc:title>Untitled</dc:title>")
    assert book.read(epub(files), "b.epub").title == ""


def test_chapters_in_old_encodings_are_read() -> None:
    text = page("<p>naïve café</p>").replace("utf-8", "iso-8859-1")
    files = {"META-INF/container.xml": CONTAINER, "OEBPS/book.opf": package({"a": "a.xhtml"}, "")}
    assert book.read(epub({**files, "OEBPS/a.xhtml": text.encode("cp1252")}), "b.epub").text == "naïve café"


def test_a_book_of_pictures_is_an_error() -> None:
    with pytest.raises(ConversionError, match=r"b\.epub holds no text in its chapters"):
        simple('<img src="page1.jpg"/>')


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 not a zip", b"words"])
def test_what_is_no_archive_is_an_error(data: bytes) -> None:
    with pytest.raises(ConversionError, match=r"b\.epub could not be read as an EPUB book"):
        book.read(data, "b.epub")
