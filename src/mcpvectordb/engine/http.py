"""The engine over HTTP: where it listens, who may come in, and its end."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from functools import partial

from mcpvectordb import web
from mcpvectordb.checks import check_name
from mcpvectordb.errors import VectorDBError
from mcpvectordb.kb_settings import KbSettings
from mcpvectordb.vectordb import VectorDB

from .api import MAX_JSON_BYTES, Api
from .knowledge import Knowledge

logger = logging.getLogger(__name__)

# A form around a file: its boundaries, names and tags.
_FORM_BYTES = 1024 * 1024
# Below the data folder: a file that has come whole is moved from here into its job.
_INCOMING = "incoming"
_STALE_S = 600.0
_NO_KEY = (
    "Without a key whoever reaches it could read, change and delete what it holds: set KB_API_KEY, or "
    "listen at 127.0.0.1."
)


def serve_engine(db: VectorDB, settings: KbSettings, *, host: str, port: int) -> None:
    """Serve until told to end by a signal, or an error that says why not."""
    for name in settings.library_names:
        check_name("library of KB_LIBRARIES", name)
    tokens = web.read_tokens(settings.api_key, None, variable="KB_API_KEY")
    listening = web.listen(host, port, open_without_token=None if tokens else _NO_KEY)
    max_file_mb = db.settings.max_file_mb
    rules = web.Rules.of(
        listening,
        tokens=tokens,
        max_body_bytes=max(max_file_mb * 1024 * 1024 + _FORM_BYTES, MAX_JSON_BYTES),
        hosts=settings.host_names,
        origins=settings.origin_names,
    )
    ending = web.Ending()
    ending.on_closing(db.stop)
    db.serve_jobs()
    sweeping = partial(sweep_until, ending.closing, db, every_s=_STALE_S)
    threading.Thread(target=sweeping, name="stored-files", daemon=True).start()
    api = Api(
        Knowledge(db, settings.library_names),
        incoming=db.settings.home / _INCOMING,
        max_file_mb=max_file_mb,
        has_key=bool(tokens),
    )
    what = f"the knowledge base ({', '.join(settings.library_names)}) at {listening.url}"
    web.serve(api.app(), listening, rules, ending, what=what, grace_s=db.settings.shutdown_s)


def sweep_until(closing: threading.Event, db: VectorDB, *, every_s: float) -> None:
    """Sweep now and again: what has just been left by a crash is too young to be told from what is in use."""
    while True:
        _sweep(db)
        if closing.wait(every_s):
            return


def _sweep(db: VectorDB) -> None:
    """What a crash has left: files without a document, and halves of uploads."""
    folder = db.settings.home / _INCOMING
    with contextlib.suppress(OSError):
        for path in folder.iterdir() if folder.is_dir() else ():
            # One that is being received is written to all the time.
            if path.stat().st_mtime < time.time() - _STALE_S:
                path.unlink(missing_ok=True)
    try:
        db.begin.mend()
    except VectorDBError as exc:
        logger.warning("stored files were not looked through: %s", exc)
