"""The engine's HTTP API as one class. Answers come back as parsed JSON; a status that is no success raises.

One client with one pool of connections serves every caller of the gateway. Nothing is kept between calls, so
an engine that was away and is back is found by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import httpx

from mcpvectordb.errors import ConfigError, EngineError

Json = dict[str, Any]

_CONNECT_S = 5.0
# The engine works at few calls at once; more connections than this would only wait there instead of here.
_MOST_CONNECTIONS = 32
_BASE = "/api/v1"
_HIGHEST_PORT = 65_535


class Engine:
    def __init__(self, url: str, *, api_key: str = "", timeout_s: float = 45.0) -> None:
        try:
            base = httpx.URL(url.rstrip("/"))
        except httpx.InvalidURL as exc:
            raise ConfigError(f"KB_ENGINE_URL is not an address: {exc}.") from exc
        if base.scheme not in ("http", "https") or not base.host:
            raise ConfigError(f"KB_ENGINE_URL is {url!r}: write it like http://engine:8000.")
        if base.userinfo or base.query or base.fragment or (base.port or 0) > _HIGHEST_PORT:
            # Not shown: it may hold a password, which would then be in every refusal too.
            raise ConfigError(
                "KB_ENGINE_URL takes a scheme, a host, a port up to 65535 and a path, nothing else: write "
                "it like http://engine:8000. The engine's key is KB_API_KEY."
            )
        self.url = str(base)
        self._client = httpx.AsyncClient(
            base_url=base.copy_with(path=base.path.rstrip("/") + _BASE),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            # Waiting for a free connection is waiting one's turn, which the call's own limit bounds.
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s), pool=None),
            limits=httpx.Limits(
                max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_CONNECTIONS
            ),
            # The engine is named to us, and its key goes to nobody else: no proxy, no redirect.
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def search(
        self,
        query: str,
        *,
        top: int = 5,
        tags: Sequence[str] | None = None,
        fts_only: bool = False,
        vec_only: bool = False,
    ) -> Json:
        body = {
            "query": query,
            "top": top,
            **_given(tags=None if tags is None else list(tags)),
            **({"fts_only": True} if fts_only else {}),
            **({"vec_only": True} if vec_only else {}),
        }
        return await self._json("POST", "/search", is_safe=True, json=body)

    async def add_note(
        self,
        text: str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        source_path: str | None = None,
    ) -> Json:
        body = {"text": text, **_given(title=title, tags=tags, source_path=source_path)}
        return await self._json("POST", "/jobs", json=body)

    async def add_file(self, file: BinaryIO, filename: str, *, tags: Sequence[str] | None = None) -> Json:
        """Send a file as it is read: never more of it than a block is in memory."""
        fields = {} if tags is None else {"tags": json.dumps(list(tags))}
        files = {"file": (filename, file, "application/octet-stream")}
        return await self._json("POST", "/jobs", data=fields, files=files)

    async def jobs(
        self, *, status: str | None = None, limit: int | None = None, offset: int | None = None
    ) -> Json:
        params = _given(status=status, limit=limit, offset=offset)
        return await self._json("GET", "/jobs", is_safe=True, params=params)

    async def job(self, job_id: str) -> Json:
        return await self._json("GET", f"/jobs/{_part(job_id)}", is_safe=True)

    async def documents(
        self,
        *,
        source_path: str | None = None,
        tags: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Json:
        params = _given(source_path=source_path, tags=tags, limit=limit, offset=offset)
        return await self._json("GET", "/documents", is_safe=True, params=params)

    async def document(self, doc_id: int) -> Json:
        return await self._json("GET", f"/documents/{doc_id}", is_safe=True)

    async def update_note(self, doc_id: int, text: str, *, tags: Sequence[str] | None = None) -> Json:
        return await self._json("PATCH", f"/notes/{doc_id}", json={"text": text, **_given(tags=tags)})

    async def delete_document(self, doc_id: int) -> Json:
        return await self._json("DELETE", f"/documents/{doc_id}")

    async def status(self) -> Json:
        return await self._json("GET", "/status", is_safe=True)

    async def _json(self, method: str, path: str, *, is_safe: bool = False, **request: Any) -> Json:
        """The answer; httpx.HTTPStatusError for one that is no success, EngineError where there is none."""
        try:
            response = await self._client.request(method, path, **request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as exc:
            # A connection kept from before the engine was restarted fails when it is used again.
            if not is_safe:
                raise self._away(exc) from exc
            response = await self._again(method, path, **request)
        except httpx.TransportError as exc:
            raise self._away(exc) from exc
        response.raise_for_status()
        try:
            found: object = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise EngineError(
                f"What answers at {self.url} is not a knowledge-base engine. Check KB_ENGINE_URL."
            )
        return cast("Json", found)

    async def _again(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            return await self._client.request(method, path, **request)
        except httpx.TransportError as exc:
            raise self._away(exc) from exc

    def _away(self, exc: httpx.TransportError) -> EngineError:
        if isinstance(exc, httpx.ReadTimeout | httpx.WriteTimeout):
            return EngineError(
                f"The engine at {self.url} did not answer in time. It may be busy: try again in a moment."
            )
        if isinstance(exc, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
            return EngineError(
                f"The connection to the engine at {self.url} broke before it had answered. See with "
                "kb_jobs or kb_get whether it did what was asked, then try again."
            )
        return EngineError(
            f"The engine at {self.url} cannot be reached. Start it (`mcpvectordb engine`) or check "
            "KB_ENGINE_URL, then call again."
        )


def said(exc: httpx.HTTPStatusError) -> str:
    """What the engine said of its refusal, or its status where it said nothing of ours."""
    try:
        found: object = exc.response.json()
    except (ValueError, httpx.ResponseNotRead):
        found = None
    text = cast("Mapping[str, object]", found).get("error") if isinstance(found, dict) else None
    if isinstance(text, str) and text:
        return text
    status = exc.response.status_code
    return f"The engine at {exc.request.url.copy_with(path='/', query=None)} answered with status {status}."


def _given(**values: object) -> dict[str, Any]:
    """The values that were given: what is None is left to the engine."""
    return {
        name: list(cast("Sequence[object]", value)) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None
    }


def _part(text: str) -> str:
    """A caller's text as one part of a path, which dots must not lead out of."""
    return quote(text, safe="").replace(".", "%2E")
