"""Where a server listens: the sockets of a host and port, or one sentence that says why there are none."""

from __future__ import annotations

import errno
import os
import socket
import sys
from dataclasses import dataclass
from ipaddress import ip_address

from mcpvectordb.errors import ConfigError
from mcpvectordb.guard import is_loopback

# Not known by the system, or its kind of address is switched off: another address of the name may do.
_ELSEWHERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listening:
    host: str  # as it was asked for
    port: int  # the real one where 0 was asked for
    is_public: bool  # whether other machines can reach it
    sockets: tuple[socket.socket, ...]

    @property
    def url(self) -> str:
        return f"http://{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """A host as it stands in a URL or a Host header."""
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int, *, open_without_token: str | None) -> Listening:
    """Listen there, or a ConfigError.

    open_without_token is the sentence with which to refuse a host that other machines can reach, for a
    server that asks for no token; None where it may be reached by them.
    """
    host = host.removeprefix("[").removesuffix("]")
    try:
        # An empty host would mean every address of this machine.
        if not host.strip():
            raise ConfigError("The host is empty. Say 127.0.0.1, or 0.0.0.0 for every address.")
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as exc:
        raise ConfigError(
            f"The host {host!r} is not known here, so nothing can listen there: {exc}."
        ) from exc
    # A hosts file may name one address twice.
    found = list(dict.fromkeys((family, address) for family, _, _, _, address in resolved))
    is_public = not all(is_loopback(ip_address(str(address[0]).partition("%")[0])) for _, address in found)
    if is_public and open_without_token is not None:
        raise ConfigError(f"{host} can be reached by other machines. {open_without_token}")
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in found:
        # Where 0 asks for any port, all addresses of a name share the first one's.
        wanted = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bound(family, (address[0], wanted, *address[2:])))
        except OSError as exc:
            if exc.errno in _ELSEWHERE:
                missing = exc
                continue
            for one in sockets:
                one.close()
            raise ConfigError(_sentence(host, wanted, exc)) from exc
    if not sockets:
        raise ConfigError(_sentence(host, port, missing or OSError("it has no address")))
    return Listening(host=host, port=sockets[0].getsockname()[1], is_public=is_public, sockets=tuple(sockets))


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # There, two programs may otherwise take the same port, and neither is told.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            # A server that has just ended leaves its port in a state that would refuse the next one.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # 0.0.0.0 and :: are two addresses; without this the second takes the first's port too.
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        # Now, so that a port that another server has is found out here and not by the first client.
        one.listen(2048)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def _sentence(host: str, port: int, exc: OSError) -> str:
    where = f"{bracketed(host)}:{port}"
    if exc.errno == errno.EADDRINUSE:
        return f"Another program listens at {where} already. End it, or choose another port with --port."
    if exc.errno == errno.EACCES:
        return f"This user may not listen at {where}. Choose a port above 1023 with --port."
    reason = os.strerror(exc.errno) if exc.errno else str(exc)
    return f"Nothing can listen at {where}: {reason}. Choose another address with --host and --port."
