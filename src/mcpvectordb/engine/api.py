"""The HTTP API as an application: routes, bodies, and every outcome as JSON with a fitting status.

The core is synchronous; this is where requests cross into it, so many at a time and the rest in turn.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcpvectordb.contract.answers import INTERNAL_ERROR
from mcpvectordb.contract.arguments import parse
from mcpvectordb.errors import (
    ArgumentError,
    CallTimeout,
    ConversionError,
    DocumentNotFound,
    EmbeddingError,
    JobNotFound,
    NotANote,
    QueryError,
    SourceTooLarge,
    Stopped,
    StoreBusy,
    VectorDBError,
)

from . import multipart, openapi, requests
from .knowledge import Knowledge
from .operations import BASE, OPERATIONS, Operation

logger = logging.getLogger(__name__)

# The longest note as \u escapes: twelve bytes for each character beyond the first plane.
MAX_JSON_BYTES = 16 * 1024 * 1024
_FORM = "multipart/form-data"
_JSON = "application/json"
# Searches are the cores' work: more at once take longer each and are no more in a second.
_MOST_SEARCHES = 4
_MOST_OTHERS = 16
_STATUS: tuple[tuple[type[VectorDBError], int], ...] = (
    (ArgumentError, 400),
    (QueryError, 400),
    (DocumentNotFound, 404),
    (JobNotFound, 404),
    (NotANote, 409),
    (SourceTooLarge, 413),
    (ConversionError, 422),
    (CallTimeout, 503),
    (StoreBusy, 503),
    (Stopped, 503),
    (EmbeddingError, 503),
)
T = TypeVar("T")


class Api:
    def __init__(self, base: Knowledge, *, incoming: Path, max_file_mb: int, has_key: bool) -> None:
        self._base = base
        self._incoming = incoming
        self._most_bytes = max_file_mb * 1024 * 1024
        self._description = openapi.description(has_key=has_key)
        self._searches = anyio.CapacityLimiter(_MOST_SEARCHES)
        self._others = anyio.CapacityLimiter(_MOST_OTHERS)

    def app(self) -> Starlette:
        paths: dict[str, dict[str, Operation]] = {}
        for operation in OPERATIONS:
            paths.setdefault(BASE + operation.path, {})[operation.method] = operation
        routes = [
            Route(path, self._endpoint(by_method), methods=list(by_method))
            for path, by_method in paths.items()
        ]
        described = [Route(path, self._described) for path in ("/openapi.json", f"{BASE}/openapi.json")]
        app = Starlette(routes=[*routes, *described], exception_handlers={HTTPException: _refused})
        app.router.redirect_slashes = False
        return app

    async def _described(self, _: Request) -> Response:
        return JSONResponse(self._description)

    def _endpoint(self, by_method: Mapping[str, Operation]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            operation = by_method["GET" if request.method == "HEAD" else request.method]
            started = time.perf_counter()
            outcome = "given up"
            try:
                answer = await self._call(operation, request)
                outcome = "ok"
                return JSONResponse(_payload(answer), operation.status)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody reads it
            except VectorDBError as exc:
                outcome = type(exc).__name__
                status = next((code for kind, code in _STATUS if isinstance(exc, kind)), 500)
                return _error(status, str(exc))
            except HTTPException as exc:
                outcome = str(exc.status_code)
                raise
            except Exception:
                outcome = "internal error"
                logger.exception("%s failed in a way that is a bug of ours", operation.name)
                return _error(500, INTERNAL_ERROR)
            finally:
                logger.info(
                    "%s: %s in %.0f ms", operation.name, outcome, (time.perf_counter() - started) * 1000
                )

        return endpoint

    async def _call(self, operation: Operation, request: Request) -> BaseModel:
        given: list[object] = []
        if operation.parameter == "document_id":
            given.append(_number(request.path_params["document_id"]))
        elif operation.parameter:
            given.append(request.path_params[operation.parameter])
        query = _query(request)
        if operation.query is not None:
            given.append(parse(operation.name, operation.query, query, what="parameter"))
        elif query:
            raise ArgumentError(f"{operation.name} takes no parameters in its address.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if operation.takes_file and kind == _FORM:
            return await self._add_file(request)
        if operation.body is not None:
            if kind != _JSON:
                wanted = f"{_JSON} or {_FORM}" if operation.takes_file else _JSON
                raise HTTPException(415, f"The Content-Type must be {wanted}, not {kind[:60] or 'missing'}.")
            body = await _body(request.stream())
            raw = await anyio.to_thread.run_sync(_json, body) if len(body) > 65_536 else _json(body)
            given.append(parse(operation.name, operation.body, raw, what="field", strict=True))
        limiter = self._searches if operation.is_search else self._others
        return await anyio.to_thread.run_sync(
            lambda: operation.call(self._base, *given), limiter=limiter, abandon_on_cancel=True
        )

    async def _add_file(self, request: Request) -> BaseModel:
        upload = await multipart.receive(
            request.headers["content-type"], request.stream(), self._incoming, most_bytes=self._most_bytes
        )
        try:
            raw = {"tags": _tags(upload.tags)}
            tags = parse("add", requests.File, raw, what="part", strict=True).tags
            return await anyio.to_thread.run_sync(
                lambda: self._base.add_upload(upload.path, upload.name, tags), limiter=self._others
            )
        finally:
            upload.path.unlink(missing_ok=True)


def _payload(answer: BaseModel) -> dict[str, Any]:
    payload = answer.model_dump(mode="json")
    listed: object = payload.get("jobs") or payload.get("documents")
    # /status counts its documents.
    inner = cast("list[dict[str, Any]]", listed) if isinstance(listed, list) else []
    for one in (payload, *inner):
        if one.get("notice", "") is None:
            del one["notice"]
    return payload


def _number(text: str) -> int:
    # Python makes no number of more than 4,300 digits, and none needs noughts in front.
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(2**53)) or int(text) > 2**53:
        raise ArgumentError(f"A document_id is a whole number, not {text[:60]!r}.")
    return int(text)


def _query(request: Request) -> dict[str, object]:
    """The parameters of the address; `tags` may be there several times, the others once."""
    found: dict[str, object] = {}
    for name, value in request.query_params.multi_items():
        if name == "tags":
            cast("list[str]", found.setdefault(name, [])).append(value)
        elif name in found:
            raise ArgumentError(f"The parameter {name[:60]!r} is there twice.")
        else:
            found[name] = value
    return found


async def _body(stream: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for block in stream:
        body += block
        if len(body) > MAX_JSON_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_JSON_BYTES} bytes. Send a file instead.")
    return bytes(body)


def _json(body: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise ArgumentError("The body is not JSON.") from exc
    if not isinstance(found, dict):
        raise ArgumentError("The body must be a JSON object.")
    return cast("dict[str, Any]", found)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _tags(fields: list[str]) -> object:
    """The tags of a form: one JSON list, or a field for each. None where it says nothing of tags."""
    if len(fields) == 1 and fields[0].lstrip().startswith("["):
        try:
            return json.loads(fields[0], parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as exc:
            raise ArgumentError("The part `tags` begins like a JSON list and is none.") from exc
    return fields or None


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


async def _refused(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    said = {
        404: f"There is nothing here. The API is below {BASE}; /openapi.json describes it.",
        405: "This address does not take that method. /openapi.json describes what it takes.",
    }
    return _error(exc.status_code, said.get(exc.status_code, exc.detail), exc.headers)
