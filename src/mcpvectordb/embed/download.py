"""Bring a model's files here, in a thread of its own, one process at a time.

A call may wait for a download, or answer without it and leave it running. Of several processes that want the
same model one downloads; the others watch how far it is, and one of them takes over if it dies.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from mcpvectordb.errors import EmbeddingError, HubUnavailable, ModelOnTheWay, Stopped, VectorDBError

from . import transfer
from .files import is_available
from .hub import Hub
from .models import Model
from .transfer import Listing

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_TELL_EVERY_S = 0.5
# A failed try is not repeated by every search; an ingest, which cannot do without, tries again at once.
_RETRY_S = 60.0
_LOG_STEP_PERCENT = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a download is."""

    model: str
    done: int = 0
    total: int = 0  # 0 until the hub has answered

    @property
    def percent(self) -> int:
        return min(100, self.done * 100 // self.total) if self.total else 0

    def __str__(self) -> str:
        if not self.total:
            return f"connecting to the hub for model {self.model}"
        return f"downloading model {self.model} {self.percent} %"


class Download:
    """One model's files on their way here."""

    def __init__(self, hub: Hub, model: Model, runtime: str) -> None:
        self._hub = hub
        self._model = model
        self._runtime = runtime
        self._progress = Progress(model=model.name)
        self._told = -_LOG_STEP_PERCENT
        self._written = 0.0
        self._giving_up = threading.Event()
        self.answered = threading.Event()  # the hub has, or another process is downloading, or it is over
        self.over = threading.Event()
        self.error: VectorDBError | None = None
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"download-{model.name}", daemon=True)

    @property
    def progress(self) -> Progress:
        return self._progress

    def start(self) -> None:
        self._thread.start()

    @property
    def is_given_up(self) -> bool:
        return self._giving_up.is_set()

    def give_up(self) -> None:
        """Stop at the next byte; what has arrived is kept."""
        self._giving_up.set()

    def wait(self, checkpoint: Callable[[], None]) -> None:
        """Wait until the files are here; raises what went wrong, or what checkpoint raises."""
        while not self.over.wait(_LOOK_EVERY_S):
            checkpoint()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            if self._hub.is_offline:
                raise HubUnavailable(
                    f"The files of the model {self._model.name} are not on this machine and "
                    "HF_HUB_OFFLINE is set. Unset it and run `mcpvectordb model download`."
                )
            self._bring()
        except VectorDBError as exc:
            self.error = _with_command(exc)
            logger.warning("the model %s was not downloaded: %s", self._model.name, self.error)
        except Exception as exc:  # a bug of ours must not leave callers waiting for ever
            logger.exception("the download of %s failed in a way that is a bug of ours", self._model.name)
            self.error = EmbeddingError(f"The download of {self._model.name} failed: {exc!r}")
        finally:
            self.ended_at = time.monotonic()
            self.over.set()
            self.answered.set()

    def _bring(self) -> None:
        model, hub = self._model, self._hub
        lock_path = hub.lock(model.repository, model.revision)
        status = lock_path.with_suffix(".json")
        try:
            lock_path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(lock_path)
            while not is_available(model, hub, self._runtime):
                try:
                    with lock.acquire(timeout=_LOOK_EVERY_S):
                        # What a process that died has said of itself is not how far this one is.
                        _forget(status)
                        if not is_available(model, hub, self._runtime):
                            try:
                                self._download(status)
                            finally:
                                _forget(status)
                except Timeout:
                    self._check_wanted()
                    self._watch(status)
        except OSError as exc:  # the folder of the locks, or the lock of another user
            raise EmbeddingError(
                f"The model's files cannot be kept in {hub.cache}: {exc}. Set HF_HOME to another folder."
            ) from exc

    def _download(self, status: Path) -> None:
        model, hub = self._model, self._hub
        snapshot = hub.snapshot(model.repository, model.revision)
        with transfer.connected(hub) as client:
            listing = transfer.list_files(client, hub, model.repository, model.revision)
            self.answered.set()
            _check_complete(model, listing, self._runtime)
            wanted = [file for file in model.needed(self._runtime) if file.path in listing.files]
            missing = [file for file in wanted if not (snapshot / file.path).is_file()]
            total = sum(listing.files[file.path].size for file in missing)
            before = 0
            for file in missing:
                start = before

                def on_bytes(done: int, start: int = start) -> None:
                    self._check_wanted()
                    self._say(start + done, total, status)

                remote = listing.files[file.path]
                transfer.fetch(
                    client,
                    hub,
                    model.repository,
                    model.revision,
                    file.path,
                    remote,
                    pinned=file.sha256,
                    on_bytes=on_bytes,
                )
                before += remote.size

    def _check_wanted(self) -> None:
        if self._giving_up.is_set():
            raise Stopped("The download was given up; what has arrived is kept.")

    def _say(self, done: int, total: int, status: Path) -> None:
        # A piece that is sent again after a break must not make the number fall.
        done = max(done, self._progress.done)
        self._progress = Progress(model=self._model.name, done=done, total=total)
        if self._progress.percent >= self._told + _LOG_STEP_PERCENT:
            self._told = self._progress.percent
            logger.info("%s", self._progress)
        now = time.monotonic()
        if now >= self._written + _TELL_EVERY_S:
            self._written = now
            draft = status.with_suffix(".tmp")
            try:
                draft.write_text(json.dumps({"done": done, "total": total}), encoding="utf-8")
                draft.replace(status)
            except OSError as exc:  # Windows refuses while another process reads it; the next gets through
                logger.debug("could not say how far the download is: %s", exc)

    def _watch(self, status: Path) -> None:
        """Take over what the process that downloads says of itself."""
        try:
            said = json.loads(status.read_text(encoding="utf-8"))
            done, total = int(said["done"]), int(said["total"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # it has not said anything yet, or has just finished
        self.answered.set()
        self._progress = Progress(model=self._model.name, done=done, total=total)


class Downloads:
    """The downloads of this process: one for each model, started on first need."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._all: dict[tuple[str, str, str, str], Download] = {}

    def start(self, model: Model, runtime: str, *, retry: bool = True) -> Download:
        """The download of a model, begun if none runs; after a failure anew if retry, or if long ago."""
        key = (model.repository, model.revision, model.precision, runtime)
        with self._lock:
            known = self._all.get(key)
            if known is not None and known.over.is_set():
                is_old = time.monotonic() - known.ended_at >= _RETRY_S
                if known.error is None or retry or is_old:
                    known = None
            # One that was given up may hang on a hub that is silent; whoever comes now wants the files.
            if known is None or (known.is_given_up and retry):
                known = self._all[key] = Download(self._hub, model, runtime)
                known.start()
            return known

    def running(self) -> Progress | None:
        """How far the download that runs is, if one does."""
        with self._lock:
            return next((each.progress for each in self._all.values() if not each.over.is_set()), None)

    def stop(self) -> None:
        with self._lock:
            for download in self._all.values():
                download.give_up()


def _forget(status: Path) -> None:
    try:
        status.unlink(missing_ok=True)
    except OSError as exc:  # Windows, while another process reads it
        logger.debug("could not remove %s: %s", status, exc)


def on_the_way(progress: Progress) -> ModelOnTheWay:
    said = str(progress)
    return ModelOnTheWay(f"{said[0].upper()}{said[1:]}; it goes on in this server.")


def _check_complete(model: Model, listing: Listing, runtime: str) -> None:
    absent = [f.path for f in model.needed(runtime) if not f.optional and f.path not in listing.files]
    if absent:
        raise EmbeddingError(
            f"{model.repository} has no {', '.join(absent)} at revision {model.revision}. "
            "Check MCPVECTORDB_MODEL and MCPVECTORDB_MODEL_FILE."
        )


def _with_command(exc: VectorDBError) -> VectorDBError:
    if isinstance(exc, Stopped) or "model download" in str(exc):
        return exc
    when = "Once it can be reached" if isinstance(exc, HubUnavailable) else "Then"
    return type(exc)(f"{exc} {when}, `mcpvectordb model download` fetches the model.")
