"""What may be read and what may be fetched: tables of paths, compared by name alone, and of addresses."""

from __future__ import annotations

import os
import socket
import stat
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpvectordb import guard
from mcpvectordb.errors import ConfigError

NAMED = "files of that name hold keys or credentials"
SYSTEM = "it is a part of the operating system, not a document"

ALLOWED = """
/home/ann/notes.md
/home/ann/notes about keys.md
/home/ann/password policy.docx
/home/ann/id_rsa.pub
/home/ann/id_rsa explained.md
/home/ann/id_rsa_old.md
/home/ann/secrets of the sea.txt
/home/ann/secrets.md
/home/ann/token economy.md
/home/ann/ssh/config
/home/ann/project/.env.example
/home/ann/project/.env.sample
/home/ann/project/.env.template
/home/ann/project/environment.md
/home/ann/project/credentials.md
/home/ann/project/service-account.md
/home/ann/project/keyboard.txt
/home/ann/.config/nvim/readme.md
/home/ann/docker/notes.md
/home/ann/aws/invoice.html
/home/ann/proc/report.md
/home/ann/dev/readme.md
/etc/passwd
/etc/hosts
/dev
notes.md
"""
SECRET_NAMES = """
/home/ann/id_rsa
/home/ann/backup/id_ed25519
/home/ann/ID_RSA
/home/ann/id_ecdsa_sk
/home/ann/id_rsa_old
/home/ann/id_rsa.bak
/home/ann/id_ed25519~
/home/ann/project/secrets.yaml
/home/ann/project/.streamlit/secrets.toml
/home/ann/.cache/huggingface/token
/home/ann/rclone.conf
/home/ann/.databrickscfg
/home/ann/project/.env
/home/ann/project/.env.local
/home/ann/project/.env.production
/home/ann/project/.env.example.local
/home/ann/project/credentials
/home/ann/project/credentials.json
/home/ann/.agent/.credentials.json
/home/ann/project/Credentials.JSON
/home/ann/project/client_secret_123.apps.json
/home/ann/project/service-account-prod.json
/home/ann/project/terraform.tfstate
/home/ann/project/my.pem
/home/ann/project/server.key
/home/ann/cert.p12
/home/ann/passwords.kdbx
/home/ann/release.keystore
/home/ann/.netrc
/home/ann/_netrc
/home/ann/.npmrc
/home/ann/.pypirc
/home/ann/.pgpass
/home/ann/.git-credentials
/home/ann/.vault-token
/home/ann/wallet.dat
/home/ann/.mozilla/firefox/x.default/logins.json
/home/ann/.config/chromium/Default/Login Data
/etc/shadow
/etc/shadow-
/etc/gshadow
/etc/passwd-
/etc/master.passwd
/etc/sudoers
"""
SECRET_FOLDERS = {
    "/home/ann/.ssh/config": ".ssh",
    "/home/ann/.ssh/id_rsa.pub": ".ssh",
    "/home/ann/.SSH/known_hosts": ".ssh",
    "/home/ann/.ssh/old/notes.md": ".ssh",
    "/home/ann/.gnupg/pubring.kbx": ".gnupg",
    "/home/ann/.aws/config": ".aws",
    "/home/ann/.kube/config": ".kube",
    "/home/ann/.docker/config.json": ".docker",
    "/home/ann/.config/gcloud/notes.md": ".config/gcloud",
    "/home/ann/.config/gh/hosts.yml": ".config/gh",
    "/home/ann/.config/sops/age/keys.txt": ".config/sops",
    "/home/ann/.config/github-copilot/apps.json": ".config/github-copilot",
    "/home/ann/.composer/auth.json": ".composer",
    "/home/ann/.subversion/auth/svn.simple/a1": ".subversion/auth",
    "/home/ann/.electrum/wallets/default_wallet": ".electrum/wallets",
    "/home/ann/.local/share/kwalletd/kdewallet.xml": ".local/share/kwalletd",
    "/home/ann/.oci/config": ".oci",
    "/Users/ann/Library/Keychains/login.txt": "library/keychains",
    "/run/secrets/db_password": "run/secrets",
    "/etc/ssl/private/readme.txt": "etc/ssl/private",
}
SYSTEM_FILES = """
/proc/self/environ
/proc/1/cmdline
/sys/kernel/notes
/dev/stdin
/dev/sda
"""


def lines(table: str) -> list[str]:
    return table.strip().splitlines()


@pytest.mark.parametrize("path", lines(ALLOWED))
def test_an_ordinary_path_may_be_read(path: str) -> None:
    assert guard.secret_reason(PurePosixPath(path)) is None


@pytest.mark.parametrize("path", lines(SECRET_NAMES))
def test_a_name_that_holds_secrets_is_refused(path: str) -> None:
    assert guard.secret_reason(PurePosixPath(path)) == NAMED


@pytest.mark.parametrize(("path", "folder"), SECRET_FOLDERS.items())
def test_a_folder_that_holds_secrets_is_refused_with_all_below_it(path: str, folder: str) -> None:
    expected = f"it lies in {folder}, where keys and credentials are kept"
    assert guard.secret_reason(PurePosixPath(path)) == expected


@pytest.mark.parametrize("path", lines(SYSTEM_FILES))
def test_the_kernels_files_are_refused(path: str) -> None:
    assert guard.secret_reason(PurePosixPath(path)) == SYSTEM


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (r"C:\Users\ann\.ssh\config", True),
        (r"C:\Users\Ann\AppData\Roaming\Microsoft\Credentials\x", True),
        (r"D:\work\ID_RSA", True),
        (r"D:\dev\project\notes.md", False),
        (r"C:\Users\ann\notes.md", False),
    ],
)
def test_windows_paths_are_told_apart_too(path: str, refused: bool) -> None:
    assert (guard.secret_reason(PureWindowsPath(path)) is not None) == refused


def test_the_empty_path_names_no_secret() -> None:
    assert guard.secret_reason(PurePath()) is None


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (stat.S_IFREG | 0o644, None),
        (stat.S_IFDIR, "a folder"),
        (stat.S_IFIFO, "a named pipe"),
        (stat.S_IFSOCK, "a socket"),
        (stat.S_IFCHR, "a device"),
        (stat.S_IFBLK, "a device"),
        (stat.S_IFLNK, "not a regular file"),
        (0, "not a regular file"),
    ],
)
def test_only_a_regular_file_may_be_opened(mode: int, reason: str | None) -> None:
    assert guard.special_reason(mode) == reason


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
def test_the_special_files_of_this_system_are_known(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        modes = [path.stat().st_mode for path in (tmp_path / "pipe", tmp_path / "s", Path("/dev/null"))]
    assert [guard.special_reason(mode) for mode in modes] == ["a named pipe", "a socket", "a device"]


@pytest.mark.parametrize(
    ("head", "is_key"),
    [
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn", True),
        (b"-----BEGIN RSA PRIVATE KEY-----", True),
        (b"\n  -----BEGIN PRIVATE KEY-----", True),
        (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", True),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----", True),
        (b"PuTTY-User-Key-File-3: ssh-ed25519", True),
        (b"\xef\xbb\xbf-----BEGIN EC PRIVATE KEY-----", True),
        (b"# deploy key\n\n# of 2026\n-----BEGIN RSA PRIVATE KEY-----", True),
        (b"# created: 2026-01-01\n# public key: age1x\nAGE-SECRET-KEY-1QQ", True),
        (b"# Keys\n\nOne begins with -----BEGIN PRIVATE KEY-----", False),
        (b"-----BEGIN CERTIFICATE-----", False),
        (b"-----BEGIN PUBLIC KEY-----", False),
        (b"A key begins with -----BEGIN PRIVATE KEY-----", False),
        (b"", False),
    ],
)
def test_a_private_key_is_known_by_its_first_bytes(head: bytes, is_key: bool) -> None:
    assert guard.holds_private_key(head) == is_key


def test_a_link_out_of_a_folder_is_not_within_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    paths = [inside, inside / "a.md", inside / "link" / "a.md", inside / ".." / "outside" / "a.md"]
    assert [guard.is_within(path, inside) for path in paths] == [True, True, False, False]


PUBLIC_ADDRESSES = """
1.1.1.1
8.8.8.8
93.184.215.14
100.63.255.255
100.128.0.0
126.255.255.255
128.0.0.1
168.63.129.15
169.253.255.255
172.15.255.255
172.32.0.0
192.0.1.1
192.167.255.255
192.169.0.1
223.255.255.255
2001:4860:4860::8888
2606:4700:4700::1111
2a00:1450:4001::1
64:ff9b::8.8.8.8
"""
OTHER_ADDRESSES = {
    "this machine itself": "0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 :: ::1 64:ff9b::127.0.0.1",
    "a link-local address, where cloud machines hand out credentials": (
        "169.254.0.1 169.254.169.254 169.254.170.2 fe80::1 fe80::1%eth0 febf::1 64:ff9b::169.254.169.254"
    ),
    "a service of the cloud this machine may run in": "168.63.129.16",
    "in a private network": (
        "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.100.100.200 "
        "100.127.255.255 fc00::1 fd00:ec2::254 fdff::1 fec0::1 64:ff9b::10.0.0.1"
    ),
    "an IPv4 address in the clothes of IPv6": (
        "::ffff:8.8.8.8 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::8.8.8.8 ::127.0.0.1 "
        "2002:7f00:1:: 2002:808:808:: 2001:0:4136:e378:8000:63bf:3fff:fdd2"
    ),
    "reserved, not public": (
        "192.0.0.8 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 "
        "239.255.255.250 240.0.0.1 255.255.255.255 64:ff9b:1::1 100::1 2001:2::1 2001:10::1 2001:db8::1 "
        "3fff::1 5f00::1 4000::1 ff02::1 ff0e::1 ffff::1"
    ),
}


@pytest.mark.parametrize("address", lines(PUBLIC_ADDRESSES))
def test_a_public_address_may_be_fetched(address: str) -> None:
    assert guard.private_reason(ip_address(address)) is None


@pytest.mark.parametrize(
    ("address", "reason"),
    [(address, reason) for reason, table in OTHER_ADDRESSES.items() for address in table.split()],
)
def test_an_address_that_is_not_public_is_refused_with_what_it_is(address: str, reason: str) -> None:
    allowed = guard.parse_allowed(["another.example"])
    assert guard.private_reason(ip_address(address)) == reason
    assert guard.address_reason(ip_address(address), host="a.example", allowed=allowed) == reason


@given(st.ip_addresses(v=4))
def test_no_way_of_wrapping_an_address_makes_it_more_public(address: IPv4Address) -> None:
    number = int(address)
    wrapped = [number, 0xFFFF_0000_0000 | number, 0x2002 << 112 | number << 80]
    assert all(guard.private_reason(IPv6Address(one)) is not None for one in wrapped)
    nat64 = IPv6Address(0x64FF9B << 96 | number)
    assert guard.private_reason(nat64) == guard.private_reason(address)


@given(st.ip_addresses())
def test_what_python_does_not_hold_for_global_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global or address.is_multicast or address.is_link_local or address.is_loopback:
        assert guard.private_reason(address) is not None


@pytest.mark.parametrize(
    ("entry", "host", "address", "is_allowed"),
    [
        ("127.0.0.0/8", "a.example", "127.0.0.1", True),
        ("127.0.0.0/8", "127.0.0.1", "127.0.0.1", True),
        ("127.0.0.0/8", "a.example", "10.0.0.1", False),
        ("127.0.0.0/8", "a.example", "::1", False),
        ("127.0.0.0/8", "a.example", "::ffff:127.0.0.1", False),
        ("127.0.0.1", "a.example", "127.0.0.1", True),
        ("127.0.0.1", "a.example", "127.0.0.2", False),
        ("10.1.2.3/8", "a.example", "10.200.0.1", True),
        (" ::1 ", "a.example", "::1", True),
        ("[::1]", "a.example", "::1", True),
        ("fd00::/8", "a.example", "fd12::1", True),
        ("169.254.169.254", "a.example", "169.254.169.254", True),
        ("a.example", "a.example", "10.0.0.1", True),
        ("a.example", "a.example", "127.0.0.1", True),
        ("a.example", "a.example.", "10.0.0.1", True),
        ("A.Example.", "a.example", "10.0.0.1", True),
        ("a.example", "b.a.example", "10.0.0.1", False),
        ("a.example", "10.0.0.1", "10.0.0.1", False),
        ("localhost", "localhost", "::1", True),
        ("localhost", "localhost.example", "::1", False),
        # A name is trusted with one's own network, not with the cloud's credentials.
        ("a.example", "a.example", "169.254.169.254", False),
        ("a.example", "a.example", "::ffff:169.254.169.254", False),
        ("a.example", "a.example", "64:ff9b::169.254.169.254", False),
        ("a.example", "a.example", "fe80::1", False),
        ("a.example", "a.example", "168.63.129.16", False),
        ("a.example", "a.example", "224.0.0.1", False),
        ("a.example", "a.example", "8.8.8.8", True),
        ("a.example", "b.example", "8.8.8.8", True),
    ],
)
def test_a_list_allows_what_it_names_and_nothing_beside_it(
    entry: str, host: str, address: str, is_allowed: bool
) -> None:
    allowed = guard.parse_allowed([entry])
    reason = guard.address_reason(ip_address(address), host=host, allowed=allowed)
    assert (reason is None) == is_allowed


WRONG_ENTRIES = """
10.0.0.0/33 10.0.0 127.1 0x7f.1 http://a.example a.example:80 a.example/8 *.example é.example [::1]:80
a..example fd00::/129 user@a.example
"""


@pytest.mark.parametrize("entry", ["", " ", "a b", *WRONG_ENTRIES.split()])
def test_an_entry_that_would_never_match_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError) as error:
        guard.parse_allowed(["localhost", entry])
    assert str(error.value) == (
        f"{entry!r} is neither a host nor a network that may be allowed. "
        "Write it like intranet.example, 10.1.2.3 or 10.0.0.0/8, without a port."
    )


HOSTS = {
    None: (
        "example.com example.com. localhost a_b.example xn--mnchen-3ya.de 1.2.3.4.example a-.example "
        "3com.com 0x7f.example 127.0.0.1 ::1 ::ffff:127.0.0.1 2001:db8::1"
    ),
    "its host is an address in an unusual spelling": (
        "2130706433 0x7f000001 0x7f.1 0x 127.1 127.0.1 0177.0.0.1 127.0.0.01 127.0.0.1. 127.0.0.256 "
        "1.2.3.4.5 example.1 017700000001 ::1::2 12345::1 fe80::g"
    ),
    "its host is percent-encoded or carries a zone": (
        "%31%32%37.0.0.1 fe80::1%eth0 fe80::1%25eth0 ex%61mple.com"
    ),
    "its host is not a valid name": (
        rf". .. a..b .a -a.example a/b a@b a\b a,b ＡＢ ①.example {'x' * 64} {'a.' * 127}aa"
    ),
}


@pytest.mark.parametrize(
    ("host", "reason"), [(host, reason) for reason, table in HOSTS.items() for host in table.split()]
)
def test_only_a_plain_name_or_a_plain_address_is_a_host(host: str, reason: str | None) -> None:
    assert guard.host_reason(host) == reason


@pytest.mark.parametrize("host", ["", "a b", "a\tb", "a\n", "example.com\n", "127.0.0.1\n", "a\0b"])
def test_a_blank_makes_no_host(host: str) -> None:
    assert guard.host_reason(host) is not None
