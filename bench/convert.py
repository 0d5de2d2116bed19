"""What reading documents costs, against the bare libraries on the same files, in one run.

    make bench

Uses the real documents of ../shared/data/files where they are, and documents made here where not.
"""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pypdfium2

from mcpvectordb.convert import Converter
from mcpvectordb.models import Source

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT.parent / "shared" / "data" / "files"
EXAMPLES = ROOT / "examples" / "documents"
ROUNDS = 7


def source(name: str, data: bytes) -> Source:
    return Source(name=name, library="bench", kind="file", data=data, file_name=name)


def timed(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median time of some rounds, the first of which warms up and does not count."""
    times: list[float] = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def bare_pdf(data: bytes) -> int:
    chars = 0
    with pypdfium2.PdfDocument(data) as document:
        for page in document:
            text = page.get_textpage()
            chars += len(text.get_text_bounded())
            text.close()
            page.close()
    return chars


def pdfs(converter: Converter) -> None:
    print("PDF: through the worker, against bare pypdfium2 on the same pages")
    ours_total = bare_total = 0.0
    for path in sorted([*(FILES / "pdf").glob("*.pdf"), EXAMPLES / "lease.pdf"]):
        data = path.read_bytes()
        ours = timed(lambda data=data, path=path: converter.convert(source(path.name, data)))
        bare = timed(lambda data=data: bare_pdf(data))
        ours_total, bare_total = ours_total + ours, bare_total + bare
        print(f"  {path.name:40} {ours * 1000:7.1f} ms  {bare * 1000:7.1f} ms  {ours / bare:4.1f}x")
    print(f"  {'all together':40} {ours_total * 1000:7.1f} ms  {bare_total * 1000:7.1f} ms", end="")
    print(f"  {ours_total / bare_total:4.1f}x (at most 3x)")


def long_pdf(converter: Converter) -> None:
    """A long one, so that what a call costs once does not count."""
    pages = sorted((FILES / "pdf").glob("*multi_page.pdf")) or [EXAMPLES / "lease.pdf"]
    book = pypdfium2.PdfDocument.new()
    with pypdfium2.PdfDocument(pages[0]) as document:
        for _ in range(200 // len(document)):
            book.import_pages(document)
    buffer = io.BytesIO()
    book.save(buffer)
    data = buffer.getvalue()
    ours = timed(lambda: converter.convert(source("long.pdf", data)), rounds=3)
    bare = timed(lambda: bare_pdf(data), rounds=3)
    print(f"  {len(book)} pages of {pages[0].name:27} {ours * 1000:7.1f} ms  {bare * 1000:7.1f} ms", end="")
    print(f"  {ours / bare:4.1f}x (at most 3x)")


def words(converter: Converter) -> None:
    from markitdown import MarkItDown, MarkItDownException, StreamInfo

    markitdown = MarkItDown(enable_plugins=False)
    print("docx: warm, through the worker, against markitdown in-process")
    for path in sorted([*(FILES / "docx").glob("*.docx"), EXAMPLES / "safety.docx"]):
        data = path.read_bytes()
        info = StreamInfo(extension=".docx")
        ours = timed(lambda data=data, path=path: converter.convert(source(path.name, data)))
        print(f"  {path.name:40} {ours * 1000:7.1f} ms", end="")
        try:
            bare = timed(
                lambda data=data, info=info: markitdown.convert_stream(io.BytesIO(data), stream_info=info)
            )
        except MarkItDownException as exc:  # it reads fewer of them than we do
            print(f"  markitdown cannot read it: {str(exc).splitlines()[-1].strip(' -')[:60]}")
            continue
        print(f"  {bare * 1000:7.1f} ms", end="")
        print(f"  {ours / bare:4.2f}x (at most 1.3x)")


class Peak:
    """The most memory that a process has, and its children, and both together; looked at every 5 ms."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def __enter__(self) -> Peak:
        self.server = self.worker = self.both = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.005):
            server = used(self._process)
            try:
                worker = sum(map(used, self._process.children()))
            except psutil.Error:
                continue
            self.server, self.worker = max(self.server, server), max(self.worker, worker)
            self.both = max(self.both, server + worker)


def used(process: psutil.Process) -> float:
    try:
        return process.memory_info().rss / 1e6
    except psutil.Error:
        return 0.0


def crowded_pdf(lines: int) -> bytes:
    """One page of tiny print in three columns; without a table of its objects, which readers do without."""
    words = b"lorem ipsum dolor sit amet consectetur adipiscing " * 12
    text = b"\n".join(
        b"BT /F 0.3 Tf 1 0 0 1 %d %.3f Tm (%d %s) Tj ET" % (x, 790 - 780 * at / lines, at, words)
        for at in range(lines)
        for x in (10, 200, 400)
    )
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body = b"".join(b"%d 0 obj%s endobj\n" % (number, one) for number, one in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n"


def zipped(parts: dict[str, Iterable[bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, pieces in parts.items():
            with file.open(name, "w") as part:
                for piece in pieces:
                    part.write(piece)
    return buffer.getvalue()


OFFICE = "http://schemas.openxmlformats.org/"
TYPE = f"{OFFICE}officeDocument/2006/relationships"


def package(main: str, parts: dict[str, Iterable[bytes]], *related: tuple[str, str]) -> bytes:
    """An Office file: its parts, the one it begins with, and what that one refers to."""

    def relations(*targets: tuple[str, str]) -> list[bytes]:
        listed = "".join(
            f'<Relationship Id="r{number}" Type="{TYPE}/{kind}" Target="{target}"/>'
            for number, (kind, target) in enumerate(targets, 1)
        )
        return [
            f'<Relationships xmlns="{OFFICE}package/2006/relationships">{listed}</Relationships>'.encode()
        ]

    folder, _, name = main.partition("/")
    return zipped(
        {
            "[Content_Types].xml": [f'<Types xmlns="{OFFICE}package/2006/content-types"/>'.encode()],
            "_rels/.rels": relations(("officeDocument", main)),
            f"{folder}/_rels/{name}.rels": relations(*related),
            **parts,
        }
    )


def workbook(rows: int, columns: int) -> bytes:
    """A sheet of words and numbers, every row another."""
    names = f'xmlns="{OFFICE}spreadsheetml/2006/main" xmlns:r="{TYPE}"'

    def sheet() -> Iterable[bytes]:
        yield f"<worksheet {names}><sheetData>".encode()
        for row in range(rows):
            cells = "".join(
                f'<c t="inlineStr"><is><t>cell {row * columns + column}</t></is></c>'
                if column % 2
                else f"<c><v>{row * 31 + column}</v></c>"
                for column in range(columns)
            )
            yield f"<row>{cells}</row>".encode()
        yield b"</sheetData></worksheet>"

    book = f'<workbook {names}><sheets><sheet name="Data" sheetId="1" r:id="r1"/></sheets></workbook>'
    return package(
        "xl/workbook.xml",
        {"xl/workbook.xml": [book.encode()], "xl/worksheets/sheet1.xml": sheet()},
        ("worksheet", "worksheets/sheet1.xml"),
    )


def letter(megabytes: int) -> bytes:
    """A Word document that unpacks to so much, of paragraphs."""
    words = "lorem ipsum dolor sit amet consectetur " * 5
    paragraph = f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>".encode()

    def body() -> Iterable[bytes]:
        yield f'<w:document xmlns:w="{OFFICE}wordprocessingml/2006/main"><w:body>'.encode()
        for _ in range(megabytes * 1_000_000 // len(paragraph)):
            yield paragraph
        yield b"</w:body></w:document>"

    return package("word/document.xml", {"word/document.xml": body()})


# A server at work: it has indexed and searched with its model, and is given one more file.
SERVER = """
import sys
from pathlib import Path
import mcpvectordb.server.tools
from mcpvectordb.errors import VectorDBError
from mcpvectordb.settings import Settings
from mcpvectordb.vectordb import VectorDB
home, file = Path(sys.argv[1]), sys.argv[2]
with VectorDB(Settings(home=home, model="minilm")) as db:
    db.ingest_text("A note on harbours. " * 500, "note")
    db.search("harbour")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print(f"{db.ingest_file(str(file)).document.chunk_count:,} passages", flush=True)
    except VectorDBError as exc:
        print(exc, flush=True)
"""
# Embedding a book takes minutes, in which memory stays as it is.
WATCHED_S = 60


def worst() -> None:
    print(
        "memory at its peak, MB: server with MiniLM loaded, converter, both together; and what became of it"
    )
    cases: dict[str, tuple[str, Callable[[], bytes]]] = {
        "small page": ("a.html", lambda: b"<p>words</p>"),
        "HTML table of 1,200,000 cells": (
            "a.html",
            lambda: b"<table>" + b"<tr><td>x<td>y<td>z</tr>" * 400_000 + b"</table>",
        ),
        "JSON of 40 MB": (
            "a.json",
            lambda: b"[" + b'{"a": "some words", "b": [1, 2, 3]},' * 1_100_000 + b"{}]",
        ),
        "docx of 60 MB unpacked": ("a.docx", lambda: letter(60)),
        "docx of 300 MB unpacked": ("a.docx", lambda: letter(300)),
        "xlsx of 1,000,000 cells": ("a.xlsx", lambda: workbook(50_000, 20)),
        "xlsx of 3,000,000 cells": ("a.xlsx", lambda: workbook(150_000, 20)),
        "PDF page of 900,000 characters": ("a.pdf", lambda: crowded_pdf(500)),
        "CSV of 20 MB": ("a.csv", lambda: b"name,town,amount\n" * 1_200_000),
        "text of 24 MB": ("a.txt", lambda: b"words that go on and on, line by line\n" * 650_000),
    }
    most = 0.0
    for label, (name, make) in cases.items():
        peak, outcome = served(name, make())
        most = max(most, peak.both)
        print(
            f"  {label:32} {peak.server:5.0f} {peak.worker:5.0f} {peak.both:5.0f}  {outcome[:90]}", flush=True
        )
    print(f"  worst: {most:.0f} MB together (under 1,000 MB)")


def served(name: str, data: bytes) -> tuple[Peak, str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        del data
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, f"{folder}/home", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdout.readline()
            with Peak(server.pid) as peak:
                server.stdin.write("go\n")
                server.stdin.flush()
                give_up = threading.Timer(WATCHED_S, server.kill)
                give_up.start()
                outcome = server.stdout.readline().strip()
                give_up.cancel()
            server.kill()
    return peak, outcome or f"still embedding after {WATCHED_S} s"


def main() -> None:
    converter = Converter()
    started = time.perf_counter()
    converter.convert(source("a.html", b"<p>words</p>"))
    print(
        f"the worker's first document: {time.perf_counter() - started:.2f} s; nothing before it is asked for"
    )
    pdfs(converter)
    long_pdf(converter)
    words(converter)
    converter.stop()
    worst()


if __name__ == "__main__":
    sys.exit(main())
