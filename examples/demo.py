"""The main job in a minute: a real MCP client, the real server, a handful of documents, a few questions.

Run it with `make demo`. It uses the offline model, so nothing is downloaded, and a database of its own
that is removed at the end.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client

DOCUMENTS = Path(__file__).parent / "documents"
QUESTIONS = (
    "how often do we have to change our credentials?",
    "ERR_KEY_4711",
    "is it free for kids, and when?",
    "wann ist die Sternwarte an der Hoehenstrasse geöffnet",
    "how can we get out of the lease?",
    "what to do when the boat turns over",
    "what did the varnish cost?",
    "how much will the training boats cost us?",
)


def show(question: str, answer: dict[str, Any], took_s: float) -> None:
    print(f"\n? {question}   ({answer['mode']}, {took_s * 1000:.0f} ms)")
    for number, hit in enumerate(answer["results"], start=1):
        where = " > ".join(hit["headings"])
        source = Path(hit["source"]).name + (f", page {hit['page']}" if hit["page"] else "")
        print(f"  {number}. {hit['title']} | {where or 'no heading'} | {source}")
        text = " ".join(hit["content"].split())
        print(textwrap.indent(textwrap.shorten(text, 150, placeholder=" …"), "     "))


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer: dict[str, Any] = result.structured_content or {}
    if result.is_error:
        raise SystemExit(f"{tool}: {answer['error']}")
    return answer


async def demo(home: str) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcpvectordb"],
        env={
            **os.environ,
            "MCPVECTORDB_HOME": home,
            "MCPVECTORDB_MODEL": "minilm",
            "MCPVECTORDB_LOG_LEVEL": "WARNING",
        },
    )
    started = time.perf_counter()
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        print(f"Server up in {time.perf_counter() - started:.1f} s with {len(tools)} tools: ", end="")
        print(", ".join(tool.name for tool in tools))

        print()
        for path in sorted(DOCUMENTS.iterdir()):
            answer = await call(client, "ingest_file", path=str(path), library="demo")
            count = answer["chunk_count"]
            print(f"+ {answer['status']}: {path.name} ({count} passage{'' if count == 1 else 's'})")
        again = await call(client, "ingest_file", path=str(DOCUMENTS / "bread.txt"), library="demo")
        print(f"= {again['status']}: bread.txt has not changed")

        for question in QUESTIONS:
            asked = time.perf_counter()
            answer = await call(client, "search", query=question, top_k=2, library="demo")
            show(question, answer, time.perf_counter() - asked)

        libraries = (await call(client, "list_libraries"))["libraries"]
        print(
            f"\n{libraries[0]['document_count']} documents, {libraries[0]['chunk_count']} passages.", end=" "
        )
        print("Connect your own assistant: see README.md.")


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        asyncio.run(demo(home))


if __name__ == "__main__":
    main()
