"""Which model a database uses, how one is described, and what is said when it is not here."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedders import WordEmbedder
from hub import StandIn, stand_in
from mcpvectordb.embed import MODELS, Choices, Hub, Model, Models, Wish, find_model, from_record, load
from mcpvectordb.embed.describe import describe, record
from mcpvectordb.embed.models import with_dimensions
from mcpvectordb.embed.origin import from_folder, from_repository
from mcpvectordb.errors import ConfigError, EmbedderMismatch, EmbeddingError, HubUnavailable
from mcpvectordb.models import Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
from support import PATIENCE_S, Server, environment, serving, wait_until

TINY = Path(__file__).parent / "data" / "tiny-nomic"
PREFIXES = Choices(document_prefix="search_document: ", query_prefix="search_query: ")
SETTINGS = {
    "MCPVECTORDB_MODEL_DOCUMENT_PREFIX": "search_document: ",
    "MCPVECTORDB_MODEL_QUERY_PREFIX": "search_query: ",
}
COMMIT = "d" * 40
ST = "sentence_transformers.models"
NOMIC, MINILM = MODELS["nomic"], MODELS["minilm"]


@pytest.fixture
def server() -> Iterator[StandIn]:
    with stand_in() as server:
        yield server


@pytest.fixture
def tiny(server: StandIn) -> StandIn:
    """A hub that has the tiny model."""
    files = {p.relative_to(TINY).as_posix(): p.read_bytes() for p in TINY.rglob("*") if p.is_file()}
    server.put("test/tiny-nomic", COMMIT, files)
    return server


def environ(tmp_path: Path, endpoint: str = "http://127.0.0.1:9", **more: str) -> dict[str, str]:
    return {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": endpoint, **more}


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def database(tmp_path: Path, endpoint: str, **settings: object) -> VectorDB:
    given = {"home": tmp_path / "db", "hub_connect_s": 2, "hub_stall_s": 2, **settings}
    return VectorDB(Settings.model_validate(given), environ=environ(tmp_path, endpoint))


def note(text: str, name: str = "note") -> Source:
    return Source(name=name, library="default", kind="text", data=text.encode(), file_name=f"{name}.md")


def described(files: dict[str, Any], *, runtime: str = "onnx", choices: Choices = PREFIXES) -> Model:
    """What is made of a repository with these files, JSON ones given as values."""
    return describe(
        name="test/model",
        repository="test/model",
        revision=COMMIT,
        paths=files.keys(),
        read=files.get,
        choices=choices,
        runtime=runtime,
    )


BERT: dict[str, Any] = {
    "config.json": {"model_type": "bert", "hidden_size": 384, "max_position_embeddings": 512},
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
    "tokenizer.json": {},
    "onnx/model.onnx": None,
}


# Descriptions


def test_the_default_model_is_nomic_in_int8_with_its_prefixes() -> None:
    assert NOMIC.identity == {
        "repository": "nomic-ai/nomic-embed-text-v1.5",
        "revision": "e9b6763023c676ca8431644204f50c2b100d9aab",
        "precision": "int8",
        "dimensions": 768,
    }
    assert (NOMIC.document_prefix, NOMIC.query_prefix) == ("search_document: ", "search_query: ")
    assert all(len(file.sha256) == 64 for file in NOMIC.files)
    fp32 = MODELS["nomic-fp32"]
    assert fp32.identity == NOMIC.identity | {"precision": "fp32"}
    assert {file.path for file in fp32.needed("onnx")} == {"onnx/model.onnx", "tokenizer.json"}
    assert "model.safetensors" in {file.path for file in fp32.needed("sentence-transformers")}


def test_dimensions_are_cut_where_a_model_was_trained_for_it_only() -> None:
    cut = with_dimensions(NOMIC, 256)
    assert (cut.dimensions, cut.full_width, cut.identity["dimensions"]) == (256, 768, 256)
    assert with_dimensions(NOMIC, 0) is NOMIC
    with pytest.raises(ConfigError, match=r"minilm cannot be cut to 128.*MCPVECTORDB_MODEL_DIMENSIONS"):
        with_dimensions(MINILM, 128)
    with pytest.raises(ConfigError, match="8 to 768"):
        with_dimensions(NOMIC, 1024)


def test_a_models_own_files_describe_it() -> None:
    files = BERT | {
        "config_sentence_transformers.json": {"prompts": {"query": "query: ", "passage": "passage: "}},
        "sentence_bert_config.json": {"max_seq_length": 128},
        "modules.json": [
            {"type": f"{ST}.Transformer"},
            {"type": f"{ST}.Pooling"},
            {"type": f"{ST}.Normalize"},
        ],
    }
    model = described(files, choices=Choices())
    assert (model.dimensions, model.max_tokens, model.pooling, model.precision) == (384, 128, "mean", "fp32")
    assert (model.document_prefix, model.query_prefix) == ("passage: ", "query: ")
    assert [file.path for file in model.needed("onnx")] == ["tokenizer.json", "onnx/model.onnx"]


def test_a_long_model_is_run_with_texts_no_longer_than_ours() -> None:
    config = {"config.json": {"hidden_size": 64, "n_positions": 8192}}
    assert described(BERT | config).max_tokens == 512


@pytest.mark.parametrize(
    ("pooling", "means"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
        ({"pooling_mode": ["cls"]}, "cls"),
    ],
)
def test_pooling_is_read_in_the_old_and_the_new_spelling(pooling: dict[str, Any], means: str) -> None:
    assert described(BERT | {"1_Pooling/config.json": pooling}).pooling == means


@pytest.mark.parametrize(
    ("files", "choices", "asks"),
    [
        ({"1_Pooling/config.json": None}, PREFIXES, "MCPVECTORDB_MODEL_POOLING to mean or cls"),
        ({}, Choices(), "MCPVECTORDB_MODEL_DOCUMENT_PREFIX and MCPVECTORDB_MODEL_QUERY_PREFIX"),
        (
            {"config_sentence_transformers.json": {"prompts": {"query": "", "document": ""}}},
            Choices(),
            "`none` where it wants none",
        ),
        ({"1_Pooling/config.json": {"pooling_mode_lasttoken": True}}, PREFIXES, "not run here"),
        (
            {"1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False}},
            PREFIXES,
            "not run here",
        ),
        ({"onnx/int8.onnx": None, "onnx/fp16.onnx": None, "onnx/model.onnx": 0}, PREFIXES, "set MCPVECTORDB"),
        ({}, dataclasses.replace(PREFIXES, file="onnx/other.onnx"), "may be: onnx/model.onnx"),
        (
            {"modules.json": [{"type": f"{ST}.Transformer"}, {"type": f"{ST}.Dense", "path": "2_Dense"}]},
            PREFIXES,
            r"\(Dense\).*RUNTIME=",
        ),
        ({"modules.json": [{"type": "custom_st.Transformer"}]}, PREFIXES, r"\(custom_st.Transformer\)"),
        (
            {"modules.json": [{"type": f"{ST}.Transformer"}, {"type": "x.Pooling"}]},
            PREFIXES,
            "code of its own",
        ),
        ({"config.json": {"hidden_size": 384}}, PREFIXES, "how long a text may be"),
        ({"config.json": {"max_position_embeddings": 512}}, PREFIXES, "how wide"),
        ({"config.json": None}, PREFIXES, "no config.json"),
    ],
)
def test_what_the_files_do_not_say_for_certain_is_asked_for(
    files: dict[str, Any], choices: Choices, asks: str
) -> None:
    there = {path: value for path, value in (BERT | files).items() if value != 0}
    with pytest.raises(ConfigError, match=asks):
        described(there, choices=choices)


def test_what_the_user_says_of_a_model_is_taken() -> None:
    files = {path: value for path, value in BERT.items() if path != "1_Pooling/config.json"}
    choices = Choices(pooling="cls", document_prefix="none", query_prefix="q: ", dimensions=64)
    model = described(files | {"onnx/model_quantized.onnx": None}, choices=choices)
    assert (model.pooling, model.document_prefix, model.query_prefix) == ("cls", "", "q: ")
    assert (model.dimensions, model.cut) == (64, "plain")
    chosen = dataclasses.replace(choices, file="onnx/model_quantized.onnx")
    quantised = described(files | {"onnx/model_quantized.onnx": None}, choices=chosen)
    assert (quantised.precision, quantised.max_batch) == ("int8", 1)


def test_weights_that_can_carry_code_are_not_among_a_models_files() -> None:
    files = BERT | {"pytorch_model.bin": None, "model.safetensors": None, "modeling_x.py": None}
    paths = {file.path for file in described(files).files}
    assert "model.safetensors" in paths
    assert not {"pytorch_model.bin", "modeling_x.py"} & paths


DENSE: dict[str, Any] = BERT | {
    "modules.json": [
        {"type": f"{ST}.Transformer", "path": ""},
        {"type": f"{ST}.Pooling", "path": "1_Pooling"},
        {"type": f"{ST}.Dense", "path": "2_Dense"},
    ],
    "2_Dense/config.json": {"in_features": 384, "out_features": 96},
    "model.safetensors": None,
}


def test_a_model_with_a_dense_layer_is_as_wide_as_that_and_needs_its_weights() -> None:
    files = DENSE | {"2_Dense/model.safetensors": None}
    model = described(files, runtime="sentence-transformers")
    assert (model.dimensions, model.pooling) == (96, "own")
    needed = {file.path for file in model.needed("sentence-transformers")}
    assert {"2_Dense/config.json", "2_Dense/model.safetensors", "model.safetensors"} <= needed


def test_a_dense_layer_in_a_format_that_can_carry_code_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"2_Dense in a format that can carry code"):
        described(DENSE | {"2_Dense/pytorch_model.bin": None}, runtime="sentence-transformers")


def test_the_configuration_of_each_module_is_fetched_to_describe_a_repository(
    server: StandIn, tmp_path: Path
) -> None:
    files = DENSE | {"2_Dense/model.safetensors": None}
    server.put("test/dense", COMMIT, {path: json.dumps(value).encode() for path, value in files.items()})
    hub = Hub(cache=tmp_path / "hub", endpoint=server.url)
    model = from_repository(hub, "test/dense", "", PREFIXES, "sentence-transformers")
    assert model.dimensions == 96
    assert server.downloads() == []


def test_another_revision_of_a_known_repository_needs_no_settings(server: StandIn, tmp_path: Path) -> None:
    files: dict[str, bytes] = {
        "config.json": json.dumps({"model_type": "nomic_bert", "n_embd": 768, "n_positions": 8192}).encode(),
        "tokenizer.json": b"{}",
        "onnx/model.onnx": b"x",
    }
    server.put(NOMIC.repository, COMMIT, files)
    hub = Hub(cache=tmp_path / "hub", endpoint=server.url)
    model = from_repository(hub, NOMIC.repository, "main", Choices(), "onnx")
    assert model.identity == NOMIC.identity | {"revision": COMMIT, "precision": "fp32"}
    assert (model.document_prefix, model.pooling, model.cut) == ("search_document: ", "mean", "layer-norm")


@pytest.mark.parametrize("model", [NOMIC, with_dimensions(NOMIC, 128), MINILM, described(BERT)])
def test_what_a_database_keeps_of_its_model_gives_the_model_back(model: Model) -> None:
    kept = json.loads(json.dumps(record(model)))
    assert from_record(kept) == model


def test_a_database_of_a_model_that_is_not_described_any_more_says_what_to_do() -> None:
    kept = record(NOMIC) | {"revision": "f" * 40}
    with pytest.raises(ConfigError, match="mcpvectordb reindex --model nomic"):
        from_record(kept)


# The tiny model: a folder, a repository, cut vectors


def test_a_folder_is_a_model_and_keeps_its_identity_when_it_moves(tmp_path: Path) -> None:
    model = from_folder(TINY, PREFIXES, "onnx")
    assert (model.dimensions, model.precision, model.cut) == (32, "fp32", "layer-norm")
    moved = tmp_path / "elsewhere" / "tiny-nomic"
    shutil.copytree(TINY, moved)
    assert from_folder(moved, PREFIXES, "onnx").identity == model.identity
    (moved / "onnx" / "model.onnx").write_bytes(b"another model")
    assert from_folder(moved, PREFIXES, "onnx").identity != model.identity


def test_weights_beside_the_onnx_file_are_part_of_what_a_model_is(tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path / "tiny")
    beside = tmp_path / "tiny" / "onnx" / "model.onnx_data"
    beside.write_bytes(b"weights")
    before = from_folder(tmp_path / "tiny", PREFIXES, "onnx")
    beside.write_bytes(b"others!")
    assert from_folder(tmp_path / "tiny", PREFIXES, "onnx").identity != before.identity


@pytest.mark.parametrize("file", ["onnx/model.onnx", "tokenizer.json"])
def test_a_folder_whose_model_has_been_exchanged_is_not_taken_for_the_databases(
    tmp_path: Path, file: str
) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    own = {"model_document_prefix": "none", "model_query_prefix": "none"}
    with database(tmp_path, closed_port(), model=str(folder), **own) as db:
        db.ingest_source(note("# Keys\n\nRotate the keys."))
    (folder / file).write_bytes((folder / file).read_bytes() + b" ")
    with database(tmp_path, closed_port()) as db:
        with pytest.raises(
            EmbeddingError, match="not the .* file pinned.*reindex --model " + re.escape(str(folder))
        ):
            db.ingest_source(note("More about keys.", "second"))
        assert "pinned" in db.search("keys").notice


def test_a_folder_without_a_model_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no model in .*MCPVECTORDB_MODEL"):
        from_folder(tmp_path, PREFIXES, "onnx")


def test_cut_vectors_are_layer_normed_cut_and_of_length_one() -> None:
    whole = load(dataclasses.replace(from_folder(TINY, PREFIXES, "onnx"), normalise=False))
    cut = load(from_folder(TINY, dataclasses.replace(PREFIXES, dimensions=16), "onnx"))
    raw = whole.embed_query("rotate the keys")
    normed = (raw - raw.mean()) / np.sqrt(raw.var() + 1e-5)
    expected = normed[:16] / np.linalg.norm(normed[:16])
    assert np.allclose(cut.embed_query("rotate the keys"), expected, atol=1e-5)


def test_the_prefixes_of_a_model_are_what_tells_a_query_from_a_document() -> None:
    tiny = load(from_folder(TINY, PREFIXES, "onnx"))
    bare = load(from_folder(TINY, Choices(document_prefix="none", query_prefix="none"), "onnx"))
    query, document = tiny.embed_query("keys"), tiny.embed_documents(["keys"])[0]
    assert query @ document < 0.999
    assert query @ bare.embed_query("search_query: keys") > 0.9999
    assert document @ bare.embed_query("search_document: keys") > 0.9999


def test_a_repository_is_described_downloaded_and_searched(tiny: StandIn, tmp_path: Path) -> None:
    with database(
        tmp_path,
        tiny.url,
        model="test/tiny-nomic",
        model_document_prefix=PREFIXES.document_prefix,
        model_query_prefix=PREFIXES.query_prefix,
    ) as db:
        assert db.ingest_source(note("# Keys\n\nRotate the keys.")).status == "indexed"
        assert db.search("keys").mode == "hybrid"
    asked = len(tiny.requests)
    # From now on nothing has to be said: the database knows its model, and the files are here.
    with database(tmp_path, closed_port()) as db:
        assert db.search("keys", mode="vector").hits
        assert db.ingest_source(note("More about keys.", "second")).status == "indexed"
        assert [(s.model.name, s.is_here) for s in db.list_models() if s.is_used] == [
            ("test/tiny-nomic", True)
        ]
    with database(tmp_path, closed_port(), model="test/tiny-nomic") as db:
        assert db.search("keys", mode="vector").hits
    assert len(tiny.requests) == asked


# Auto and identity


def test_auto_takes_the_default_model_where_its_files_are_here(tmp_path: Path) -> None:
    hub = Hub(cache=tmp_path, endpoint=closed_port())
    for file in NOMIC.files:
        path = hub.snapshot(NOMIC.repository, NOMIC.revision) / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"there")
    assert Models(hub, Wish(), WordEmbedder, lambda: None).model(None) == NOMIC


def test_a_new_database_falls_back_to_the_offline_model_and_says_so_until_reindexed(tmp_path: Path) -> None:
    with database(tmp_path, closed_port()) as db:
        done = db.ingest_source(note("# Keys\n\nRotate the keys."))
        assert "offline model minilm" in done.notice
        assert "mcpvectordb reindex --model nomic" in done.notice
        assert db.search("keys").mode == "hybrid"
    kept = json.loads((tmp_path / "db" / "database.json").read_text(encoding="utf-8"))["model"]
    assert (kept["name"], kept["fallback"]) == ("minilm", True)
    with database(tmp_path, closed_port()) as db:
        assert "offline model minilm" in db.search("keys").notice
        assert "offline model minilm" in db.ingest_source(note("More.", "second")).notice
    with database(tmp_path, closed_port(), model="minilm") as db:
        assert db.search("keys").notice == ""


def test_a_hub_that_accepts_and_never_answers_is_away_too(server: StandIn, tmp_path: Path) -> None:
    server.is_silent = True
    with database(tmp_path, server.url, hub_connect_s=0.3) as db:
        assert "offline model minilm" in db.ingest_source(note("Rotate the keys.")).notice


def test_the_offline_setting_falls_back_without_a_request(server: StandIn, tmp_path: Path) -> None:
    given = environ(tmp_path, server.url, HF_HUB_OFFLINE="1")
    with VectorDB(Settings(home=tmp_path / "db"), environ=given) as db:
        assert "offline model minilm" in db.ingest_source(note("Rotate the keys.")).notice
    assert server.requests == []


def test_a_file_that_is_not_the_pinned_one_is_no_reason_to_fall_back(server: StandIn, tmp_path: Path) -> None:
    server.put_model(NOMIC, {"model": b"another", "tokenizer": b"{}"})
    with (
        database(tmp_path, server.url) as db,
        pytest.raises(EmbeddingError, match="is not the file expected"),
    ):
        db.ingest_source(note("Rotate the keys."))
    assert not (tmp_path / "db" / "database.json").exists()


def test_an_explicit_model_is_never_replaced_by_another(tmp_path: Path) -> None:
    with (
        database(tmp_path, closed_port(), model="nomic") as db,
        pytest.raises(HubUnavailable, match="mcpvectordb model download"),
    ):
        db.ingest_source(note("Rotate the keys."))


def test_cut_dimensions_are_never_replaced_by_the_offline_model(tmp_path: Path) -> None:
    with (
        database(tmp_path, closed_port(), model_dimensions=256) as db,
        pytest.raises(EmbeddingError, match="default model nomic is not on this machine"),
    ):
        db.ingest_source(note("Rotate the keys."))


def test_another_model_than_the_databases_is_refused_naming_the_command(tmp_path: Path) -> None:
    with database(tmp_path, closed_port(), model="minilm") as db:
        db.ingest_source(note("Rotate the keys."))
    with database(tmp_path, closed_port(), model="nomic") as db:
        with pytest.raises(EmbedderMismatch, match="mcpvectordb reindex --model nomic"):
            db.search("keys", mode="vector")
        found = db.search("keys")
        assert (found.mode, len(found.hits)) == ("keyword", 1)
        assert "mcpvectordb reindex --model nomic" in found.notice


def test_settings_that_contradict_the_databases_model_are_refused(tmp_path: Path) -> None:
    with database(tmp_path, closed_port(), model="minilm") as db:
        db.ingest_source(note("Rotate the keys."))
    with (
        database(tmp_path, closed_port(), model_query_prefix="query: ") as db,
        pytest.raises(EmbedderMismatch, match="MCPVECTORDB_MODEL_"),
    ):
        db.search("keys", mode="vector")


@pytest.mark.parametrize("wanted", ["auto", "nomic", "minilm"])
def test_what_is_known_of_a_model_cannot_be_set_otherwise(tmp_path: Path, wanted: str) -> None:
    with database(tmp_path, closed_port(), model=wanted, model_pooling="cls") as db:
        with pytest.raises(ConfigError, match=r"MCPVECTORDB_MODEL_FILE, _POOLING.*Unset"):
            db.ingest_source(note("keys"))
        assert db.database_model() is None


def test_settings_that_only_the_default_model_meets_are_no_reason_for_the_offline_one(tmp_path: Path) -> None:
    with (
        database(tmp_path, closed_port(), model_document_prefix=NOMIC.document_prefix) as db,
        pytest.raises(EmbeddingError, match="mcpvectordb model download"),
    ):
        db.ingest_source(note("keys"))


def test_a_database_is_not_told_to_reindex_where_that_would_not_help(tmp_path: Path) -> None:
    with database(tmp_path, closed_port(), model="minilm") as db:
        db.ingest_source(note("keys"))
    with (
        database(tmp_path, closed_port(), model_pooling="cls") as db,
        pytest.raises(EmbedderMismatch, match=r"Unset them\.$"),
    ):
        db.ingest_source(note("more", "second"))


def test_int8_is_not_run_by_the_runtime_that_gives_fp32(tmp_path: Path) -> None:
    hub = Hub(cache=tmp_path)
    models = Models(hub, Wish(runtime="sentence-transformers"), WordEmbedder, lambda: None)
    with pytest.raises(ConfigError, match="minilm is int8"):
        models.runtime(MINILM)
    assert models.runtime(MODELS["nomic-fp32"]) == "sentence-transformers"


def test_a_runtime_that_is_not_installed_names_its_extra() -> None:
    if find_spec("sentence_transformers"):
        pytest.skip("sentence-transformers is installed here")
    with pytest.raises(EmbeddingError, match=r"mcpvectordb\[sentence-transformers\]"):
        load(from_folder(TINY, PREFIXES, "onnx"), "sentence-transformers").embed_query("keys")


# Over the protocol


def hub_settings(tmp_path: Path, hub: StandIn, **more: str) -> dict[str, str]:
    return {
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.url,
        "MCPVECTORDB_MODEL": "auto",
        **more,
    }


def notifications(server: Server) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in server.stdout_lines]
    return [m["params"] for m in messages if m.get("method") == "notifications/progress"]


def test_a_call_that_waits_for_a_download_reports_how_far_it_is(tiny: StandIn, tmp_path: Path) -> None:
    tiny.hold_after = 200_000
    settings = hub_settings(tmp_path, tiny, **SETTINGS, MCPVECTORDB_MODEL="test/tiny-nomic")
    with serving(tmp_path / "db", folder=tmp_path, **settings) as server:
        path = server.write("keys.md", "# Keys\n\nRotate the keys.\n")
        call = {"name": "ingest_file", "arguments": {"path": path}, "_meta": {"progressToken": "t1"}}
        request = server.begin("tools/call", call)
        wait_until(
            lambda: any("downloading model test/tiny-nomic" in m["message"] for m in notifications(server))
        )
        tiny.go.set()
        assert server.finish_call(request, "ingest_file")["status"] == "indexed"
        told = notifications(server)
    assert all(each["progressToken"] == "t1" and each["total"] == 100 for each in told)
    percents = [each["progress"] for each in told]
    assert percents == sorted(set(percents))


def test_a_call_that_would_wait_too_long_says_how_far_the_download_is_and_that_it_goes_on(
    tiny: StandIn, tmp_path: Path
) -> None:
    tiny.hold_after = 200_000
    settings = hub_settings(tmp_path, tiny, **SETTINGS, MCPVECTORDB_MODEL="test/tiny-nomic")
    with serving(tmp_path / "db", folder=tmp_path, MCPVECTORDB_CALL_TIMEOUT_S="2", **settings) as server:
        path = server.write("keys.md", "# Keys\n\nRotate the keys.\n")
        assert server.ok("ingest_file", path=path)["status"] == "processing"
        assert tiny.holding.wait(PATIENCE_S)
        said = server.ok("ingest_file", path=path)["notice"]
        assert "downloading model test/tiny-nomic" in said
        assert "%" in said
        assert "goes on" in said
        tiny.go.set()
        assert server.ok_in_time("ingest_file", path=path)["status"] in ("indexed", "skipped")
        assert server.ok("search", query="keys")["mode"] == "hybrid"
    # Every line on stdout was a message of the protocol, or answer_to would have failed on it.
    assert all(line.startswith("{") for line in server.stdout_lines)


def test_ingests_that_wait_for_a_model_do_not_hold_up_who_only_reads(tiny: StandIn, tmp_path: Path) -> None:
    tiny.hold_after = 200_000
    settings = hub_settings(tmp_path, tiny, **SETTINGS, MCPVECTORDB_MODEL="test/tiny-nomic")
    with serving(tmp_path / "db", folder=tmp_path, MCPVECTORDB_CALL_TIMEOUT_S="600", **settings) as server:
        paths = [server.write(f"{number}.md", f"# Note {number}\n") for number in range(40)]
        waiting = [server.begin_call("ingest_file", {"path": path}) for path in paths]
        assert server.ok("list_libraries") == {"libraries": []}
        tiny.go.set()
        assert {server.finish_call(each, "ingest_file")["status"] for each in waiting} == {"indexed"}


def test_without_its_model_a_database_is_searched_by_keywords_and_says_how_far_the_download_is(
    tiny: StandIn, tmp_path: Path
) -> None:
    settings = hub_settings(tmp_path, tiny, **SETTINGS, MCPVECTORDB_MODEL="test/tiny-nomic")
    with serving(tmp_path / "db", folder=tmp_path, **settings) as server:
        server.ok("ingest_file", path=server.write("keys.md", "# Keys\n\nRotate the keys.\n"))
    shutil.rmtree(tmp_path / "hf")
    tiny.hold_after = 200_000
    tiny.holding.clear()
    settings = hub_settings(tmp_path, tiny)
    with serving(tmp_path / "db", folder=tmp_path, **settings) as server:
        first = server.ok("search", query="keys")
        assert (first["mode"], len(first["results"])) == ("keyword", 1)
        assert "until the model is here" in first["notice"]
        assert tiny.holding.wait(PATIENCE_S)
        wait_until(lambda: "downloading model" in server.ok("search", query="keys")["notice"].lower())
        assert "%" in server.ok("search", query="keys")["notice"]
        tiny.go.set()
        wait_until(lambda: server.ok("search", query="keys")["mode"] == "hybrid")


def test_without_its_model_and_the_hub_a_search_says_what_to_do(tiny: StandIn, tmp_path: Path) -> None:
    settings = hub_settings(tmp_path, tiny, **SETTINGS, MCPVECTORDB_MODEL="test/tiny-nomic")
    with serving(tmp_path / "db", folder=tmp_path, **settings) as server:
        server.ok("ingest_file", path=server.write("keys.md", "# Keys\n\nRotate the keys.\n"))
    shutil.rmtree(tmp_path / "hf")
    settings = hub_settings(tmp_path, tiny) | {"HF_ENDPOINT": closed_port()}
    with serving(tmp_path / "db", folder=tmp_path, **settings) as server:

        def told() -> str:
            found = server.ok("search", query="keys")
            assert (found["mode"], len(found["results"])) == ("keyword", 1)
            return found["notice"]

        wait_until(lambda: "mcpvectordb model download" in told())
        said = server.error("ingest_file", path=server.write("more.md", "More keys.\n"))
        assert "mcpvectordb model download" in said


def run(tmp_path: Path, *args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpvectordb", *args],
        env=environment(tmp_path / "db", **settings),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_list_of_models_says_what_is_here_what_is_default_and_what_is_used(tmp_path: Path) -> None:
    with database(tmp_path, closed_port()) as db:
        db.ingest_source(note("Rotate the keys."))
    listed = run(tmp_path, "model", "list", "--json", HF_HOME=str(tmp_path / "hf"), MCPVECTORDB_MODEL="auto")
    assert listed.returncode == 0, listed.stderr
    rows = {row["name"]: (row["here"], row["default"], row["used"]) for row in json.loads(listed.stdout)}
    assert rows == {
        "nomic": (False, True, False),
        "nomic-fp32": (False, False, False),
        "minilm": (True, False, True),
    }
    assert "mcpvectordb reindex --model nomic" in listed.stderr
    plain = run(tmp_path, "model", "list", HF_HOME=str(tmp_path / "hf"))
    assert "minilm: here, used (sentence-transformers/all-MiniLM-L6-v2, int8, 384 dimensions)" in plain.stdout
    assert "nomic: not here, default" in plain.stdout


def test_status_and_the_list_of_models_say_that_the_offline_model_stands_in(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("Rotate the keys.", encoding="utf-8")
    for command in (["ingest", str(tmp_path / "note.md")], ["status"], ["model", "list"]):
        told = run(tmp_path, *command, MCPVECTORDB_MODEL="auto")
        assert told.returncode == 0, told.stderr
        assert "mcpvectordb reindex --model nomic" in told.stderr, command
    kept = run(tmp_path, "status", MCPVECTORDB_MODEL="minilm")
    assert "reindex" not in kept.stdout + kept.stderr


def test_the_list_is_there_whatever_the_runtime(tmp_path: Path) -> None:
    listed = run(tmp_path, "model", "list", MCPVECTORDB_RUNTIME="sentence-transformers")
    assert listed.returncode == 0, listed.stderr
    assert "minilm: here" in listed.stdout


@pytest.mark.parametrize("name", ["", "~nobody-of-that-name/model", "x" * 300, "a/b@"])
def test_a_name_that_can_be_no_model_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    for command in (["model", "download", name], ["reindex", "--model", name]):
        ended = run(tmp_path, *command)
        assert ended.returncode == 1
        assert "Traceback" not in ended.stderr
    with pytest.raises(ConfigError, match="There is no model"):
        Models(Hub(cache=tmp_path), Wish(), load, lambda: None).named(name)


def test_an_empty_database_fetches_no_model_to_reindex_with(tmp_path: Path) -> None:
    ended = run(tmp_path, "reindex", "--model", "nomic")
    assert ended.returncode == 1
    assert "Nothing has been indexed yet" in ended.stderr


def test_an_unknown_model_is_refused_by_the_command_too(tmp_path: Path) -> None:
    ended = run(tmp_path, "model", "download", "nomik")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Did you mean 'nomic'?" in ended.stderr


def test_find_model_names_the_other_ways_to_name_one() -> None:
    with pytest.raises(ConfigError, match="organisation/name@revision"):
        find_model("nothing like it")
