"""Workbooks become Markdown sheet by sheet: tables as a sheet shows them, and what stands beside cells."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter
from openpyxl import Workbook
from openpyxl.comments import Comment
from openpyxl.utils.datetime import CALENDAR_MAC_1904

from converting import CONVERTER
from mcpvectordb.convert.read import Read
from mcpvectordb.convert.read.office.values import form_of, shown
from mcpvectordb.convert.read.sheets import read_xls, read_xlsx
from mcpvectordb.convert.read.tables import markdown_table
from mcpvectordb.errors import ConversionError
from mcpvectordb.models import PageMark, Source
from messages import ole

SAMPLES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"


def saved(book: Any) -> bytes:
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def sheet(*rows: list[Any]) -> Any:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    return book


def written(write: Callable[[Any, Any], None]) -> bytes:
    """A workbook made by xlsxwriter, which knows drawings; write gets the workbook and its first sheet."""
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream)
    write(book, book.add_worksheet("S"))
    book.close()
    return stream.getvalue()


def changed(data: bytes, change: Callable[[dict[str, bytes]], Any]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def with_cells(cells: str) -> bytes:
    """A workbook whose one sheet holds these rows, as written."""

    def put(files: dict[str, bytes]) -> None:
        name = "xl/worksheets/sheet1.xml"
        new = f"<sheetData>{cells}</sheetData>".encode()
        files[name] = re.sub(rb"<sheetData ?/>|<sheetData>.*</sheetData>", new, files[name])

    return changed(saved(sheet(["x"])), put)


def text_of(data: bytes) -> str:
    return read_xlsx(data, "a.xlsx").text


def test_sheets_come_in_order_under_their_names_and_empty_ones_leave_nothing() -> None:
    book = sheet(["Name", "Age"], ["Ann", 41])
    book.active.title = "People"
    book.create_sheet("Empty")
    hidden = book.create_sheet("Secret")
    hidden.append(["k", "v"])
    hidden.sheet_state = "veryHidden"
    result = read_xlsx(saved(book), "a.xlsx")
    assert result.text == (
        "## People\n\n| Name | Age |\n| --- | --- |\n| Ann | 41 |\n\n"
        "## Secret (hidden sheet)\n\n| k | v |\n| --- | --- |"
    )
    start = result.text.index("## Secret")
    assert result.pages == (PageMark(offset=0, page=1), PageMark(offset=start, page=3))


def test_blank_rows_part_tables_and_a_line_above_a_table_is_its_title() -> None:
    book = sheet(
        ["Ducks per year"], ["Year", "Ducks"], [2019, 5], [], [], [None, "a", "b"], [None, 1, 2], [], ["Note"]
    )
    assert text_of(saved(book)) == (
        "## Sheet\n\nDucks per year\n\n| Year | Ducks |\n| --- | --- |\n| 2019 | 5 |\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\nNote"
    )


def test_tables_that_meet_at_a_corner_are_two() -> None:
    book = sheet(["a", "b"], [1, 2], [None, None, "c", "d"], [None, None, 3, 4])
    assert text_of(saved(book)) == (
        "## Sheet\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| c | d |\n| --- | --- |\n| 3 | 4 |"
    )


def test_values_are_shown_as_the_sheet_means_them() -> None:
    book = sheet(["kind", "value"])
    values = [
        (date(2024, 3, 1), None),
        (datetime(2024, 3, 1, 14, 30), None),
        (datetime(2024, 3, 1, 14, 30, 5), "d.m.yy h:mm:ss"),
        (time(9, 15), None),
        (timedelta(hours=30, minutes=5), "[h]:mm:ss"),
        (0.256, "0%"),
        (3.0, None),
        (0.1 + 0.2, None),
        (1234.5, '"$"#,##0.00'),
        (1234.5, "#,##0.00\\ [$€-407]"),
        (12, '0.0" kg"'),
        (-5, '#,##0_);[Red]("$"#,##0)'),
        (421, "00000"),
        (True, None),
        ("a\nb|c", None),
    ]
    for value, form in values:
        book.active.append(["x", value])
        if form:
            book.active.cell(book.active.max_row, 2).number_format = form
    lines = text_of(saved(book)).splitlines()[4:]
    assert [line.removeprefix("| x | ").removesuffix(" |") for line in lines] == [
        "2024-03-01",
        "2024-03-01 14:30",
        "2024-03-01 14:30:05",
        "09:15",
        "30:05:00",
        "25.6%",
        "3",
        "0.3",
        "$1234.5",
        "1234.5 €",
        "12 kg",
        "-5",
        "00421",
        "TRUE",
        "a b\\|c",
    ]


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("General", 1e21, "1e+21"),
        ("yyyy-mm-dd", 59, "1900-02-28"),
        ("yyyy-mm-dd", 61, "1900-03-01"),
        ("yyyy-mm-dd", -1, "-1"),
        ("yyyy-mm-dd", 1e12, "1000000000000"),
        ('"Day "dd', 45000, "2023-03-15"),
        ("# ?/?", 0.5, "0.5"),
        ('"yes";"no"', 1, "1"),
        ("[Blue]0.00", 2.5, "2.5"),
        ("mmm", 45000, "2023-03-15"),
        ("mm:ss", 0.5, "12:00"),
    ],
)
def test_odd_formats_never_hide_a_number(code: str, value: float, text: str) -> None:
    assert shown(value, form_of(code)) == text


def test_dates_of_old_macintosh_workbooks_count_from_1904() -> None:
    book = sheet(["d", date(2000, 1, 1)])
    book.epoch = CALENDAR_MAC_1904
    assert "| d | 2000-01-01 |" in text_of(saved(book))


def test_a_formula_shows_its_last_value_and_itself_where_it_has_none() -> None:
    rows = (
        '<row r="1"><c r="A1"><f>1+1</f><v>2</v></c><c r="B1"><f>SUM(A1:A9)</f></c>'
        '<c r="C1" t="str"><f>HYPERLINK("https://example.org/x","here")</f><v>here</v></c>'
        '<c r="D1" t="e"><f>1/0</f><v>#DIV/0!</v></c><c r="E1" t="str"><f>""</f><v></v></c></row>'
    )
    assert "| 2 | =SUM(A1:A9) | [here](https://example.org/x) | #DIV/0! |" in text_of(with_cells(rows))


def test_cells_and_rows_without_an_address_follow_the_one_before() -> None:
    rows = (
        "<row><c><v>1</v></c><c><v>2</v></c></row>"
        '<row><c r="B2" t="inlineStr"><is><r><t>in </t></r><r><t>runs_x000A_x</t></r></is></c></row>'
    )
    assert text_of(with_cells(rows)) == "## Sheet\n\n| 1 | 2 |\n| --- | --- |\n|  | in runs x |"


def test_merged_cells_repeat_down_their_rows() -> None:
    book = sheet(["Title", None, None], ["North", "a", 1], [None, "b", 2], ["South", "c", 3])
    book.active.merge_cells("A1:C1")
    book.active.merge_cells("A2:A3")
    assert text_of(saved(book)) == (
        "## Sheet\n\nTitle\n\n| North | a | 1 |\n| --- | --- | --- |\n| North | b | 2 |\n| South | c | 3 |"
    )


def test_comments_and_links_stand_with_their_sheet() -> None:
    book = sheet(["Site", "Hits"], ["Ours", 5])
    book.active["B2"].comment = Comment("Ann:\nToo low?", "Ann")
    book.active["A2"].hyperlink = "https://example.org/ours"
    assert text_of(saved(book)) == (
        "## Sheet\n\n| Site | Hits |\n| --- | --- |\n| [Ours](https://example.org/ours) | 5 |\n\n"
        "- B2 (Ann): Too low?"
    )


def test_text_boxes_charts_and_pictures_follow_the_cells() -> None:
    def write(book: Any, first: Any) -> None:
        first.write_row(0, 0, ["Cod", 3])
        first.insert_textbox(3, 0, "Read me first")
        chart = book.add_chart({"type": "column"})
        chart.add_series({"name": "Catch", "categories": "=S!$A$1:$A$1", "values": "=S!$B$1:$B$1"})
        chart.set_title({"name": "Fish"})
        first.insert_chart(9, 0, chart)
        alone = book.add_chartsheet("Big chart")
        other = book.add_chart({"type": "line"})
        other.add_series({"values": "=S!$B$1:$B$1"})
        other.set_title({"name": "On its own"})
        alone.set_chart(other)

    result = read_xlsx(written(write), "a.xlsx")
    assert result.text.startswith("## S\n\n| Cod | 3 |\n| --- | --- |\n\nRead me first\n\n**Fish**")
    assert "## Big chart\n\n**On its own**" in result.text
    assert [mark.page for mark in result.pages] == [1, 2]


def test_headers_of_printed_pages_come_once_without_their_codes() -> None:
    book = sheet(["x"])
    book.active.oddHeader.left.text = "ACME plan"
    book.active.oddFooter.center.text = "Page &P of &N"
    second = book.create_sheet("Two")
    second.append(["y"])
    second.oddHeader.left.text = "ACME plan"
    assert text_of(saved(book)) == "## Sheet\n\nx\n\nHeader: ACME plan\n\n## Two\n\ny"


def test_cells_at_the_far_corners_of_a_sheet_cost_no_more_than_their_number() -> None:
    book = sheet(["near"])
    book.active["XFD1"] = "far"
    book.active["A1048576"] = "deep"
    data = changed(
        saved(book),
        lambda files: files.update(
            {
                "xl/worksheets/sheet1.xml": re.sub(
                    rb'<dimension ref="[^"]*"',
                    b'<dimension ref="A1:XFD1048576"',
                    files["xl/worksheets/sheet1.xml"],
                )
            }
        ),
    )
    assert text_of(data) == "## Sheet\n\n| near | far |\n| --- | --- |\n\ndeep"


def test_a_diagonal_of_cells_is_not_filled_up_with_empty_ones() -> None:
    rows = "".join(
        f'<row r="{n}"><c r="A{n}"><v>1</v></c><c r="{name(n)}{n}"><v>2</v></c></row>' for n in range(2, 3000)
    )
    assert len(text_of(with_cells(rows))) < 100_000


def name(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def test_merging_every_cell_with_every_other_comes_to_an_end() -> None:
    book = sheet(*[[n, n] for n in range(300)])
    merges = "".join(f'<mergeCell ref="C{n}:C1048576"/><mergeCell ref="A{n}:A900"/>' for n in range(1, 3000))

    def merge(files: dict[str, bytes]) -> None:
        part = "xl/worksheets/sheet1.xml"
        files[part] = files[part].replace(
            b"</sheetData>", f"</sheetData><mergeCells>{merges}</mergeCells>".encode()
        )

    assert "| 299 | 299 |" in text_of(changed(saved(book), merge))


def test_a_damaged_sheet_gives_what_stands_before_the_damage_and_the_rest_of_the_book() -> None:
    book = sheet(["first", "row"], ["second", "row"])
    book.create_sheet("Whole").append(["fine"])

    def cut(files: dict[str, bytes]) -> None:
        part = "xl/worksheets/sheet1.xml"
        files[part] = files[part][: files[part].index(b'r="A2"')]
        files["xl/styles.xml"] = b"<styleSheet"

    result = read_xlsx(changed(saved(book), cut), "a.xlsx")
    assert result.text == "## Sheet\n\n| first | row |\n| --- | --- |\n\n## Whole\n\nfine"
    assert "xl/worksheets/sheet1.xml" in result.notice


def test_a_missing_sheet_is_told_and_the_others_keep_their_numbers() -> None:
    book = sheet(["gone"])
    book.create_sheet("Kept").append(["here"])
    result = read_xlsx(changed(saved(book), lambda files: files.pop("xl/worksheets/sheet1.xml")), "a.xlsx")
    assert (result.text, result.pages) == ("## Kept\n\nhere", (PageMark(offset=0, page=2),))
    assert "xl/worksheets/sheet1.xml" in result.notice


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (saved(sheet(["x"]))[:900], "a.xlsx could not be read as an Excel workbook (its archive is damaged"),
        (saved(sheet()), "a.xlsx holds no text"),
        (
            changed(saved(sheet(["x"])), lambda files: files.pop("xl/workbook.xml")),
            "a.xlsx could not be read",
        ),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.xlsx is protected by a password",
        ),
    ],
    ids=["cut off", "empty", "no workbook", "password"],
)
def test_a_workbook_that_cannot_be_read_says_why_and_what_to_do(data: bytes, said: str) -> None:
    with pytest.raises(ConversionError) as caught:
        read_xlsx(data, "a.xlsx")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "data", [b"", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600, b"\x09\x08junk" * 50]
)
def test_an_old_workbook_that_cannot_be_read_says_so(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConversionError, match=r"^a\.xls could not be read as an old Excel workbook"):
        read_xls(data, "a.xls")
    assert capsys.readouterr().out == ""


def old_workbook(stream: str = "Workbook", **properties: bytes) -> bytes:
    """An old workbook with one cell, and perhaps a title (t) in a code page (p)."""

    def record(kind: int, body: bytes) -> bytes:
        return struct.pack("<HH", kind, len(body)) + body

    def sheet_name(place: int) -> bytes:
        return record(0x85, struct.pack("<IHBB", place, 0, 4, 0) + b"Data")

    begin = record(0x809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 0))
    place = len(begin + sheet_name(0) + record(0x0A, b""))
    cell = record(0x204, struct.pack("<HHHHB", 0, 0, 0, 5, 0) + b"Words")
    cells = record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0, 0, 0, 0)) + cell + record(0x0A, b"")
    files = {stream: begin + sheet_name(place) + record(0x0A, b"") + cells}
    if properties:
        page = struct.pack("<IHH", 2, int(properties["p"]), 0)
        title = struct.pack("<II", 30, len(properties["t"]) + 1) + properties["t"].ljust(80, b"\0")
        values = struct.pack("<IIIIII", 24 + len(page + title), 2, 1, 24, 2, 24 + len(page)) + page + title
        head = struct.pack("<HHI16xI16xI", 0xFFFE, 0, 0, 1, 48)
        files["\x05SummaryInformation"] = head + values
    return ole(files)


@pytest.mark.parametrize(
    ("properties", "title"),
    [
        ({"p": b"1252", "t": b"Caf\xe9 accounts"}, "Café accounts"),
        ({"p": b"1251", "t": "Счета кафе".encode("cp1251")}, "Счета кафе"),
        ({"p": b"65001", "t": "帮助".encode()}, "帮助"),
        ({"p": b"1", "t": b"Accounts"}, "Accounts"),
        ({"p": b"1252", "t": b"Book1"}, ""),
        ({}, ""),
    ],
)
def test_the_title_of_an_old_workbook_is_its_own(properties: dict[str, bytes], title: str) -> None:
    result = read_xls(old_workbook(**properties), "a.xls")
    assert (result.text, result.title) == ("## Data\n\nWords", title)


def test_an_old_workbook_is_known_by_names_in_capitals() -> None:
    found = CONVERTER.convert(
        Source(name="/a.xls", library="l", kind="file", data=old_workbook("BOOK"), file_name="a.xls")
    )
    assert (found.file_type, found.text) == ("xls", "## Data\n\nWords")


@pytest.mark.parametrize("length", [100, 300, 700, 1500])
def test_an_old_workbook_that_is_cut_off_says_so(length: int) -> None:
    with pytest.raises(ConversionError, match=r"^a\.xls could not be read as .* \(it breaks off\)"):
        read_xls(old_workbook()[:length], "a.xls")


def test_the_title_is_the_workbooks_own_if_it_is_one() -> None:
    book = sheet(["x"])
    book.properties.title = "Accounts"
    assert read_xlsx(saved(book), "a.xlsx").title == "Accounts"
    book.properties.title = "Book1"
    assert read_xlsx(saved(book), "a.xlsx").title == ""


@pytest.mark.parametrize(
    ("name", "title"),
    [("Sheet1", ""), ("Feuil2", ""), ("工作表1", ""), ("Harvest", "Harvest"), ("Sheets", "Sheets")],
)
def test_a_sheet_that_a_program_named_is_no_title(name: str, title: str) -> None:
    book = sheet(["x"])
    book.active.title = name
    data = saved(book)
    whole = Source(name="/a.xlsx", library="d", kind="file", data=data, file_name="a.xlsx")
    assert CONVERTER.convert(whole).title == title


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ([["a", "b"], ["1", ""]], "| a | b |\n| --- | --- |\n| 1 |  |"),
        ([["", "a", "", "b"], ["", "", "", ""], ["", "1", " ", "2"]], "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ([["a\nb", "c|d"], ["1"]], "| a b | c\\|d |\n| --- | --- |\n| 1 |  |"),
        ([["", " "], []], ""),
        ([], ""),
    ],
)
def test_rows_become_a_table_without_its_empty_rows_and_columns(rows: list[list[str]], table: str) -> None:
    assert markdown_table(rows) == table


def collapsed(text: str) -> str:
    return " ".join(re.sub(r"[*`|\\#]", " ", text).split())


def samples(*folders: str) -> list[tuple[Path, str]]:
    manifest = SAMPLES / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    rows = [line.split("\t") for line in manifest.read_text(encoding="utf-8").splitlines()[1:]]
    return [(SAMPLES / row[0], row[3]) for row in rows if row[0].split("/")[0] in folders and len(row) > 3]


def read_either(path: Path) -> Read:
    return (read_xls if path.suffix == ".xls" else read_xlsx)(path.read_bytes(), path.name)


@pytest.mark.skipif(not SAMPLES.exists(), reason="the shared sample files are not here")
@pytest.mark.parametrize(
    ("path", "phrases"), samples("xlsx", "xls"), ids=lambda value: getattr(value, "name", "")
)
def test_a_sample_holds_the_phrases_its_manifest_names(path: Path, phrases: str) -> None:
    result = read_either(path)
    text = collapsed(result.text)
    assert [phrase for phrase in phrases.split(" || ") if collapsed(phrase) not in text] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f]|[ \t]$|\n\n\n", result.text, re.M)
    assert all(result.text.startswith("## ", mark.offset) for mark in result.pages)


@pytest.mark.skipif(not SAMPLES.exists(), reason="the shared sample files are not here")
def test_an_old_workbook_that_is_cut_off_never_fails_in_any_other_way() -> None:
    data = (SAMPLES / "xls" / "markitdown__test.xls").read_bytes()
    for length in range(0, len(data), 1999):
        try:
            assert read_xls(data[:length], "a.xls").text
        except ConversionError as exc:
            assert str(exc).startswith("a.xls ")


def test_a_workbook_older_than_packed_files_is_read() -> None:
    def record(kind: int, body: bytes) -> bytes:
        return struct.pack("<HH", kind, len(body)) + body

    label = struct.pack("<HH3xB", 0, 0, 5) + b"Hello"
    data = record(0x0009, struct.pack("<HH", 2, 0x10)) + record(0x0004, label) + record(0x000A, b"")
    source = Source(name="a.xls", library="l", kind="file", data=data, file_name="a.xls")
    assert "Hello" in CONVERTER.convert(source).text


def test_a_workbook_whose_names_have_backslashes_and_other_letters_is_read() -> None:
    with zipfile.ZipFile(io.BytesIO(saved(sheet(["word", 1])))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name.lower(), data)
    # zipfile would write its own kind of stroke.
    data = stream.getvalue()
    for name in parts:
        data = data.replace(name.lower().encode(), name.lower().replace("/", "\\").encode())
    source = Source(name="a.xlsx", library="l", kind="file", data=data, file_name="a.xlsx")
    assert "| word | 1 |" in CONVERTER.convert(source).text
