"""A real server process for the tests, and the checks that every answer of a tool has to pass.

The server speaks over its own stdin and stdout, as a client would have it. Lines are read by threads, so
every wait is bounded and nothing a server says is lost.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from jsonschema import Draft202012Validator

PATIENCE_S = 60.0
LATEST_HANDSHAKE = "2025-11-25"
ERROR_KEYS = {"status", "error"}

Json = dict[str, Any]


def environment(home: Path, **settings: str) -> dict[str, str]:
    """This process's environment with none of its own settings, the database in home, and no hub.

    The model is the offline one: no test may depend on the hub of models, nor wait for it.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MCPVECTORDB_", "KB_", "HF_", "HUGGINGFACE_"))
    }
    ours = {"MCPVECTORDB_HOME": str(home), "MCPVECTORDB_MODEL": "minilm", "HF_HUB_OFFLINE": "1"}
    return inherited | ours | settings


def check_answer(schema: Mapping[str, Any], result: Mapping[str, Any]) -> Json:
    """A tools/call result's payload, once it is known to keep what every answer promises.

    The text says the same as the structured content, both keep to the published schema, and an error
    is an error in all three places at once.
    """
    (content,) = result["content"]
    assert content["type"] == "text"
    payload = json.loads(content["text"], parse_constant=_refuse)
    assert isinstance(payload, dict)
    assert result["structuredContent"] == payload
    Draft202012Validator(schema).validate(payload)
    is_error = bool(result.get("isError", False))
    assert is_error == (payload.get("status") == "error"), payload
    if is_error:
        assert payload.keys() == ERROR_KEYS
        assert payload["error"].strip()
        # Our bugs have this shape too, and no test means to find one.
        assert "Internal error" not in payload["error"]
    return payload


def output_schema(tools: Mapping[str, Json], name: str) -> Json:
    """What a tool publishes. For one that does not exist any other's will do: each admits the error."""
    return tools[name if name in tools else next(iter(tools))]["outputSchema"]


class Server:
    """`python -m mcpvectordb` as a child process, spoken to in raw JSON-RPC lines."""

    def __init__(
        self,
        home: Path,
        *,
        folder: Path | None = None,
        python: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
        revision: str = LATEST_HANDSHAKE,
        **settings: str,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *python, "-m", "mcpvectordb", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(home, **settings),
            cwd=folder,
            text=True,
            encoding="utf-8",
        )
        self.folder = folder or Path.cwd()
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin: TextIO = self.process.stdin
        self.stdout_lines: list[str] = []
        self.stderr_lines: list[str] = []
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self.process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self._answers: dict[object, Json] = {}
        self._last_id = 0
        self.revision = revision
        self.initialized: Json = {}
        self.tools: dict[str, Json] = {}

    def handshake(self) -> None:
        """Initialize at this server's revision and read its tools."""
        info = {"name": "test", "version": "1"}
        offer = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": info}
        self.initialized = self.request("initialize", offer)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = {tool["name"]: tool for tool in self.request("tools/list")["result"]["tools"]}

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_line(json.dumps(message))

    def send_line(self, line: str) -> None:
        self.stdin.write(line + "\n")
        self.stdin.flush()

    def begin(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and return its id without waiting."""
        self._last_id += 1
        message: Json = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self.send(message if params is None else message | {"params": params})
        return self._last_id

    def begin_call(self, tool: str, arguments: Mapping[str, Any]) -> int:
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def answer_to(self, request_id: object) -> Json:
        """The answer to a request, bounded in time; answers to others are kept for theirs."""
        while request_id not in self._answers:
            line = self._arrived.get(timeout=PATIENCE_S)
            assert line is not None, f"the server ended: {''.join(self.stderr_lines[-20:])}"
            message = json.loads(line)
            self._answers[message.get("id")] = message
        return self._answers.pop(request_id)

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        return self.answer_to(self.begin(method, params))

    def finish_call(self, request_id: object, tool: str) -> Json:
        answer = self.answer_to(request_id)
        assert "result" in answer, f"{tool} was answered with a protocol error: {answer}"
        return check_answer(output_schema(self.tools, tool), answer["result"])

    def call(self, tool: str, /, **arguments: Any) -> Json:
        """Call a tool; its payload, checked as every answer must be."""
        return self.finish_call(self.begin_call(tool, arguments), tool)

    def ok(self, tool: str, /, **arguments: Any) -> Json:
        payload = self.call(tool, **arguments)
        assert payload.get("status") != "error", payload
        return payload

    def ok_in_time(self, tool: str, /, **arguments: Any) -> Json:
        """As ok, calling again for as long as the answer is that the work goes on."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            payload = self.call(tool, **arguments)
            if payload.get("status") == "error":
                assert "call again" in payload["error"] or "Try again" in payload["error"], payload
            elif payload.get("status") != "processing":
                return payload
        raise AssertionError(f"{tool} did not finish within {PATIENCE_S} s")

    def write(self, name: str, text: str) -> str:
        """A file in the server's working directory; its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8", newline="")
        return str(path)

    def error(self, tool: str, /, **arguments: Any) -> str:
        """The sentence a failing call answers; the server is then shown to be alive still."""
        payload = self.call(tool, **arguments)
        assert payload.get("status") == "error", payload
        self.ok("list_libraries")
        return payload["error"]

    def close(self) -> int:
        """Close stdin, as a client does that goes away, and wait for the end; the exit code."""
        if not self.stdin.closed:
            self.stdin.close()
        code = self.process.wait(timeout=PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=PATIENCE_S)

    @property
    def stderr(self) -> str:
        return "".join(self.stderr_lines)

    def _read_stdout(self, stream: TextIO) -> None:
        for line in stream:
            self.stdout_lines.append(line)
            self._arrived.put(line)
        self._arrived.put(None)

    def _read_stderr(self, stream: TextIO) -> None:
        self.stderr_lines.extend(stream)


@contextmanager
def serving(home: Path, **options: Any) -> Iterator[Server]:
    """A server past its handshake. It must end by itself, with code 0, once its stdin closes."""
    server = Server(home, **options)
    try:
        server.handshake()
        yield server
        assert server.close() == 0, server.stderr
    finally:
        server.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread or process brings about."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.01)


def long_text(kilobytes: int) -> str:
    """That much text in which no paragraph repeats another, so that no vector can be reused."""
    paragraphs: list[str] = []
    size = 0
    while size < kilobytes * 1024:
        number = len(paragraphs)
        paragraphs.append(
            f"Paragraph {number}: shipment {number * 7919} left harbour {number * 31 % 97} on day {number}, "
            f"carrying {number % 13} crates of tea, {number % 17} barrels of tar and a letter home.\n"
        )
        size += len(paragraphs[-1]) + 1
    return "\n".join(paragraphs)


def _refuse(name: str) -> object:
    raise AssertionError(f"{name} is not JSON")
