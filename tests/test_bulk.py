"""Many files in one run: each has its result, a bad one harms no other, and giving up keeps what is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedders import BlockingEmbedder, CountingLoader, FailingEmbedder, use, words_db
from mcpvectordb.errors import (
    ConversionError,
    EmbeddingError,
    SourceNotFound,
    UnsupportedType,
    VectorDBError,
)
from mcpvectordb.ingest import Request
from mcpvectordb.models import Ingested, Source
from mcpvectordb.vectordb import VectorDB
from mcpvectordb.work import Work
from stores import rows_in, source, table_in
from support import long_text, wait_until

Maker = tuple[str, Callable[[], Request]]


class Cancelled(VectorDBError):
    pass


def maker(name: str, content: str, **asked: bool) -> Maker:
    return name, lambda: Request(source=source(name, content), **asked)


def run(db: VectorDB, makers: list[Maker], work: Work = Work()) -> dict[str, Ingested | VectorDBError]:  # noqa: B008
    return dict(db._ingester.ingest_many(makers, work))


def stored(db: VectorDB) -> set[str]:
    return {document.source for document in db.list_documents(limit=1000).documents}


def page(name: str) -> Maker:
    data = f"<html><body><h1>{name}</h1><p>A page that says {name}.</p></body></html>".encode()
    found = Source(name=name, library="default", kind="file", data=data, file_name=f"{name}.html")
    return name, lambda: Request(source=found)


def broken(name: str, data: bytes) -> Maker:
    found = Source(name=name, library="default", kind="file", data=data, file_name=f"{name}.pdf")
    return name, lambda: Request(source=found)


def missing() -> Request:
    raise SourceNotFound("There is no such file.")


def nonsense() -> Request:
    raise ZeroDivisionError


def test_every_file_has_its_result_and_bad_ones_stop_no_other(tmp_path: Path) -> None:
    makers = [
        maker("a", "Words of a."),
        ("gone", missing),
        page("b"),
        broken("torn", b"%PDF-1.7\n\0\1\2" * 99),
        broken("program", b"\x7fELF\0\1\2" * 99),
        ("bug", nonsense),
        maker("empty", " \n"),
        maker("c", long_text(30)),
    ]
    with words_db(tmp_path / "home") as db:
        results = run(db, makers)
        assert stored(db) == {"a", "b", "c"}
        assert db.get_document(results["c"].document.doc_id).content == long_text(30)  # type: ignore[union-attr]
    assert list(results) == [key for key, _ in makers]
    said = {
        key: result.status if isinstance(result, Ingested) else type(result)
        for key, result in results.items()
    }
    assert said == {
        "a": "indexed",
        "gone": SourceNotFound,
        "b": "indexed",
        "torn": ConversionError,
        "program": UnsupportedType,
        "bug": VectorDBError,
        "empty": ConversionError,
        "c": "indexed",
    }


def test_a_second_run_skips_what_is_known_and_replaces_what_has_changed(tmp_path: Path) -> None:
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        run(db, [maker("a", "Words of a."), maker("b", "Words of b.")])
        loader.texts.clear()
        again = run(db, [maker("a", "Words of a."), maker("b", "New words of b."), maker("c", "Words of c.")])
    assert [again[key].status for key in "abc"] == ["skipped", "replaced", "indexed"]  # type: ignore[union-attr]
    assert len(loader.texts) == 2


def test_the_same_document_twice_in_a_run_is_stored_once_and_its_last_version_stays(tmp_path: Path) -> None:
    makers = [
        maker("a", "The first version."),
        maker("a", "The last version."),
        maker("a", "The last version."),
    ]
    with words_db(tmp_path / "home") as db:
        results = list(db._ingester.ingest_many(makers, Work()))
        assert [result.status for _, result in results] == ["indexed", "replaced", "skipped"]  # type: ignore[union-attr]
        (document,) = db.list_documents().documents
        assert db.get_document(document.doc_id).content == "The last version."


def test_many_small_documents_share_few_commits_and_runs_of_the_model(tmp_path: Path) -> None:
    makers = [maker(f"n{n}", f"Words of number {n}.") for n in range(200)]
    with words_db(tmp_path / "home") as db:
        results = run(db, makers)
        assert {result.status for result in results.values()} == {"indexed"}  # type: ignore[union-attr]
        assert len(stored(db)) == 200
        # One that made the table, those of its indexes, and a few more: not one for each document.
        assert table_in(tmp_path / "home").version < 40


def test_copies_in_one_run_are_embedded_once(tmp_path: Path) -> None:
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        run(db, [maker(f"n{n}", long_text(20)) for n in range(5)])
    assert len(loader.texts) == len(set(loader.texts)) > 0
    assert len({row["source"] for row in rows_in(tmp_path / "home")}) == 5


def test_giving_up_keeps_what_was_committed_and_ends_every_stage(tmp_path: Path) -> None:
    is_cancelled = threading.Event()

    def checkpoint() -> None:
        if is_cancelled.is_set():
            raise Cancelled("Cancelled.")

    def makers() -> Iterator[Maker]:
        for n in range(10_000):
            yield maker(f"n{n}", f"Words of number {n}.")

    with words_db(tmp_path / "home") as db:
        results = db._ingester.ingest_many(makers(), Work(checkpoint=checkpoint))
        seen = [next(results)[0]]
        is_cancelled.set()
        with pytest.raises(Cancelled):
            seen += [key for key, _ in results]
        assert set(seen) <= stored(db)
        assert len(stored(db)) < 10_000
        assert not [thread for thread in threading.enumerate() if thread.name == "ingest"]


def test_giving_up_while_a_text_is_embedded_writes_nothing_of_it(tmp_path: Path) -> None:
    embedder = BlockingEmbedder()
    is_cancelled = threading.Event()

    def checkpoint() -> None:
        if is_cancelled.is_set():
            raise Cancelled("Cancelled.")

    raised: list[BaseException] = []
    with words_db(tmp_path / "home", load=use(embedder)) as db:

        def work() -> None:
            try:
                run(db, [maker("long", long_text(300))], Work(checkpoint=checkpoint))
            except Cancelled as exc:
                raised.append(exc)

        thread = threading.Thread(target=work)
        thread.start()
        assert embedder.reached.wait(30)
        is_cancelled.set()
        embedder.go.set()
        thread.join(30)
        assert len(raised) == 1
        assert stored(db) == set()


def test_whoever_no_longer_wants_the_results_leaves_no_thread_behind(tmp_path: Path) -> None:
    with words_db(tmp_path / "home") as db:
        results = db._ingester.ingest_many([maker(f"n{n}", f"Words {n}.") for n in range(500)], Work())
        next(results)
        results.close()
        wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "ingest"])


def test_a_model_that_fails_ends_the_run_with_one_error(tmp_path: Path) -> None:
    opened: list[str] = []

    def makers() -> Iterator[Maker]:
        for n in range(10_000):
            opened.append(f"n{n}")
            yield maker(f"n{n}", f"Words of number {n}.")

    with words_db(tmp_path / "home", load=FailingEmbedder) as db:
        with pytest.raises(EmbeddingError, match="damaged"):
            list(db._ingester.ingest_many(makers(), Work()))
        assert stored(db) == set()
    assert len(opened) < 10_000


def test_a_long_document_among_others_goes_on_from_its_spool(tmp_path: Path) -> None:
    class Stopping(FailingEmbedder):
        made = 0

        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            self.failing = self.made >= 128
            self.made += len(texts)
            return super().embed_documents(texts)

    work = Work(spool=tmp_path / "job")
    with (
        words_db(tmp_path / "home", load=use(Stopping(failing=False))) as db,
        pytest.raises(EmbeddingError),
    ):
        run(db, [maker("long", long_text(300))], work)
    loader = CountingLoader()
    with words_db(tmp_path / "home", load=loader) as db:
        results = run(db, [maker("short", "A few words."), maker("long", long_text(300))], work)
        count = results["long"].document.chunk_count  # type: ignore[union-attr]
    assert len(loader.texts) == count - 128 + 1
    assert list((tmp_path / "job").iterdir()) == []
