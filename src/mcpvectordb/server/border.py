"""Where tools meet the protocol: every outcome of a call becomes an answer in the contract's shape.

The core is synchronous; this is the one place where async code crosses into it. A call that makes a task
waits for it as long as a client waits for a call, then says how to go on; the task goes on by itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from mcp_types import CallToolResult

from mcpvectordb.contract.answers import INTERNAL_ERROR, Result, answer, error_payload
from mcpvectordb.contract.arguments import parse, unknown_tool
from mcpvectordb.errors import CallTimeout, JobCancelled, VectorDBError
from mcpvectordb.vectordb import Task, VectorDB

from .tools import Tool

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Told how far a call is, in per cent and in words.
Report = Callable[[int, str], Awaitable[None]]

_TELL_EVERY_S = 0.5
# More at once would only share the same cores; the rest wait their turn.
_MOST_AT_ONCE = 16


class _Begun:
    """A task on its way to be made, shared by all who have asked for it. Touched on the event loop only."""

    def __init__(self, future: Future[Task[Any]], is_given_up: threading.Event) -> None:
        self.future = future
        self.is_given_up = is_given_up  # nobody waits any more: for the thread that makes the task
        self.waiting = 1


class Border:
    def __init__(
        self,
        db: VectorDB,
        tools: tuple[Tool, ...],
        *,
        timeout_s: float,
        closing: threading.Event | None = None,
    ) -> None:
        """closing is set when calls are cancelled because the server ends, and not by a client."""
        self._db = db
        self._tools = {tool.name: tool for tool in tools}
        self._timeout_s = timeout_s
        self._closing = closing or threading.Event()
        # Ingests read large files and wait for addresses; what only reads must not stand in line behind them.
        self._places = {has_work: anyio.CapacityLimiter(_MOST_AT_ONCE) for has_work in (True, False)}
        # Tasks on their way to be made, by what was asked: asking again waits for the same one.
        self._begun: dict[str, _Begun] = {}

    async def call(self, name: str, raw: Mapping[str, Any], report: Report | None = None) -> CallToolResult:
        """Answer a call; report is told how far the work is that the call waits for."""
        started = time.perf_counter()
        # A cancelled call leaves by an exception that is caught nowhere here.
        outcome = "given up"
        # A name that is not ours may hold line breaks; a call is one line of the log.
        logged = name if name in self._tools else ascii(name[:60])
        try:
            tool = self._tools.get(name)
            if tool is None:
                raise unknown_tool(name, list(self._tools))
            result = await self._answered(tool, raw, report)
            outcome = "ok"
            return answer(result.payload())
        except VectorDBError as exc:
            outcome = type(exc).__name__
            return answer(error_payload(str(exc)), is_error=True)
        except Exception:
            outcome = "internal error"
            logger.exception("%s failed in a way that is a bug of ours", logged)
            return answer(error_payload(INTERNAL_ERROR), is_error=True)
        finally:
            logger.info("%s: %s in %.0f ms", logged, outcome, (time.perf_counter() - started) * 1000)

    @asynccontextmanager
    async def _place(self, tool: Tool, until: float) -> AsyncGenerator[None]:
        """A place among the calls that are worked on; the wait for one is a part of the call's time."""
        places = self._places[tool.work is not None]
        with anyio.CancelScope(deadline=until) as waiting:
            await places.acquire()
        if waiting.cancelled_caught:
            raise CallTimeout(
                f"{tool.name} was not begun within {self._timeout_s:g} s, because {_MOST_AT_ONCE} calls are "
                "at work. Call again when some of them have been answered."
            )
        try:
            yield
        finally:
            places.release()

    async def _answered(self, tool: Tool, raw: Mapping[str, Any], report: Report | None) -> Result:
        arguments = parse(tool.name, tool.arguments, raw)
        until = anyio.current_time() + self._timeout_s
        if tool.work is None:
            call = tool.call
            async with self._place(tool, until):
                future = _in_thread(lambda: call(self._db, arguments), tool.name)
                await _done(future, until)
            if not future.done():
                raise CallTimeout(
                    f"{tool.name} did not answer within {self._timeout_s:g} s. Try again in a moment."
                )
            return future.result()
        begin = tool.work.begin
        key = f"{tool.name} {arguments.model_dump_json()}"
        begun: _Begun | None = None
        try:
            async with self._place(tool, until):
                begun = self._begin(key, tool.name, lambda give_up: begin(self._db, arguments, give_up))
                await _done(begun.future, until)
            if not begun.future.done():
                raise CallTimeout(
                    f"{tool.name} is still reading after {self._timeout_s:g} s. It goes on in this server: "
                    "call again with the same arguments to wait for it or to see its result."
                )
            task = begun.future.result()
            await self._wait(task, until, report)
            return tool.work.done(task.result()) if task.done() else tool.work.processing(task)
        except anyio.get_cancelled_exc_class():
            if begun is not None and not self._closing.is_set():
                self._leave(key, begun)
            raise

    def _begin(self, key: str, name: str, begin: Callable[[Callable[[], None]], Task[Any]]) -> _Begun:
        """A task on its way; whoever asks for the same meanwhile gets the same."""
        found = self._begun.get(key)
        if found is not None:
            found.waiting += 1
            found.future.add_done_callback(_join)
            return found
        is_given_up = threading.Event()
        future = _in_thread(lambda: begin(lambda: self._give_up(is_given_up)), name)
        begun = self._begun[key] = _Begun(future, is_given_up)

        def forget(_: Future[Task[Any]]) -> None:
            if self._begun.get(key) is begun:
                del self._begun[key]

        future.add_done_callback(forget)
        return begun

    def _leave(self, key: str, begun: _Begun) -> None:
        """One of those who asked has lost interest; after the last of them nobody reads on."""
        begun.waiting -= 1
        if not begun.waiting:
            begun.is_given_up.set()
            # Whoever asks for the same from now on does not want one that is given up.
            if self._begun.get(key) is begun:
                del self._begun[key]
        begun.future.add_done_callback(_leave_task)

    def _give_up(self, is_given_up: threading.Event) -> None:
        if is_given_up.is_set():
            raise JobCancelled("The call was cancelled, so nothing was changed.")
        if self._closing.is_set():
            raise JobCancelled("The server is ending, so nothing was changed. Start it and call again.")

    async def _wait(self, task: Task[Any], until: float, report: Report | None) -> None:
        """Until the task has ended or the time is over; what it tells is passed on."""
        event = _event(task.add_done_callback)
        told = -1
        while not task.done() and (left := until - anyio.current_time()) > 0:
            with anyio.move_on_after(min(left, _TELL_EVERY_S)):
                await event.wait()
            if report is None or task.done():
                continue
            fraction, words = task.progress
            percent = int(100 * fraction)
            # The protocol wants every report to be further than the last.
            if percent > told:
                told = percent
                await report(percent, words)


async def _done(future: Future[Any], until: float) -> None:
    """Wait for the future without holding the event loop, but not beyond the time."""
    event = _event(lambda wake: future.add_done_callback(lambda _: wake()))
    if not future.done():
        with anyio.move_on_after(max(0.0, until - anyio.current_time())):
            await event.wait()


def _join(future: Future[Task[Any]]) -> None:
    if not future.exception():
        future.result().join()


def _leave_task(future: Future[Task[Any]]) -> None:
    """Whoever asked for it has lost interest."""
    if not future.exception():
        future.result().leave()


def _in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Run work in a thread that does not keep the process alive when its client has gone."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # noqa: BLE001  (handed to whoever waits for the future)
            future.set_exception(exc)

    threading.Thread(target=run, name=f"call-{name}", daemon=True).start()
    return future


def _event(when_done: Callable[[Callable[[], None]], None]) -> asyncio.Event:
    """Set on the event loop once whatever when_done watches is done."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def wake() -> None:
        # Not anyio.from_thread: what is done already calls this at once, on the loop's own thread.
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:  # the loop has ended, and with it whoever waited
            logger.debug("a call finished after the server had ended")

    when_done(wake)
    return event
