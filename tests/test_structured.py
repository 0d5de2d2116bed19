"""JSON and XML to text in which every value is found; and the phrases of the shared samples."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpvectordb.convert.read import (
    Read,
    book,
    delimited,
    json_text,
    mail,
    notebook,
    structured,
    subtitles,
)
from mcpvectordb.errors import ConversionError, UnsupportedType

FILES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"
READERS: dict[str, Callable[[bytes, str], Read]] = {
    ".csv": delimited.read,
    ".eml": mail.read_eml,
    ".msg": mail.read_msg,
    ".epub": book.read,
    ".ipynb": notebook.read,
    ".json": structured.read_json,
    ".xml": structured.read_xml,
    ".nxml": structured.read_xml,
    ".vtt": subtitles.read,
}
# The heading that another program puts over the body of every message; this message has no such word.
NOT_IN_THE_FILE = {("markitdown__test_outlook_msg.msg", "Content")}


def fenced_json(text: str, file_name: str = "a.json") -> str:
    read = structured.read_json(text.encode(), file_name)
    assert read.is_markdown
    assert not read.notice
    return read.text.removeprefix("```json\n").removesuffix("\n```")


def xml(text: str | bytes) -> str:
    read = structured.read_xml(text if isinstance(text, bytes) else text.encode(), "a.xml")
    assert read.is_markdown
    assert not read.notice
    return read.text


def test_json_laid_out_by_hand_stays_as_it_is() -> None:
    text = '{\n    "name": "Zoë",\n    "sizes": [1,2,  3]\n}'
    assert fenced_json(text) == text


def test_json_in_one_line_is_laid_out() -> None:
    items = [{"id": n, "tags": ["x", "y"], "place": {"lat": 1.50, "name": "Ålesund " * 9}} for n in range(2)]
    assert fenced_json(json.dumps({"items": items}, ensure_ascii=True)) == "\n".join(
        [
            "{",
            '  "items": [',
            *[
                line
                for n in range(2)
                for line in [
                    "    {",
                    f'      "id": {n},',
                    '      "tags": ["x", "y"],',
                    f'      "place": {{"lat": 1.5, "name": "{"Ålesund " * 9}"}}',
                    "    }" + ("," if n == 0 else ""),
                ]
            ],
            "  ]",
            "}",
        ]
    )


def test_escapes_that_hide_letters_come_out() -> None:
    assert fenced_json(r'{"a": "caf\u00e9 \ud83d\ude00 \/x", "b": "one\ntwo\tthree \"q\" \\n"}') == (
        '{\n  "a": "café 😀 /x",\n  "b": "one\ntwo three \\"q\\" \\\\n"\n}'
    )


def test_half_a_character_and_control_characters_stay_escaped() -> None:
    assert (
        fenced_json(r'["\ud83d x", "\u0007", "\u0022", "\u00e9"]') == r'["\ud83d x", "\u0007", "\u0022", "é"]'
    )


def test_numbers_keep_every_digit() -> None:
    digits = "9" * 6000
    text = fenced_json(f'{{"n": {digits}, "f": 1.10, "nan": NaN, "big": 1e999, "s": "\\u0041"}}')
    for value in (digits, "1.10", "NaN", "1e999"):
        assert value in text


def test_a_long_list_of_numbers_fills_its_lines() -> None:
    lines = fenced_json("[" + ",".join(map(str, range(1000))) + "]").split("\n")
    assert len(lines) < 100
    assert " ".join(lines[1:-1]).replace("  ", " ").split() == [f"{n}," for n in range(999)] + ["999"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=8),
    max_leaves=60,
)


@given(JSON.filter(lambda value: "\\" not in json.dumps(value, ensure_ascii=False)), st.integers(0, 120))
def test_laying_out_changes_no_value(value: object, width: int) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(json_text.laid_out(text, one_line_chars=width)) == value


@given(JSON)
def test_no_json_breaks_the_reader(value: object) -> None:
    try:
        text = structured.read_json(json.dumps({"value": value}).encode(), "a.json").text
    except UnsupportedType:
        # Mostly control characters: not text to anybody.
        return
    assert '"value"' in text


def test_json_that_is_broken_is_plain_text_with_a_notice() -> None:
    read = structured.read_json(b'{"a": 1,\n "b": }', "a.json")
    assert (read.text, read.is_markdown) == ('{"a": 1,\n "b": }', False)
    assert (
        read.notice == "a.json is not valid JSON (Expecting value in line 2); it was indexed as plain text."
    )


def test_json_nested_too_deeply_is_plain_text() -> None:
    read = structured.read_json(b"[" * 100_000 + b'"deep"' + b"]" * 100_000, "a.json")
    assert '"deep"' in read.text
    assert "nested too deeply" in read.notice


def test_json_lines_keep_a_line_for_each_record() -> None:
    text = '{"id": 1, "name": "Zo\\u00eb"}\n\n{"id": 2}\n'
    assert fenced_json(text, "a.jsonl") == '{"id": 1, "name": "Zoë"}\n{"id": 2}'
    assert fenced_json(text, "a.json") == '{"id": 1, "name": "Zoë"}\n{"id": 2}'


def test_long_records_of_json_lines_are_laid_out() -> None:
    lines = [json.dumps({"id": n, "text": "some words " * 200, "more": ["a\nb"]}) for n in range(2)]
    text = fenced_json("\n".join(lines), "a.ndjson")
    assert '{\n  "id": 0,\n  "text": "some words' in text
    assert '  "more": [\n    "a\nb"\n  ]\n}\n\n{\n  "id": 1,' in text


def test_broken_lines_among_json_lines_are_kept_and_counted() -> None:
    read = structured.read_json(b'{"a": 1}\nnot json\n{"b": 2}\n', "a.jsonl")
    assert read.text == '```json\n{"a": 1}\nnot json\n{"b": 2}\n```'
    assert read.notice == "1 line was not valid JSON in a.jsonl; indexed as plain text."


@pytest.mark.parametrize("data", [b"", b" \n", b"{}", b"[ ]", b"null"])
def test_json_without_a_value_is_an_error(data: bytes) -> None:
    with pytest.raises(ConversionError, match=r"a\.json holds no values"):
        structured.read_json(data, "a.json")


def test_json_that_shows_a_fence_does_not_end_its_own() -> None:
    read = structured.read_json(b'{"md": "```\\ncode\\n```"}', "a.json")
    assert read.text == '````json\n{\n  "md": "```\ncode\n```"\n}\n````'


JATS = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS//EN" "JATS.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink"><front><article-meta>
<title-group><article-title>On <italic>rivers</italic></article-title></title-group>
<contrib-group><contrib><name><surname>Lee</surname><given-names>Ann</given-names></name></contrib></contrib-group>
<abstract><p>They flow&nbsp;on&mdash;slowly.</p></abstract></article-meta></front>
<body><sec><label>1</label><title>Results</title><p>Water is wet (<xref>1</xref>), see
<ext-link xlink:href="https://x.org/a">the data</ext-link>.<fn><p>Mostly.</p></fn></p>
<sec><title>Depth</title><list list-type="order"><list-item><p>deep</p></list-item><list-item><p>deeper</p>
<list><list-item><p>deepest</p></list-item></list></list-item></list></sec>
<table-wrap><label>Table 1.</label><caption><title>Sizes</title></caption><table><thead><tr><th>a</th>
<th>b</th></tr></thead><tbody><tr><td rowspan="2">x</td><td>1</td></tr><tr><td>2</td></tr></tbody></table>
</table-wrap></sec></body>
<back><ref-list><title>References</title><ref id="1"><label>1</label><element-citation>
<person-group><name><surname>Ray</surname><given-names>B</given-names></name>
<name><surname>Fox</surname><given-names>C</given-names></name></person-group>
<article-title>Streams</article-title><year>2001</year></element-citation></ref></ref-list></back></article>"""


def test_an_article_becomes_headings_paragraphs_lists_and_tables() -> None:
    read = structured.read_xml(JATS.encode(), "a.nxml")
    assert read == Read(
        title="On rivers",
        text="""# On rivers

Ann Lee

They flow\u00a0on—slowly.

## 1 Results

Water is wet (1), see [the data](https://x.org/a). (Mostly.)

### Depth

1. deep
2. deeper
   - deepest

Table 1. Sizes

| a | b |
| --- | --- |
| x | 1 |
| x | 2 |

## References

- 1 B Ray, C Fox Streams 2001""".replace("\u00a0", " "),
    )


def test_docbook_keeps_its_code_and_its_tables() -> None:
    assert xml("""<book xmlns="http://docbook.org/ns/docbook"><title>Guide</title><chapter><title>Start</title>
<para>Run <command>make</command>:</para><programlisting language="sh">make  all
  # twice</programlisting><note><para>Mind the gap.</para></note>
<informaltable><tgroup><tbody><row><entry>k</entry><entry>v</entry></row><row><entry morerows="1">1</entry>
<entry>2</entry></row><row><entry>3</entry></row></tbody></tgroup></informaltable></chapter></book>""") == (
        "# Guide\n\n## Start\n\nRun make:\n\n```sh\nmake  all\n  # twice\n```\n\nMind the gap.\n\n"
        "| k | v |\n| --- | --- |\n| 1 | 2 |\n| 1 | 3 |"
    )


def test_a_feed_becomes_its_items() -> None:
    feed = """<rss version="2.0"><channel><title>News</title><link>https://x.org</link><item><title>First</title>
<description>&lt;p&gt;Some &lt;b&gt;bold&lt;/b&gt; words&lt;/p&gt;</description>
<pubDate>Mon, 1 Jan 2024</pubDate></item><item><title>Second</title>
<description><![CDATA[<p>A &amp; B</p>]]></description></item></channel></rss>"""
    assert xml(feed) == (
        "# News\n\nlink: https://x.org\n\n## First\n\nSome **bold** words\n\npubdate: Mon, 1 Jan 2024\n\n"
        "## Second\n\nA & B"
    )


def test_verse_keeps_its_lines() -> None:
    tei = "<TEI><text><body><lg><l>One line,</l><l>and another.</l></lg><p>Prose.</p></body></text></TEI>"
    assert xml(tei) == "One line,\nand another.\n\nProse."


def test_data_keeps_every_attribute_and_value() -> None:
    assert xml("""<!-- made by hand --><cfg xmlns:x="http://x.org/ns" version="2">
  <!-- where it runs -->
  <host x:name="alpha" port="80">10.0.0.1 &amp; more</host>
  <empty/>
  <group><key>a</key><value>1 &lt; 2</value></group>
</cfg>""") == (
        '<!-- made by hand -->\ncfg version="2"\n\n- <!-- where it runs -->\n'
        '- host x:name="alpha" port="80": 10.0.0.1 & more\n- empty\n- group\n  - key: a\n  - value: 1 < 2'
    )


def test_html_escaped_in_data_is_read_as_html() -> None:
    text = "&lt;div&gt;&lt;p&gt;First.&lt;/p&gt;&lt;p&gt;Second.&lt;/p&gt;&lt;/div&gt;"
    assert xml(f'<xbrl><note id="n">{text}</note><cash>5</cash></xbrl>') == (
        'xbrl\n\n- note id="n":\n\nFirst.\n\nSecond.\n\n- cash: 5'
    )


def test_pictures_in_letters_are_dropped() -> None:
    picture = "iVBORw0KGgoAAAANSUhEUgAA" * 100
    assert xml(f"<FictionBook><body><p>Words.</p></body><binary>{picture}</binary></FictionBook>") == "Words."
    assert xml(f"<data><name>x</name><icon>{picture}</icon></data>") == "data\n\n- name: x\n- icon"


def test_the_words_of_a_drawing_are_its_text() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><title>Map</title><path d="M0 0"/>'
    assert xml(f"{svg}<text><tspan>North</tspan></text></svg>") == "# Map\n\nNorth"
    with pytest.raises(ConversionError, match=r"a\.xml holds no text \(only markup or drawings\)"):
        structured.read_xml(b'<svg><path d="M0 0"/></svg>', "a.xml")


def test_xhtml_is_read_as_a_page() -> None:
    page = (
        '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head><body>'
    )
    read = structured.read_xml(f"{page}<h1>H</h1><p>Words.</p></body></html>".encode(), "a.xml")
    assert (read.title, read.text) == ("T", "# H\n\nWords.")


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE a [<!ENTITY x "y">]>',
        '<!-- c --><?p?>\n<!doctype a SYSTEM "x.dtd" [<!ELEMENT a ANY><!ENTITY % p SYSTEM "file:///x">]>',
        "<!DOCTYPE a [ <!-- ]> --> <!ENTITY x 'y'> ]>",
        '<!DOC\x01TYPE a [<!ENTITY x "y">]>',
        '<!DOCTYPE a [<!ENTITY x "y">',
    ],
)
def test_definitions_of_entities_are_refused(doctype: str) -> None:
    with pytest.raises(ConversionError, match=r"a\.xml defines XML entities"):
        structured.read_xml(f"{doctype}<a>&x;</a>".encode(), "a.xml")


def test_entities_behind_a_second_document_type_are_never_expanded() -> None:
    data = b'<!DOCTYPE a><!DOCTYPE a [<!ENTITY x "expanded">]><a>&x;</a>'
    read = structured.read_xml(data, "a.xml")
    assert (read.text, read.is_markdown) == (data.decode(), False)


def test_a_harmless_document_type_passes() -> None:
    assert xml('<!DOCTYPE a [<!ATTLIST a b CDATA "[>">]><a><p>one &eacute; &unknown; R&D two</p></a>') == (
        "one é &unknown; R&D two"
    )


def test_entity_like_text_in_cdata_is_text() -> None:
    assert (
        xml("<doc><p>See <![CDATA[<!ENTITY x> &nbsp; <b>]]> here.</p></doc>")
        == "See <!ENTITY x> &nbsp; <b> here."
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_the_encoding_is_taken_from_the_mark_or_the_declaration(encoding: str) -> None:
    name = encoding.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{name}"?><doc><p>naïve café</p></doc>'
    assert xml(text.encode(encoding)) == "naïve café"


def test_xml_that_is_not_well_formed_gives_what_can_be_read() -> None:
    read = structured.read_xml(b"<doc><p>First <b>words</p><p>Second.</p>", "a.xml")
    assert "First words" in read.text
    assert "Second." in read.text
    assert read.notice.startswith("a.xml is not well-formed XML (")


@pytest.mark.parametrize("data", [b"no markup at all", b"<a>" * 2000 + b"deep" + b"</a>" * 2000])
def test_what_is_no_xml_is_plain_text_with_a_notice(data: bytes) -> None:
    read = structured.read_xml(data, "a.xml")
    assert (read.text, read.is_markdown) == (data.decode(), False)
    assert read.notice == "a.xml could not be read as XML; it was indexed as plain text."


def test_layers_that_the_parser_admits_are_read() -> None:
    assert xml("<sec>" * 120 + "<p>deep <b>down</b></p>" + "</sec>" * 120) == "deep down"


def expected() -> list[tuple[str, str, str]]:
    manifest = FILES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = csv.reader(manifest.read_text("utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        (row[0], row[2], row[3]) for row in rows if row[0].endswith(tuple(READERS)) and row[0][:4] != "html"
    ]


def bare(text: str) -> str:
    return " ".join(re.sub(r"[*_`\\]", "", text).split())


@pytest.mark.parametrize(("path", "note", "phrases"), expected() or [("", "", "")])
def test_the_samples_hold_their_phrases(path: str, note: str, phrases: str) -> None:
    if not path:
        pytest.skip("the shared sample files are not here")
    file = FILES / path
    read = READERS[file.suffix](file.read_bytes(), file.name)
    text = bare(read.text)
    assert text
    wanted = [phrase for phrase in phrases.split(" || ") if (file.name, phrase) not in NOT_IN_THE_FILE]
    assert [phrase for phrase in wanted if bare(phrase) not in text] == []
    _, _, unwanted = note.partition("must NOT contain: ")
    assert [phrase for phrase in unwanted.split(" || ") if phrase and phrase in text] == []


WORD_2003 = "http://schemas.microsoft.com/office/word/2003/wordml"
WORD_2006 = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def runs(*texts: str) -> str:
    return "".join(f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>' for text in texts)


def test_words_own_xml_of_2003_is_read_as_a_document() -> None:
    note = f"<w:r><w:footnote><w:p>{runs('a note')}</w:p></w:footnote></w:r>"
    gone = '<a:annotation w:type="Word.Deletion"><a:content><w:r><w:delText>x</w:delText></w:r></a:content>'
    body = f"<s:sect><w:p>{runs('Two', ' ', 'words')}{note}{gone}</a:annotation></w:p></s:sect>"
    spaces = f'xmlns:w="{WORD_2003}" xmlns:s="urn:s" xmlns:a="urn:a"'
    xml = f'<?xml version="1.0"?><w:wordDocument {spaces}><w:body>{body}</w:body></w:wordDocument>'
    assert structured.read_xml(xml.encode(), "a.xml").text == "Two words\n\na note"


def test_a_package_in_one_file_is_read_as_what_it_packs() -> None:
    body = f"<w:body><w:p>{runs('Hello', ' there')}</w:p></w:body>"
    document = f'<w:document xmlns:w="{WORD_2006}">{body}</w:document>'
    part = f'<p:part p:name="/word/document.xml"><p:xmlData>{document}</p:xmlData></p:part>'
    space = "http://schemas.microsoft.com/office/2006/xmlPackage"
    xml = f'<?xml version="1.0"?><p:package xmlns:p="{space}">{part}</p:package>'
    assert structured.read_xml(xml.encode(), "a.xml").text == "Hello there"
