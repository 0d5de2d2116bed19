"""May this path be read, may this address be fetched? Pure predicates: nothing here opens a file or a
connection, or looks up a name.

An assistant can be talked into "index ~/.ssh/id_rsa, then search it" by a document it has read. Secrets
have well-known names and places, so those are refused by name, with links followed first: a harmless
name may be a link to a key. In the same way it can be talked into fetching the router's or the cloud's
own pages, which trust whoever reaches them, so only public addresses are fetched unless told otherwise.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path, PurePath

from .errors import ConfigError

IPAddress = IPv4Address | IPv6Address

# Folders, as runs of path parts in lower case, that exist to hold keys, tokens or passwords.
_SECRET_FOLDERS: tuple[tuple[str, ...], ...] = (
    (".ssh",),
    (".gnupg",),
    (".aws",),
    (".azure",),
    (".kube",),
    (".docker",),
    (".password-store",),
    (".config", "gcloud"),
    (".config", "gh"),
    (".config", "rclone"),
    (".config", "op"),
    (".config", "doctl"),
    (".config", "sops"),
    (".config", "github-copilot"),
    (".composer",),
    (".subversion", "auth"),
    (".electrum", "wallets"),
    (".oci",),
    (".fly",),
    (".local", "share", "keyrings"),
    (".local", "share", "kwalletd"),
    ("library", "keychains"),
    ("microsoft", "credentials"),
    ("microsoft", "protect"),
    ("microsoft", "vault"),
    ("etc", "ssl", "private"),
    ("run", "secrets"),
)
_SECRET_NAMES = re.compile(
    r"""
      # SSH private keys wherever they lie, copies too (.pub is not matched)
      id_(rsa|dsa|ecdsa|ed25519)(_sk)?([-_.](old|bak|backup|orig|copy))?~?
    | passwd- | master\.passwd-? | g?shadow-? | sudoers | krb5\.keytab
    | \.?(netrc|pgpass|my\.cnf|npmrc|pypirc|git-credentials|htpasswd|s3cfg|boto|vault-token)
    | _netrc
    | \.env(\.(?!example$|sample$|template$|dist$).+)?   # .env.example is documentation
    | \.?credentials(\.(json|toml|ini|yml|yaml|tfrc\.json|csv|db))?
    | secrets?\.(json|toml|ini|yml|yaml|env) | \.?rclone\.conf | \.databrickscfg | \.dockercfg
    | token | stored_tokens                       # as the Hugging Face hub and others name theirs
    | client_secrets?.*\.json | service[-_]?account.*\.json
    | terraform\.tfstate(\.backup)?
    | login\ data | cookies(\.sqlite)? | key[34]\.db | logins\.json   # browsers' stores
    | .+\.(pem|key|p12|pfx|p8|pkcs12|jks|keystore|kdbx?|keychain(-db)?|ppk|ovpn|asc\.key)
    | wallet\.dat
    """,
    re.VERBOSE,
)
_PRIVATE_KEY = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:#[^\n]*\n|\s)*+"
    rb"(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File|AGE-SECRET-KEY-1)"
)
# Kernel interfaces: reading them is never reading a document, and some never end.
_SYSTEM_ROOTS = frozenset({"proc", "sys", "dev"})


def secret_reason(path: PurePath) -> str | None:
    """Why this resolved path must not be read, or None.

    Compared in lower case: the file systems of macOS and Windows do not tell the cases apart.
    """
    parts = tuple(part.lower() for part in path.parts)
    if len(parts) > 2 and path.root == "/" and parts[1] in _SYSTEM_ROOTS:
        return "it is a part of the operating system, not a document"
    for folder in _SECRET_FOLDERS:
        for at in range(len(parts) - len(folder)):
            if parts[at : at + len(folder)] == folder:
                return f"it lies in {'/'.join(folder)}, where keys and credentials are kept"
    if has_secret_name(path.name):
        return "files of that name hold keys or credentials"
    return None


def has_secret_name(name: str) -> bool:
    """Whether a file of this name must not be read wherever it lies."""
    return _SECRET_NAMES.fullmatch(name.lower()) is not None


def special_reason(mode: int) -> str | None:
    """Why a thing of this st_mode must not be opened, or None for a regular file.

    Opening a FIFO waits for a writer for ever; reading a device may never end or act on hardware.
    """
    if stat.S_ISREG(mode):
        return None
    names = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in names if test(mode)), "not a regular file")


def holds_private_key(head: bytes) -> bool:
    """True if a file's first bytes are those of a private key under whatever name.

    A mark of Windows and lines of comment may stand before it.
    """
    return _PRIVATE_KEY.match(head) is not None


def is_within(path: Path, root: Path) -> bool:
    """True if path, with links followed, lies in root."""
    return path.resolve().is_relative_to(root.resolve())


_LINK_LOCAL = "a link-local address, where cloud machines hand out credentials"
_LOCAL = "this machine itself"
_PRIVATE = "in a private network"
_RESERVED = "reserved, not public"
_DISGUISED = "an IPv4 address in the clothes of IPv6"
# The first network that holds an address says what it is. What Python's is_global knows differs between
# its releases, so everything that matters is spelt out, and is_global only adds to it.
_NOT_PUBLIC = tuple(
    (ip_network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", _LOCAL),  # many systems take it for loopback
        ("127.0.0.0/8", _LOCAL),
        ("169.254.0.0/16", _LINK_LOCAL),
        ("168.63.129.16/32", "a service of the cloud this machine may run in"),  # public by its number alone
        ("10.0.0.0/8", _PRIVATE),
        ("172.16.0.0/12", _PRIVATE),
        ("192.168.0.0/16", _PRIVATE),
        ("100.64.0.0/10", _PRIVATE),
        ("192.0.0.0/24", _RESERVED),
        ("192.88.99.0/24", _RESERVED),
        ("224.0.0.0/3", _RESERVED),  # multicast, future use, broadcast
        ("::/128", _LOCAL),
        ("::1/128", _LOCAL),
        ("fe80::/10", _LINK_LOCAL),
        ("fc00::/7", _PRIVATE),
        ("fec0::/10", _PRIVATE),
        ("::/96", _DISGUISED),
        ("::ffff:0:0/96", _DISGUISED),
        ("2002::/16", _DISGUISED),  # 6to4
        ("2001::/32", _DISGUISED),  # Teredo
        ("2001::/23", _RESERVED),
        ("2001:db8::/32", _RESERVED),
        ("3fff::/20", _RESERVED),
    )
)
_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")
# Allowing a host by name trusts whoever answers for that name, but not as far as the cloud's credentials.
_LIFTED_BY_NAME = (_LOCAL, _PRIVATE, _RESERVED)

_HOST = re.compile(r"(?=.{1,254}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*\.?")
# What inet_aton and browsers read as an IPv4 address: its last part is a number.
_NUMERIC = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """What may be fetched beyond the public addresses."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()


def parse_allowed(entries: Sequence[str]) -> Allowed:
    """Hosts, addresses and networks as a person writes them: localhost, 10.1.2.3, 10.0.0.0/8, ::1."""
    hosts: set[str] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for entry in entries:
        text = entry.strip().lower().removesuffix(".")
        try:
            networks.append(ip_network(text.removeprefix("[").removesuffix("]"), strict=False))
        except ValueError as exc:
            # 10.0.0.0/33 must not become the name of a host that nothing ever matches.
            if host_reason(text) is not None:
                raise ConfigError(
                    f"{entry!r} is neither a host nor a network that may be allowed. "
                    "Write it like intranet.example, 10.1.2.3 or 10.0.0.0/8, without a port."
                ) from exc
            hosts.add(text)
    return Allowed(hosts=frozenset(hosts), networks=tuple(networks))


def host_reason(host: str) -> str | None:
    """Why a URL's host (lower case, ASCII, IPv6 without its brackets) is not one we look at, or None.

    2130706433, 0x7f.1, 127.1 and 127.0.0.1. all reach 127.0.0.1 in some library and are mere names to
    another. No document lies behind such a spelling.
    """
    if "%" in host:
        return "its host is percent-encoded or carries a zone"
    if ":" in host or _NUMERIC.search(host):
        try:
            ip_address(host)
        except ValueError:
            return "its host is an address in an unusual spelling"
        return None
    return None if _HOST.fullmatch(host) else "its host is not a valid name"


def address_reason(address: IPAddress, *, host: str, allowed: Allowed) -> str | None:
    """What an address is that must not be connected to for the sake of host, or None if it may be.

    The address is what the name was looked up to: the name alone proves nothing, because whoever owns
    it can point it at 127.0.0.1 or at 169.254.169.254.
    """
    if any(address in network for network in allowed.networks):
        return None
    reason = private_reason(address)
    is_named = host.removesuffix(".") in allowed.hosts
    return None if is_named and reason in _LIFTED_BY_NAME and not address.is_multicast else reason


def private_reason(address: IPAddress) -> str | None:
    """What an address is if it is not public, else None."""
    if address in _NAT64:
        # Networks without IPv4 reach it through these; what counts is the address inside.
        return private_reason(IPv4Address(int(address) & 0xFFFF_FFFF))
    reason = next((reason for network, reason in _NOT_PUBLIC if address in network), None)
    if reason is not None:
        return reason
    is_assigned = address.version == 4 or address in _GLOBAL_UNICAST
    return None if is_assigned and address.is_global else _RESERVED


def is_loopback(address: IPAddress) -> bool:
    """True if only this machine can reach whatever listens at address. 0.0.0.0 is every address it has."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_WEB_HOST = re.compile(r"(?:[a-z0-9_][a-z0-9._-]*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_WEB_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+|null")


def web_hosts(host: str, port: int, *, also: Iterable[str]) -> frozenset[str]:
    """The Host headers that a server which listens at host and port answers to.

    Its loopback names, its address, and what a person allows: `name` with any port, `name:port`, or `*`.
    """
    allowed: set[str] = set()
    own = {*_OWN_NAMES, f"[{host}]".lower() if ":" in host else host.lower()}
    for name in own:
        # A client leaves HTTP's own port away.
        allowed |= {f"{name}:{port}", *([f"{name}:"] if port == 80 else [])}
    for entry in also:
        text = entry.strip().lower()
        if text != "*" and not _WEB_HOST.fullmatch(text):
            raise ConfigError(
                f"{entry!r} is not a host that may be allowed. Write it like files.example or "
                "files.example:8765, without http://, or * for every name."
            )
        allowed.add(text)
    return frozenset(allowed)


def host_is_ours(header: str, allowed: frozenset[str]) -> bool:
    """Whether a Host header names this server.

    A page can have its own name looked up to 127.0.0.1 once it is loaded, and the browser then takes our
    answers for its own (DNS rebinding). But the Host it sends is still that name.
    """
    text = header.lower()
    if not _WEB_HOST.fullmatch(text):
        return False
    name, _, port = text.rpartition(":") if re.search(r":[0-9]+$", text) else (text, "", "")
    return not allowed.isdisjoint({"*", name, f"{name}:{port}"})


def web_origins(port: int, *, also: Iterable[str]) -> frozenset[str]:
    """The origins of pages that may use the server: its own, and what a person allows."""
    own = {f"http://{name}{'' if port == 80 else f':{port}'}" for name in _OWN_NAMES}
    for entry in also:
        text = entry.strip().lower()
        if not _WEB_ORIGIN.fullmatch(text):
            raise ConfigError(
                f"{entry!r} is not an origin that may be allowed. Write it like https://app.example."
            )
        own.add(text)
    return frozenset(own)


def origin_is_ours(header: str, allowed: frozenset[str]) -> bool:
    """Whether a page from there may send requests.

    Any page in a browser can send some kinds of request to any address, also to 127.0.0.1; it cannot send
    them under another origin than its own.
    """
    return header.lower() in allowed
