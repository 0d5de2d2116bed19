"""Charsets by the names that servers, pages, XML and mail give them: one meaning everywhere."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from converting import CONVERTER
from mcpvectordb.charsets import codec_of, strictly
from mcpvectordb.models import Source

# Name, codec of the bytes, words. Statistics over so few letters would guess most of them wrong.
DECLARED = (
    ("windows-1251", "cp1251", "Привет мир"),
    ("koi8-r", "koi8_r", "Привет мир"),
    ("ibm866", "cp866", "Привет мир"),
    ("x-mac-cyrillic", "mac_cyrillic", "Привет мир"),
    ("iso-8859-5", "iso8859_5", "Привет мир"),
    ("iso-8859-7", "iso8859_7", "Καλημέρα"),
    ("iso-8859-8-i", "iso8859_8", "שלום עולם"),
    ("iso-8859-9", "cp1254", "İstanbul’da güneşli"),
    ("windows-874", "cp874", "สวัสดีครับ"),
    ("iso_8859-1", "cp1252", "café “quoted”"),
    ("Latin-1", "cp1252", "café “quoted”"),
    ("macintosh", "mac_roman", "naïve “quoted”"),
    ("sjis", "cp932", "日本語 ①②㈱"),
    ("iso-2022-jp", "iso2022_jp", "日本語の文章"),
    ("x-gbk", "gb18030", "中文网页"),
    ("hz-gb-2312", "hz", "中文网页"),
    ("ks_c_5601-1987", "cp949", "똠방각하 펲시"),
)
SAID_OUTSIDE = ("a.txt", "a.py", "a.html", "a.json", "a.xml", "a.csv")
PATTERNS = {
    ".txt": "{}",
    ".py": "# {}",
    ".html": "<html><body><p>{}</p></body></html>",
    ".json": '["{}"]',
    ".xml": "<r><p>{}</p></r>",
    ".csv": "a,b\n{},2\n",
}


def text_of(name: str, data: bytes, charset: str = "") -> str:
    source = Source(
        name=f"http://h/{name}", library="d", kind="url", data=data, file_name=name, charset=charset
    )
    return CONVERTER.convert(source).text


@pytest.mark.parametrize("name", SAID_OUTSIDE)
@pytest.mark.parametrize(("charset", "codec", "words"), DECLARED, ids=[each[0] for each in DECLARED])
def test_a_charset_named_by_the_server_is_heard(name: str, charset: str, codec: str, words: str) -> None:
    text = PATTERNS[PurePosixPath(name).suffix].format(words)
    assert words in text_of(name, text.encode(codec), charset)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("a.html", '<html><head><meta charset="{}"></head><body><p>{}</p></body></html>'),
        ("a.html", '<html><meta http-equiv=Content-Type content="text/html; charset={}"><p>{}</p></html>'),
        ("a.html", "<html><style>" + "a{{}}" * 5000 + '</style><meta charset="{}"><p>{}</p></html>'),
        ("a.xml", '<?xml version="1.0" encoding="{}"?><r><p>{}</p></r>'),
        ("a.eml", "Subject: s\nContent-Type: text/plain; charset={}\n\n{}\n"),
    ],
    ids=["meta", "http-equiv", "meta behind the styles", "xml", "mail"],
)
@pytest.mark.parametrize(("charset", "codec", "words"), DECLARED, ids=[each[0] for each in DECLARED])
def test_a_charset_named_in_the_document_is_heard(
    name: str, pattern: str, charset: str, codec: str, words: str
) -> None:
    assert words in text_of(name, pattern.format(charset, words).encode(codec))


def test_what_xml_says_of_itself_wins_over_the_server() -> None:
    data = '<?xml version="1.0" encoding="koi8-r"?><r><p>Привет мир</p></r>'.encode("koi8_r")
    assert text_of("a.xml", data, "windows-1251") == "Привет мир"


@pytest.mark.parametrize(
    "name", ["", "nonsense", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "a\0", "ü", "x" * 99]
)
def test_what_is_no_charset_of_documents_decodes_nothing(name: str) -> None:
    codec = codec_of(name)
    assert not codec or strictly(b"abc", codec) is None
