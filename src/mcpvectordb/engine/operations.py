"""The calls of the API as data: where they are, what they take and answer, what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

from mcpvectordb.contract import knowledge
from mcpvectordb.contract.arguments import Arguments

from . import requests
from .knowledge import Knowledge

BASE = "/api/v1"
# What any call may come to, besides its own.
ALWAYS = (400, 401, 421, 500, 503)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """`call` is given the knowledge base, then what stands in the path, then the query or the body."""

    name: str
    method: str
    path: str  # below BASE
    summary: str
    call: Callable[..., BaseModel]
    answers: tuple[type[BaseModel], ...]
    query: type[Arguments] | None = None
    body: type[Arguments] | None = None
    takes_file: bool = False
    status: int = 200
    errors: tuple[int, ...] = ()
    is_search: bool = False

    @property
    def parameter(self) -> str:
        """What varies in the path, or ""."""
        return self.path.partition("{")[2].partition("}")[0]


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="search",
        method="POST",
        path="/search",
        summary="Find the passages that best match a question or keywords",
        call=Knowledge.search,
        body=requests.Search,
        answers=(knowledge.SearchResult,),
        errors=(413, 415),
        is_search=True,
    ),
    Operation(
        name="add",
        method="POST",
        path="/jobs",
        summary="Add a note (JSON) or a file (multipart); it is searchable once the job is done",
        call=Knowledge.add_note,
        body=requests.Note,
        takes_file=True,
        answers=(knowledge.Job,),
        status=202,
        errors=(413, 415),
    ),
    Operation(
        name="list_jobs",
        method="GET",
        path="/jobs",
        summary="Recent jobs, newest first",
        call=Knowledge.jobs,
        query=requests.ListJobs,
        answers=(knowledge.Jobs,),
    ),
    Operation(
        name="get_job",
        method="GET",
        path="/jobs/{job_id}",
        summary="A job; a done one names its document",
        call=Knowledge.job,
        answers=(knowledge.Job,),
        errors=(404,),
    ),
    Operation(
        name="list_documents",
        method="GET",
        path="/documents",
        summary="Documents, newest first; those of one source_path come with their text",
        call=Knowledge.documents,
        query=requests.ListDocuments,
        answers=(knowledge.Matches, knowledge.Documents),
    ),
    Operation(
        name="get_document",
        method="GET",
        path="/documents/{document_id}",
        summary="A document with its text, passage by passage",
        call=Knowledge.document,
        answers=(knowledge.Details,),
        errors=(404,),
    ),
    Operation(
        name="update_note",
        method="PATCH",
        path="/notes/{document_id}",
        summary="Replace a note's text; its number stays, and its tags unless others are given",
        call=Knowledge.update_note,
        body=requests.NoteChange,
        answers=(knowledge.Details,),
        errors=(404, 409, 413, 415, 422),
    ),
    Operation(
        name="delete_document",
        method="DELETE",
        path="/documents/{document_id}",
        summary="Remove a document for good, with its stored file",
        call=Knowledge.delete,
        answers=(knowledge.Deleted,),
        errors=(404,),
    ),
    Operation(
        name="status",
        method="GET",
        path="/status",
        summary="Version, model, device, counts, queue, index cover",
        call=Knowledge.status,
        answers=(knowledge.Status,),
    ),
)
