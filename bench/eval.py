"""Search quality on public collections with judgements, through the product's own ingest and search.

Documents are ranked by their best passage. Prints nDCG@10 and recall@100 for each mode, next to the floor
that the mode must not fall below, and exits with 1 if one does. Run it with `make eval`.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mcpvectordb.models import Mode, Source
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB

COLLECTIONS = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval"
MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
# nDCG@10. Hybrid's floor is the better leg of the same run, less HYBRID_SLACK.
FLOORS = {
    "cranfield": {"keyword": 0.375, "vector": 0.39},
    "cacm": {"keyword": 0.466, "vector": 0.397},
    "cisi": {"keyword": 0.375, "vector": 0.414},
    "npl": {"keyword": 0.424},
    "adi": {"keyword": 0.476, "vector": 0.485},
}
HYBRID_SLACK = 0.01
# Passages to ask for so that at least 100 different documents are among them.
PASSAGES = 300


def lines(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def sources(collection: Path) -> Iterator[Source]:
    for document in lines(collection / "corpus.jsonl.gz"):
        title, text = document.get("title", "").strip(), document["text"].strip()
        # Some collections repeat the title as the first words of the text.
        body = text if not title or text.startswith(title) else f"# {title}\n\n{text}"
        if body:
            yield Source(
                name=document["_id"],
                library=collection.name,
                kind="text",
                data=body.encode(),
                file_name=f"{document['_id']}.md",
            )


def judgements(collection: Path) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    with gzip.open(collection / "qrels.tsv.gz", "rt", encoding="utf-8") as file:
        for line in list(file)[1:]:
            query, document, score = line.split("\t")
            if int(score) > 0:
                judged.setdefault(query, {})[document] = int(score)
    return judged


def ndcg(ranking: list[str], relevant: dict[str, int], depth: int = 10) -> float:
    gain = sum(relevant.get(key, 0) / math.log2(rank + 2) for rank, key in enumerate(ranking[:depth]))
    best = sorted(relevant.values(), reverse=True)[:depth]
    return gain / sum(score / math.log2(rank + 2) for rank, score in enumerate(best))


def recall(ranking: list[str], relevant: dict[str, int], depth: int = 100) -> float:
    return len(relevant.keys() & set(ranking[:depth])) / len(relevant)


def measure(db: VectorDB, collection: Path, mode: Mode) -> tuple[float, float]:
    judged = judgements(collection)
    scores: list[tuple[float, float]] = []
    for query in lines(collection / "queries.jsonl.gz"):
        relevant = judged.get(query["_id"])
        if not relevant:
            continue
        found = db.search(query["text"], top_k=PASSAGES, mode=mode)
        if found.mode != mode or found.notice:
            raise SystemExit(f"{collection.name}, {mode}: served by {found.mode}: {found.notice}")
        ranking = list(dict.fromkeys(hit.document.source for hit in found.hits))
        scores.append((ndcg(ranking, relevant), recall(ranking, relevant)))
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))  # type: ignore[return-value]


def evaluate(collection: Path) -> bool:
    with tempfile.TemporaryDirectory() as home, VectorDB(Settings(home=Path(home), model="minilm")) as db:
        started = time.perf_counter()
        count = sum(1 for _ in db.ingest_sources(sources(collection)))
        took = time.perf_counter() - started
        print(f"{collection.name}: {count} documents in {took:.0f} s", flush=True)
        floors = dict(FLOORS.get(collection.name, {}))
        good = True
        best = 0.0
        for mode in MODES:
            quality, found = measure(db, collection, mode)
            floor = floors.get(mode, 0.0) if mode != "hybrid" else best - HYBRID_SLACK
            best = max(best, quality)
            good &= quality >= floor
            verdict = "" if quality >= floor else "  BELOW"
            print(
                f"  {mode:8} nDCG@10 {quality:.3f} (floor {floor:.3f}){verdict}  recall@100 {found:.3f}",
                flush=True,
            )
    return good


def main() -> None:
    names = sys.argv[1:] or list(FLOORS)
    if not COLLECTIONS.is_dir():
        raise SystemExit(f"There are no collections in {COLLECTIONS}: nothing was measured.")
    results = [evaluate(COLLECTIONS / name) for name in names]
    raise SystemExit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
