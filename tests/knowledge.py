"""The knowledge base in processes of its own: an engine, a gateway before it, and agents that call it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from httpserver import Caller, HttpServer, calling, hosting
from support import PATIENCE_S, Json, environment, wait_until

ENGINE_KEY = "the-engines-own-key"
AGENT_KEY = "the-agents-key"
API = "/api/v1"


@contextmanager
def serving_engine(
    home: Path, *, key: str = ENGINE_KEY, port: int = 0, host: str = "127.0.0.1", **settings: str
) -> Iterator[HttpServer]:
    """`mcpvectordb engine`, on a free port unless one is given."""
    command, env = engine_process(home, key=key, port=port, host=host, **settings)
    with hosting(command, env) as server:
        yield server


def engine_process(
    home: Path, *, key: str = ENGINE_KEY, port: int = 0, host: str = "127.0.0.1", **settings: str
) -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, "-m", "mcpvectordb", "engine", "--host", host, "--port", str(port)]
    return command, environment(home, **{"KB_API_KEY": key, **settings})


@contextmanager
def serving_gateway(
    folder: Path, engine_url: str, *, key: str = ENGINE_KEY, agent_key: str = "", **settings: str
) -> Iterator[HttpServer]:
    """`mcpvectordb kb` on a free port, with its staging below folder."""
    command, env = gateway_process(folder, engine_url, key=key, agent_key=agent_key, **settings)
    with hosting(command, env) as server:
        yield server


def gateway_process(
    folder: Path, engine_url: str, *, key: str = ENGINE_KEY, agent_key: str = "", **settings: str
) -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, "-m", "mcpvectordb", "kb", "--port", "0"]
    ours = {
        "KB_ENGINE_URL": engine_url,
        "KB_API_KEY": key,
        "KB_MCP_API_KEY": agent_key,
        "KB_STAGING": str(folder / "staging"),
    }
    return command, environment(folder, **{**ours, **settings})


@contextmanager
def killed(command: list[str], env: dict[str, str]) -> Iterator[HttpServer]:
    """A server that ends as in a loss of power."""
    server = HttpServer(command, env)
    try:
        yield server
    finally:
        server.kill()


class Agent:
    """An agent of the gateway: the official client, and what the tests do again and again with it."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    @property
    def tools(self) -> dict[str, Json]:
        return self.caller.tools

    def __call__(self, tool: str, /, **arguments: Any) -> Json:
        """A call's payload, which may be an error."""
        return self.caller(tool, **arguments)

    def ok(self, tool: str, /, **arguments: Any) -> Json:
        payload = self.caller(tool, **arguments)
        assert payload.get("status") != "error", payload
        return payload

    def error(self, tool: str, /, **arguments: Any) -> str:
        payload = self.caller(tool, **arguments)
        assert payload.get("status") == "error", payload
        return payload["error"]

    def done(self, job: Json) -> Json:
        """The job once it has ended well."""
        found = job

        def has_ended() -> bool:
            nonlocal found
            found = self.ok("kb_jobs", job_id=job["job_id"])
            return found["status"] not in ("queued", "running")

        wait_until(has_ended)
        assert found["status"] == "done", found
        return found

    def note(self, text: str, **more: Any) -> Json:
        """A note that is searchable: its document."""
        job = self.done(self.ok("kb_addnote", text=text, **more))
        return self.ok("kb_get", document_id=job["document_id"])

    def send(self, filename: str, data: bytes, *, parts: int = 1, **more: Any) -> str:
        """The id of an upload all of whose chunks were sent."""
        upload_id = self.ok("kb_upload_start", filename=filename, total_size=len(data), **more)["upload_id"]
        size = -(-len(data) // parts)
        for index in range(parts):
            part = data[index * size : (index + 1) * size]
            self.ok("kb_upload_chunk", upload_id=upload_id, data=encoded(part), chunk_index=index)
        return upload_id

    def upload(self, filename: str, data: bytes, *, parts: int = 1, **more: Any) -> Json:
        """A file that is searchable: its document."""
        upload_id = self.send(filename, data, parts=parts, **more)
        job = self.done(self.ok("kb_upload_finish", upload_id=upload_id))
        return self.ok("kb_get", document_id=job["document_id"])


@contextmanager
def an_agent(gateway: HttpServer, *, key: str | None = None) -> Iterator[Agent]:
    with calling(gateway.url, token=key) as caller:
        yield Agent(caller)


@contextmanager
def api(engine: HttpServer, *, key: str | None = ENGINE_KEY) -> Iterator[httpx.Client]:
    """The engine's own HTTP API."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    base = f"http://{engine.host}:{engine.port}"
    with httpx.Client(base_url=base, headers=headers, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


def ended(client: httpx.Client, job: Json) -> Json:
    """The engine's job once it has ended, however."""
    found = job

    def has_ended() -> bool:
        nonlocal found
        answer = client.get(f"{API}/jobs/{job['job_id']}")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return found["status"] not in ("queued", "running")

    wait_until(has_ended)
    return found


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
