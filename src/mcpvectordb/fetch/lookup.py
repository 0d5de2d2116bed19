"""From a host's name to the addresses that may be connected to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import ip_address
from itertools import chain, zip_longest

from mcpvectordb import guard
from mcpvectordb.errors import SourceError, SourceForbidden, SourceNotFound

from .budget import Budget
from .url import WebAddress

Resolve = Callable[[str, int], Sequence[str]]

ALLOW_SETTING = "MCPVECTORDB_URL_ALLOW"
_MOST_ADDRESSES = 4


def system_resolve(host: str, port: int) -> Sequence[str]:
    """Every address the system knows for a name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def checked_addresses(
    address: WebAddress, *, allowed: guard.Allowed, resolve: Resolve, budget: Budget, via: str = ""
) -> list[guard.IPAddress]:
    """The addresses that may be connected to, best first.

    One address that is not allowed refuses the host, even beside allowed ones: no honest public name
    has both, and to pick among them is what somebody who plays with the DNS hopes for.
    """
    literal = address.literal
    found = [literal] if literal is not None else _looked_up(address, resolve, budget)
    subject = f"{via} redirects to {address.host}, which" if via else address.host
    for one in found:
        reason = guard.address_reason(one, host=address.host, allowed=allowed)
        if reason is not None:
            what = f"its address {one}" if literal is None else "it"
            raise SourceForbidden(
                f"{subject} was not fetched: {what} is {reason}. "
                f"Only public addresses are fetched, and hosts or networks named in {ALLOW_SETTING}."
            )
    if not found:
        raise SourceNotFound(f"There is no host {address.host}. Check the spelling of the address.")
    # Of two families one may lead nowhere, so they take turns; the system's favourite begins.
    first = [one for one in found if one.version == found[0].version]
    other = [one for one in found if one.version != found[0].version]
    turns = chain.from_iterable(zip_longest(first, other))
    return [one for one in turns if one is not None][:_MOST_ADDRESSES]


def _looked_up(address: WebAddress, resolve: Resolve, budget: Budget) -> list[guard.IPAddress]:
    """Look a name up in a thread of its own: the system's call takes no timeout and cannot be stopped."""
    host = address.host
    answer: Future[Sequence[str]] = Future()

    def look_up() -> None:
        try:
            answer.set_result(resolve(host, address.port))
        except BaseException as exc:  # noqa: BLE001  raised again below, in the thread that waits
            answer.set_exception(exc)

    threading.Thread(target=look_up, name="lookup", daemon=True).start()
    while not answer.done():
        try:
            answer.exception(timeout=budget.slice(host))
        except TimeoutError:
            continue
    try:
        return [ip_address(text) for text in answer.result()]
    except socket.gaierror as exc:
        if exc.errno == socket.EAI_AGAIN:
            raise SourceError(
                f"{host} could not be looked up: no name server answered. "
                "Check that this machine is online, and try again."
            ) from exc
        raise SourceNotFound(
            f"There is no host {host}. Check the spelling of the address, and that this machine is online."
        ) from exc
    except (OSError, ValueError) as exc:
        raise SourceError(f"{host} could not be looked up: {exc}. Try again later.") from exc
