"""The tools over stdio: the contract's shapes, the border for arguments, the guards, the filters."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support import Json, Server, serving

INGESTED = {"status", "doc_id", "source", "library", "chunk_count"}
PASSAGE = {
    "doc_id",
    "source",
    "title",
    "library",
    "file_type",
    "last_modified",
    "page",
    "content",
    "chunk_index",
    "metadata",
}
RECORD = {"doc_id", "source", "title", "library", "content_hash", "created_at", "metadata", "chunk_count"}
TEXT = {"doc_id", "source", "title", "library", "content", "chunk_count", "metadata"}
TOOLS = (
    "ingest_file",
    "ingest_url",
    "search",
    "list_documents",
    "list_libraries",
    "delete_document",
    "get_document",
)

needs_posix = pytest.mark.skipif(os.name != "posix", reason="pipes, sockets and devices in the file system")


def names_of(payload: Json) -> list[str]:
    """The file names a search or a list answered with, in its order."""
    return [Path(item["source"]).name for item in payload.get("results", payload.get("documents"))]


def ingest(stdio: Server, name: str, text: str, **arguments: Any) -> Json:
    return stdio.ok("ingest_file", path=stdio.write(name, text), **arguments)


# --- the contract's shapes


def test_a_new_file_is_indexed_with_the_contracts_fields(stdio: Server, library: str) -> None:
    path = stdio.write("lighthouse.md", "# The lighthouse\n\nIts lamp turns twice a minute.\n")
    answer = stdio.ok("ingest_file", path=path, library=library)
    assert answer.keys() - {"title"} == INGESTED
    assert uuid.UUID(answer["doc_id"])
    assert answer == {
        "status": "indexed",
        "doc_id": answer["doc_id"],
        "source": path,
        "library": library,
        "chunk_count": 1,
        "title": "The lighthouse",
    }


def test_the_library_is_default_when_none_is_named(stdio: Server) -> None:
    assert ingest(stdio, "unnamed.md", "# Unnamed library\n")["library"] == "default"


def test_a_search_result_carries_the_contracts_fields(stdio: Server, library: str) -> None:
    text = "# Tides\n\nHigh water comes twice a day.\n"
    path = stdio.write("tides.md", text)
    os.utime(path, (1_750_000_000.75, 1_750_000_000.75))
    doc_id = stdio.ok("ingest_file", path=path, library=library, metadata={"sea": "North"})["doc_id"]
    (hit,) = stdio.ok("search", query="when is the water high", library=library)["results"]
    assert hit.keys() - PASSAGE == {"score", "headings", "start", "end", "tags"}
    assert {key: hit[key] for key in PASSAGE} == {
        "doc_id": doc_id,
        "source": path,
        "title": "Tides",
        "library": library,
        "file_type": "md",
        "last_modified": datetime.fromtimestamp(1_750_000_000, UTC).isoformat(),
        "page": 0,
        "content": text,
        "chunk_index": 0,
        "metadata": {"sea": "North"},
    }
    assert hit["last_modified"].endswith("+00:00")


def test_a_listed_document_carries_the_contracts_fields(stdio: Server, library: str) -> None:
    text = "# Ropes\n\nHemp, sisal and nylon.\n"
    path = stdio.write("ropes.md", text)
    doc_id = stdio.ok("ingest_file", path=path, library=library, metadata={"n": 1, "deep": {"a": [1, None]}})[
        "doc_id"
    ]
    answer = stdio.ok("list_documents", library=library)
    assert answer.keys() == {"documents", "count", "total"}
    assert (answer["count"], answer["total"]) == (1, 1)
    (record,) = answer["documents"]
    assert record.keys() - RECORD == {"file_type", "last_modified", "tags"}
    created = datetime.fromisoformat(record["created_at"])
    assert created.utcoffset() is not None
    assert {key: record[key] for key in RECORD - {"created_at"}} == {
        "doc_id": doc_id,
        "source": path,
        "title": "Ropes",
        "library": library,
        "content_hash": hashlib.sha256(text.encode()).hexdigest(),
        "metadata": {"n": 1, "deep": {"a": [1, None]}},
        "chunk_count": 1,
    }


def test_libraries_are_listed_with_their_counts(stdio: Server, library: str) -> None:
    ingest(stdio, "one.md", "# One\n", library=library)
    long = "\n\n".join(f"## Part {n}\n\n" + f"Sentence {n} speaks of sails and oars. " * 30 for n in range(4))
    chunks = ingest(stdio, "many.md", long, library=library)["chunk_count"]
    assert chunks > 1
    listed = stdio.ok("list_libraries")["libraries"]
    assert {"library": library, "document_count": 2, "chunk_count": 1 + chunks} in listed
    assert [entry["library"] for entry in listed] == sorted({entry["library"] for entry in listed})


@pytest.mark.parametrize(
    "text",
    [
        "# Naïve café\n\nΩμέγα, 東京, עברית, 🔑👩‍👩‍👧, e\u0301 and \u00e9.\n",
        "no heading, no newline at the end",
        "\n\n  indented\n\n\n\ttabbed  \nwith trailing blanks   \n\n",
        "\n\n".join(f"## Heading {n}\n\nParagraph {n}. " + "Words go on and on. " * 40 for n in range(12)),
    ],
    ids=["unicode", "bare", "blanks", "long"],
)
def test_get_document_gives_the_text_back_exactly(stdio: Server, library: str, text: str) -> None:
    ingested = ingest(stdio, f"{len(text)}.md", text, library=library, metadata={"k": "v"})
    answer = stdio.ok("get_document", doc_id=ingested["doc_id"])
    assert answer.keys() - TEXT == {"offset", "total_chars"}
    assert {key: answer[key] for key in TEXT} == {
        "doc_id": ingested["doc_id"],
        "source": ingested["source"],
        "title": ingested["title"],
        "library": library,
        "content": text,
        "chunk_count": ingested["chunk_count"],
        "metadata": {"k": "v"},
    }
    part = stdio.ok("get_document", doc_id=ingested["doc_id"], offset=3, max_chars=7)
    assert part["content"] == text[3:10]
    assert "offset 10" in part["notice"]


def test_a_deleted_document_is_gone_and_deleting_it_again_is_an_error(stdio: Server, library: str) -> None:
    ingested = ingest(stdio, "wreck.md", "# Wreck\n\nShe sank off the point.\n", library=library)
    doc_id = ingested["doc_id"]
    assert stdio.ok("delete_document", doc_id=doc_id) == {
        "status": "deleted",
        "doc_id": doc_id,
        "deleted_chunks": ingested["chunk_count"],
    }
    assert doc_id in stdio.error("delete_document", doc_id=doc_id)
    assert doc_id in stdio.error("get_document", doc_id=doc_id)
    assert stdio.ok("search", query="wreck", library=library)["results"] == []
    assert Path(ingested["source"]).exists()


@pytest.mark.parametrize("tool", ["get_document", "delete_document"])
@pytest.mark.parametrize("doc_id", [str(uuid.UUID(int=0)), "not a uuid", "x' OR '1'='1", "\x00"])
def test_an_unknown_doc_id_is_an_error(stdio: Server, tool: str, doc_id: str) -> None:
    before = stdio.ok("list_documents", limit=1)["total"]
    assert "list_documents" in stdio.error(tool, doc_id=doc_id)
    assert stdio.ok("list_documents", limit=1)["total"] == before


# --- deduplication and lists


def test_the_same_bytes_are_skipped_and_changed_ones_replace_under_the_same_id(
    stdio: Server, library: str
) -> None:
    first = ingest(stdio, "log.md", "# Log\n\nWind from the west.\n", library=library)
    again = ingest(stdio, "log.md", "# Log\n\nWind from the west.\n", library=library)
    changed = ingest(stdio, "log.md", "# Log\n\nDead calm.\n", library=library)
    assert [step["status"] for step in (first, again, changed)] == ["indexed", "skipped", "replaced"]
    assert again == first | {"status": "skipped"}
    assert changed["doc_id"] == first["doc_id"]
    assert stdio.ok("get_document", doc_id=first["doc_id"])["content"] == "# Log\n\nDead calm.\n"
    assert stdio.ok("list_documents", library=library)["total"] == 1
    found = stdio.ok("search", query="wind from the west", library=library)["results"]
    assert [hit["content"] for hit in found] == ["# Log\n\nDead calm.\n"]


def test_the_same_file_in_two_libraries_is_two_documents(stdio: Server, library: str) -> None:
    first = ingest(stdio, "twice.md", "# Twice\n", library=library)
    second = ingest(stdio, "twice.md", "# Twice\n", library=f"{library} 2")
    assert second["status"] == "indexed"
    assert second["doc_id"] != first["doc_id"]


def test_new_metadata_for_unchanged_bytes_is_stored_only_with_refresh(stdio: Server, library: str) -> None:
    path = stdio.write("chart.md", "# Chart\n")
    stdio.ok("ingest_file", path=path, library=library, metadata={"scale": 1})
    skipped = stdio.ok("ingest_file", path=path, library=library, metadata={"scale": 2})
    assert skipped["status"] == "skipped"
    assert "refresh: true" in skipped["notice"]
    refreshed = stdio.ok("ingest_file", path=path, library=library, metadata={"scale": 2}, refresh=True)
    assert refreshed["status"] == "replaced"
    (record,) = stdio.ok("list_documents", library=library)["documents"]
    assert record["metadata"] == {"scale": 2}


def test_documents_are_listed_newest_first_and_page_by_page(stdio: Server, library: str) -> None:
    for name in "abcde":
        ingest(stdio, f"{name}.md", f"# Document {name}\n", library=library)
    ingest(stdio, "b.md", "# Document b, second version\n", library=library)
    whole = stdio.ok("list_documents", library=library)
    assert names_of(whole) == ["b.md", "e.md", "d.md", "c.md", "a.md"]
    by_rule = sorted(whole["documents"], key=lambda record: record["doc_id"])
    by_rule.sort(key=lambda record: record["created_at"], reverse=True)
    assert whole["documents"] == by_rule
    pages = [stdio.ok("list_documents", library=library, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [page["count"] for page in pages] == [2, 2, 1, 0]
    assert {page["total"] for page in pages} == {5}
    assert [record for page in pages for record in page["documents"]] == whole["documents"]


# --- unknown libraries


@pytest.mark.parametrize(("tool", "key"), [("search", "results"), ("list_documents", "documents")])
def test_an_unknown_library_gives_an_empty_list_and_names_those_there_are(
    stdio: Server, library: str, tool: str, key: str
) -> None:
    ingest(stdio, "known.md", "# Known\n", library=library)
    arguments = {"query": "known"} if tool == "search" else {}
    answer = stdio.ok(tool, library="no such library", **arguments)
    assert answer[key] == []
    assert "no such library" in answer["notice"]
    assert library in answer["notice"]


def test_an_empty_database_answers_every_tool(tmp_path: Path) -> None:
    with serving(tmp_path / "database") as server:
        searched = server.ok("search", query="anything")
        assert searched["results"] == []
        assert "Nothing has been indexed yet" in searched["notice"]
        assert server.ok("list_documents") == {"documents": [], "count": 0, "total": 0}
        assert server.ok("list_libraries") == {"libraries": []}
        assert "no libraries yet" in server.ok("list_documents", library="x")["notice"]
        for tool in ("get_document", "delete_document"):
            assert "There is no document" in server.error(tool, doc_id="x")


# --- the border for arguments

WRONG: list[tuple[str, Json, str]] = [
    ("search", {}, "needs 'query'"),
    ("ingest_file", {"library": "x"}, "needs 'path'"),
    ("get_document", {}, "needs 'doc_id'"),
    ("delete_document", {}, "needs 'doc_id'"),
    ("search", {"query": 5}, "a string"),
    ("search", {"query": None}, "a string"),
    ("search", {"query": ["a"]}, "a string"),
    ("search", {"query": ""}, "1 to 10000 characters"),
    ("search", {"query": " \n\t "}, "query is empty"),
    ("search", {"query": "x" * 10_001}, "1 to 10000 characters"),
    ("search", {"query": "x" * 1_000_000}, "1 to 10000 characters"),
    ("search", {"query": "half \ud83d of it"}, "lone surrogate"),
    ("search", {"query": "x", "top_k": 0}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": 101}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": -(10**30)}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": 2.5}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": "2.5"}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": "five"}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": "9" * 5000}, "(5000 characters)"),
    ("search", {"query": "x", "top_k": True}, "not true"),
    ("search", {"query": "x", "top_k": "true"}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": None}, "not null"),
    ("search", {"query": "x", "top_k": "null"}, "from 1 to 100"),
    ("search", {"query": "x", "top_k": float("nan")}, "top_k"),
    ("search", {"query": "x", "top_k": "NaN"}, "from 1 to 100"),
    ("search", {"query": "x", "library": 5}, "a string"),
    ("search", {"query": "x", "filter": "md"}, "an object"),
    ("search", {"query": "x", "filter": []}, "an object"),
    ("search", {"query": "x", "filter": "[]"}, "an object"),
    ("search", {"query": "x", "filter": '{"page": '}, "an object"),
    ("search", {"query": "x", "mode": "fuzzy"}, "hybrid"),
    ("list_documents", {"limit": 0}, "from 1 to 1000"),
    ("list_documents", {"limit": 1001}, "from 1 to 1000"),
    ("list_documents", {"offset": -1}, "from 0"),
    ("list_documents", {"library": ["a"]}, "a string"),
    ("ingest_file", {"path": 5}, "a string"),
    ("ingest_file", {"path": ""}, "1 to 4096 characters"),
    ("ingest_file", {"path": "x.md", "library": None}, "a string"),
    ("ingest_file", {"path": "x.md", "library": ""}, "1 to 200 characters"),
    ("ingest_file", {"path": "x.md", "library": "  "}, "not a name"),
    ("ingest_file", {"path": "x.md", "library": "a\nb"}, "not a name"),
    ("ingest_file", {"path": "x.md", "library": "x" * 201}, "1 to 200 characters"),
    ("ingest_file", {"path": "x.md", "library": "\udc00"}, "lone surrogate"),
    ("ingest_file", {"path": "x.md", "metadata": "text"}, "an object"),
    ("ingest_file", {"path": "x.md", "metadata": [1]}, "an object"),
    ("ingest_file", {"path": "x.md", "metadata": "[1]"}, "an object"),
    ("ingest_file", {"path": "x.md", "metadata": {"a": float("nan")}}, "not a number in JSON"),
    ("ingest_file", {"path": "x.md", "metadata": {"a": [float("-inf")]}}, "not a number in JSON"),
    ("ingest_file", {"path": "x.md", "metadata": '{"a": NaN}'}, "an object"),
    ("ingest_file", {"path": "x.md", "metadata": '{"a": 1e999}'}, "not a number in JSON"),
    ("ingest_file", {"path": "x.md", "metadata": {"a": "\ud800"}}, "lone surrogate"),
    ("ingest_file", {"path": "x.md", "metadata": {"\ud800": 1}}, "lone surrogate"),
    ("ingest_file", {"path": "x.md", "metadata": '{"a": "\\ud800"}'}, "lone surrogate"),
    ("ingest_file", {"path": "x.md", "metadata": {"a": "x" * 70_000}}, "64 KB"),
    ("ingest_file", {"path": "x.md", "refresh": 1}, "true or false"),
    ("ingest_file", {"path": "x.md", "refresh": "yes"}, "true or false"),
    ("ingest_file", {"path": "x.md", "tags": "x"}, "a list of strings"),
    ("ingest_file", {"path": "x.md", "tags": [1]}, "a list of strings"),
    ("get_document", {"doc_id": 7}, "a string"),
    ("get_document", {"doc_id": ""}, "1 to 100 characters"),
    ("get_document", {"doc_id": "x", "offset": -1}, "'offset'"),
    ("get_document", {"doc_id": "x", "max_chars": 0}, "'max_chars'"),
    ("delete_document", {"doc_id": ["x"]}, "a string"),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "says"), WRONG, ids=[f"{tool}-{n}" for n, (tool, _, _) in enumerate(WRONG)]
)
def test_a_wrong_argument_is_an_error_that_says_what_is_wanted(
    stdio: Server, tool: str, arguments: Json, says: str
) -> None:
    error = stdio.error(tool, **arguments)
    assert says in error
    assert len(error) < 500


@pytest.mark.parametrize(
    ("tool", "arguments", "nearest"),
    [
        ("search", {"query": "x", "topk": 3}, "top_k"),
        ("search", {"querry": "x"}, "query"),
        ("ingest_file", {"path": "x.md", "libary": "x"}, "library"),
        ("list_documents", {"ofset": 1}, "offset"),
        ("get_document", {"docid": "x"}, "doc_id"),
        ("delete_document", {"doc_ids": "x"}, "doc_id"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest_one(
    stdio: Server, tool: str, arguments: Json, nearest: str
) -> None:
    assert f"Did you mean {nearest!r}?" in stdio.error(tool, **arguments)


def test_a_tool_without_arguments_refuses_any(stdio: Server) -> None:
    assert "It takes none" in stdio.error("list_libraries", verbose=True)


def test_an_unknown_tool_is_refused_with_the_nearest_one_or_all_of_them(stdio: Server) -> None:
    assert "Did you mean 'list_documents'?" in stdio.error("list_document")
    assert all(tool in stdio.error("frobnicate") for tool in TOOLS)
    assert "There is no tool" in stdio.error("")


def test_arguments_that_are_left_out_or_null_are_none_at_all(stdio: Server) -> None:
    for params in ({"name": "list_libraries"}, {"name": "list_libraries", "arguments": None}):
        assert stdio.request("tools/call", params)["result"]["isError"] is False


@pytest.mark.parametrize("levels", [51, 150, 400])
def test_metadata_nested_too_deep_is_refused(stdio: Server, levels: int) -> None:
    metadata: Json = {}
    for _ in range(levels):
        metadata = {"a": metadata}
    assert "levels deep" in stdio.error("ingest_file", path="x.md", metadata=metadata)


def test_metadata_nested_forty_levels_is_kept(stdio: Server, library: str) -> None:
    metadata: Json = {"end": True}
    for _ in range(40):
        metadata = {"a": metadata}
    ingest(stdio, "nested.md", "# Nested\n", library=library, metadata=metadata)
    (record,) = stdio.ok("list_documents", library=library)["documents"]
    assert record["metadata"] == metadata


@pytest.mark.parametrize("line", ["not json", "", "{}", "[]", "null", '{"jsonrpc": "2.0", "id"', "[" * 5000])
def test_a_line_that_is_no_message_does_no_harm(stdio: Server, line: str) -> None:
    stdio.send_line(line)
    stdio.ok("list_libraries")


@pytest.mark.parametrize(
    ("arguments", "means"),
    [
        ('{"query":"x","top_k":%s}', "'top_k'"),
        ('{"query":"x","filter":{"page":-%s}}', "'filter'"),
        ('{"query":"x","library":%s}', "'library'"),
    ],
)
def test_a_number_of_too_many_digits_is_answered(stdio: Server, arguments: str, means: str) -> None:
    params = f'{{"name":"search","arguments":{arguments % ("9" * 5000)}}}'
    stdio.send_line(f'{{"jsonrpc":"2.0","id":"many","method":"tools/call","params":{params}}}')
    assert means in stdio.finish_call("many", "search")["error"]


def test_a_byte_order_mark_in_front_of_a_line_is_passed_over(stdio: Server) -> None:
    stdio.send_line('\ufeff{"jsonrpc":"2.0","id":"marked","method":"ping"}')
    assert stdio.answer_to("marked")["result"] == {}


@pytest.mark.parametrize("top_k", [2, "2", 2.0, "2.0", " 2 "])
def test_an_integer_may_come_as_a_string_or_a_whole_float(stdio: Server, library: str, top_k: object) -> None:
    for name in "xyz":
        ingest(stdio, f"{name}.md", f"# Anchor {name}\n", library=library)
    assert len(stdio.ok("search", query="anchor", library=library, top_k=top_k)["results"]) == 2


def test_objects_lists_and_booleans_may_come_as_json_strings(stdio: Server, library: str) -> None:
    path = stdio.write("strings.md", "# Strings\n")
    stdio.ok("ingest_file", path=path, library=library, metadata='{"a": 1}', tags='["t", "u"]')
    (record,) = stdio.ok("list_documents", library=library, limit="10", offset="0")["documents"]
    assert (record["metadata"], record["tags"]) == ({"a": 1}, ["t", "u"])
    found = stdio.ok("search", query="strings", library=library, filter='{"metadata.a": 1}')
    assert names_of(found) == ["strings.md"]
    again = stdio.ok("ingest_file", path=path, library=library, metadata="null", refresh="true")
    assert again["status"] == "replaced"
    (record,) = stdio.ok("list_documents", library=library)["documents"]
    assert record["metadata"] == {"a": 1}


@pytest.mark.parametrize(
    "name",
    [
        "null",
        "true",
        "[1]",
        '{"a":1}',
        "5",
        '"quoted"',
        "it's",
        "a\"b'c`d",
        "x' OR '1'='1",
        "%_\\",
        "Bücher 📚 本",
        "../up",
    ],
)
def test_a_library_may_have_any_name_that_is_text(stdio: Server, name: str) -> None:
    ingested = ingest(stdio, "named.md", "# Named\n\nA library by any other name.\n", library=name)
    assert (ingested["status"], ingested["library"]) == ("indexed", name)
    (hit,) = stdio.ok("search", query="any other name", library=name)["results"]
    (record,) = stdio.ok("list_documents", library=name)["documents"]
    assert (hit["library"], hit["doc_id"]) == (name, ingested["doc_id"])
    assert (record["library"], record["doc_id"]) == (name, ingested["doc_id"])
    (hit,) = stdio.ok("search", query="any other name", filter={"library": name})["results"]
    assert hit["doc_id"] == ingested["doc_id"]
    assert name in [entry["library"] for entry in stdio.ok("list_libraries")["libraries"]]


@pytest.mark.parametrize(
    "query",
    [
        "word " * 2000,
        "x" * 10_000,
        "null",
        "5",
        '{"a": 1}',
        '"',
        '""',
        '"an exact phrase',
        "'; DROP TABLE chunks; --",
        "\\ % _ * ? ( ) [ ] ^ ~ : + - AND OR NOT",
        "the and of",
        "\x00",
        "🔑",
        "e\u0301",
    ],
)
def test_any_query_that_is_text_is_answered(stdio: Server, library: str, query: str) -> None:
    ingest(stdio, "queried.md", "# Queried\n\nThe and of it.\n", library=library)
    assert len(stdio.ok("search", query=query, library=library)["results"]) <= 1


# --- files


def test_a_missing_file_is_an_error_that_suggests_a_near_name(stdio: Server) -> None:
    stdio.write("harbour-rules.md", "# Rules\n")
    error = stdio.error("ingest_file", path="harbor-rules.md")
    assert str(stdio.folder / "harbor-rules.md") in error
    assert "Did you mean harbour-rules.md" in error


def test_a_missing_folder_is_named(stdio: Server) -> None:
    assert "has no nowhere" in stdio.error("ingest_file", path="nowhere/at/all.md")
    stdio.write("plain.md", "# Plain\n")
    assert "is a file, not a folder" in stdio.error("ingest_file", path="plain.md/inside.md")


def test_a_folder_is_refused(stdio: Server) -> None:
    assert "is a folder" in stdio.error("ingest_file", path=str(stdio.folder))


@pytest.mark.parametrize("text", ["", "\n \n\t\n"], ids=["empty", "blank"])
def test_a_file_without_text_is_refused(stdio: Server, text: str) -> None:
    assert "nothing to index" in stdio.error("ingest_file", path=stdio.write("void.md", text))


@pytest.mark.parametrize(
    ("name", "data"), [("a.xyz", b"text"), ("a.md", b"\x7fELF\x02"), ("a.txt", b"\x89PNG\r\n\x1a\n\x00")]
)
def test_an_unsupported_type_is_refused_with_what_is_supported(stdio: Server, name: str, data: bytes) -> None:
    (stdio.folder / name).write_bytes(data)
    error = stdio.error("ingest_file", path=name)
    assert all(extension in error for extension in (".txt", ".md", ".html"))


@pytest.mark.parametrize("path", ["https://example.com/a.md", "file:///etc/hosts", "a\0b.md", "   "])
def test_a_path_that_is_none_is_refused(stdio: Server, path: str) -> None:
    assert "path" in stdio.error("ingest_file", path=path)


@needs_posix
def test_a_named_pipe_is_refused_unopened(stdio: Server) -> None:
    os.mkfifo(stdio.folder / "pipe.md")
    assert "named pipe" in stdio.error("ingest_file", path="pipe.md")


@needs_posix
def test_a_socket_is_refused(stdio: Server) -> None:
    # A socket's path has at most 104 characters, which pytest's folders may exceed.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s.md")
        assert "socket" in stdio.error("ingest_file", path=f"{folder}/s.md")


@needs_posix
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/proc/self/environ"])
def test_a_device_is_refused(stdio: Server, path: str) -> None:
    assert "was not" in stdio.error("ingest_file", path=path)


@needs_posix
def test_a_link_to_a_device_is_refused(stdio: Server) -> None:
    (stdio.folder / "endless.txt").symlink_to("/dev/zero")
    assert "operating system" in stdio.error("ingest_file", path="endless.txt")


@needs_posix
def test_a_link_to_a_secret_is_refused_and_nothing_of_it_is_said(stdio: Server) -> None:
    (stdio.folder / "harmless.md").symlink_to(stdio.folder.parent / "user" / ".ssh" / "id_rsa")
    for path in ("harmless.md", "~/.ssh/id_rsa"):
        error = stdio.error("ingest_file", path=path)
        assert "keys and credentials" in error
        assert "nobody may index" not in error


@needs_posix
def test_a_link_that_loops_is_refused_and_hides_no_suggestion(stdio: Server) -> None:
    stdio.write("lantern.md", "# Lantern\n")
    (stdio.folder / "loop.md").symlink_to(stdio.folder / "loop.md")
    assert "loop" in stdio.error("ingest_file", path="loop.md")
    assert "Did you mean lantern.md" in stdio.error("ingest_file", path="lantern.mdd")


@pytest.mark.parametrize("name", [".env", ".env.local", "server.pem", ".netrc", "id_ed25519"])
def test_a_file_whose_name_says_secret_is_refused(stdio: Server, name: str) -> None:
    assert "credentials" in stdio.error("ingest_file", path=stdio.write(name, "TOKEN=1\n"))


def test_a_private_key_is_refused_under_any_name(stdio: Server) -> None:
    path = stdio.write("notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n")
    assert "private key" in stdio.error("ingest_file", path=path)


def test_a_relative_path_is_taken_from_the_servers_folder(stdio: Server, library: str) -> None:
    path = stdio.write("relative.md", "# Relative\n")
    assert stdio.ok("ingest_file", path="relative.md", library=library)["source"] == path
    roundabout = f"../{stdio.folder.name}/./relative.md"
    assert stdio.ok("ingest_file", path=roundabout, library=library)["status"] == "skipped"


def test_a_tilde_is_the_users_home(stdio: Server, library: str) -> None:
    answer = stdio.ok("ingest_file", path="~/in my home.md", library=library)
    assert answer["source"] == str(stdio.folder.parent / "user" / "in my home.md")


# --- filters


def test_every_filter_finds_its_own_document_and_no_other(stdio: Server, library: str) -> None:
    ingest(stdio, "other.html", "<html><title>Else</title><p>Knots and bends.</p></html>", library=library)
    metadata = {"lang": "de", "year": 2024, "draft": False, "ratio": 0.5, "author": {"name": "O'Hara"}}
    ingest(
        stdio,
        "wanted.md",
        "# Knots\n\nBowline and reef.\n",
        library=library,
        metadata=metadata | {"keys": ["a", "b"]},
        tags=["rope", "it's"],
    )
    hits = stdio.ok("search", query="knots", library=library)
    assert sorted(names_of(hits)) == ["other.html", "wanted.md"]
    wanted = next(hit for hit in hits["results"] if hit["source"].endswith("wanted.md"))
    (record,) = [
        r for r in stdio.ok("list_documents", library=library)["documents"] if r["doc_id"] == wanted["doc_id"]
    ]
    fields = ("doc_id", "source", "title", "file_type")
    narrow: list[Json] = [{field: wanted[field]} for field in fields]
    narrow += [{field: record[field]} for field in ("content_hash", "created_at")]
    narrow += [{"tags": "rope"}, {"tags": ["rope", "it's"]}]
    narrow += [{f"metadata.{key}": metadata[key]} for key in ("lang", "year", "draft", "ratio")]
    narrow += [{"metadata.year": 2024.0}, {"metadata.author.name": "O'Hara"}, {"metadata.keys": "b"}]
    narrow += [{"file_type": "md", "page": 0, "tags": "rope", "metadata.year": 2024, "library": library}]
    for chosen in narrow:
        assert names_of(stdio.ok("search", query="knots", library=library, filter=chosen)) == ["wanted.md"], (
            chosen
        )
    wide: list[Json] = [{}, {"library": library}, {"page": 0}, {"page": 0.0}, {"chunk_index": 0}]
    wide += [{"chunk_count": 1}, {"kind": "file"}]
    for chosen in wide:
        found = stdio.ok("search", query="knots", library=library, filter=chosen)
        assert sorted(names_of(found)) == ["other.html", "wanted.md"], chosen
    os.utime(wanted["source"], (1_700_000_000, 1_700_000_000))
    stdio.ok("ingest_file", path=wanted["source"], library=library, refresh=True)
    modified = {"last_modified": "2023-11-14T22:13:20+00:00"}
    assert names_of(stdio.ok("search", query="knots", library=library, filter=modified)) == ["wanted.md"]


@pytest.mark.parametrize(
    "chosen",
    [
        {"library": "x' OR '1'='1 "},
        {"title": "' OR 1=1 --"},
        {"source": "%"},
        {"tags": "x') OR array_has(tags, 'rope"},
        {"metadata.lang": "de') OR ('1'='1"},
        {"metadata.x') OR 1=1 --": "y"},
        {"metadata.year": "2024"},
        {"metadata.flag": 1},
        {"page": 7},
        {"page": -1},
        {"page": 2**63},
        {"page": -(10**40)},
    ],
)
def test_a_filter_that_matches_nothing_finds_nothing(stdio: Server, library: str, chosen: Json) -> None:
    metadata = {"lang": "de", "year": 2024, "flag": True}
    ingest(stdio, "safe.md", "# Safe\n", library=library, metadata=metadata, tags=["rope"])
    assert stdio.ok("search", query="safe", filter=chosen)["results"] == []


@pytest.mark.parametrize("key", ["1=1 --", "library = 'x' OR 1", "metadata", "metadata.", "vector", "", "id"])
def test_an_unknown_filter_is_an_error_that_names_the_valid_ones(stdio: Server, key: str) -> None:
    error = stdio.error("search", query="x", filter={key: "x"})
    valid = ("doc_id", "source", "title", "library", "file_type", "last_modified", "page", "metadata.<key>")
    assert all(name in error for name in valid)


def test_a_misspelt_filter_is_an_error_that_names_the_nearest(stdio: Server) -> None:
    assert "Did you mean 'file_type'?" in stdio.error("search", query="x", filter={"filetype": "md"})


@pytest.mark.parametrize(
    ("chosen", "wants"),
    [
        ({"page": "0"}, "an integer, not a string"),
        ({"page": True}, "an integer, not a boolean"),
        ({"page": 0.5}, "an integer, not a number"),
        ({"title": 5}, "a string, not an integer"),
        ({"title": None}, "a string, not null"),
        ({"source": ["a"]}, "a string, not a list"),
        ({"metadata.x": None}, "not null"),
        ({"metadata.x": {"a": 1}}, "not an object"),
        ({"tags": []}, "a tag"),
        ({"tags": [1]}, "a tag"),
    ],
)
def test_a_filter_of_the_wrong_type_is_an_error_that_says_the_right_one(
    stdio: Server, chosen: Json, wants: str
) -> None:
    assert wants in stdio.error("search", query="x", filter=chosen)
