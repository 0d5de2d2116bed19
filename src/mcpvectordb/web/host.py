"""Run an application until it is told to end, and end so that running calls finish.

Of uvicorn only the serving is used. Its own way of ending waits for streams that never end, or cuts the
answers of running calls off with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType

import anyio
import uvicorn
from starlette.types import ASGIApp

from .bind import Listening
from .ending import Ending
from .gate import Gate, Rules

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGBREAK,) if sys.platform == "win32" else ()))
# With what comes after it, ten seconds: then Docker kills what is still there.
GRACE_S = 6.0
# For calls that were told to give up, to say so to their clients.
_LAST_WORD_S = 1.0
# For answers that were given and are on their way through the protocol's streams.
_FLUSH_S = 0.1
_CUT_OFF_S = 1


def serve(
    app: ASGIApp,
    listening: Listening,
    rules: Rules,
    ending: Ending,
    *,
    what: str,
    grace_s: float = GRACE_S,
) -> None:
    """Serve until SIGTERM or SIGINT. Running calls then have grace_s; a second signal is the end at once.

    what is said in the log once clients may come: "Serving <what>".
    """
    asyncio.run(_serve(Gate(app, rules, ending), listening, ending, what, grace_s))


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are ours."""
        yield


async def _serve(app: ASGIApp, listening: Listening, ending: Ending, what: str, grace_s: float) -> None:
    server = _Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            # Logging is the program's, and a call is one line of it already.
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_CUT_OFF_S,
        )
    )
    told = asyncio.Event()
    patience = anyio.CancelScope()

    def tell() -> None:
        if told.is_set():
            patience.cancel()
        told.set()

    with _signals(tell):
        serving = asyncio.create_task(server.serve(sockets=list(listening.sockets)))
        telling = asyncio.create_task(told.wait())
        logger.info("Serving %s", what)
        await asyncio.wait({serving, telling}, return_when=asyncio.FIRST_COMPLETED)
        telling.cancel()
        if not serving.done():
            ending.begun = True
            for listener in getattr(server, "servers", ()):
                listener.close()
            # Now that it is true: whoever reads it finds nobody listening.
            logger.info("Ending: running calls have %g s to finish", grace_s)
            with patience:
                is_done = await ending.wait(grace_s)
                await ending.close()
                if not is_done:
                    logger.info("Ending: giving up the calls that are still running")
                    await ending.wait(_LAST_WORD_S)
                await asyncio.sleep(_FLUSH_S)
            ending.finish()
            server.should_exit = True
        await serving


@contextlib.contextmanager
def _signals(tell: Callable[[], None]) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def handle(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(tell)

    # Not loop.add_signal_handler, which Windows has not.
    before = {one: signal.signal(one, handle) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
