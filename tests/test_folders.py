"""Which files of a folder are to be indexed: the walk, .gitignore as git means it, what has not changed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from embedders import words_db
from mcpvectordb import folders
from mcpvectordb.convert import is_supported
from mcpvectordb.convert.detect import by_name, extension_of
from mcpvectordb.errors import ArgumentError, SourceError, SourceForbidden, SourceNotFound, Stopped
from mcpvectordb.folders import Options, Plan
from mcpvectordb.folders.ignore import Patterns
from mcpvectordb.models import Header
from stores import TESTS

posix_only = pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
needs_git = pytest.mark.skipif(not shutil.which("git"), reason="compares with git itself")
LONG_AGO_NS = 1_700_000_000_123_456_789


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    return root


def fill(root: Path, *paths: str) -> None:
    for path in paths:
        write(root, path, f"# {path}\n")


def write(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
    return file


def planned(root: Path, headers: Mapping[str, Header] | None = None, **options: object) -> Plan:
    asked = {"is_supported": is_supported, "max_bytes": 1000, **options}
    return folders.plan(folders.resolve(str(root)), Options(**asked), headers or {})  # type: ignore[arg-type]


def names(plan: Plan) -> list[str]:
    return [
        Path(found.path).relative_to(plan.folder).as_posix()
        if Path(found.path).is_relative_to(plan.folder)
        else found.path
        for found in plan.changed
    ]


def test_files_come_in_the_order_of_their_names_and_those_of_a_folder_before_the_folders_in_it(
    root: Path,
) -> None:
    fill(root, "b/z.md", "b/a/x.txt", "b/y.md", "a/1.md", "zebra.md", "Apfel.md", "c.md")
    plan = planned(root)
    assert names(plan) == ["Apfel.md", "c.md", "zebra.md", "a/1.md", "b/y.md", "b/z.md", "b/a/x.txt"]
    assert (plan.folder, plan.unchanged, plan.ignored) == (root, 0, {})
    assert [(found.size, found.mtime_ns) for found in plan.changed] == [
        (Path(found.path).stat().st_size, Path(found.path).stat().st_mtime_ns) for found in plan.changed
    ]


def test_what_is_passed_over_is_counted_by_its_reason(root: Path) -> None:
    fill(root, "note.md", "README", "Makefile", ".hidden.md", ".cache/a.md", ".cache/b.md")
    fill(root, "picture.png", "program.exe", "server.pem", "credentials.json", "Library/Keychains/x.md")
    write(root, "empty.md", "")
    write(root, "long.md", "x" * 1001)
    plan = planned(root)
    assert names(plan) == ["Makefile", "README", "note.md"]
    assert plan.ignored == {
        "empty": 1,
        "hidden": 2,  # a folder counts once
        "may hold secrets": 3,
        "too large": 1,
        "unsupported type": 2,
    }


def test_without_recursion_only_the_folders_own_files_count(root: Path) -> None:
    fill(root, "a.md", "sub/b.md", "c.png")
    plan = planned(root, recursive=False)
    assert names(plan) == ["a.md"]
    assert plan.ignored == {"unsupported type": 1}


def test_include_and_exclude_narrow_a_folder_down(root: Path) -> None:
    fill(root, "a.md", "b.txt", "docs/c.md", "docs/old/d.md", "docs/e.txt", "src/f.py", "src/docs/g.md")
    plan = planned(root, include=("*.md", "/docs/"), exclude=("old/", "/a.*"))
    assert names(plan) == ["docs/c.md", "docs/e.txt", "src/docs/g.md"]
    assert plan.ignored == {"excluded": 4}
    assert names(planned(root, include=("docs/*.md",))) == ["docs/c.md"]
    assert names(planned(root, include=("*.md", "!g.*"), exclude=("docs",))) == ["a.md"]


@pytest.mark.parametrize("pattern", ["", "  ", "/", "!", "# note", "[z-a", "a\\", "[[:odd:]]", "//"])
@pytest.mark.parametrize("option", ["include", "exclude", "ignore"])
def test_what_is_no_pattern_is_said(root: Path, pattern: str, option: str) -> None:
    with pytest.raises(ArgumentError, match=r"which is no pattern\. Write it as in \.gitignore"):
        planned(root, **{option: ("*.md", pattern)})


def test_too_many_patterns_are_refused(root: Path) -> None:
    with pytest.raises(ArgumentError, match="include holds more than 1000 patterns"):
        planned(root, include=("*.md",) * 1001)


def test_gitignore_files_are_heeded_at_every_level_and_the_nearest_decides(root: Path) -> None:
    write(root, ".gitignore", "*.log\n/build/\n# a comment\n!keep.log\nsecret.md\n")
    write(root, "sub/.gitignore", "\ufeff!b.log\r\n/only-here.md\r\n")
    fill(root, "a.log", "keep.log", "build/x.md", "secret.md", "only-here.md", "sub/b.log", "sub/a.log")
    fill(root, "sub/only-here.md", "sub/deep/only-here.md", "sub/build/y.md", "sub/deep/secret.md")
    plan = planned(root)
    assert names(plan) == [
        "keep.log",
        "only-here.md",
        "sub/b.log",
        "sub/build/y.md",
        "sub/deep/only-here.md",
    ]
    assert plan.ignored == {"ignored": 6}


def test_the_setting_comes_before_any_gitignore(root: Path) -> None:
    write(root, ".gitignore", "*.log\n")
    fill(root, "a.log", "b.log", "drafts/c.md", "d.md")
    plan = planned(root, ignore=("drafts/", "!a.log"))
    assert names(plan) == ["a.log", "d.md"]
    assert plan.ignored == {"ignored": 2}


def test_a_folder_in_a_repository_heeds_what_stands_above_it(root: Path) -> None:
    write(root.parent, ".gitignore", "*.md\n")  # not of the repository
    (root / ".git").mkdir()
    write(root, ".gitignore", "*.log\n/docs/drafts/\n/docs/b.md\n")
    write(root, "docs/.gitignore", "!a.log\n")
    fill(
        root, "docs/a.log", "docs/b.md", "docs/c.md", "docs/drafts/d.md", "docs/part/e.log", "docs/part/f.md"
    )
    assert names(planned(root / "docs")) == ["a.log", "c.md", "part/f.md"]
    assert names(planned(root / "docs" / "part")) == ["f.md"]
    # Whoever names an ignored folder means it.
    assert names(planned(root / "docs" / "drafts")) == ["d.md"]


def test_a_gitignore_that_cannot_be_understood_is_no_reason_to_stop(root: Path) -> None:
    (root / ".gitignore").write_bytes(b"[z-a]\n*.log\n\xff\xfe\n!\n")
    write(root, "large/.gitignore", "*.md\n" * 30_000)
    fill(root, "a.log", "b.md", "large/c.md")
    plan = planned(root)
    assert names(plan) == ["b.md", "large/c.md"]
    assert plan.ignored == {"ignored": 1, "not readable": 1}


@posix_only
def test_a_gitignore_that_is_a_link_or_a_pipe_is_not_read(root: Path) -> None:
    write(root.parent, "elsewhere", "*.md\n")
    (root / ".gitignore").symlink_to(root.parent / "elsewhere")
    fill(root, "a.md", "sub/b.md")
    os.mkfifo(root / "sub" / ".gitignore")
    assert names(planned(root)) == ["a.md", "sub/b.md"]


@pytest.mark.parametrize(
    "pattern", ["*a*a*a*a*a*a*a*a*a*b", "*[(a]*[(a]*[(a]*[(a]*[(a]*[(a]*b", "*?*?*?*?*?*?*b"]
)
def test_a_hostile_pattern_does_not_try_all_the_ways_to_fill_its_stars(pattern: str) -> None:
    # Would take longer than the universe has, and the test's time is bounded.
    assert Patterns([pattern]).verdict("deep/" * 20 + "a" * 250) is None
    assert Patterns([pattern]).verdict("deep/" * 20 + "(" + "a" * 200 + "b") is True


@needs_git
@pytest.mark.parametrize("seed", range(8))
def test_the_same_files_are_ignored_as_by_git(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    parts = ["a", "b", "ab", "abc", "a.b", "cab"]
    globs = [
        "a",
        "*",
        "a*",
        "*b",
        "?b",
        "[ab]",
        "[!a]*",
        "*a*b*",
        "a*b*c",
        "**",
        "ab",
        "a.b",
        "\\*",
        "abc",
        "b ",
    ]
    for _ in range(60):
        folder = "/".join(chance.choices(parts, k=chance.randint(0, 3)))
        file = root / folder / f"{chance.choice(parts)}.md"
        if not any(parent.is_file() for parent in file.parents):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x", encoding="utf-8")
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir() and chance.random() < 0.3)]:
        lines = [
            chance.choice(["", "", "!"])
            + chance.choice(["", "", "/", "**/"])
            + "/".join(chance.choices(globs, k=chance.randint(1, 2)))
            + chance.choice(["", "", "/", ".md", "*.md", "/**"])
            for _ in range(chance.randint(1, 6))
        ]
        (folder / ".gitignore").write_text("\n".join(lines), encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout.split("\0")
    kept = [name for name in listed if name and not name.endswith(".gitignore")]
    assert sorted(names(planned(root))) == sorted(kept)


@posix_only
def test_links_to_folders_are_not_followed_and_no_walk_runs_in_circles(root: Path) -> None:
    fill(root, "sub/a.md")
    fill(root.parent, "elsewhere/b.md")
    (root / "sub" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "other").symlink_to(root.parent / "elsewhere")
    plan = planned(root)
    assert names(plan) == ["sub/a.md"]
    assert plan.ignored == {"broken link": 1, "link to a folder": 2}


@posix_only
def test_a_link_to_a_file_stands_for_the_file_itself(root: Path) -> None:
    outside = root.parent / "outside.md"
    write(root.parent, "outside.md", "# Outside\n")
    fill(root, "a.md", ".hidden/b.md", "z/c.md")
    (root / "one.md").symlink_to(outside)
    (root / "two.txt").symlink_to(outside)
    (root / "again.md").symlink_to("z/c.md")
    (root / "smuggled.md").symlink_to(".hidden/b.md")
    (root / "gone.md").symlink_to("nowhere.md")
    plan = planned(root)
    assert names(plan) == ["a.md", str(outside), "z/c.md"]
    assert plan.ignored == {
        "broken link": 1,
        "hidden": 1,
        "link to a file that is indexed by its own name": 3,
    }
    # Where the walk does not come by, the link is the only way there.
    assert names(planned(root, recursive=False)) == ["a.md", "z/c.md", str(outside), ".hidden/b.md"]


@posix_only
def test_a_link_to_a_secret_is_refused_whatever_its_name(root: Path) -> None:
    fill(root.parent, "user/.ssh/config.md", "user/id_rsa")
    (root / "notes.md").symlink_to(root.parent / "user" / ".ssh" / "config.md")
    (root / "key.md").symlink_to(root.parent / "user" / "id_rsa")
    (root / "zero.md").symlink_to("/dev/zero")
    (root / "mem.md").symlink_to("/proc/self/environ")
    plan = planned(root)
    assert names(plan) == []
    assert plan.ignored == {"may hold secrets": 3, "not a regular file": 1}


@posix_only
def test_pipes_and_odd_names_are_counted(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.md"))).write_text("x", encoding="utf-8")
    odd = Path(os.fsdecode(os.fsencode(root) + b"/fold\xe9r"))
    odd.mkdir()
    (odd / "a.md").write_text("x", encoding="utf-8")
    fill(root, "Größe 数据 🙂.md", "new\nline.md")
    plan = planned(root)
    assert names(plan) == ["Größe 数据 🙂.md", "new\nline.md"]
    assert plan.ignored == {"name is not valid text": 2, "not a regular file": 1}


@posix_only
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_counted(root: Path) -> None:
    fill(root, "a.md", "closed/b.md")
    (root / "closed").chmod(0)
    try:
        plan = planned(root)
        with pytest.raises(SourceError, match="cannot be read"):
            planned(root / "closed")
    finally:
        (root / "closed").chmod(0o755)
    assert names(plan) == ["a.md"]
    assert plan.ignored == {"not readable": 1}


def test_the_database_itself_is_no_document(root: Path) -> None:
    fill(root, "a.md", "memory/database.json", "memory/lance/x.md", "memory2/b.md")
    plan = planned(root, own=root / "memory")
    assert names(plan) == ["a.md", "memory2/b.md"]
    assert plan.ignored == {"the database itself": 1}
    with pytest.raises(SourceForbidden, match="belongs to the database itself"):
        planned(root / "memory" / "lance", own=root / "memory")


def test_a_folder_that_cannot_be_walked_is_said_in_a_sentence(root: Path) -> None:
    fill(root, "Notes/a.md", "file.md", "user/.ssh/x.md")
    for folder, error, words in (
        (root / "Noets", SourceNotFound, f"There is no folder {root / 'Noets'}. Did you mean Notes?"),
        (root / "no" / "way", SourceNotFound, f"the folder {root} has no no."),
        (root / "file.md", SourceError, f"{root / 'file.md'} is not a folder. Name its folder"),
        (root / "file.md" / "x", SourceNotFound, f"{root / 'file.md'} is a file, not a folder."),
        (
            root / "user" / ".ssh",
            SourceForbidden,
            "where keys and credentials are kept. Choose another folder.",
        ),
        ("", SourceError, "The path is empty. Give the path of a folder."),
        ("https://example.org/", SourceError, "is an address, not a path."),
        ("a\0b", SourceError, "NUL"),
    ):
        with pytest.raises(SourceError) as caught:
            folders.resolve(str(folder))
        assert type(caught.value) is error
        assert words in str(caught.value)


def test_a_folder_may_be_named_in_any_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root, "sub/a.md")
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(root))
    for name in ("sub", "./sub/", "sub/../sub", str(root / "sub"), "~/sub"):
        assert folders.resolve(name) == root / "sub"


def test_a_walk_can_be_given_up(root: Path) -> None:
    fill(root, *(f"{n}/a.md" for n in range(20)))
    calls = 0

    def checkpoint() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise Stopped("enough")

    options = Options(is_supported=is_supported, max_bytes=1000)
    with pytest.raises(Stopped):
        folders.plan(root, options, {}, checkpoint=checkpoint)
    assert calls == 5


def test_more_files_than_memory_should_hold_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpvectordb.folders.walk.MOST_FILES", 5)
    fill(root, *(f"{n}.md" for n in range(4)), *(f"sub/{n}.md" for n in range(4)))
    with pytest.raises(SourceError, match=r"holds more than 5 files\. Name a smaller folder"):
        planned(root)


@pytest.mark.parametrize(
    "name",
    [
        *("a.md", "A.MD", "README", "Makefile", "CMakeLists.txt", "v1.2", "a.", "x.png", "x.7z", "x.tar.gz"),
        *("Dockerfile", "x.odd-type", "a.md~", ".", "..md", ".md", "Gemfile", "Rakefile.bak", "a\\b.md"),
    ],
)
def test_a_name_is_supported_if_an_ingest_would_look_at_the_file(name: str) -> None:
    assert is_supported(name) == (by_name(name) is not None or not extension_of(name))


def header(path: Path, *, created_after_s: float = 60.0, **changes: object) -> Header:
    info = path.stat()
    created = (info.st_mtime_ns / 1e9) + created_after_s
    values: dict[str, object] = {
        "doc_id": "id",
        "size": info.st_size,
        "mtime_ns": info.st_mtime_ns,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created)) + "+00:00",
        "chunk_count": 1,
    }
    return Header(**values | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "is_trusted"),
    [
        ({}, True),
        ({"created_after_s": 3.0}, True),
        ({"created_after_s": 1.0}, False),
        ({"created_after_s": -60.0}, False),
        ({"size": 1}, False),
        ({"mtime_ns": LONG_AGO_NS + 1}, False),
        ({"mtime_ns": 0}, False),
    ],
)
def test_size_and_time_are_trusted_but_not_of_a_file_just_written(
    root: Path, changes: dict[str, object], is_trusted: bool
) -> None:
    path = write(root, "a.md", "# A\n")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    plan = planned(root, {str(path): header(path, **changes)})  # type: ignore[arg-type]
    assert (names(plan), plan.unchanged) == (([], 1) if is_trusted else (["a.md"], 0))


def test_refresh_means_all_of_them(root: Path) -> None:
    path = write(root, "a.md", "# A\n")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    options = Options(is_supported=is_supported, max_bytes=1000)
    plan = folders.plan(root, options, {str(path): header(path)}, refresh=True)
    assert (names(plan), plan.unchanged) == (["a.md"], 0)


def test_unchanged_files_that_were_to_have_other_tags_are_told(root: Path) -> None:
    headers: dict[str, Header] = {}
    for name in ("a.md", "b.md", "c.md"):
        path = write(root, name, "# A\n")
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
        headers[str(path)] = header(path, tags=("x",) if name == "a.md" else ())
    options = Options(is_supported=is_supported, max_bytes=1000)
    plan = folders.plan(root, options, headers, differs=lambda known: set(known.tags) != {"x"})
    assert (plan.unchanged, plan.differing) == (3, 2)


def test_the_headers_of_a_library_are_of_its_files_alone(root: Path, tmp_path: Path) -> None:
    with words_db(tmp_path / "db") as db:
        assert db._store.read.headers("default") == {}
        path = write(root, "a.md", "# A\n\nSome words.\n")
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
        done = db.ingest_file(str(path), tags=["x", "y"], metadata={"k": [1]}).document
        db.ingest_file(str(path), library="other")
        assert db._store.read.headers("nothing") == {}
        plain = Header(
            doc_id=done.doc_id,
            size=path.stat().st_size,
            mtime_ns=LONG_AGO_NS,
            created_at=done.created_at,
            chunk_count=1,
        )
        assert db._store.read.headers("default") == {str(path): plain}
        (with_words,) = db._store.read.headers("default", with_words=True).values()
        assert (with_words.tags, with_words.metadata) == (("x", "y"), {"k": [1]})
        assert names(planned(root, db._store.read.headers("default"))) == []
        write(root, "a.md", "# A\n\nOther words.\n")
        assert names(planned(root, db._store.read.headers("default"))) == ["a.md"]


def test_a_file_that_is_read_just_after_it_was_written_is_looked_at_again(root: Path, tmp_path: Path) -> None:
    with words_db(tmp_path / "db") as db:
        db.ingest_file(str(write(root, "a.md", "# A\n\nSome words.\n")))
        (known,) = db._store.read.headers("default").values()
        assert known.mtime_ns == 0
        assert names(planned(root, db._store.read.headers("default"))) == ["a.md"]


COUNTING = """
import json, os, sys
from pathlib import Path
from mcpvectordb import folders
from mcpvectordb.convert import is_supported
from mcpvectordb.store import Store

root, home = sys.argv[1:]
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event in ("open", "os.open") else None)
store = Store(Path(home))
options = folders.Options(is_supported=is_supported, max_bytes=10**6, include=("*.md",))
plan = folders.plan(folders.resolve(root), options, store.read.headers("default"))
inside = [os.path.basename(path) for path in opened if path.startswith(root)]
print(json.dumps({"opened": inside, "unchanged": plan.unchanged, "changed": [f.path for f in plan.changed]}))
"""


def test_of_an_unchanged_folder_no_file_is_opened(root: Path, tmp_path: Path) -> None:
    write(root, "sub/.gitignore", "*.log\n")
    paths = [
        write(root, f"{part}{n}.md", f"# {n}\n\nSome words.\n") for part in ("sub/", "") for n in range(10)
    ]
    for path in paths:
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    with words_db(tmp_path / "db") as db:
        for path in paths:
            db.ingest_file(str(path))
    changed = write(root, "sub/3.md", "# 3\n\nNew words.\n")
    run = subprocess.run(
        [sys.executable, "-c", COUNTING, str(root), str(tmp_path / "db")],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        timeout=120,
    )
    assert json.loads(run.stdout) == {"opened": [".gitignore"], "unchanged": 19, "changed": [str(changed)]}
