"""Reading files: real ones, links, pipes and names that should not be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpvectordb import sources
from mcpvectordb.errors import SourceError, SourceForbidden, SourceNotFound, SourceTooLarge
from mcpvectordb.models import Source

posix_only = pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")


def read(path: object, max_file_mb: int = 1) -> Source:
    return sources.read_file(str(path), library="default", max_file_mb=max_file_mb)


def refusal(path: object, error: type[SourceError]) -> str:
    with pytest.raises(SourceError) as caught:
        read(path)
    assert type(caught.value) is error
    return str(caught.value)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "notes.md"
    path.write_bytes(b"# Notes\n\nHello.\n")
    os.utime(path, ns=(1_700_000_000_999_999_999,) * 2)
    return path


def test_a_file_becomes_its_bytes_with_name_and_time(notes: Path) -> None:
    assert read(notes) == Source(
        name=str(notes),
        library="default",
        kind="file",
        data=b"# Notes\n\nHello.\n",
        file_name="notes.md",
        last_modified="2023-11-14T22:13:20+00:00",
        mtime_ns=1_700_000_000_999_999_999,
    )


@pytest.mark.parametrize("path", ["notes.md", "./notes.md", "sub/../notes.md", "link.md", "folder/notes.md"])
def test_every_way_to_name_a_file_gives_the_same_source(
    notes: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes.parent / "link.md").symlink_to(notes)
    (notes.parent / "folder").symlink_to(notes.parent)
    (notes.parent / "sub").mkdir()
    monkeypatch.chdir(notes.parent)
    assert read(path) == read(notes)


def test_a_tilde_is_the_home_folder(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(notes.parent))
    monkeypatch.setenv("USERPROFILE", str(notes.parent))
    assert read("~/notes.md") == read(notes)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "The path is empty. Give the path of a file."),
        (" \n", "The path is empty. Give the path of a file."),
        ("a\0.md", "The path holds a NUL character. Give the path of a file."),
        (
            "https://example.org/a.md",
            "https://example.org/a.md is an address, not a path. Use ingest_url for it.",
        ),
        (
            "file:///etc/hosts",
            "file:///etc/hosts is an address, not a path. Give the path of a file on this machine.",
        ),
    ],
)
def test_what_is_no_path_is_refused(path: str, message: str) -> None:
    assert refusal(path, SourceError) == message


def test_an_unknown_users_home_is_refused() -> None:
    assert refusal("~nobody-of-that-name/a.md", SourceError).startswith(
        "~nobody-of-that-name/a.md cannot be resolved: "
    )


def test_a_missing_file_is_an_error_that_names_near_ones(notes: Path) -> None:
    missing = notes.with_name("Note.md")
    assert refusal(missing, SourceNotFound) == f"There is no file {missing}. Did you mean notes.md?"


def test_a_missing_file_like_no_other_is_an_error(notes: Path) -> None:
    missing = notes.with_name("zzzzzz.pdf")
    assert refusal(missing, SourceNotFound) == f"There is no file {missing}. Check the path."


def test_a_secret_is_never_suggested(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("secret")
    missing = tmp_path.resolve() / "id_rsa2"
    assert refusal(missing, SourceNotFound) == f"There is no file {missing}. Check the path."


def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    missing = root / "no" / "such" / "a.md"
    expected = f"There is no file {missing}: the folder {root} has no no."
    assert refusal(missing, SourceNotFound) == expected


def test_a_file_taken_for_a_folder_is_not_found(notes: Path) -> None:
    expected = f"There is no file {notes / 'a.md'}: {notes} is a file, not a folder."
    assert refusal(notes / "a.md", SourceNotFound) == expected


def test_a_folder_is_refused(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    assert refusal(root, SourceError) == f"{root} is a folder. Name one of its files."


def test_a_name_too_long_for_the_system_is_refused(tmp_path: Path) -> None:
    assert " cannot be read: " in refusal(tmp_path / ("a" * 300), SourceError)


@posix_only
def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to(tmp_path / "b.md")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    assert " cannot be re" in refusal(tmp_path / "a.md", SourceError)


@posix_only
def test_a_harmless_link_to_a_secret_is_refused(tmp_path: Path) -> None:
    key = tmp_path.resolve() / ".ssh" / "config"
    key.parent.mkdir()
    key.write_text("Host *")
    (tmp_path / "notes.md").symlink_to(key)
    expected = (
        f"{key} was not read: it lies in .ssh, where keys and credentials are kept. Choose another file."
    )
    assert refusal(tmp_path / "notes.md", SourceForbidden) == expected


def test_a_private_key_is_refused_under_any_name(notes: Path) -> None:
    notes.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    expected = f"{notes} was not indexed: it holds a private key. Choose another file."
    assert refusal(notes, SourceForbidden) == expected


@posix_only
def test_a_pipe_is_refused_without_being_opened(tmp_path: Path) -> None:
    pipe = tmp_path.resolve() / "notes.md"
    os.mkfifo(pipe)
    expected = f"{pipe} was not opened: it is a named pipe. Choose a regular file."
    assert refusal(pipe, SourceForbidden) == expected


@posix_only
def test_a_device_is_refused() -> None:
    assert "/dev/zero was not read: " in refusal("/dev/zero", SourceForbidden)


@posix_only
def test_a_pipe_put_in_the_files_place_after_the_first_look_is_not_waited_for(tmp_path: Path) -> None:
    """The second half of the read, as it finds things when the swap has happened."""
    pipe = tmp_path.resolve() / "notes.md"
    os.mkfifo(pipe)
    with pytest.raises(SourceForbidden) as caught:
        sources._read(pipe, 1)
    assert str(caught.value) == f"{pipe} was not read: it is not a regular file."


@pytest.mark.parametrize("extra", [0, 1])
def test_a_file_is_read_up_to_the_cap_and_not_beyond(notes: Path, extra: int) -> None:
    notes.write_bytes(b"a" * (1024 * 1024 + extra))
    if extra:
        expected = f"{notes} has 1.0 MB; the limit is 1 MB. Split it, or raise MCPVECTORDB_MAX_FILE_MB."
        assert refusal(notes, SourceTooLarge) == expected
    else:
        assert len(read(notes).data) == 1024 * 1024


def test_a_huge_file_is_refused_without_being_read(notes: Path) -> None:
    with notes.open("wb") as file:
        file.truncate(1 << 40)  # sparse: reading it would take the memory of a thousand machines
    expected = f"{notes} has 1048576.0 MB; the limit is 1 MB. Split it, or raise MCPVECTORDB_MAX_FILE_MB."
    assert refusal(notes, SourceTooLarge) == expected


@posix_only
def test_a_file_that_may_not_be_read_is_an_error(notes: Path) -> None:
    """In a process of its own, because root may read everything and has to become somebody else."""
    notes.chmod(0)
    code = """
import os, sys
from mcpvectordb import errors, sources
for folder in sys.argv[2:]:
    os.chmod(folder, 0o755)
if os.getuid() == 0:
    os.setuid(65534)
try:
    sources.read_file(sys.argv[1], library="default", max_file_mb=1)
except errors.SourceError as exc:
    print(type(exc).__name__, exc)
"""
    folders = [notes.parent, *list(notes.parent.parents)[:2]]
    arguments = [sys.executable, "-c", code, str(notes), *(str(folder) for folder in folders)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout == f"SourceError {notes} cannot be read: Permission denied.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path.resolve()) + b"/n\xff.md")
    Path(path).write_text("Hello.")
    expected = f"'{tmp_path.resolve()}/n\\udcff.md' has a name that is not valid text. Rename the file."
    assert refusal(path, SourceError) == expected
