"""Tables of separated values to Markdown."""

from __future__ import annotations

import csv

import pytest

from mcpvectordb.convert.read import Read, delimited
from mcpvectordb.errors import ConversionError, UnsupportedType


def table(text: str, file_name: str = "a.csv") -> str:
    read = delimited.read(text.encode(), file_name)
    assert read.is_markdown
    return read.text


NAMES = "| name | city |\n| --- | --- |\n| Ann | Oslo |\n| Bo | Rome |"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    rows = [["name", "city"], ["Ann", "Oslo"], ["Bo", "Rome"]]
    assert table("\n".join(delimiter.join(row) for row in rows)) == NAMES


def test_quoted_cells_keep_delimiters_and_join_their_lines() -> None:
    assert table('a,b\n"x, y","line one\nline two"\n"say ""hi""",z\n') == (
        '| a | b |\n| --- | --- |\n| x, y | line one line two |\n| say "hi" | z |'
    )


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table("a,b\nx|y,z\nu|v,w\n").splitlines()[2] == "| x\\|y | z |"


def test_decimal_commas_do_not_pass_for_delimiters() -> None:
    assert table("1,5;2,5\n3,5;4,5\n").splitlines()[0] == "| 1,5 | 2,5 |"


def test_semicolons_in_the_text_of_a_comma_file_stay_text() -> None:
    assert table("id,tags\n1,a;b\n2,c;d\n3,e;f\n").splitlines()[2] == "| 1 | a;b |"


def test_the_first_line_may_name_the_delimiter() -> None:
    assert table("sep=;\na,1;b\nc;d\n").splitlines()[0] == "| a,1 | b |"


def test_a_tsv_file_is_split_at_tabs_though_commas_are_more_regular() -> None:
    assert table("name\tplaces\nAnn\tOslo, Bergen\n", "a.tsv").splitlines()[2] == "| Ann | Oslo, Bergen |"


def test_rows_of_other_lengths_lose_no_cell() -> None:
    assert table("a,b\n1,2,3\n4\n\n5,6\n").splitlines() == [
        "| a | b |  |",
        "| --- | --- | --- |",
        "| 1 | 2 | 3 |",
        "| 4 |  |",
        "| 5 | 6 |",
    ]


def test_empty_columns_and_rows_at_the_edges_go() -> None:
    assert table("a,b,,,\n1,2,,,\n,,,,\n") == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_one_column_is_text_and_no_table() -> None:
    read = delimited.read(b'Industry\n"Banks, funds"\nCars\n', "a.csv")
    assert read == Read(text="Industry\nBanks, funds\nCars", is_markdown=False)


def test_prose_with_a_few_commas_is_not_cut_at_them() -> None:
    read = delimited.read(b"One line\nAnother, with a comma\nA third\nA fourth\n", "a.csv")
    assert "Another, with a comma" in read.text


@pytest.mark.parametrize(
    "data",
    [
        "\ufeffnaïve;café\n1;2\n".encode(),
        "naïve;café\n1;2\n".encode("utf-16"),
        "naïve;café\n1;2\n".encode("cp1252"),
        "naïve;café\r1;2\r".encode("cp1252"),
    ],
)
def test_any_common_encoding_and_line_end_is_read(data: bytes) -> None:
    assert delimited.read(data, "a.csv").text == "| naïve | café |\n| --- | --- |\n| 1 | 2 |"


def test_a_quote_that_is_never_closed_swallows_its_line_alone() -> None:
    text = table('a,b\n1,2\n"5 inch,x\n3,4\n5,6\n')
    assert text.splitlines()[2:] == ["| 1 | 2 |", '| "5 inch | x |', "| 3 | 4 |", "| 5 | 6 |"]


def test_quotes_escaped_by_backslashes_do_not_end_the_cell() -> None:
    assert table('a,b\n"say \\"hi, you\\" now",2\n').splitlines()[2] == '| say "hi, you" now | 2 |'


def test_apostrophes_may_be_the_quotes() -> None:
    assert table("'a','b, c'\n'd','e, f'\n").splitlines()[0] == "| a | b, c |"


def test_cells_longer_than_pythons_limit_are_read() -> None:
    long = "word " * 50_000
    assert long.strip() in table(f"a,b\n{long},2\n")
    assert csv.field_size_limit() > 131_072


def test_a_header_of_many_columns_does_not_blow_up_short_rows() -> None:
    text = table(",".join("c" * 5_000) + "\n" + "x,y\n" * 5_000)
    assert len(text) < 1_000_000
    assert text.count("| x | y |") == 5_000


@pytest.mark.parametrize("data", [b"", b" \n\n", b",,,\n,,,\n"])
def test_a_file_without_a_value_is_an_error(data: bytes) -> None:
    with pytest.raises(ConversionError, match=r"a\.csv holds .* nothing to index"):
        delimited.read(data, "a.csv")


def test_binary_content_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="is not text"):
        delimited.read(bytes(range(256)) * 10, "a.csv")
