"""Fetch a document from the web: public addresses only, within time and size, whole or not at all.

Owns httpx and httpcore; neither's exceptions leave this package. It converts nothing and stores nothing.
A link in a document may try to make this machine ask its own network something, so every hop is checked
before it is connected, and connected at the very address that was checked. Proxies, cookies, netrc files
and other things of the environment play no part: through a proxy, somebody else would look the name up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import httpx

from mcpvectordb import __version__, guard
from mcpvectordb.errors import SourceError, SourceTooLarge

from .answers import last_modified, refusal
from .body import ACCEPTED, BadEncoding, unpacker
from .budget import Budget
from .content import content_type, effective_name, file_name, text_bytes
from .lookup import ALLOW_SETTING, Resolve, checked_addresses, system_resolve
from .network import PinnedTransport
from .url import WebAddress, canonical, parse, redirected, shown
from .values import Fetched, Limits

__all__ = [
    "ALLOW_SETTING",
    "Fetched",
    "Limits",
    "canonical",
    "effective_name",
    "fetch",
    "text_bytes",
]

_HEADERS = {
    "User-Agent": f"mcpvectordb/{__version__}",
    "Accept": "text/html, application/xhtml+xml, text/markdown, application/pdf;q=0.9, */*;q=0.8",
    "Accept-Encoding": ACCEPTED,
    "Connection": "close",
}
_REDIRECTS = (301, 302, 303, 307, 308)
_WHOLE = (200, 203)
_MB = 1024 * 1024
_MOST_ETAG_CHARS = 256


def _carry_on() -> None:
    """The checkpoint of a caller who never gives up."""


def fetch(
    url: str,
    *,
    limits: Limits,
    allowed: Sequence[str] = (),
    checkpoint: Callable[[], None] = _carry_on,
    resolve: Resolve = system_resolve,
) -> Fetched:
    """The document at url, redirects followed.

    allowed names hosts, addresses or networks beyond the public ones. checkpoint is called several times
    a second and between reads; what it raises ends the fetch. resolve looks a name up.
    """
    asked = here = parse(url)
    permitted = guard.parse_allowed(allowed)
    budget = Budget(limits, checkpoint)
    seen = [here.url]
    via = ""
    while True:
        pinned = checked_addresses(here, allowed=permitted, resolve=resolve, budget=budget, via=via)
        # A new connection for each hop, so that nothing comes along. And no httpx.Client: it keeps cookies,
        # and reads every Location, also where it is not to follow it.
        request = httpx.Request("GET", _httpx_url(here), headers=_HEADERS)
        with (
            PinnedTransport(here, pinned, budget) as transport,
            closing(transport.handle_request(request)) as response,
        ):
            if response.status_code not in _REDIRECTS:
                return _fetched(asked, here, response, budget)
            there = _next(here, response)
        if there.url in seen:
            raise SourceError(
                f"{asked.host} redirects in a circle, as pages do that want a cookie or a sign-in. "
                "Open it in a browser, save it, and add the saved file with ingest_file."
            )
        if len(seen) > limits.max_hops:
            raise SourceError(
                f"{asked.host} redirects more than {limits.max_hops} times. "
                "Open it in a browser and give the address it ends at."
            )
        seen.append(there.url)
        via, here = here.host, there


def _httpx_url(address: WebAddress) -> httpx.URL:
    try:
        return httpx.URL(address.url)
    except httpx.InvalidURL as exc:
        raise SourceError(
            f"{shown(address.url)} was not fetched: it is not a valid address. Check it."
        ) from exc


def _next(here: WebAddress, response: httpx.Response) -> WebAddress:
    location = response.headers.get("location")
    if location is None:
        raise SourceError(
            f"{here.host} answered {response.status_code} but does not say where the page is. "
            "Open it in a browser and give the address it ends at."
        )
    there = redirected(here, location)
    if here.scheme == "https" and there.scheme == "http":
        # Anybody on the way could write the rest of the story.
        raise SourceError(
            f"{here.host} redirects from https to {shown(there.url)}, which is not encrypted and was not "
            "followed. If you trust it, give that address itself."
        )
    return there


def _fetched(asked: WebAddress, here: WebAddress, response: httpx.Response, budget: Budget) -> Fetched:
    headers = response.headers
    if response.status_code not in _WHOLE:
        raise refusal(
            response.status_code,
            host=here.host,
            url=shown(here.url),
            retry_after=headers.get("retry-after", ""),
        )
    data = _body(here, response, budget)
    if not data:
        raise SourceError(
            f"{here.host} sent nothing for {shown(here.url)}: there is nothing to index. Check the address."
        )
    declared, charset = content_type(headers.get("content-type", ""))
    etag = headers.get("etag", "").strip()
    return Fetched(
        url=asked.url,
        final_url=here.url,
        data=data,
        content_type=declared,
        charset=charset,
        file_name=file_name(headers.get("content-disposition", ""), here.url),
        last_modified=last_modified(headers.get("last-modified", "")),
        etag=etag if len(etag) <= _MOST_ETAG_CHARS else "",
    )


def _body(here: WebAddress, response: httpx.Response, budget: Budget) -> bytes:
    """The whole body, unpacked. What is cut off, damaged or too large is an error, never half a document."""
    most = budget.limits.max_bytes
    announced = response.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise _too_large(here, most)
    body = bytearray()
    try:
        unpacked = unpacker(response.headers.get("content-encoding", ""))
        for piece in unpacked(_counted(here, response.iter_raw(), most)):
            budget.left(here.host)
            body += piece
            if len(body) > most:
                raise _too_large(here, most)
    except BadEncoding as exc:
        raise SourceError(
            f"{shown(here.url)} could not be read: {exc}. "
            "Try again later, or save it in a browser and add the file with ingest_file."
        ) from exc
    return bytes(body)


def _counted(here: WebAddress, parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    count = 0
    for part in parts:
        count += len(part)
        if count > most:
            raise _too_large(here, most)
        yield part


def _too_large(here: WebAddress, most: int) -> SourceTooLarge:
    return SourceTooLarge(
        f"{shown(here.url)} has more than {most / _MB:.4g} MB, which is the limit. "
        "Choose a smaller document, or raise MCPVECTORDB_MAX_FILE_MB."
    )
