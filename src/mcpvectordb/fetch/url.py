"""Web addresses: taken apart, checked, and written in the one form that identifies a document.

Pure: nothing is looked up or connected to. What is checked here is what is connected to later, because
there is only this one reading of an address.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urljoin

import httpx

from mcpvectordb import guard
from mcpvectordb.errors import SourceError, SourceForbidden

_PORTS = {"http": 80, "https": 443}
_MOST_CHARS = 8192
_SHOWN_CHARS = 200

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# A backslash ends the host, as it does for browsers: "http://good.example\@bad.example" has one reading.
_URL = re.compile(r"[A-Za-z]+://(?P<authority>[^/?#\\]*)(?P<rest>[^#]*)", re.S)
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(?::(?P<port>[0-9]{0,5}))?")
_USER = re.compile(r"(?<=//)[^/?#]*@")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class WebAddress:
    scheme: str
    host: str  # lower-case ASCII; IPv6 without its brackets
    port: int
    rest: str  # path and query, as they were written

    @property
    def url(self) -> str:
        """The canonical form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.rest}"

    @property
    def literal(self) -> guard.IPAddress | None:
        """The address itself where the host is one and not a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


def canonical(url: str) -> str:
    """The identity of a document on the web.

    Scheme and host in lower case, the host in ASCII, no default port, no fragment, at least "/" as the
    path; nothing else is changed, because only the server knows which spellings mean the same.
    """
    return parse(url).url


def parse(url: str, *, via: str = "") -> WebAddress:
    """A web address that may be asked for; via is the host that sent us there, for the sentence."""
    url = url.strip()
    subject = f"{via} redirects to {shown(url)}, which" if via else shown(url)
    if not url:
        raise SourceError("The URL is empty. Give an address that begins with https:// or http://.")
    if len(url) > _MOST_CHARS:
        raise SourceError(f"{subject} was not fetched: it has more than {_MOST_CHARS} characters.")
    if _CONTROLS.search(url):
        raise SourceError(f"{subject} was not fetched: it holds control characters. Check the address.")
    scheme = _scheme(url, subject)
    parts = _URL.match(url)
    if parts is None:
        raise SourceError(f"{subject} was not fetched: it has no host. Write it like {scheme}://host/page.")
    if "@" in parts["authority"]:
        raise SourceForbidden(
            f"{subject} was not fetched: it holds a user name or a password, which would be stored with the "
            "document. Take it out; a page that needs a sign-in can be saved and added with ingest_file."
        )
    pieces = _AUTHORITY.fullmatch(parts["authority"])
    port = int((pieces["port"] if pieces else "") or _PORTS[scheme])
    if pieces is None or not pieces["host"] or not 0 < port < 65536:
        raise SourceError(f"{subject} was not fetched: its host or its port is not valid. Check the address.")
    rest = parts["rest"]
    return WebAddress(
        scheme=scheme,
        host=_host(pieces["host"], subject),
        port=port,
        rest=rest if rest.startswith("/") else f"/{rest}",
    )


def redirected(base: WebAddress, location: str) -> WebAddress:
    """Where a Location header leads, checked like any other address."""
    try:
        target = urljoin(base.url, location.strip())
    except ValueError as exc:
        raise SourceError(
            f"{base.host} redirects to {shown(location)}, which is not an address. "
            "Open it in a browser and give the address it ends at."
        ) from exc
    return parse(target, via=base.host)


def shown(url: str) -> str:
    """An address fit for a sentence: no secrets, no control characters, not endless."""
    url = _CONTROLS.sub("?", _USER.sub("", url))
    return url if len(url) <= _SHOWN_CHARS else f"{url[:_SHOWN_CHARS]}…"


def _scheme(url: str, subject: str) -> str:
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in _PORTS:
        return scheme
    # In "localhost:8080/x" and "example.com:8080" the part before the colon is a host.
    if not found or re.match(r"[0-9]+(?:[/?#]|$)", url[found.end() :]) or len(scheme) == 1:
        raise SourceError(
            f"{subject} was not fetched: it does not begin with https:// or http://. "
            "Write the whole address, or use ingest_file for a file on this machine."
        )
    step = "Use ingest_file for a file on this machine." if scheme == "file" else "Find its web address."
    raise SourceForbidden(f"{subject} was not fetched: only http and https are. {step}")


def _host(written: str, subject: str) -> str:
    host = written[1:-1].lower() if written.startswith("[") else _ascii(written, subject)
    reason = guard.host_reason(host)
    # Brackets are for IPv6 alone, and IPv6 stands in brackets.
    if reason is None and written.startswith("[") != (":" in host):
        reason = "its host is not a valid name"
    if reason is not None:
        raise SourceForbidden(
            f"{subject} was not fetched: {reason}. Write the host as a plain name such as example.com."
        )
    return host


def _ascii(host: str, subject: str) -> str:
    """The name as it stands in the DNS. Wide digits and dots become plain ones before anything is checked."""
    host = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", host).lower())
    if host.isascii():
        return host
    try:
        return httpx.URL(scheme="http", host=host, path="/").raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError) as exc:
        raise SourceError(
            f"{subject} was not fetched: its host is not a valid name. "
            "Check the spelling, or write it in its xn-- form."
        ) from exc
