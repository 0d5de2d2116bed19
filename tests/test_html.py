"""Web pages to Markdown, through the one function convert()."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from converting import CONVERTER
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import Converted, Source

FILES = Path(__file__).parent.parent / "../shared/data/files"
LONG = "The river rises in the hills and runs past three old mills before it meets the sea. " * 5


def converted(html: str | bytes, file_name: str = "page.html") -> Converted:
    data = html if isinstance(html, bytes) else html.encode()
    return CONVERTER.convert(
        Source(name=f"/docs/{file_name}", library="d", kind="file", data=data, file_name=file_name)
    )


def markdown(html: str) -> str:
    return converted(html).text


def test_a_page_becomes_its_content_in_markdown() -> None:
    page = """<!DOCTYPE html><html><head><title> The
      Guide </title><style>p {}</style><script>var a = "<p>x</p>";</script></head><body>
      <a class="skip-link" href="#main">Skip to content</a>
      <header><h1>The Guide</h1><nav><a href="/">Home</a></nav><p>A tagline</p></header>
      <div class="sidebar"><ul><li><a href="/a">Page A</a><li><a href="/b">Page B</a></ul></div>
      <main><h2>Install <a class="headerlink" href="#install">¶</a></h2>
      <p>Use snake_case, see <a href="https://x.org/a">the docs</a> or <a href="javascript:f()">run</a>.</p>
      <ul><li>one<ul><li>nested</li></ul></li><li>two</li></ul>
      <aside>A margin note</aside></main>
      <aside>Related pages</aside><footer>Copyright</footer></body></html>"""
    assert converted(page) == Converted(
        text=(
            "# The Guide\n\n## Install\n\nUse snake_case, see [the docs](https://x.org/a) or run.\n\n"
            "* one\n  + nested\n* two\n\nA margin note"
        ),
        title="The Guide",
        file_type="html",
        is_markdown=True,
    )


@pytest.mark.parametrize(
    ("head_and_body", "title"),
    [
        ("<title>A  &amp;\n B</title><h1>H</h1>", "A & B"),
        ("<title> </title><meta property='og:title' content='Shared'><h1>H</h1>", "Shared"),
        ("<svg><title>Icon</title></svg><h1>The <i>one</i></h1>", "The one"),
        ("<p>words</p>", ""),
    ],
)
def test_the_title_is_looked_for_in_three_places(head_and_body: str, title: str) -> None:
    assert converted(f"{head_and_body}<p>words</p>").title == title


@pytest.mark.parametrize(
    "clutter",
    [
        "<script>clutter</script>",
        "<noscript>clutter</noscript>",
        "<template>clutter</template>",
        "<svg><text>clutter</text></svg>",
        "<iframe>clutter</iframe>",
        "<nav>clutter</nav>",
        "<div role='navigation'>clutter</div>",
        "<form role='search'>clutter</form>",
        "<div role='banner'>clutter</div>",
        "<div role='contentinfo'>clutter</div>",
        "<div role='dialog'>clutter</div>",
        "<div hidden>clutter</div>",
        "<div style='color: red; display:none'>clutter</div>",
        "<span aria-hidden='true'>clutter</span>",
        "<div id='cookie-banner'>clutter</div>",
        "<div class='x cookie-consent'>clutter</div>",
        "<div id='gdpr'>clutter <button>OK</button></div>",
        "<div id='onetrust-consent-sdk'>clutter</div>",
        "<header><p>clutter</p></header>",
        "<footer>clutter</footer>",
        "<aside>clutter</aside>",
        "<a href='#x'>Skip to clutter</a>",
        "<ul class='breadcrumb'><li><a href='/'>clutter</a></li></ul>",
        "<div class='nav'>« <a href='1'>previous clutter</a> | <a href='3'>next</a> »</div>",
        "<div class='page-navigation'><a href='1'>clutter</a></div>",
        "<ul class='pagination'><li><a href='1'>clutter</a></li></ul>",
        "<div class='navfooter'><table><tr><td><a href='1'>Prev</a></td></tr>"
        "<tr><td>The clutter of the page before</td></tr></table></div>",
        "<!-- clutter -->",
    ],
)
def test_what_is_around_the_content_is_dropped(clutter: str) -> None:
    assert markdown(f"<body>{clutter}<p>{LONG}</p></body>") == LONG.strip()


@pytest.mark.parametrize(
    "content",
    [
        "<main><h2 id='cookie-consent'>Cookie consent</h2></main>",
        "<section id='gdpr'><p>Cookie consent</p></section>",
        "<div class='cookies'>Cookie consent</div>",
        "<article><header><p>Cookie consent</p></header></article>",
        "<section><header><h2>Cookie consent</h2></header></section>",
        "<div role='tabpanel' hidden>Cookie consent</div>",
        "<div class='menu'>Cookie consent</div>",
        "<div class='navigation'>Cookie consent: turn <a href='left'>left</a> at the lights.</div>",
        f"<div class='nav'><a href='x'>Cookie consent</a> {LONG}</div>",
        "<main><div class='nav'><a href='x'>Cookie consent</a></div></main>",
        f"<div hidden>Cookie consent {LONG}</div>",
        f"<div class='cookie-banner'>Cookie consent {LONG * 3}</div>",
        "<nav><main>Cookie consent</main></nav>",
    ],
)
def test_content_that_only_looks_like_clutter_is_kept(content: str) -> None:
    text = markdown(f"<body>{content}<p>{LONG}</p></body>")
    assert "Cookie consent" in text
    assert LONG.strip() in text


def test_a_page_that_is_all_navigation_is_kept() -> None:
    assert markdown("<nav><a href='/a'>Part A</a></nav>") == "[Part A](/a)"


def test_code_keeps_its_exact_text_and_its_language() -> None:
    code = "def f(a):\n\treturn  a_b * 2\n\n\n\n# <end> &  ``` |"
    escaped = code.replace("&", "&amp;").replace("<", "&lt;")
    page = f"<p>Before</p><pre><code class='hljs language-python'>{escaped}\n</code></pre><p>After</p>"
    assert markdown(page) == f"Before\n\n````python\n{code}\n````\n\nAfter"


def test_code_in_a_list_a_quote_and_a_table_for_looks_stays_code() -> None:
    page = """<ul><li>step<pre>a
  b</pre></li></ul><blockquote><pre>c

d</pre></blockquote>
    <table><tr><td class="linenos"><pre>1
2</pre></td><td><div class="highlight-source-shell"><pre>ls<br>cd</pre></div></td></tr></table>"""
    assert markdown(page) == (
        "* step\n\n  ```\n  a\n    b\n  ```\n\n> ```\n> c\n>\n> d\n> ```\n\n```shell\nls\ncd\n```"
    )


def test_tables_keep_spans_captions_and_bars() -> None:
    page = """<table><caption>Prices</caption><colgroup><col></colgroup>
      <tr><th>Fruit<th colspan=2>Cost | tax
      <tr><td rowspan=2>Apple<td>1<td>2
      <tr><td>3<td>4</table>"""
    assert markdown(page) == (
        "Prices\n\n| Fruit | Cost \\| tax | |\n| --- | --- | --- |\n| Apple | 1 | 2 |\n| Apple | 3 | 4 |"
    )


def test_a_table_for_layout_becomes_the_blocks_in_it() -> None:
    page = "<table><tr><td><h2>Head</h2><p>Text</p><td><table><tr><th>a<tr><td>b</table></table>"
    assert markdown(page) == "## Head\n\nText\n\n| a |\n| --- |\n| b |"


def test_definitions_details_captions_and_forms_keep_their_text() -> None:
    page = """<dl><dt>Term<dd>Meaning</dl><details><summary>More</summary>Inside</details>
      <figure><img src="cat.png" alt="A cat"><figcaption>Figure 1</figcaption></figure>
      <form><label>Colour <select><option>Red<option>Blue</select></label><button>Send</button></form>"""
    assert markdown(page) == (
        "Term\n:   Meaning\n\nMore\n\nInside\n\n![A cat](cat.png)\n\nFigure 1\n\n"
        "Colour\n\n* Red\n* Blue\n\nSend"
    )


def test_data_and_script_addresses_are_dropped_and_their_words_kept() -> None:
    page = (
        "<p><img src='data:image/png;base64,AAAA' alt='A chart'> <a href='data:text/html,x'>one</a> "
        "<a href=' java\nscript:x'>two</a> <img src='pixel.gif'></p>"
    )
    assert markdown(page) == "A chart one two"


def test_a_link_around_blocks_goes_to_their_heading() -> None:
    assert markdown("<a href='/x'><div><h3>Card</h3><p>Text</p></div></a>") == "### [Card](/x)\n\nText"


def test_words_that_look_like_markup_do_not_become_structure() -> None:
    assert markdown("<p># one</p><p>a\n# two</p><p>``` x</p>") == "\\# one\n\na # two\n\n\\``` x"


def test_end_tags_may_be_left_out() -> None:
    page = "<title>T</title><h1>H</h1><p>one<p>two<ul><li>a<li>b</ul><table><tr><td>x</div><td>y</table>"
    assert markdown(page) == "# H\n\none\n\ntwo\n\n* a\n* b\n\n|  |  |\n| --- | --- |\n| x | y |"


@pytest.mark.parametrize(
    "html",
    [
        "<p>text",
        "<p>text</b></i></p>",
        "<b><i>text</b></i>",
        "<div<p>>text",
        "</p>text",
        "text &#xD800; &bad; <",
    ],
)
def test_broken_markup_still_gives_its_text(html: str) -> None:
    text = markdown(html)
    assert "text" in text
    text.encode("utf-8")


@pytest.mark.parametrize("tag", ["div", "span", "b", "blockquote", "ul><li"])
def test_five_thousand_nested_elements_give_plain_text(tag: str) -> None:
    page = converted(f"<h1>Top</h1><pre>a\n  b</pre>{f'<{tag}>' * 5000}deep text")
    assert (page.text.split("\n")[0], page.text.split("\n")[-1], page.is_markdown) == (
        "Top",
        "deep text",
        False,
    )
    assert "a\n  b" in page.text
    assert "nested too deeply" in page.notice


@pytest.mark.parametrize(
    "html", ["<html></html>", "<script>var a = 1</script>", "<p> &nbsp; </p>", "<img src=x.png>"]
)
def test_a_page_without_text_is_an_error_that_says_so(html: str) -> None:
    with pytest.raises(ConversionError, match=r"^page\.html holds no text \(only markup or scripts\): "):
        converted(html)


def test_control_characters_and_blank_runs_are_taken_out() -> None:
    page = f"<p>a\x01b\x7f</p><br><br><br><div> </div><br><p>{LONG}<br>end</p><pre>c\x02\n\n\n\nd</pre>"
    assert markdown(page) == f"ab\n\n{LONG.strip()}\nend\n\n```\nc\n\n\n\nd\n```"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("<meta charset=windows-1251>", "cp1251"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">', "cp932"),
        ('<?xml version="1.0" encoding="iso-2022-jp"?>', "iso2022_jp"),
        ("<meta charset=iso-8859-1>", "utf-8"),
        ("<meta charset=nonsense>", "utf-8"),
        ("<meta charset=utf-8>", "utf-16"),
        ("", "utf-8-sig"),
    ],
)
def test_the_declared_encoding_is_used_unless_it_is_wrong(head: str, encoding: str) -> None:
    assert converted(f"{head}<p>Привет</p>".encode(encoding)).text == "Привет"


def test_html_without_an_extension_is_a_page() -> None:
    page = converted("\n<!doctype html><title>T</title><p>words", "index")
    assert (page.file_type, page.title, page.text) == ("html", "T", "words")


def expected_phrases() -> list[tuple[str, str]]:
    manifest = FILES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    with manifest.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row[0], row[3]) for row in rows[1:] if row[0].startswith("html/")]


def bare(text: str) -> str:
    return " ".join(re.sub(r"[*_`\\]", "", text).split())


def test_real_pages_keep_the_phrases_they_are_known_for() -> None:
    pages = expected_phrases()
    if not pages:
        pytest.skip("the real pages of ../shared/data/files are not on this machine")
    missing = [
        (path, phrase)
        for path, phrases in pages
        for phrase in phrases.split(" || ")
        if bare(phrase) not in bare(converted((FILES / path).read_bytes(), Path(path).name).text)
    ]
    assert missing == []
