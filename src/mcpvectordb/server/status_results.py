"""What the tool `status` answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, Field

from mcpvectordb import __version__
from mcpvectordb.models import Status

from .results import Result

_NOTHING_YET = "Nothing has been indexed yet."


class ModelRecord(BaseModel):
    name: str
    repository: str
    precision: str
    dimensions: int


class IndexRecord(BaseModel):
    unindexed_chunks: int = Field(description="Passages that every search by words reads one by one")
    has_vector_index: bool = Field(description="Without one, every vector is compared, which finds all")
    unindexed_vectors: int = Field(description="Vectors that the index does not cover yet")


class StatusResult(Result):
    version: str = Field(description="Of mcpvectordb")
    home: str = Field(description="The folder of the database")
    model: ModelRecord | None = Field(description="What the vectors are made with; null while there are none")
    document_count: int
    chunk_count: int
    library_count: int
    size_bytes: int
    file_count: int = Field(description="Files that the database consists of")
    index: IndexRecord
    pending: list[str] = Field(description="What upkeep will do in the background")
    jobs: dict[str, int] = Field(description="How many there are in each state")
    recoveries: list[str] = Field(description="What was damaged and restored before")
    notice: str | None = None

    def payload(self) -> dict[str, object]:
        """Without a notice if there is none; but that there is no model is said."""
        return self.model_dump(mode="json", exclude={"notice"} if self.notice is None else None)

    @classmethod
    def of(
        cls, home: Path, found: Status | None, jobs: tuple[Mapping[str, int], str], notice: str
    ) -> StatusResult:
        """jobs are counted by state, or it is said why not; the notice is the model's."""
        if found is None:
            counts, problem = jobs
            return cls(
                version=__version__,
                home=str(home),
                model=None,
                document_count=0,
                chunk_count=0,
                library_count=0,
                size_bytes=0,
                file_count=0,
                index=IndexRecord(unindexed_chunks=0, has_vector_index=False, unindexed_vectors=0),
                pending=[],
                jobs=dict(counts),
                recoveries=[],
                notice=" ".join(filter(None, (_NOTHING_YET, problem))),
            )
        return cls(
            version=__version__,
            home=found.home,
            model=ModelRecord.model_validate(found.model),
            document_count=found.documents,
            chunk_count=found.passages,
            library_count=len(found.libraries),
            size_bytes=found.size_bytes,
            file_count=found.files,
            index=IndexRecord(
                unindexed_chunks=found.unindexed_passages,
                has_vector_index=found.has_vector_index,
                unindexed_vectors=found.unindexed_vectors,
            ),
            pending=list(found.pending),
            jobs=dict(found.jobs),
            recoveries=list(found.recoveries),
            notice=" ".join(part for part in (found.notice, notice) if part) or None,
        )
