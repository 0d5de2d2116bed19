"""Documents with their vectors in one file, to take to another database of the same model.

The file is an Arrow file whose metadata name the model, and after it comes a hash of it all: Arrow does not
notice every bit that has turned. It is written beside its place and renamed, so it is there whole or not at
all; what an index can make again is left out, and so are the stored files of uploads.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from mcpvectordb.errors import SourceError, StoreError
from mcpvectordb.models import Transferred, document_uuid

from . import database
from .connection import ENGINE_ERRORS, Connection, Table, first_line
from .durable import sync
from .filters import quoted, where
from .reader import Reader
from .rows import Entry, Row, chunk_of, document_of
from .schema import arrow, arrow_schema
from .writer import Writer, check_model

FORMAT = 1
_KEY = b"mcpvectordb"
_LEFT_OUT = ("search_text", "exact_text", "metadata_terms", "text_hash")
# What the hash is followed by.
_SEAL = b"mcpvectordb export"
SEAL_BYTES = hashlib.sha256().digest_size + len(_SEAL)
# A group is read, written and committed at once.
_GROUP_DOCUMENTS = 64
_GROUP_PASSAGES = 2000
_ALL = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What a file says of itself."""

    model: Mapping[str, Any]
    library: str | None  # None: all of them
    documents: int
    passages: int


class Transfer:
    def __init__(self, connection: Connection, reader: Reader, writer: Writer) -> None:
        self._connection = connection
        self._reader = reader
        self._writer = writer

    def export(self, path: Path, *, library: str | None) -> Transferred:
        """Write the documents of a library, or of all, to a file."""
        found = self._connection.database()
        table = self._connection.table()
        if found is None or table is None:
            raise StoreError("There is nothing to export: nothing has been indexed yet.")
        listed = self._connection.run("list the documents", lambda table: _records(table, library), table)
        if not listed:
            raise StoreError(f"There is nothing to export: the library {library!r} has no documents.")
        header = Header(
            model=found.model,
            library=library,
            documents=len(listed),
            passages=sum(count for _, count in listed),
        )
        # Of its own name: another process may be exporting to the same place.
        draft = path.parent / f".mcpvectordb-{uuid.uuid4().hex}.tmp"
        try:
            if path.exists() and not path.is_file():  # a folder, or a device, which is not to be replaced
                raise StoreError(f"Cannot write {path}: it is no file. Choose another place.")
            draft.touch()  # a place that cannot be written is told before the work is done
            try:
                self._connection.run("export", lambda table: _write(table, draft, header, listed), table)
                if self._connection.database() != found:
                    raise StoreError(
                        "The database was re-indexed meanwhile, so nothing was exported. Try again."
                    )
                seal(draft)
                sync([draft])
                draft.replace(path)
                sync([path, path.parent])
            finally:
                draft.unlink(missing_ok=True)
        except OSError as exc:
            raise StoreError(f"Cannot write {path}: {exc.strerror or exc}. Choose another place.") from exc
        return Transferred(
            path=str(path),
            documents=header.documents,
            passages=header.passages,
            size_bytes=path.stat().st_size,
        )

    def import_(self, path: Path, *, library: str | None) -> Transferred:
        """Store the documents of a file, under another library if one is given; known ones are skipped."""
        reader, header = _open(path)
        found = self._connection.database()
        if found is not None:
            check_model(
                found,
                header.model,
                f"{path.name} holds vectors of",
                "Import it into a database of its own: set MCPVECTORDB_HOME to a new folder.",
            )
        if library is not None and header.library is None:
            _check_they_fit_in_one(reader, path, library)
        documents = passages = skipped = 0
        for number in range(reader.num_record_batches):
            try:
                batch = reader.get_batch(number)
                batch.validate(full=True)
                rows = cast("list[Row]", batch.to_pylist())
                entries = [_entry(rows, path, library) for rows in _by_document(rows)]
            except (*ENGINE_ERRORS, TypeError) as exc:
                raise SourceError(
                    f"{path} is damaged after {documents} documents, which are stored: {first_line(exc)}. "
                    "Export it again."
                ) from exc
            new = [entry for entry in map(self._new, entries) if entry is not None]
            skipped += len(entries) - len(new)
            if new:
                self._writer.replace(new, header.model)
            documents += len(new)
            passages += sum(len(entry.chunks) for entry in new)
        return Transferred(
            path=str(path),
            documents=documents,
            passages=passages,
            skipped=skipped,
            size_bytes=path.stat().st_size,
        )

    def _new(self, entry: Entry) -> Entry | None:
        """None where this very version is stored already, so that an import cut off may be run again."""
        known = self._reader.find(entry.document.doc_id)
        # The file of an upload is not in the export: the same one may be here.
        is_same = known is not None and known.content_hash == entry.document.content_hash
        stored_path = known.stored_path if known is not None and is_same else ""
        document = replace(entry.document, stored_path=stored_path)
        return None if document == known else replace(entry, document=document)


def _records(table: Table, library: str | None) -> list[tuple[str, int]]:
    clause = f"{where(library=library)} AND chunk_index = 0"
    found = table.search().where(clause).select(["doc_id", "chunk_count"]).limit(_ALL).to_list()
    return sorted((row["doc_id"], row["chunk_count"]) for row in found)


def _groups(listed: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    group: list[str] = []
    passages = 0
    for doc_id, count in listed:
        group.append(doc_id)
        passages += count
        if len(group) >= _GROUP_DOCUMENTS or passages >= _GROUP_PASSAGES:
            yield group
            group, passages = [], 0
    if group:
        yield group


def _write(table: Table, draft: Path, header: Header, listed: Sequence[tuple[str, int]]) -> None:
    pa: Any = arrow()
    ipc = pa.ipc
    kept = _kept(arrow_schema(int(str(header.model["dimensions"]))))
    said = {
        "format": FORMAT,
        "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": dict(header.model),
        "library": header.library,
        "documents": header.documents,
        "passages": header.passages,
    }
    schema = pa.schema(kept).with_metadata({_KEY: json.dumps(said).encode()})
    names = [field.name for field in kept]
    options = ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(draft), "wb") as file, ipc.new_file(file, schema, options=options) as writer:
        for group in _groups(listed):
            clause = f"{where()} AND doc_id IN ({', '.join(quoted(doc_id) for doc_id in group)})"
            rows = table.search().where(clause).select(names).limit(_ALL).to_arrow()
            # A document that was deleted since the list was read is left out, one replaced is the new one.
            rows = rows.sort_by([("doc_id", "ascending"), ("chunk_index", "ascending")]).combine_chunks()
            for batch in rows.cast(pa.schema(kept)).to_batches():
                writer.write_batch(batch.cast(schema))


def seal(draft: Path) -> None:
    with draft.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.seek(0, 2)
        file.write(digest + _SEAL)


def _unsealed(path: Path) -> Any:
    """What lies under the seal; a ValueError where the file is not as it was sealed."""
    size = path.stat().st_size - SEAL_BYTES
    if size < 0:
        raise ValueError("it is too short")
    content = arrow().memory_map(str(path), "rb").read_buffer()
    digest = hashlib.sha256(memoryview(content)[:size]).digest()
    if content[size:].to_pybytes() != digest + _SEAL:
        raise ValueError("its hash is another")
    return content[:size]


def _open(path: Path) -> tuple[Any, Header]:
    pa: Any = arrow()
    try:
        reader = pa.ipc.open_file(_unsealed(path))
        said = json.loads(reader.schema.metadata[_KEY])
        if int(said["format"]) > FORMAT:
            raise SourceError(
                f"{path} was exported by a newer mcpvectordb. Upgrade this one; nothing was changed."
            )
        header = Header(
            model=database.model_of(said["model"]),
            library=said["library"],
            documents=said["documents"],
            passages=said["passages"],
        )
        expected = pa.schema(_kept(arrow_schema(int(str(header.model["dimensions"])))))
        if not reader.schema.equals(expected):
            raise ValueError("its columns are others")
    except FileNotFoundError as exc:
        raise SourceError(f"There is no file {path}.") from exc
    except (*ENGINE_ERRORS, TypeError, KeyError) as exc:
        raise SourceError(
            f"{path} is not a whole export of mcpvectordb. Export it again with `mcpvectordb export`."
        ) from exc
    return reader, header


def _check_they_fit_in_one(reader: Any, path: Path, library: str) -> None:
    """Of one source, whole libraries may hold a document each; in one library they would be the same."""
    seen: dict[str, str] = {}
    for number in range(reader.num_record_batches):
        try:
            firsts = reader.get_batch(number).select(["source", "library", "chunk_index"]).to_pylist()
        except ENGINE_ERRORS as exc:
            raise SourceError(f"{path} is damaged: {first_line(exc)}. Export it again.") from exc
        for row in firsts:
            other = seen.setdefault(row["source"], row["library"])
            if other != row["library"]:
                raise SourceError(
                    f"{path} holds {row['source']} in the libraries {other!r} and {row['library']!r}, and "
                    f"{library!r} can have it once only. Import the file without a library, or export one "
                    "library at a time. Nothing was changed."
                )


def _kept(schema: Any) -> list[Any]:
    return [field for field in schema if field.name not in _LEFT_OUT]


def _by_document(rows: Sequence[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        if group and row["doc_id"] != group[0]["doc_id"]:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _entry(rows: Sequence[Row], path: Path, library: str | None) -> Entry:
    import numpy as np  # noqa: PLC0415  (not before something is imported)

    document = document_of(rows[0])
    chunks = [chunk_of(row) for row in rows]
    is_own = document.doc_id == document_uuid(document.library, document.source)
    if not is_own or [chunk.index for chunk in chunks] != list(range(document.chunk_count)):
        raise SourceError(f"{path} does not hold {document.source} whole. Export it again.")
    if library is not None:
        document = replace(document, library=library, doc_id=document_uuid(library, document.source))
    return Entry(
        document=document,
        chunks=chunks,
        embed_hashes=[row["embed_hash"] for row in rows],
        vectors=np.asarray([row["vector"] for row in rows], dtype=np.float32),
    )
