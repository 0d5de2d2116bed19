"""What goes into a fetch and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one fetch may take, all its redirects together."""

    max_bytes: int  # of the body, as sent and as unpacked
    timeout_s: float = 30.0  # from the first lookup of a name to the last byte
    connect_timeout_s: float = 10.0  # for each hop's connection, TLS included
    max_hops: int = 5  # redirects followed


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """A document as it was sent, unpacked but otherwise untouched."""

    url: str  # canonical form of the address asked for: the identity
    final_url: str  # where the redirects led
    data: bytes
    content_type: str = ""  # as declared: lower case, without parameters; "" if there is none
    charset: str = ""  # as declared, lower case
    file_name: str = ""  # what the server or the address calls it, made harmless; never a path
    last_modified: str = ""  # ISO 8601, whole seconds, +00:00; "" when unknown
    etag: str = ""
