"""What was embedded once is not embedded again: counted at the embedder."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import lancedb
import numpy as np
import pytest
from numpy.typing import NDArray

from embedders import CountingEmbedder, CountingLoader, use, words_db
from mcpvectordb.embed import MODELS
from mcpvectordb.errors import VectorDBError
from mcpvectordb.ingest import Request
from mcpvectordb.ingest.spool import Spool
from mcpvectordb.vectordb import VectorDB
from mcpvectordb.work import Work
from stores import rows_in, source, spawn, table_in, tombstones, until
from support import long_text

WORDS = [f"{a}{b}{c}" for a in ("ba", "ko", "ri", "su") for b in "aeiou" for c in ("n", "t", "ll", "x", "m")]


def sentences(seed: int, number: int) -> list[str]:
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) for _ in range(chance.randint(6, 25))).capitalize() + "."
        for _ in range(number)
    ]


def paragraphs() -> str:
    said = sentences(1, 6000)
    return "\n\n".join(" ".join(said[n : n + 4]) for n in range(0, len(said), 4))


def lines() -> str:
    return "\n".join(sentences(2, 6000))


def listed() -> str:
    return "# A list\n\n" + "\n".join(f"- {said}" for said in sentences(3, 6000))


def grid() -> str:
    return "| what | number |\n|---|---|\n" + "\n".join(
        f"| {said} | {n} |" for n, said in enumerate(sentences(4, 6000))
    )


def book() -> str:
    said = sentences(5, 6000)
    return "\n\n".join(f"## {said[n]}\n\n{' '.join(said[n + 1 : n + 30])}" for n in range(0, len(said), 30))


def ingest(db: VectorDB, name: str, content: str, work: Work = Work(), **asked: bool) -> int:  # noqa: B008
    """Ingest a text as a piece of work; its number of chunks."""
    request = Request(source=source(name, content), **asked)
    return db._ingester.ingest(request, work).document.chunk_count


@pytest.mark.parametrize("make", [paragraphs, lines, listed, grid, book])
def test_a_line_changed_in_a_long_document_embeds_three_passages_at_most(
    tmp_path: Path, make: Callable[[], str]
) -> None:
    loader = CountingLoader()
    text = make()
    with words_db(tmp_path / "home", load=loader) as db:
        assert ingest(db, "long", text) >= 500
        rows = text.split("\n")
        for part in (0.3, 0.5, 0.8):
            place = int(part * len(rows))
            # A heading stands in front of every passage below it, so a line of text.
            while len(rows[place]) < 20 or rows[place].startswith("#"):
                place += 1
            changed = [*rows]
            changed[place] = rows[place].replace(" ", " changed ", 1)
            loader.texts.clear()
            ingest(db, "long", "\n".join(changed))
            assert 1 <= len(loader.texts) <= 3
    assert tombstones(tmp_path / "home") == 0


def test_the_same_bytes_under_another_name_embed_nothing_and_get_the_same_vectors(tmp_path: Path) -> None:
    loader = CountingLoader()
    home = tmp_path / "home"
    with words_db(home, load=loader) as db:
        ingest(db, "one", long_text(60))
        loader.texts.clear()
        ingest(db, "two", long_text(60))
    assert loader.texts == []
    both = [[row["vector"] for row in rows_in(home) if row["source"] == name] for name in ("one", "two")]
    assert both[0] == both[1] != []


def test_refreshing_embeds_nothing(tmp_path: Path) -> None:
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        ingest(db, "one", long_text(60))
        before = list(loader.texts)
        ingest(db, "one", long_text(60), refresh=True)
    assert loader.texts == before


def test_a_text_that_stands_twice_in_a_document_is_embedded_once(tmp_path: Path) -> None:
    loader = CountingLoader()
    part = "## Terms\n\n" + " ".join(sentences(7, 8)) + "\n\n"
    with words_db(tmp_path / "home", load=loader) as db:
        assert ingest(db, "terms", part * 9) == 9
    assert len(loader.texts) == len(set(loader.texts)) == 1


def test_documents_of_one_commit_share_their_vectors(tmp_path: Path) -> None:
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        list(db.ingest_sources([source("one", long_text(20)), source("two", long_text(20))]))
    assert len(loader.texts) == len(set(loader.texts))


def test_without_the_index_vectors_are_found_all_the_same_and_upkeep_makes_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    loader = CountingLoader()
    with words_db(home, load=loader) as db:
        ingest(db, "one", long_text(40))
    table_in(home).drop_index("embed_hash_idx")
    loader.texts.clear()
    with words_db(home, load=loader) as db:
        ingest(db, "two", long_text(40))
        assert loader.texts == []
        assert db.search("harbour").notice == ""
        until(lambda: "embed_hash" in {index.columns[0] for index in table_in(home).list_indices()})


def test_a_line_that_many_documents_share_does_not_hide_the_others(tmp_path: Path) -> None:
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        list(db.ingest_sources([source(f"n{n}", "The same words in all of them.") for n in range(300)]))
        ingest(db, "last", "Words of its own.")
        loader.texts.clear()
        several = "# A\n\nThe same words in all of them.\n"
        ingest(db, "again", "The same words in all of them.")
        ingest(db, "other", "Words of its own.")
        ingest(db, "several", several)
    assert len(loader.texts) == 1


class Ended(VectorDBError):
    pass


class StoppingEmbedder(CountingEmbedder):
    """Ends the work after so many texts, as a power cut would."""

    def __init__(self, texts: list[str], most: int) -> None:
        super().__init__(MODELS["minilm"], "onnx", texts)
        self.most = most

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self.texts) >= self.most:
            raise Ended("That is all.")
        return super().embed_documents(texts)


def test_work_that_was_given_up_goes_on_from_its_spool(tmp_path: Path) -> None:
    home, work = tmp_path / "home", Work(spool=tmp_path / "job")
    first: list[str] = []
    with words_db(home, load=use(StoppingEmbedder(first, 100))) as db, pytest.raises(Ended):
        ingest(db, "long", long_text(300), work)
    loader = CountingLoader()
    with words_db(home, load=loader) as db:
        count = ingest(db, "long", long_text(300), work)
    assert len(first) >= 100
    assert not set(first) & set(loader.texts)
    assert len(first) + len(loader.texts) == count
    assert list((tmp_path / "job").iterdir()) == []  # written: nothing is left to go on with


KILLED = """
import os, sys
from pathlib import Path
from embedders import WordEmbedder, words_db, use
from mcpvectordb.ingest import Request
from mcpvectordb.work import Work
from stores import source
from support import long_text

class Embedder(WordEmbedder):
    made = 0
    def embed_documents(self, texts):
        if self.made >= 96:
            os.kill(os.getpid(), 9)
        self.made += len(texts)
        return super().embed_documents(texts)

with words_db(Path(sys.argv[1]), load=use(Embedder())) as db:
    db._ingester.ingest(Request(source=source("long", long_text(300))), Work(spool=Path(sys.argv[2])))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills with a signal")
def test_killed_in_mid_embed_and_resumed_only_the_rest_is_embedded(tmp_path: Path) -> None:
    child = spawn(KILLED, tmp_path / "home", tmp_path / "job")
    assert child.wait(120) == -signal.SIGKILL
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        count = ingest(db, "long", long_text(300), Work(spool=tmp_path / "job"))
    assert len(loader.texts) == count - 96


@pytest.mark.parametrize("cut", [1, 700, 1500])
def test_a_torn_spool_loses_what_is_torn_and_no_more(tmp_path: Path, cut: int) -> None:
    path, vectors = tmp_path / "job" / "a.vectors", np.random.default_rng(1).random((9, 384), np.float32)
    hashes = [f"{n:064x}" for n in range(9)]
    spool = Spool(384, path)
    for key, vector in zip(hashes, vectors, strict=True):
        spool.add(key, vector)
    spool.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = Spool(384, path)
    assert [key in again for key in hashes] == [True] * 8 + [False]
    again.add(hashes[8], vectors[8])
    assert np.array_equal(again.rows(hashes)[2:9], vectors[2:9])
    again.remove()
    assert not path.exists()


def test_a_record_whose_bits_have_turned_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.vectors"
    spool = Spool(4, path)
    for n in range(3):
        spool.add(f"{n:064x}", np.full(4, n, np.float32))
    spool.close()
    data = bytearray(path.read_bytes())
    data[-70] ^= 1  # in the second of three records of 52 bytes
    path.write_bytes(data)
    again = Spool(4, path)
    assert [f"{n:064x}" in again for n in range(3)] == [True, False, False]
    again.close()


def test_a_long_document_is_replaced_whole_by_one_commit_that_shows_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old, new = lines(), "\n".join(sentences(9, 24_000))
    with words_db(home) as db:
        first = db._ingester.ingest(Request(source=source("long", new))).document
        assert first.chunk_count > 2000
        ingest(db, "other", "Another document.")
        second = ingest(db, "long", old)
        third = db._ingester.ingest(Request(source=source("long", new))).document
        assert second < third.chunk_count == first.chunk_count
        assert db.get_document(third.doc_id).content == new
        assert [document.source for document in db.list_documents().documents] == ["long", "other"]
        seen = set()
        table = lancedb.connect(home / "lance").open_table(table_in(home).name)
        for version in range(1, table.version + 1):
            try:
                table.checkout(version)
            except ValueError:  # upkeep has removed it
                continue
            visible = f"doc_id = '{third.doc_id}' AND library = 'default'"
            times = table.search().where(visible).select(["created_at", "chunk_count"]).limit(99999).to_list()
            assert len(times) == (times[0]["chunk_count"] if times else 0)
            seen |= {row["created_at"] for row in times}
            assert len({row["created_at"] for row in times}) <= 1
        assert {third.created_at} <= seen
    assert tombstones(home) == 0
