"""A tool as data: name, words for the model, arguments, answer, hints, and the call into VectorDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mcpvectordb.contract.answers import Result
from mcpvectordb.contract.tools import ToolWords
from mcpvectordb.vectordb import Task, VectorDB

Library = Annotated[
    str, Field(min_length=1, max_length=200, description="Library (collection) to index into")
]
AnyLibrary = Annotated[str | None, Field(description="Only this library; null means all")]
DocId = Annotated[str, Field(min_length=1, max_length=100, description="The document's id (a UUID)")]
JobId = Annotated[str, Field(min_length=1, max_length=100, description="The job's id")]
Meta = Annotated[
    dict[str, Any] | None, Field(description="Anything to keep with the document, as key-value pairs")
]
Tags = Annotated[list[str] | None, Field(max_length=100, description="Words to find the document by")]
AllTags = Annotated[
    list[str] | None, Field(max_length=100, description="Only documents that have all of these tags")
]


def no_call(_: VectorDB, __: Any) -> Result:
    raise AssertionError("a tool with work is not called, it is begun")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A call that may outlive its answer."""

    begin: Callable[[VectorDB, Any, Callable[[], None]], Task[Any]]  # the last raises to give up
    done: Callable[[Any], Result]
    processing: Callable[[Task[Any]], Result]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool(ToolWords):
    call: Callable[[VectorDB, Any], Result] = no_call
    work: Work | None = None  # in place of call
