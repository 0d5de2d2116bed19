"""Downloads from a stand-in of the hub on loopback: fresh, resumed, wrong, refused, silent, shared."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub import StandIn, stand_in
from mcpvectordb.embed import Hub, Model, find_model, is_available, load
from mcpvectordb.embed.download import Download, Downloads
from mcpvectordb.embed.files import locate, verified
from mcpvectordb.embed.hub import parse_repository
from mcpvectordb.embed.transfer import connected, list_files
from mcpvectordb.errors import ConfigError, EmbeddingError, HubUnavailable, Stopped
from support import PATIENCE_S, environment, wait_until

# The real offline model, as if no package carried it: real files with pinned hashes, and 23 MB.
REMOTE = dataclasses.replace(find_model("minilm"), package="")
FILES = locate(find_model("minilm"))
SMALL = Model(
    name="small",
    repository="test/small",
    revision="a" * 40,
    precision="int8",
    dimensions=8,
    max_tokens=64,
    files=tuple(dataclasses.replace(file, sha256="") for file in REMOTE.files),
)
LARGE = bytes(range(256)) * 400  # 102,400 bytes
CONTENT = {"model": LARGE, "tokenizer": b'{"a": 1}'}


@pytest.fixture
def server() -> Iterator[StandIn]:
    with stand_in() as server:
        yield server


@pytest.fixture
def hub(server: StandIn, tmp_path: Path) -> Hub:
    return Hub(cache=tmp_path / "hub", endpoint=server.url, connect_s=5, stall_s=5)


def pinned(model: Model, content: dict[str, bytes]) -> Model:
    files = (dataclasses.replace(f, sha256=hashlib.sha256(content[f.role]).hexdigest()) for f in model.files)
    return dataclasses.replace(model, files=tuple(files))


def brought(hub: Hub, model: Model) -> Download:
    """A download that has come to its end."""
    download = Download(hub, model, "onnx")
    download.start()
    assert download.over.wait(PATIENCE_S)
    return download


def failed(hub: Hub, model: Model) -> str:
    download = brought(hub, model)
    assert download.error is not None
    assert not is_available(model, hub)
    return str(download.error)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_fresh_download_is_checked_and_gives_the_vectors_of_the_package(server: StandIn, hub: Hub) -> None:
    server.put_model(REMOTE, FILES)
    assert not is_available(REMOTE, hub)
    download = brought(hub, REMOTE)
    assert download.error is None
    assert download.progress.percent == 100
    assert verified(REMOTE, "model", hub).read_bytes() == FILES["model"].read_bytes()
    here = load(REMOTE, hub=hub).embed_query("keys")
    assert here @ load(find_model("minilm")).embed_query("keys") > 0.9999


def test_the_files_lie_where_other_programs_of_the_hub_look_for_them(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    brought(hub, SMALL)
    snapshot = hub.cache / "models--test--small" / "snapshots" / SMALL.revision
    assert (snapshot / "onnx" / "model_quint8_avx2.onnx").read_bytes() == LARGE
    assert not list(hub.cache.rglob("*.incomplete"))


def test_what_is_here_needs_no_network_at_all(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    brought(hub, SMALL)
    asked = len(server.requests)
    assert brought(hub, SMALL).error is None
    away = dataclasses.replace(hub, endpoint=f"http://127.0.0.1:{closed_port()}", is_offline=True)
    assert is_available(SMALL, away)
    assert brought(dataclasses.replace(away, is_offline=False), SMALL).error is None
    assert len(server.requests) == asked


def test_a_file_that_another_program_left_in_the_cache_is_not_fetched_again(
    server: StandIn, hub: Hub
) -> None:
    server.put_model(SMALL, CONTENT)
    there = hub.snapshot(SMALL.repository, SMALL.revision) / "onnx" / "model_quint8_avx2.onnx"
    there.parent.mkdir(parents=True)
    there.write_bytes(LARGE)
    assert brought(hub, SMALL).error is None
    assert server.downloads() == []


@pytest.mark.parametrize("absolute", [True, False])
def test_a_redirect_is_followed_to_an_address_and_to_a_path(
    server: StandIn, hub: Hub, absolute: bool
) -> None:
    server.absolute = absolute
    server.put_model(SMALL, CONTENT)
    assert brought(hub, SMALL).error is None
    assert len(server.downloads()) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(server: StandIn, hub: Hub) -> None:
    server.put_model(pinned(SMALL, CONTENT), CONTENT)
    server.cuts = [40_000, 30_000]
    assert brought(hub, pinned(SMALL, CONTENT)).error is None
    assert [headers.get("range") for headers in server.downloads()] == [None, "bytes=40000-", "bytes=70000-"]


def test_an_answer_without_a_length_that_breaks_off_is_gone_on_with_too(server: StandIn, hub: Hub) -> None:
    server.put_model(pinned(SMALL, CONTENT), CONTENT)
    server.has_lengths, server.cuts = False, [40_000]
    assert brought(hub, pinned(SMALL, CONTENT)).error is None
    assert [headers.get("range") for headers in server.downloads()] == [None, "bytes=40000-"]


def test_an_answer_that_does_not_end_is_not_read_past_the_files_length(server: StandIn, hub: Hub) -> None:
    server.put_model(pinned(SMALL, CONTENT), CONTENT)
    server.has_lengths, server.is_endless = False, True
    assert "is not the file expected" in failed(hub, pinned(SMALL, CONTENT))
    assert not list(hub.cache.rglob("*.incomplete"))


def test_a_download_that_was_given_up_is_resumed_by_the_next_one(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    server.hold_after = 50 * 1024
    first = Download(hub, SMALL, "onnx")
    first.start()
    assert server.holding.wait(PATIENCE_S)
    # Sent is not arrived: the client may not have got round to reading more than the small files.
    wait_until(lambda: first.progress.done > sum(map(len, CONTENT.values())) - len(LARGE))
    first.give_up()
    server.go.set()
    assert first.over.wait(PATIENCE_S)
    assert isinstance(first.error, Stopped)
    # Whatever had arrived is there, and is not asked for again.
    (partial,) = hub.cache.rglob("*.incomplete")
    have = partial.stat().st_size
    assert 0 < have <= len(LARGE)
    assert brought(hub, SMALL).error is None
    assert server.downloads()[-1].get("range") == f"bytes={have}-"


def test_a_beginning_that_is_not_of_this_file_is_thrown_away_and_fetched_anew(
    server: StandIn, hub: Hub
) -> None:
    model = pinned(SMALL, CONTENT)
    server.put_model(model, CONTENT)
    partial = hub.partial(model.repository, model.files[0].sha256)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 5000)
    assert brought(hub, model).error is None
    assert verified(model, "model", hub).read_bytes() == LARGE


def test_a_beginning_that_is_all_of_the_file_is_taken_as_it_is(server: StandIn, hub: Hub) -> None:
    model = pinned(SMALL, CONTENT)
    server.put_model(model, CONTENT)
    partial = hub.partial(model.repository, model.files[0].sha256)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(LARGE)
    assert brought(hub, model).error is None


def test_a_file_that_is_not_the_pinned_one_is_refused_before_it_is_fetched(server: StandIn, hub: Hub) -> None:
    model = pinned(SMALL, {**CONTENT, "model": b"another"})
    server.put_model(model, CONTENT)
    said = failed(hub, model)
    assert "is not the file expected" in said
    assert "mcpvectordb model download" in said
    assert server.downloads() == []


def test_bytes_that_do_not_have_the_hash_are_not_kept(server: StandIn, hub: Hub) -> None:
    model = pinned(SMALL, CONTENT)
    server.put_model(model, CONTENT)
    # The listing is right and the file is not: a damaged copy on the way.
    server.repositories[SMALL.repository].damaged.add(SMALL.files[0].path)
    assert "is not the file expected" in failed(hub, model)
    assert not list(hub.cache.rglob("*.incomplete"))
    server.repositories[SMALL.repository].damaged.clear()
    assert brought(hub, model).error is None


def test_a_small_file_is_checked_by_gits_own_hash(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    server.repositories[SMALL.repository].damaged.add("tokenizer.json")
    assert "tokenizer.json of test/small is not the file expected" in failed(hub, SMALL)


def test_a_revision_that_is_not_there_is_named(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    said = failed(hub, dataclasses.replace(SMALL, revision="b" * 40))
    assert f"has no revision {'b' * 40} of test/small" in said
    assert "mcpvectordb model download" in said


def test_a_repository_that_is_not_there_is_named(server: StandIn, hub: Hub) -> None:
    assert "has no test/small that is open to all" in failed(hub, SMALL)


def test_a_file_that_the_repository_lacks_is_named(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, {"tokenizer": b"{}"})
    assert "test/small has no onnx/model_quint8_avx2.onnx at revision" in failed(hub, SMALL)


def test_a_refused_connection_is_an_error_that_names_the_command(hub: Hub) -> None:
    away = dataclasses.replace(hub, endpoint=f"http://127.0.0.1:{closed_port()}")
    download = brought(away, SMALL)
    assert isinstance(download.error, HubUnavailable)
    assert "cannot be reached" in str(download.error)
    assert "mcpvectordb model download" in str(download.error)


def test_a_hub_that_accepts_and_never_answers_is_given_up(server: StandIn, hub: Hub) -> None:
    server.is_silent = True
    download = brought(dataclasses.replace(hub, stall_s=0.3), SMALL)
    assert isinstance(download.error, HubUnavailable)
    assert "no answer within the time allowed" in str(download.error)


def test_a_download_that_stalls_is_not_begun_again_which_would_only_wait_as_long_again(
    server: StandIn, hub: Hub
) -> None:
    server.put_model(SMALL, CONTENT)
    server.hold_after = 50 * 1024
    assert "nothing came for 0.3 s" in failed(dataclasses.replace(hub, stall_s=0.3), SMALL)
    assert len(server.downloads()) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"Content-Length: 1000\r\n\r\n{", "cannot be reached: peer closed connection"),
        (b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\n{", "does not answer as the hub does"),
    ],
)
def test_a_listing_that_breaks_off_or_is_garbled_means_that_the_hub_is_away(
    server: StandIn, hub: Hub, answer: bytes, said: str
) -> None:
    server.raw = b"HTTP/1.1 200 OK\r\n" + answer
    download = brought(hub, SMALL)
    assert isinstance(download.error, HubUnavailable)
    assert said in str(download.error)


def test_names_of_a_listing_that_lead_out_of_the_cache_are_passed_over(server: StandIn, hub: Hub) -> None:
    names = ["../../../out_config.json", "/out_config.json", "a/../../out_config.json", "..\\out_config.json"]
    server.put("test/small", SMALL.revision, dict.fromkeys([*names, "C:/out", "in/config.json"], b"{}"))
    with connected(hub) as client:
        assert list(list_files(client, hub, "test/small", SMALL.revision).files) == ["in/config.json"]


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks9://127.0.0.1:9"), ("SSL_CERT_FILE", "/no/such/file")]
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_named(
    server: StandIn, hub: Hub, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    download = brought(hub, SMALL)
    assert isinstance(download.error, HubUnavailable)
    assert name in str(download.error)
    assert "mcpvectordb model download" in str(download.error)


def test_a_lock_that_cannot_be_taken_is_an_error_that_names_the_folder(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    hub.lock(SMALL.repository, SMALL.revision).mkdir(parents=True)
    assert f"cannot be kept in {hub.cache}" in failed(hub, SMALL)


def test_a_download_to_which_nothing_comes_any_more_is_given_up_and_kept(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    server.hold_after = 50 * 1024
    download = brought(dataclasses.replace(hub, stall_s=0.3), SMALL)
    assert isinstance(download.error, HubUnavailable)
    assert "nothing came for 0.3 s" in str(download.error)
    assert [path.stat().st_size > 0 for path in hub.cache.rglob("*.incomplete")] == [True]


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_hub_that_answers_with_an_error_is_away(server: StandIn, hub: Hub, status: int) -> None:
    server.status = status
    download = brought(hub, SMALL)
    assert isinstance(download.error, HubUnavailable)
    assert f"status {status}" in str(download.error)


def test_an_address_that_is_no_hub_is_said_to_be_none(server: StandIn, hub: Hub) -> None:
    server.status = 200
    assert "does not answer as the hub does. Check HF_ENDPOINT" in failed(hub, SMALL)


def test_offline_and_not_here_says_so_without_a_request(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    said = failed(dataclasses.replace(hub, is_offline=True), SMALL)
    assert "HF_HUB_OFFLINE" in said
    assert "mcpvectordb model download" in said
    assert server.requests == []


def test_a_cache_that_cannot_be_written_is_said_to_be_so(server: StandIn, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    server.put_model(SMALL, CONTENT)
    hub = Hub(cache=tmp_path / "file" / "hub", endpoint=server.url)
    assert "HF_HOME" in failed(hub, SMALL)


def test_two_threads_share_one_download(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    server.hold_after = 50 * 1024
    downloads = Downloads(hub)
    first = downloads.start(SMALL, "onnx")
    assert server.holding.wait(PATIENCE_S)
    assert downloads.start(SMALL, "onnx") is first
    wait_until(lambda: str(downloads.running()).startswith("downloading model small"))
    server.go.set()
    first.wait(lambda: None)
    assert downloads.running() is None


def test_a_download_that_was_given_up_is_not_what_the_next_one_waits_for(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    server.is_silent = True
    downloads = Downloads(hub)
    first = downloads.start(SMALL, "onnx")
    assert server.holding.wait(PATIENCE_S)
    first.give_up()
    second = downloads.start(SMALL, "onnx")
    server.is_silent = False
    server.go.set()
    assert second.over.wait(PATIENCE_S)
    assert second.error is None


def test_what_a_dead_process_said_of_its_download_is_not_believed(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    server.is_silent = True
    status = hub.lock(SMALL.repository, SMALL.revision).with_suffix(".json")
    status.parent.mkdir(parents=True)
    status.write_text('{"done": 1, "total": 2}')
    first, second = Download(hub, SMALL, "onnx"), Download(hub, SMALL, "onnx")
    first.start()
    assert server.holding.wait(PATIENCE_S)
    second.start()
    assert not status.exists()
    server.is_silent = False
    server.go.set()
    assert first.over.wait(PATIENCE_S)
    assert second.over.wait(PATIENCE_S)
    assert second.error is None


def test_a_failure_is_not_repeated_by_whoever_can_do_without(server: StandIn, hub: Hub) -> None:
    downloads = Downloads(hub)
    first = downloads.start(SMALL, "onnx")
    assert first.over.wait(PATIENCE_S)
    assert downloads.start(SMALL, "onnx", retry=False) is first
    server.put_model(SMALL, CONTENT)
    again = downloads.start(SMALL, "onnx")
    again.wait(lambda: None)
    assert is_available(SMALL, hub)


FETCH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_hub import SMALL
from mcpvectordb.embed import Hub
from mcpvectordb.embed.download import Download
download = Download(Hub(cache=Path(sys.argv[1]), endpoint=sys.argv[2]), SMALL, "onnx")
download.start()
seen = set()
while not download.over.wait(0.02):
    if str(download.progress) not in seen:
        seen.add(str(download.progress))
        print(download.progress, file=sys.stderr, flush=True)
sys.exit(download.error is not None)
"""


def fetching(server: StandIn, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, str(cache), server.url, str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
    )


def test_of_two_processes_one_downloads_and_the_other_shows_how_far_it_is(
    server: StandIn, tmp_path: Path
) -> None:
    server.put_model(SMALL, CONTENT)
    server.hold_after = 51_200
    first = fetching(server, tmp_path / "hub")
    assert server.holding.wait(PATIENCE_S)
    second = fetching(server, tmp_path / "hub")
    assert second.stderr
    # Half of the file has come to the first; the second knows it without having asked for a byte.
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(second.stderr or []))
    reader.start()
    wait_until(lambda: any("downloading model small" in line for line in said))
    server.go.set()
    assert first.communicate(timeout=PATIENCE_S)[0] == ""
    assert second.wait(PATIENCE_S) == 0
    reader.join(PATIENCE_S)
    assert first.returncode == 0
    assert len(server.downloads()) == 1
    assert second.stdout
    assert second.stdout.read() == ""


def test_the_other_process_takes_over_when_the_first_one_dies(server: StandIn, tmp_path: Path) -> None:
    server.put_model(SMALL, CONTENT)
    server.hold_after = 51_200
    first = fetching(server, tmp_path / "hub")
    assert server.holding.wait(PATIENCE_S)
    second = fetching(server, tmp_path / "hub")
    first.kill()
    first.communicate(timeout=PATIENCE_S)
    server.go.set()
    _, said = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, said
    assert is_available(SMALL, Hub(cache=tmp_path / "hub"))


def test_the_hub_is_what_its_own_variables_say(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert Hub.of({"HF_HOME": str(tmp_path)}).cache == tmp_path / "hub"
    assert Hub.of({"HF_HUB_CACHE": str(tmp_path / "c"), "HF_HOME": "x"}).cache == tmp_path / "c"
    assert Hub.of({"XDG_CACHE_HOME": str(tmp_path)}).cache == tmp_path / "huggingface" / "hub"
    assert Hub.of(home).cache.parts[-3:] == (".cache", "huggingface", "hub")
    assert Hub.of({"HF_ENDPOINT": "http://mirror.example/"}).endpoint == "http://mirror.example"
    assert [Hub.of({"HF_HUB_OFFLINE": value}).is_offline for value in ("1", "TRUE", "0", "")] == [
        True,
        True,
        False,
        False,
    ]
    for wrong in ("mirror.example", "http://", "http://[::1", "http://mirror.example:x"):
        with pytest.raises(ConfigError, match="HF_ENDPOINT"):
            Hub.of({"HF_ENDPOINT": wrong})
    with pytest.raises(ConfigError, match="HF_HOME is not valid"):
        Hub.of({"HF_HOME": "~nobody-of-that-name/hf"})


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("org/name", ("org/name", "")),
        ("org/name@main", ("org/name", "main")),
        ("org/name@refs/pr/1", ("org/name", "refs/pr/1")),
        ("name", None),
        ("../name", None),
        ("org/..", None),
        ("org/name@../x", None),
        ("org/a/b", None),
        ("/etc/passwd", None),
    ],
)
def test_a_repository_has_two_names_and_leads_nowhere_else(text: str, parsed: tuple[str, str] | None) -> None:
    assert parse_repository(text) == parsed


def test_the_command_downloads_and_keeps_stdout_clean(server: StandIn, tmp_path: Path) -> None:
    tiny = Path(__file__).parent / "data" / "tiny-nomic"
    files = {p.relative_to(tiny).as_posix(): p.read_bytes() for p in tiny.rglob("*") if p.is_file()}
    server.put("test/tiny-nomic", "c" * 40, files)
    settings = {
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": server.url,
        "MCPVECTORDB_MODEL": "test/tiny-nomic",
        "MCPVECTORDB_MODEL_DOCUMENT_PREFIX": "search_document: ",
        "MCPVECTORDB_MODEL_QUERY_PREFIX": "search_query: ",
    }
    command = [sys.executable, "-m", "mcpvectordb", "model", "download"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=environment(tmp_path / "db", **settings),
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )

    first = run()
    assert (first.returncode, first.stdout) == (0, ""), first.stderr
    assert "The model is on this machine." in first.stderr
    asked = len(server.requests)
    again = run()
    assert (again.returncode, again.stdout) == (0, "")
    assert "already" in again.stderr
    assert len(server.requests) == asked
    settings["MCPVECTORDB_MODEL"] = "test/other"
    wrong = run()
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "has no test/other that is open to all" in wrong.stderr


def test_an_error_while_writing_is_ours(server: StandIn, hub: Hub) -> None:
    server.put_model(SMALL, CONTENT)
    blocked = hub.snapshot(SMALL.repository, SMALL.revision) / "onnx"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where a folder has to be")
    download = brought(hub, SMALL)
    assert isinstance(download.error, EmbeddingError)
    assert "cannot be kept" in str(download.error)
