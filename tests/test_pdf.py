"""PDFs become Markdown page by page, in the order of reading; what cannot be read of them is named."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from converting import CONVERTER
from mcpvectordb.convert import Converter, Limits
from mcpvectordb.convert.read import Read
from mcpvectordb.convert.read.pdf import read
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import PageMark, Source
from pdfs import Page, pdf

SAMPLES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"

LEFT = [
    "The committee met on Tuesday to",
    "discuss the new budget and then",
    "agreed on forty thousand in all.",
]
RIGHT = [
    "Members of the council did ask",
    "if the roof of the old mill can",
    "be mended before the next winter.",
]
ROWS = [
    ("Item", "Count", "Price"),
    ("Widget", "4", "9.50"),
    ("Gadget", "12", "3.25"),
    ("Bolt", "100", "0.10"),
]
TABLE = (
    "| Item | Count | Price |\n| --- | --- | --- |\n"
    "| Widget | 4 | 9.50 |\n| Gadget | 12 | 3.25 |\n| Bolt | 100 | 0.10 |"
)


def of(*pages: Page) -> Read:
    return read(pdf(*pages), "a.pdf")


def text_of(*pages: Page) -> str:
    return of(*pages).text


def error_of(data: bytes) -> str:
    with pytest.raises(ConversionError) as caught:
        read(data, "a.pdf")
    return str(caught.value)


def says(*lines: str) -> Page:
    return Page().lines(50, 700, lines)


def cells(page: Page, xs: tuple[int, ...] = (50, 200, 300)) -> Page:
    for number, row in enumerate(ROWS):
        for x, cell in zip(xs, row, strict=True):
            page.text(x, 700 - 15 * number, cell)
    return page


def source(data: bytes) -> Source:
    return Source(name="a.pdf", library="l", kind="file", data=data, file_name="a.pdf")


# Pages and paragraphs


def test_every_page_with_text_has_a_mark_where_its_text_begins() -> None:
    result = of(says("First."), Page(), says("Third."))
    assert result.text == "First.\n\nThird."
    assert result.pages == (PageMark(offset=0, page=1), PageMark(offset=8, page=3))
    assert result.notice == ""


def test_lines_become_paragraphs_and_broken_words_whole() -> None:
    page = says("A self-locking nut holds the con-", "struction together, as each self-", "locking nut does.")
    page.lines(50, 640, ["Another paragraph stands apart of", "the first one."])
    assert text_of(page) == (
        "A self-locking nut holds the construction together, as each self-locking nut does.\n\n"
        "Another paragraph stands apart of the first one."
    )


def test_a_sentence_that_goes_on_over_the_page_goes_on_in_the_text() -> None:
    result = of(
        says("The first page of this document ends in the middle of a sen-"),
        says("tence that ends here. And another."),
    )
    assert result.text == (
        "The first page of this document ends in the middle of a sentence that ends here. And another."
    )
    second = result.pages[1]
    assert (second.page, result.text[second.offset :]) == (2, "tence that ends here. And another.")


def test_a_page_number_between_two_pages_does_not_cut_a_sentence() -> None:
    pages = [
        says(f"Page {name} begins a sentence and does not end it but").text(300, 20, str(number))
        for number, name in enumerate(("one", "two", "three"), 1)
    ]
    pages[1].operators[0] = says("goes on with this and then with more of it, and").operators[0]
    assert text_of(*pages).startswith(
        "Page one begins a sentence and does not end it but goes on with this and then with more of it, and"
    )


@pytest.mark.parametrize("order", ["across", "left first"])
def test_columns_are_read_one_after_the_other(order: str) -> None:
    page = Page()
    if order == "across":
        for number, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
            page.text(50, 700 - 12 * number, left, font="mono").text(
                320, 700 - 12 * number, right, font="mono"
            )
    else:
        page.lines(50, 700, LEFT).lines(320, 700, RIGHT)
    assert text_of(page) == f"{' '.join(LEFT)}\n\n{' '.join(RIGHT)}"


def test_lines_drawn_in_no_readers_order_are_read_from_top_to_bottom() -> None:
    upwards = Page()
    for number, line in reversed(list(enumerate([*LEFT, *RIGHT]))):
        upwards.text(50, 700 - 12 * number, line, font="mono")
    assert text_of(upwards) == " ".join([*LEFT, *RIGHT])


def test_letters_drawn_one_by_one_make_words() -> None:
    page = Page()
    for number, letter in enumerate("The quick brown fox jumps"):
        if letter != " ":
            page.text(50 + 6 * number, 700, letter, font="mono")
    assert text_of(page) == "The quick brown fox jumps"


def test_letters_set_far_apart_make_words() -> None:
    page = Page()
    for number, letter in enumerate("WIDE TITLES"):
        if letter != " ":
            page.text(50 + 9 * number, 700, letter, font="mono")
    assert text_of(page) == "WIDE TITLES"


def test_the_lines_of_a_turned_page_and_of_text_along_the_margin_are_read() -> None:
    turned = Page(rotate=90)
    for number, line in enumerate(LEFT):
        turned.turned_text((0, 1, -1, 0, 100 + 12 * number, 50), line, font="mono")
    assert text_of(turned) == " ".join(LEFT)
    stamped = says(*LEFT).turned_text((0, 1, -1, 0, 20, 300), "arXiv:2305.03393v1 [cs.CV]")
    assert text_of(stamped) == f"{' '.join(LEFT)}\n\narXiv:2305.03393v1 [cs.CV]"


def test_an_invisible_layer_of_text_over_a_scan_is_read() -> None:
    result = of(Page().image().invisible_text(50, 700, "What OCR has seen"))
    assert (result.text, result.notice) == ("What OCR has seen", "")


def test_text_outside_the_page_is_left_out() -> None:
    assert text_of(says("On the page.").text(50, 2000, "Beyond it.")) == "On the page."


# Letters


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        ("\ufb01nd the \ufb03ne", "find the ffine"),
        ("\uf0b7 a bullet of Word", "- a bullet of Word"),
        ("no\u00adthing so\u200bft", "nothing soft"),
        ("e\u0301tude", "étude"),
        ("smile \U0001f600 now", "smile \U0001f600 now"),
        ("םולש םלוע", "עולם שלום"),
        ("日本語の文章です。", "日本語の文章です。"),
    ],
)
def test_characters_are_those_a_reader_would_type(drawn: str, text: str) -> None:
    assert text_of(Page().text(50, 700, drawn, font="unicode")) == text


def test_lines_of_chinese_join_without_a_blank_and_columns_of_japanese_run_down() -> None:
    assert text_of(Page().lines(50, 700, ["中文文本在这里换行", "继续下一行的内容吧"], font="unicode")) == (
        "中文文本在这里换行继续下一行的内容吧"
    )
    page = Page()
    for x, column in ((500, "日本語の縦書き"), (480, "の文章です")):
        for number, letter in enumerate(column):
            page.text(x, 700 - 12 * number, letter, font="drawn")
    assert text_of(page) == "日本語の縦書きの文章です"


def test_text_that_looks_like_markup_stays_text() -> None:
    assert text_of(says("# pragma once")) == "\\# pragma once"


# Headings, lists, tables


def test_headings_are_known_by_size_and_weight_and_the_outline() -> None:
    page = Page().text(50, 740, "Annual Report", 24, "bold").text(50, 715, "The year", 16)
    page.lines(50, 690, LEFT).text(50, 640, "In short", 10, "bold").lines(50, 620, RIGHT)
    page.text(50, 570, "Appendix A").lines(50, 550, LEFT)
    text = read(pdf(page, outline=[("Appendix A", 1)]), "a.pdf").text
    assert re.findall(r"^#.*", text, re.M) == [
        "# Annual Report",
        "## The year",
        "### In short",
        "# Appendix A",
    ]
    assert "# Appendix A" not in text_of(page)


def test_lists_keep_their_items_apart() -> None:
    assert text_of(Page().lines(50, 700, ["• first thing", "• second thing", "1. one", "2. two"])) == (
        "- first thing\n- second thing\n1. one\n2. two"
    )


def test_a_table_with_rules_is_a_table_and_a_merged_cell_is_filled_once() -> None:
    assert text_of(cells(Page().grid((45, 190, 290, 400), (715, 695, 680, 665, 650)))) == TABLE
    narrow = cells(Page().grid((45, 90, 120, 150), (715, 695, 680, 665, 650)), (50, 92, 122))
    assert text_of(narrow) == TABLE
    merged = Page().box(45, 650, 400, 715).rule(45, 695, 400, 695).rule(190, 650, 190, 695)
    merged.rule(290, 650, 290, 695).rule(45, 680, 400, 680).rule(45, 665, 400, 665)
    merged.text(50, 700, "Parts that we sell")
    for number, row in enumerate(ROWS[1:], 1):
        for x, cell in zip((50, 200, 300), row, strict=True):
            merged.text(x, 700 - 15 * number, cell)
    assert text_of(merged).startswith(
        "| Parts that we sell |  |  |\n| --- | --- | --- |\n| Widget | 4 | 9.50 |"
    )


def test_a_table_without_rules_is_a_table() -> None:
    page = cells(Page().text(50, 740, "Prices of parts:")).text(50, 600, "All prices without tax.")
    assert text_of(page) == f"Prices of parts:\n\n{TABLE}\n\nAll prices without tax."


def test_words_broken_in_a_cell_are_whole() -> None:
    page = Page().grid((45, 190, 290, 400), (715, 690, 660)).text(50, 700, "Alarm").text(200, 700, "From-")
    page.text(300, 700, "Well-known").lines(50, 680, ["Sensor disconnec-", "tion and trouble"])
    page.text(200, 680, "1").lines(300, 680, ["A well-", "known fault"])
    assert text_of(page) == (
        "| Alarm | From- | Well-known |\n| --- | --- | --- |\n"
        "| Sensor disconnection and trouble | 1 | A well-known fault |"
    )


def test_a_box_around_prose_is_no_table() -> None:
    page = Page().box(40, 600, 400, 720).lines(50, 700, LEFT)
    assert text_of(page) == " ".join(LEFT)


# Headers and footers


def test_a_running_header_is_kept_once_and_page_numbers_are_not() -> None:
    pages = [
        Page().text(50, 770, "ACME Inc.", 8).text(50, 700, f"Part {name}.").text(300, 20, f"- {number} -", 8)
        for number, name in enumerate(("one", "two", "three", "four"), 1)
    ]
    assert text_of(*pages) == "ACME Inc.\n\nPart one.\n\nPart two.\n\nPart three.\n\nPart four."


def test_what_differs_from_page_to_page_is_kept() -> None:
    pages = [
        says("Words.").text(50, 770, f"Sheet {number} of the survey", 8).text(300, 400, str(number))
        for number in (1, 2, 3)
    ]
    text = text_of(*pages)
    assert all(f"Sheet {number} of the survey" in text for number in (1, 2, 3))
    assert re.findall(r"^\d$", text, re.M) == ["1", "2", "3"]


def test_the_title_of_a_slide_is_kept_however_often_it_comes() -> None:
    pages = [
        Page().text(50, 750, "Results", 24).text(50, 700, f"Of part {name}.") for name in ("a", "b", "c")
    ]
    assert text_of(*pages).count("# Results") == 3


def test_what_repeats_on_one_page_alone_is_kept() -> None:
    assert text_of(*(says("Words.").text(x, 20, "N/A", 8) for x in (50, 300))).count("N/A") == 2
    page = says("Words.")
    for x in (50, 200, 350, 500):
        page.text(x, 20, "N/A", 8)
    assert text_of(page).count("N/A") == 4


def test_a_lone_number_is_not_taken_for_a_page_number() -> None:
    assert text_of(says("The answer is below.").text(300, 20, "42")) == "The answer is below.\n\n42"


# Title


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("The Lease of the Boathouse", "The Lease of the Boathouse"),
        ("Überblick 2024", "Überblick 2024"),
        ("Microsoft Word - lease.doc", ""),
        ("untitled", ""),
        ("Untitled-1", ""),
        ("(anonymous)", ""),
        ("Microsoft Word - report.doc", ""),
        ("Adobe Photoshop PDF", ""),
        ("PowerPoint Presentation", ""),
        ("Layout 1", ""),
        ("Scanned Document", ""),
        ("Layout of the Harbour", "Layout of the Harbour"),
        ("Adobe Photoshop for Beginners", "Adobe Photoshop for Beginners"),
        ("Anonymous Sources", "Anonymous Sources"),
        ("lease_final.indd", ""),
        ("scan0001.pdf", ""),
        ("paper.dvi", ""),
        ("scan_0001", ""),
        ("<4D6963726F736F667420576F7264202D20B4E5B9AE2E646F63>", ""),
        ("c4efeb87-488c-48cc-b542-7756d04d5a03", ""),
        ("<html> in Practice", "<html> in Practice"),
        ("Editing index.html by hand", "Editing index.html by hand"),
        ("https://example.org/lease", ""),
        ("", ""),
    ],
)
def test_the_title_is_the_documents_own_unless_a_program_made_it_up(title: str, found: str) -> None:
    assert read(pdf(says("Words."), title=title), "scan_0001.pdf").title == found


def test_without_a_title_the_first_heading_is_one() -> None:
    page = Page().text(50, 740, "Annual Report", 24).lines(50, 700, LEFT)
    assert CONVERTER.convert(source(pdf(page, title="report.pdf"))).title == "Annual Report"


def test_a_title_in_bytes_that_mean_nothing_costs_the_title_alone() -> None:
    assert read(pdf(says("Words."), raw_title=b"<FEFFD800>"), "a.pdf").text == "Words."


# What is written on a page


def test_values_of_fields_and_notes_stand_at_the_end_of_their_page() -> None:
    page = says("A form.").field("form[0].surname[0]", "Miller").field("agrees", "Yes", "Btn")
    page.field("refuses", "Off", "Btn").note("Check this").note("Typed on it", "FreeText").note("A form.")
    result = of(page, says("Next."))
    assert result.text == (
        "A form.\n\n- surname: Miller\n- agrees: Yes\n- Note: Check this\n\nTyped on it\n\nNext."
    )
    assert result.pages[1].offset == result.text.index("Next.")


def test_what_signatures_and_stamps_show_stands_at_the_end_of_their_page() -> None:
    page = says("A contract.").text(310, 340, "Below the stamp").field("name", "Miller")
    page.stamp(["Digitally signed by Alice", "Date: 2024-05-06"], "Sig", y=500).stamp(["APPROVED"])
    result = of(page, says("Next.").stamp(["Next."]))
    assert result.text == (
        "A contract.\n\nBelow the stamp\n\n- name: Miller\n\n"
        "Digitally signed by Alice\nDate: 2024-05-06\n\nAPPROVED\n\nNext."
    )
    assert [mark.page for mark in result.pages] == [1, 2]


def test_a_drawing_of_thousands_of_stamps_is_read_without_them() -> None:
    page = says("A map.")
    for number in range(2_000):
        page.stamp(["Here"] * 200, x=number % 400)
    assert CONVERTER.convert(source(pdf(page))).text == "A map."


def test_a_signature_is_text_enough_for_a_blank_page_but_not_for_a_scan() -> None:
    assert of(Page().stamp(["Signed by Alice"], "Sig")).text == "Signed by Alice"
    message = error_of(pdf(Page().image().stamp(["Signed by Alice"], "Sig")))
    assert message.startswith("a.pdf has no text layer: its 1 page is a scan")


def test_files_attached_are_named() -> None:
    notice = read(pdf(says("Words."), attachments=["books.xlsx"]), "a.pdf").notice
    assert notice == "Files attached to it were not read (books.xlsx): save them and add them by themselves."


# What cannot be read


@pytest.mark.parametrize(("pages", "what"), [(1, "1 page is a scan"), (12, "12 pages are scans")])
def test_a_scan_has_no_text_layer(pages: int, what: str) -> None:
    message = error_of(pdf(*(Page().image() for _ in range(pages))))
    assert message.startswith(f"a.pdf has no text layer: its {what}")
    assert "OCR" in message


def test_blank_pages_are_not_scans() -> None:
    assert error_of(pdf(Page(), Page().text(50, 700, "  "))) == "a.pdf holds no text: its 2 pages are blank."
    assert of(says("Words."), Page()).notice == ""


def test_scanned_pages_among_others_are_named() -> None:
    scans = [Page().image() for _ in range(6)]
    result = of(says("One."), scans[0], says("Three."), *scans[1:], says("Nine."))
    assert result.text == "One.\n\nThree.\n\nNine."
    assert result.notice == (
        "Pages 2, 4-8 of 9 are pictures without a text layer and were not read: "
        "run the PDF through OCR and add the result."
    )
    assert of(says("One."), scans[0]).notice.startswith("Page 2 of 2 is a picture without a text layer")


def test_a_stamp_does_not_make_a_scan_a_page_of_text() -> None:
    pages = [Page().image().text(50, 10, "Scanned by App", 8) for _ in range(4)]
    result = of(says("Words."), *pages)
    assert "Scanned by App" in result.text
    assert result.notice.startswith("Pages 3-5 of 5 are pictures")


def test_letters_that_mean_nothing_outside_their_font_are_pictures() -> None:
    message = error_of(pdf(Page().text(50, 700, "\ue001\ue002\ue003", font="unicode")))
    assert message.startswith("a.pdf has no text layer: its 1 page is a scan or a picture.")


def test_a_password_is_asked_for_only_where_reading_needs_one() -> None:
    assert error_of(pdf(says("Secret."), user_password="pass")) == (
        "a.pdf is encrypted with a password: save a copy without one and add that."
    )
    result = read(pdf(says("Not to be printed."), title="Open to read", user_password=""), "a.pdf")
    assert (result.text, result.title) == ("Not to be printed.", "Open to read")


def test_a_form_that_only_acrobat_shows_says_so() -> None:
    waiting = pdf(says("Please wait... If this message is not replaced").field("a", "b"))
    assert read(waiting.replace(b"/DR << /Font << >> >>", b"/XFA [(template) 1 0 R]"), "a.pdf").notice == (
        "It is a form that only Adobe Acrobat shows. Print it to a new PDF there and add that."
    )
    assert read(waiting, "a.pdf").notice == ""


def test_a_damaged_file_says_so() -> None:
    whole = pdf(*(says(f"Page {number}.") for number in range(50)))
    for data in (whole[: len(whole) // 2], b"%PDF-1.7\n", b"%PDF-1.7\n" + bytes(1000)):
        assert error_of(data).startswith(
            "a.pdf is damaged or cut short and cannot be opened as a PDF: get it again"
        )
    assert error_of(pdf()).startswith("a.pdf has no pages: it is damaged or cut short.")


def test_a_damaged_page_costs_that_page_alone() -> None:
    data = pdf(says("One."), says("Two."), says("Three."))
    kids = re.search(rb"/Kids \[(\d+ 0 R) (\d+ 0 R)", data)
    assert kids is not None
    result = read(data.replace(kids[0], kids[0].replace(kids[2], b"999 0 R")), "a.pdf")
    assert result.text == "One.\n\nThree."
    assert [mark.page for mark in result.pages] == [1, 3]
    assert result.notice.startswith("Page 2 of 3 is damaged and could not be read: ")


def test_an_outline_that_leads_back_to_itself_ends() -> None:
    data = pdf(says("Words."), says("More."), outline=[("One", 1), ("Two", 2)])
    loop = re.sub(rb"/Prev (\d+) 0 R", rb"/Next \1 0 R", data)
    assert loop != data
    assert read(loop, "a.pdf").text == "Words.\n\nMore."


def crowded(kind: str) -> Page:
    """A page that a reader which compares each thing with each other never gets to the end of."""
    choice, page = random.Random(1), Page()
    for number in range({"letters": 30_000, "words": 10_000, "askew": 10_000}.get(kind, 2_000)):
        match kind:
            case "letters":
                page.text(choice.uniform(0, 600), choice.uniform(0, 790), choice.choice("abcdefgh"), 8)
            case "words":
                page.text(choice.uniform(0, 500), choice.uniform(0, 790), "lorem ipsum", 8)
            case "askew":
                place = (0, 1, -1, 0, choice.uniform(0, 600), choice.uniform(0, 700))
                page.turned_text(place, "lorem ipsum", 8)
            case "rules":
                page.rule(0, number / 3, 600, number / 3).rule(number / 4, 0, number / 4, 790)
                page.text(60 * (number % 10), 790 - number / 3, "a cell", 4)
            case _:
                page.text(10, 790 - 0.39 * number, "lorem ipsum dolor sit amet " * 4, 0.4)
    return page


@pytest.mark.parametrize("kind", ["letters", "words", "askew", "rules", "lines"])
def test_a_crowded_page_is_read_within_the_limits(kind: str) -> None:
    converter = Converter(Limits(timeout_s=30))
    try:
        text = converter.convert(source(pdf(crowded(kind)))).text
    finally:
        converter.stop()
    assert len(re.sub(r"\W", "", text)) >= 10_000


# Real files


def samples() -> list[tuple[Path, str]]:
    manifest = SAMPLES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = [line.split("\t") for line in manifest.read_text(encoding="utf-8").splitlines()[1:]]
    return [(SAMPLES / row[0], row[3]) for row in rows if row[0].startswith("pdf/") and len(row) > 3]


@pytest.mark.skipif(not SAMPLES.exists(), reason="the shared sample files are not here")
@pytest.mark.parametrize(("path", "phrases"), samples(), ids=lambda value: getattr(value, "name", ""))
def test_a_sample_holds_the_phrases_its_manifest_names(path: Path, phrases: str) -> None:
    result = read(path.read_bytes(), path.name)
    text = " ".join(result.text.split())
    assert [phrase for phrase in phrases.split(" || ") if " ".join(phrase.split()) not in text] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\ufffe]|[ \t]$|\n\n\n", result.text, re.M)
