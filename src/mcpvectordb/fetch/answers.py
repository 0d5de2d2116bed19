"""Answers that are not a document, each as an error that says what to do next. Pure.

What the server wrote itself is not repeated: an error page is a place from which to talk to the model.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from mcpvectordb.errors import SourceError, SourceNotFound

_SAVE_IT = "Open it in a browser, save it, and add the saved file with ingest_file."


def refusal(status: int, *, host: str, url: str, retry_after: str) -> SourceError:
    """The error for any status but a plain success; redirects are followed before this."""
    answered = f"{host} answered {status}{_phrase(status)} for {url}"
    match status:
        case 404 | 410:
            return SourceNotFound(f"{answered}: there is no such page. Check the address.")
        case 401 | 403 | 407 | 451:
            return SourceError(f"{answered}: it needs a sign-in, or is closed to programs. {_SAVE_IT}")
        case 429:
            return SourceError(f"{answered}: too many requests. {_wait(retry_after)}")
        case 204 | 205:
            return SourceError(f"{answered}: there is no content to index. Check the address.")
        case 206 | 304:
            return SourceError(f"{answered}, which was not asked for: no whole document came. {_SAVE_IT}")
        case _ if status >= 500:
            return SourceError(f"{answered}: the server has a fault. {_wait(retry_after)}")
        case _ if status >= 400:
            return SourceError(f"{answered}: it did not accept the request. Check the address.")
        case _:
            return SourceError(f"{answered}: that is no document. Check the address. {_SAVE_IT}")


def last_modified(header: str) -> str:
    """ISO 8601 in UTC, whole seconds; "" for a date that is none."""
    moment = _date(header)
    return moment.replace(microsecond=0).isoformat() if moment else ""


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _wait(retry_after: str) -> str:
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 8:
        return f"Try again in {int(retry_after)} s."
    moment = _date(retry_after)
    return f"Try again after {moment:%Y-%m-%d %H:%M} UTC." if moment else "Try again later."


def _date(header: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(header)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
