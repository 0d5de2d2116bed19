"""Real files of many programs, through the real server: their phrases come back and are found.

The files are not part of this repository; without them beside it, these tests are skipped.
"""

from __future__ import annotations

import csv
import re
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from converting import CONVERTER
from mcpvectordb.models import Source
from support import PATIENCE_S, Json, Server, serving

FILES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "files"
MANIFEST = FILES / "MANIFEST.tsv"

pytestmark = pytest.mark.skipif(
    not MANIFEST.is_file(),
    reason="needs the sample files in ../shared/data/files, which are not in the repository",
)

# What cannot be read, by folder, and what the error tells the user to do.
REFUSED = {
    "doc": "Save it as .docx (Word or LibreOffice can) and add that",
    "ppt": "Save it as .pptx (PowerPoint or LibreOffice can) and add that",
    "image": "Text in a picture needs OCR",
    "other": "a binary file, which is not supported",
}
# Fewer words than this are in many documents, so that ten hits need not have this one among them.
LEAST_WORDS = 3
_MARKS = re.compile(r"[*_`~\\|#>\[\]]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    path: str
    phrases: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def folder(self) -> str:
        return self.path.partition("/")[0]

    @property
    def size(self) -> int:
        return (FILES / self.path).stat().st_size


def samples() -> list[Sample]:
    if not MANIFEST.is_file():
        return []
    with MANIFEST.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [
        Sample(
            path=path,
            phrases=tuple(phrase for phrase in phrases.split(" || ") if phrase),
            absent=tuple(note.partition("must NOT contain: ")[2].split(" || ")) if "must NOT" in note else (),
        )
        for path, _, note, phrases in rows
    ]


# Half of all the text is in a few tables of data from which no phrase is asked: read, but not indexed here.
LARGE_BYTES = 20_000

SAMPLES = samples()
DATA = [each for each in SAMPLES if not each.phrases and each.folder == "xml" and each.size > LARGE_BYTES]
READ = [each for each in SAMPLES if each.folder not in REFUSED and each not in DATA]


def folded(text: str) -> str:
    """Without white space and the marks of Markdown: what a reader of the page would call the same words."""
    return "".join(_MARKS.sub("", unicodedata.normalize("NFKC", text)).split())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("files")) as serving_all:
        yield serving_all


@pytest.fixture(scope="module")
def ingested(server: Server) -> dict[str, Json]:
    """Every file's answer, all of them in one library."""
    return {sample.path: _answer(server, sample) for sample in SAMPLES if sample not in DATA}


def _answer(server: Server, sample: Sample) -> Json:
    """The answer to a file, asked for again as long as the work goes on."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = server.call("ingest_file", path=str(FILES / sample.path), library="files")
        if answer["status"] != "processing" or time.monotonic() > deadline:
            return answer


@pytest.mark.parametrize("sample", READ, ids=lambda sample: sample.path)
def test_a_file_gives_its_phrases_and_is_found_by_them(
    server: Server, ingested: dict[str, Json], sample: Sample
) -> None:
    answer = ingested[sample.path]
    assert answer["status"] in ("indexed", "skipped"), answer
    document = server.ok("get_document", doc_id=answer["doc_id"])
    text = folded(document["content"])
    assert [phrase for phrase in sample.phrases if folded(phrase) not in text] == []
    assert [phrase for phrase in sample.absent if phrase in document["content"]] == []
    for phrase in sample.phrases:
        if len(phrase.split()) >= LEAST_WORDS:
            hits = server.ok("search", query=phrase, top_k=10)["results"]
            assert answer["doc_id"] in [hit["doc_id"] for hit in hits], phrase


@pytest.mark.parametrize("sample", DATA, ids=lambda sample: sample.path)
def test_a_large_table_of_data_is_read(sample: Sample) -> None:
    data = (FILES / sample.path).read_bytes()
    source = Source(name=sample.path, library="files", kind="file", data=data, file_name=sample.path)
    assert CONVERTER.convert(source).text.strip()


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.folder in REFUSED], ids=lambda sample: sample.path
)
def test_a_file_that_cannot_be_read_is_refused_with_what_to_do(
    ingested: dict[str, Json], sample: Sample
) -> None:
    answer = ingested[sample.path]
    assert answer["status"] == "error"
    assert REFUSED[sample.folder] in answer["error"]
    assert Path(sample.path).name in answer["error"]
