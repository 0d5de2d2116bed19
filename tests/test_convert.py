"""Texts, Markdown and what is refused, through the one function convert()."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile

import pytest

from converting import CONVERTER
from mcpvectordb.convert import PIPELINE, Converter, Limits, formats, supported_extensions
from mcpvectordb.errors import ConversionError, UnsupportedType
from mcpvectordb.models import Converted, Kind, Source


def converted(data: bytes, file_name: str = "notes.txt", kind: Kind = "file") -> Converted:
    return CONVERTER.convert(
        Source(name=f"/docs/{file_name}", library="d", kind=kind, data=data, file_name=file_name)
    )


def refusal(data: bytes, file_name: str) -> str:
    with pytest.raises(ConversionError) as caught:
        converted(data, file_name)
    return str(caught.value)


PARAGRAPHS = {
    "cp1251": "Московский университет был основан в 1755 году. Сегодня в нём учатся тысячи студентов.",
    "koi8-r": "Московский университет был основан в 1755 году. Сегодня в нём учатся тысячи студентов.",
    "shift_jis": "日本語の文章をここに書きます。東京は日本の首都であり、カタカナも混ぜておきましょう。",
    "euc_jp": "日本語の文章をここに書きます。東京は日本の首都であり、カタカナも混ぜておきましょう。",
    "gb18030": "北京是中华人民共和国的首都，也是全国的政治、文化中心。这座城市有三千多年的历史。",
    "big5": "臺北是中華民國的首都，也是臺灣的政治、文化與經濟中心。這座城市擁有許多著名的夜市與古蹟。",
    "euc_kr": "서울은 대한민국의 수도이며 가장 큰 도시이다. 한강이 도시를 가로질러 흐르며 사람이 많다.",
    "cp1252": "Die Straße führt über die Brücke nach Köln. Größere Mengen müssen früh bestellt sein – ja.",
    "latin-1": "L'été dernier, nous avons mangé une crème brûlée près de l'hôtel, où ça coûte à présent.",
    "cp1250": "Zażółć gęślą jaźń. Książka leży na stole, a łódka płynie po rzece. Święta są w grudniu.",
    "iso-8859-2": "Příliš žluťoučký kůň úpěl ďábelské ódy. Večer půjdeme do divadla, těšíme se už týden.",
    "cp866": "Московский университет был основан в 1755 году. Сегодня в нём учатся тысячи студентов.",
    "iso2022_jp": "日本語の文章をここに書きます。東京は日本の首都であり、カタカナも混ぜておきましょう。",
    "cp1253": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας και μία από τις αρχαιότερες πόλεις του κόσμου.",
}


@pytest.mark.parametrize("encoding", PARAGRAPHS)
def test_a_paragraph_in_an_old_encoding_is_read_right(encoding: str) -> None:
    text = PARAGRAPHS[encoding]
    assert converted(text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        # Most second bytes of these are ASCII letters, as in a word with an accent in every other place.
        ("cp932", "Name,メーカー\nA123,ソニー\nB456,パナソニック\nC789,シャープ\n"),
        ("cp932", "Version 1.2.3 リリースノート\nhttp://example.com/\n* バグ修正 fix crash in foo()\n"),
        ("cp932", "[Settings]\nTitle=サーバー\nFont=ＭＳ ゴシック\nPath=C:\\Program Files\\テスト\n"),
        ("cp1254", "Türkçe metin: İstanbul'da şeker ve çay içtim, güneş ışığı."),
        ("cp1250", "Árvíztűrő tükörfúrógép"),
        ("cp1250", "A könyv első fejezete a folyókról szól, és sűrű erdőkről. Az útról később írok. " * 9),
        ("cp1250", "jméno,město\nJiří,Plzeň\nŠárka,Kroměříž\n"),
        ("cp1250", "ime,grad\nŽeljko,Šibenik\nĐurđa,Čakovec\n"),
        ("cp1255", "name,city\nמשה,חיפה\nרות,ירושלים\nדוד,אילת\n"),
        ("cp1255", "דוח שנתי לשנת 2023: ההכנסות עלו בעשרה אחוזים."),
        ("cp1251", "зимний чай, мой край, той самой тайной"),
        ("cp1252", "Eg eri úr Føroyum, har er fínt og gott, ýti"),
        ("cp1252", "Žižek in São Paulo, Škoda für 5 €"),
        ("cp1252", "¿Cómo? història també què país, lunedì perché"),
        ("cp1252", "Það er gott að þú komst í dag, þó að veðrið sé ekki gott."),
        ("cp1252", "Le goût du fruit mûr en août est sûr, même là où ça brûle."),
        ("cp1252", "ƒ(x) = x² und ƒ(y) = ‚y‘"),
    ],
)
def test_few_letters_of_an_old_encoding_are_told_by_those_only_it_has(encoding: str, text: str) -> None:
    assert converted(text.encode(encoding)).text == text


def test_polish_in_the_old_standard_is_not_taken_for_that_of_windows() -> None:
    text = PARAGRAPHS["cp1250"]
    assert converted(text.encode("iso-8859-2")).text == text


@pytest.mark.parametrize(
    "text",
    [
        *("café crème", "naïve", "Preis: 5 € – Größe", "Señor", "“quoted”"),
        # Two accents side by side are no Greek or Chinese.
        *("Größe: 42", "Viele Grüße aus Köln", "créée", "informação", "hyvää yötä", "på øen å"),
    ],
)
def test_a_few_western_words_are_read_right(text: str) -> None:
    assert converted(text.encode("cp1252")).text == text


def test_one_accent_at_the_end_of_a_long_file_is_read_right() -> None:
    text = "plain words all the way\n" * 20_000 + "résumé\n"
    assert converted(text.encode("latin-1")).text == text


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"],
)
@pytest.mark.parametrize("text", ["Grüße aus Köln\nzweite Zeile", "一二三 北京是首都。\n第二行 abc", "x"])
def test_unicode_is_read_with_and_without_a_mark(encoding: str, text: str) -> None:
    assert converted(text.encode(encoding)).text == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "Отчёт за май\nСписок покупок: хлеб, молоко и сыр.",
        "Καλημέρα κόσμε. Σήμερα ο καιρός είναι καλός.",
        "היום מזג האוויר יפה בתל אביב.",
        "今日は天気がいいですね。東京タワーに行きましょう。日本語の文章です。",
        "数据库是存储数据的仓库。今天天气很好，我们去公园散步吧。再见，我的朋友们！",
    ],
)
def test_utf16_without_a_mark_is_read_in_scripts_that_have_few_zero_bytes(encoding: str, text: str) -> None:
    assert converted(text.encode(encoding)).text == text


def test_one_bad_byte_does_not_turn_utf8_into_something_else() -> None:
    text = "Übergröße für Äpfel und Öl, größer als üblich"
    assert converted(text.encode() + b"\xc3").text == text + "\ufffd"


def test_a_long_text_with_a_few_lost_bytes_is_that_text() -> None:
    lines = "12:00 the boat is moored\n" * 50
    assert converted(f"{lines}\0\0\0\n12:01 it is not".encode()).text == f"{lines}\n12:01 it is not"


def test_line_ends_become_newlines_and_the_rest_of_a_text_stays_exact() -> None:
    assert converted(b"\xef\xbb\xbfa  \r\nb\rc\n\n\n\n\td\x1b[0m \n").text == "a  \nb\nc\n\n\n\n\td\x1b[0m \n"


def test_a_plain_text_has_no_title_of_its_own_and_is_not_markdown() -> None:
    assert converted(b"# shell comment\n", "setup.log") == Converted(
        text="# shell comment\n", title="", file_type="txt", is_markdown=False
    )


@pytest.mark.parametrize(
    "file_name", ["README", "LICENSE", ".env", "release-1.2", "Meeting 3.5 notes", "a.rst"]
)
def test_text_without_an_extension_is_plain_text(file_name: str) -> None:
    assert converted(b"words", file_name).file_type == "txt"


@pytest.mark.parametrize("file_name", ["a.md", "A.MARKDOWN", "b.mdown", "c.mkd"])
def test_markdown_keeps_its_text_exactly(file_name: str) -> None:
    text = "---\ntitle: T\n---\n\n# Head  \n\n\n\n```\n  code\n```\n* a\\_b\n"
    assert converted(text.encode(), file_name) == Converted(
        text=text, title="T", file_type="md", is_markdown=True
    )


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Plain\n", "Plain"),
        ("text\n\n## Second level ##\n", "Second level"),
        ("Setext\n======\n", "Setext"),
        ("Two\nlines\n---\n", "Two lines"),
        ("```\n# no\n```\n\n# yes\n", "yes"),
        ("~~~~\n# no\n~~~\n# no\n~~~~\n# yes\n", "yes"),
        ("<!--\n# no\n-->\n# yes\n", "yes"),
        ("    # code\n\n# yes\n", "yes"),
        ("- item\n---\n\n# yes\n", "yes"),
        ("#hashtag\n\n# yes\n", "yes"),
        ("#\n\n# yes\n", "yes"),
        ("# The *new* **[guide](https://x.org/a_(b))** to `__init__` and snake_case\n", None),
        ("# ![logo](l.png) Tool <br> \\*star {#anchor}\n", "logo Tool *star"),
        ('---\nauthor: me\ntitle: "A \\"quoted\\" title"\n---\n# Head\n', 'A "quoted" title'),
        ("---\ntitle: 'It''s'\n---\n", "It's"),
        ("---\ntitle: Bare value # comment\n---\n", "Bare value"),
        ("---\ntitle: >\n  folded\n  lines\nx: y\n---\n", "folded lines"),
        ('+++\ntitle = "Toml"\n+++\n', "Toml"),
        ("---\nsubtitle: x\n---\n# Head\n", "Head"),
        ("no heading at all\n", ""),
    ],
)
def test_markdown_is_titled_by_front_matter_then_heading(text: str, title: str | None) -> None:
    expected = title if title is not None else "The new guide to __init__ and snake_case"
    assert converted(text.encode(), "a.md").title == expected


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "x")  # without the time: tests are named by these bytes
    return buffer.getvalue()


def ole(name: str) -> bytes:
    """The beginning of an OLE file that has a stream of this name."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1016) + name.encode("utf-16-le")


@pytest.mark.parametrize(
    ("data", "looks_like"),
    [
        (zipped("xl/workbook.bin"), "an Excel binary workbook (xlsb)"),
        (zipped("visio/document.xml"), "a Visio drawing"),
        (zipped("a.txt"), "a zip archive"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a PNG image"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "a JPEG image"),
        (b"GIF89a\x01\x00\x01\x00\x80\x00\x00", "a GIF image"),
        (b"\x1f\x8b\x08\x00", "a gzip archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office file"),
        (ole("WordDocument"), "an old Word document (doc)"),
        (ole("PowerPoint Document"), "an old PowerPoint presentation (ppt)"),
        (b"\x7fELF\x02\x01\x01", "a program"),
        (b"text with a \x00 in it", "a binary file"),
        (b"a,b,c\n\x00,2,3\n", "a binary file"),
        (bytes(range(1, 256)) * 3, "a binary file"),
    ],
)
@pytest.mark.parametrize("file_name", ["notes.txt", "notes.md", "page.html", "README"])
def test_binary_content_is_refused_whatever_its_name(data: bytes, looks_like: str, file_name: str) -> None:
    with pytest.raises(UnsupportedType, match=re.escape(f"{file_name} looks like {looks_like}, which")):
        converted(data, file_name)


@pytest.mark.parametrize(
    ("data", "file_name", "said"),
    [
        (zipped("word/document.xml")[:40], "a.docx", "is damaged (its archive cannot be opened"),
        (zipped("[Content_Types].xml")[:40], "a.pptx", "is damaged (its archive cannot be opened"),
        (zipped("[Content_Types].xml")[:40], "a.epub", "is damaged (its archive cannot be opened"),
        (zipped("a.txt"), "a.docx", "looks like a zip archive, which is not supported"),
        (ole("x")[:900], "a.xls", "could not be read as an old Excel workbook"),
        (ole("x")[:900], "a.msg", "could not be read as an Outlook message"),
        (ole("x")[:900], "a.doc", "looks like an old Word document (doc), which is not supported"),
        (ole("x")[:900], "a.ppt", "looks like an old PowerPoint presentation (ppt), which is not supported"),
        (ole("x")[:900], "a.txt", "looks like an old Microsoft Office file, which is not supported"),
    ],
)
def test_a_file_cut_off_before_it_shows_what_it_is_goes_by_its_name(
    data: bytes, file_name: str, said: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        converted(data, file_name)
    assert str(caught.value).startswith(f"{file_name} {said}")


def test_a_text_that_begins_like_a_picture_is_a_text() -> None:
    assert converted(b"GIF89a is an old format.").text == "GIF89a is an old format."


def test_an_unknown_extension_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(UnsupportedType) as caught:
        converted(b"words", "sheet.xyz")
    assert str(caught.value) == (
        "sheet.xyz has the extension .xyz, which is not supported: convert it to one of these and add that: "
        + formats.supported()
        + "."
    )


def test_a_text_given_by_name_may_be_called_anything() -> None:
    assert converted(b"words", "acme.com", kind="text").file_type == "txt"


def test_nothing_to_index_is_an_error_that_says_so() -> None:
    assert refusal(b"", "notes.txt") == "notes.txt is empty: there is nothing to index."
    assert refusal(b"", "page.html") == "page.html is empty: there is nothing to index."
    assert refusal(b"\xef\xbb\xbf", "a.md") == "a.md holds only blank lines: there is nothing to index."
    assert refusal(b" \r\n\t", "a.md") == "a.md holds only blank lines: there is nothing to index."


def test_the_package_says_what_it_supports() -> None:
    assert {".txt", ".md", ".html"} < set(supported_extensions())
    assert isinstance(PIPELINE, int)


def test_import_and_plain_text_load_no_heavy_library() -> None:
    code = (
        "import sys; from mcpvectordb.convert import Converter; from mcpvectordb.models import Source\n"
        "source = Source(name='a', library='d', kind='file', data='Grüße'.encode(), file_name='a.md')\n"
        "Converter().convert(source)\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"markitdown", "onnxruntime", "bs4", "charset_normalizer"} & set(run.stdout.split())


def test_a_file_that_is_not_what_its_name_says_is_read_for_what_it_is_and_told() -> None:
    result = converted(rb"{\rtf1\ansi Words within\par}", "letter.xlsx")
    assert (result.text, result.file_type) == ("Words within", "rtf")
    assert result.notice == "letter.xlsx is named like an Excel workbook, but it is an RTF text."
    assert not converted(rb"{\rtf1\ansi Words within\par}", "letter.xlsx", kind="url").notice


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "# "),
        ("a.md", "---\n\n> \n\n- \n"),
        ("a.md", "\u200b\u200d\n\n## \ufe0f"),
        ("a.txt", "\u200b\u200c\u2060\u00ad"),
        ("a.txt", "\u3164 \u2800"),
        ("a.py", "\u200b" * 2000),
        ("a.csv", "\u200b,\u200b\n\u200b,\u200b\n"),
    ],
)
def test_a_text_with_nothing_to_find_in_it_holds_no_text(name: str, text: str) -> None:
    assert refusal(text.encode(), name) == f"{name} holds no text: there is nothing to index."


@pytest.mark.parametrize(("name", "text"), [("a.md", "# 🙂"), ("a.txt", "#"), ("a.py", "# "), ("a.md", "№")])
def test_what_shows_anything_is_text(name: str, text: str) -> None:
    assert text.strip() in converted(text.encode(), name).text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "x" * (1024 * 1024 + 1)),
        ("a.md", "é" * (600 * 1024)),
        # Fenced, it is three times as long as it was.
        ("a.py", "`" * (400 * 1024)),
        ("a.html", f"<p>{'x' * (1024 * 1024 + 1)}</p>"),
    ],
)
def test_no_text_is_longer_than_the_limit_wherever_it_is_read(name: str, text: str) -> None:
    converter = Converter(Limits(text_mb=1))
    try:
        with pytest.raises(ConversionError) as caught:
            converter.convert(Source(name=name, library="d", kind="file", data=text.encode(), file_name=name))
    finally:
        converter.stop()
    assert str(caught.value) == (
        f"{name} holds more than 1 MB of text: split it, or raise MCPVECTORDB_MAX_TEXT_MB."
    )


def test_a_text_as_long_as_the_limit_is_read() -> None:
    data = b"x" * (1024 * 1024)
    source = Source(name="a.txt", library="d", kind="file", data=data, file_name="a.txt")
    assert len(Converter(Limits(text_mb=1)).convert(source).text) == len(data)
