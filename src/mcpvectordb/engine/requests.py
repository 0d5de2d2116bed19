"""What the engine's calls take: bodies and query parameters, with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from mcpvectordb.contract.arguments import Arguments
from mcpvectordb.models import JobStatus

# What checks.py demands of a name, so that the description promises nothing that is then refused.
_NAME: dict[str, JsonValue] = {"pattern": r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"}
_NOT_BLANK: dict[str, JsonValue] = {"pattern": r"\S"}

Tag = Annotated[str, Field(min_length=1, max_length=200, json_schema_extra=_NAME)]
Tags = Annotated[list[Tag] | None, Field(max_length=100)]
Text = Annotated[str, Field(min_length=1, max_length=1_000_000, description="Markdown or plain text")]
Limit = Annotated[int, Field(ge=1, le=100, description="Most to return")]
Offset = Annotated[int, Field(ge=0, le=2**31, description="How many to pass over")]


class Search(Arguments):
    query: str = Field(
        min_length=1, max_length=10_000, description="A question or keywords", json_schema_extra=_NOT_BLANK
    )
    top: int = Field(5, ge=1, le=100, description="Most passages to return")
    tags: Tags = Field(None, description="Only documents that have all of these tags")
    fts_only: bool = Field(False, description="Rank by words alone; not together with vec_only")
    vec_only: bool = Field(False, description="Rank by meaning alone")


class Note(Arguments):
    text: Text
    title: str | None = Field(
        None, min_length=1, max_length=200, description="Else the first heading", json_schema_extra=_NAME
    )
    tags: Tags = Field(None, description="Kept as they are; none are added")
    source_path: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="The note's own name; a note with the same one takes its place",
        json_schema_extra=_NAME,
    )


class File(Arguments):
    """What is said of a file that comes as a form."""

    tags: Tags = None


class NoteChange(Arguments):
    text: Text
    tags: Tags = Field(None, description="Left out, the note keeps its tags")


class ListJobs(Arguments):
    status: JobStatus | None = Field(None, description="Only jobs in this state")
    limit: Limit = 20
    offset: Offset = 0


class ListDocuments(Arguments):
    source_path: str | None = Field(
        None, min_length=1, max_length=4096, description="Exactly this one; its text then comes with it"
    )
    tags: Tags = Field(None, description="Only documents that have all of these tags; repeat the parameter")
    limit: Limit = 20
    offset: Offset = 0


class Nothing(Arguments):
    """No parameters."""
