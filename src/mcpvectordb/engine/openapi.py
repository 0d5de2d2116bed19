"""The OpenAPI description, made from the operations, so that it cannot say anything else than the code."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mcpvectordb import __version__
from mcpvectordb.contract.arguments import Arguments, input_schema
from mcpvectordb.contract.knowledge import Error

from .operations import ALWAYS, BASE, OPERATIONS, Operation
from .requests import Note

_REFERENCE = "#/components/schemas/{model}"
_DOCUMENT_ID = {"type": "integer", "minimum": 0, "maximum": 2**53}
_JOB_ID = {"type": "string", "minLength": 1}
_TAGS = next(
    branch for branch in input_schema(Note)["properties"]["tags"]["anyOf"] if branch["type"] == "array"
)
# No type: a form knows text only.
_TAG = {key: value for key, value in _TAGS["items"].items() if key != "type"}
_FORM = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "The file, with its name"},
        "tags": {
            # A list's tags and a tag alone are held to the same.
            **{key: value for key, value in _TAGS.items() if key not in ("type", "items")},
            **_TAG,
            "items": _TAG,
            "description": "A field for each tag, or one with a JSON list of them",
        },
    },
    "required": ["file"],
    "additionalProperties": False,
}


def description(*, has_key: bool) -> dict[str, Any]:
    """has_key says whether calls need one."""
    models = {model for operation in OPERATIONS for model in operation.answers} | {Error}
    _, schemas = models_json_schema(
        [(model, "serialization") for model in sorted(models, key=lambda model: model.__name__)],
        ref_template=_REFERENCE,
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(BASE + operation.path, {})[operation.method.lower()] = _described(operation)
    components: dict[str, Any] = {"schemas": schemas["$defs"]}
    if has_key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mcpvectordb knowledge base",
            "version": __version__,
            "description": "Notes and files, searchable by words and meaning. Organised by tags alone.",
        },
        "paths": paths,
        "components": components,
        "security": [{"key": []}] if has_key else [],
    }


def _described(operation: Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if operation.parameter:
        schema = _DOCUMENT_ID if operation.parameter == "document_id" else _JOB_ID
        parameters.append({"name": operation.parameter, "in": "path", "required": True, "schema": schema})
    if operation.query is not None:
        parameters += _query(operation.query)
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            str(operation.status): _answer("Done", operation.answers),
            **{
                str(status): _answer(HTTPStatus(status).phrase, (Error,))
                for status in sorted({*ALWAYS, *operation.errors})
            },
        },
    }
    if operation.body is not None:
        content = {"application/json": {"schema": input_schema(operation.body)}}
        if operation.takes_file:
            content["multipart/form-data"] = {"schema": _FORM}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _query(arguments: type[Arguments]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _without_null(schema),
            **({"description": schema["description"]} if "description" in schema else {}),
        }
        for name, schema in input_schema(arguments)["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An address has no null: a parameter is there or is left out."""
    branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    return branches[0] if len(branches) == 1 else {k: v for k, v in schema.items() if k != "title"}


def _answer(words: str, models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"description": words, "content": {"application/json": {"schema": schema}}}
