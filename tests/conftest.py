"""Fixtures that more than one module uses: a server over stdio, and a library that is a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from converting import CONVERTER
from httpserver import HttpServer
from knowledge import Agent, an_agent, serving_engine, serving_gateway
from support import Server, serving

# `make test` does without torch; `make test-torch` has an environment of its own with it.
collect_ignore = [] if find_spec("sentence_transformers") else ["with_torch"]


@pytest.fixture(scope="module")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module, in a folder of its own and with a home that holds secrets."""
    root = tmp_path_factory.mktemp("stdio").resolve()
    folder, user = root / "work", root / "user"
    folder.mkdir()
    (user / ".ssh").mkdir(parents=True)
    (user / ".ssh" / "id_rsa").write_text("a key nobody may index", encoding="utf-8")
    (user / "in my home.md").write_text("# At home\n\nThe kettle is on.\n", encoding="utf-8")
    with serving(root / "database", folder=folder, HOME=str(user), USERPROFILE=str(user)) as server:
        yield server


@pytest.fixture
def library(request: pytest.FixtureRequest) -> str:
    """A library that no other test of the module uses."""
    return request.node.name


@pytest.fixture(scope="session")
def engine_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of the one engine."""
    return tmp_path_factory.mktemp("engine") / "database"


@pytest.fixture(scope="session")
def engine(engine_home: Path) -> Iterator[HttpServer]:
    """One engine for all tests of the knowledge base that leave it running. It demands its key."""
    with serving_engine(engine_home) as server:
        yield server


@pytest.fixture(scope="session")
def gateway(engine: HttpServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One gateway in front of it, open to everybody."""
    url = f"http://127.0.0.1:{engine.port}"
    with serving_gateway(tmp_path_factory.mktemp("gateway"), url) as server:
        yield server


@pytest.fixture(scope="module")
def agent(gateway: HttpServer) -> Iterator[Agent]:
    with an_agent(gateway) as one:
        yield one


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    """A tag that no other test uses."""
    return f"test:{request.node.name}"


@pytest.fixture(scope="session", autouse=True)
def _converter_ends() -> Iterator[None]:
    yield
    CONVERTER.stop()
