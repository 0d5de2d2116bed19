"""Jupyter notebooks to Markdown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpvectordb.convert.read import Read, notebook
from mcpvectordb.errors import ConversionError


def code(source: str | list[str], *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs), "metadata": {}}


def text(source: str | list[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def read(*cells: dict[str, Any], **metadata: Any) -> Read:
    data = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)}
    return notebook.read(json.dumps(data).encode(), "a.ipynb")


def shown(**data: Any) -> dict[str, Any]:
    return {
        "output_type": "execute_result",
        "data": {key.replace("_", "/"): value for key, value in data.items()},
    }


def test_text_and_code_and_what_it_printed_stand_in_order() -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": ["4", "2\n"]}
    found = read(
        text(["# Rivers\n", "\n", "Some *words*."]),
        code(["x = 42\n", "print(x)"], printed),
        {"cell_type": "raw", "source": "as it is"},
        kernelspec={"language": "julia", "name": "julia-1.9"},
        title="On  rivers",
    )
    assert found == Read(
        text="# Rivers\n\nSome *words*.\n\n```julia\nx = 42\nprint(x)\n```\n\n```\n42\n```\n\nas it is",
        title="On rivers",
    )


def test_a_table_beside_its_plain_text_becomes_a_markdown_table() -> None:
    html = "<style>td {}</style><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    found = read(code("df", shown(text_plain="   a  b\n0  1  2", text_html=html)))
    assert found.text == "```python\ndf\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_markdown_that_was_shown_is_markdown() -> None:
    assert read(code("x", shown(text_plain="<Markdown object>", text_markdown="**Done**"))).text.endswith(
        "**Done**"
    )


def test_pictures_and_what_stands_for_them_are_dropped() -> None:
    picture = shown(text_plain="<Figure size 640x480 with 1 Axes>", image_png="iVBORw0KGgo=")
    found = read(
        code("plot()", picture), text("![a chart](attachment:x.png) and ![](data:image/png;base64,AAAA) end")
    )
    assert found.text == "```python\nplot()\n```\n\na chart and  end"


def test_an_error_keeps_its_message_and_loses_its_colours() -> None:
    error = {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "bad input",
        "traceback": ["\x1b[0;31mValueError\x1b[0m Traceback", "\x1b[1;32m      1\x1b[0m f()"],
    }
    assert read(code("f()", error)).text.endswith(
        "```\nValueError: bad input\nValueError Traceback\n      1 f()\n```"
    )


def test_of_a_progress_bar_the_last_state_is_left() -> None:
    stream = {"output_type": "stream", "name": "stderr", "text": " 10%|#  |\r 50%|## |\r100%|###|\ndone\n"}
    assert read(code("run()", stream)).text.endswith("```\n100%|###|\ndone\n```")


def test_long_outputs_are_cut_and_say_so() -> None:
    stream = {"output_type": "stream", "text": "0123456789" * 3_000}
    found = read(code("run()", stream)).text
    assert "[10,000 more characters of output left out]" in found
    assert len(found) < 21_000


def test_code_that_holds_fences_stays_in_its_own() -> None:
    found = read(code('s = """\n```\ninner\n```\n"""'), text("## After"))
    assert found.text.startswith("````python\n")
    assert found.text.endswith("````\n\n## After")


def test_a_fence_left_open_in_a_text_cell_ends_with_the_cell() -> None:
    assert read(text("```\nopen"), text("# Next")).text == "```\nopen\n```\n\n# Next"


def test_format_3_is_read() -> None:
    old = {
        "nbformat": 3,
        "metadata": {"name": "x"},
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": "Old"},
                    {
                        "cell_type": "code",
                        "language": "python",
                        "input": ["1 + 1"],
                        "outputs": [
                            {"output_type": "pyout", "text": ["2"], "prompt_number": 1},
                            {"output_type": "display_data", "png": "AAAA"},
                            {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": []},
                        ],
                    },
                ]
            }
        ],
    }
    found = notebook.read(json.dumps(old).encode(), "a.ipynb").text
    assert found == "## Old\n\n```python\n1 + 1\n```\n\n```\n2\n```\n\n```\nE: v\n```"


def test_lines_that_an_old_format_keeps_without_their_ends_stay_lines() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Rivers", "", "One line", "and another"]},
        {
            "cell_type": "code",
            "input": ["x = 1", "x"],
            "outputs": [{"output_type": "pyout", "text": ["1", "2"]}],
        },
        {"cell_type": "markdown", "source": ["with\n", "ends"]},
    ]
    old = {"nbformat": 2, "metadata": {}, "worksheets": [{"cells": cells}]}
    found = notebook.read(json.dumps(old).encode(), "a.ipynb").text
    assert found == (
        "# Rivers\n\nOne line\nand another\n\n```python\nx = 1\nx\n```\n\n```\n1\n2\n```\n\nwith\nends"
    )


def test_json_that_is_no_notebook_is_read_as_json() -> None:
    assert notebook.read(b'{"a": 1}', "a.ipynb").text == '```json\n{"a": 1}\n```'
    assert "not valid JSON" in notebook.read(b'{"cells": [', "a.ipynb").notice


def test_cells_of_odd_shapes_do_no_harm() -> None:
    odd = {
        "cells": [None, 3, {"cell_type": "code", "outputs": 5, "source": None}, {"source": ["ok", None]}, {}]
    }
    assert notebook.read(json.dumps(odd).encode(), "a.ipynb").text == "ok"


def test_a_notebook_without_text_is_an_error() -> None:
    with pytest.raises(ConversionError, match=r"a\.ipynb holds no text"):
        read(code("  "), text(""))
