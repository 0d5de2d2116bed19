"""The knowledge base in a minute: a real engine, a real gateway, and an agent that talks MCP to it.

Run it with `make demo-kb`. It uses the offline model, so nothing is downloaded, keys made for the occasion,
and a data folder that is removed at the end.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

PAPER = Path(__file__).parent / "documents" / "lease.pdf"
PART_BYTES = 1000
PATIENCE_S = 120.0


@contextmanager
def running(name: str, *command: str, log: Path, **settings: str) -> Iterator[str]:
    """A server on a free port, until the end of the block; its address."""
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcpvectordb", *command, "--port", "0"],
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stderr=stream,
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while not (found := re.search(r"Serving .* at (http://\S+)", log.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"The {name} did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.05)
        print(f"+ {name} up at {found[1]}")
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        print(f"- {name} ended with code {process.wait(PATIENCE_S)}")


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer: dict[str, Any] = result.structured_content or {}
    if result.is_error:
        raise SystemExit(f"{tool}: {answer['error']}")
    return answer


async def done(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it is done."""
    until = time.monotonic() + PATIENCE_S
    while job["status"] in ("queued", "running") and time.monotonic() < until:
        await asyncio.sleep(0.1)
        job = await call(client, "kb_jobs", job_id=job["job_id"])
    if job["status"] != "done":
        raise SystemExit(f"The job did not end well: {job}")
    return job


async def ask(client: Client, query: str, **more: object) -> None:
    found = await call(client, "kb_search", query=query, top=1, **more)
    print(f"? {query}   ({found['mode']})")
    for hit in found["results"]:
        page = f", page {hit['page']}" if hit["page"] else ""
        print(f"  {hit['title']}{page} {hit['tags']}: {' '.join(hit['text'].split())[:80]}")
    if not found["results"]:
        print("  nothing")


async def talk(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        transport: Any = streamable_http_client(url, http_client=http)
        async with Client(transport) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            print(f"\n{len(names)} tools: {', '.join(names)}\n")

            job = await call(client, "kb_addnote", text="The user prefers concise answers.", tags=["memory"])
            note = await done(client, job)
            print(f"+ note {note['outcome']}: {note['title']}")

            data = PAPER.read_bytes()
            started = await call(
                client,
                "kb_upload_start",
                filename=PAPER.name,
                total_size=len(data),
                tags=["contracts"],
                sha256=hashlib.sha256(data).hexdigest(),
            )
            parts = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
            for index, part in enumerate(parts):
                encoded = base64.b64encode(part).decode("ascii")
                await call(
                    client,
                    "kb_upload_chunk",
                    upload_id=started["upload_id"],
                    data=encoded,
                    chunk_index=index,
                )
            job = await call(client, "kb_upload_finish", upload_id=started["upload_id"])
            paper = await done(client, job)
            print(f"+ {PAPER.name} in {len(parts)} parts {paper['outcome']}: {paper['title']}\n")

            await ask(client, "how long should replies be?")
            await ask(client, "how can we get out of the lease?")
            await ask(client, "how can we get out of the lease?", tags=["memory"])

            text = "The user prefers bullet points."
            updated = await call(client, "kb_update_note", document_id=note["document_id"], text=text)
            print(f"\n= note updated, same number: {updated['document_id'] == note['document_id']}")
            await ask(client, "how should replies look?", tags=["memory"])

            status = await call(client, "kb_status")
            print(
                f"\n{status['documents']} documents, {status['chunks']} passages, {status['model']['name']}"
            )
            for document_id in (note["document_id"], paper["document_id"]):
                gone = await call(client, "kb_delete", document_id=document_id)
                print(f"- {gone['status']}: {gone['title']}")
            status = await call(client, "kb_status")
            print(f"{status['documents']} documents\n")


def main() -> None:
    engine_key, agent_key = secrets.token_hex(16), secrets.token_hex(16)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with (
            running(
                "engine",
                "engine",
                log=home / "engine.log",
                MCPVECTORDB_HOME=str(home / "data"),
                MCPVECTORDB_MODEL="minilm",
                KB_API_KEY=engine_key,
            ) as engine,
            running(
                "gateway",
                "kb",
                log=home / "gateway.log",
                KB_ENGINE_URL=engine,
                KB_API_KEY=engine_key,
                KB_MCP_API_KEY=agent_key,
                KB_STAGING=str(home / "staging"),
            ) as gateway,
        ):
            asyncio.run(talk(gateway, agent_key))
        left = [path for path in (home / "data" / "files").rglob("*") if path.is_file()]
        print(f"{len(left)} stored files left")


if __name__ == "__main__":
    main()
