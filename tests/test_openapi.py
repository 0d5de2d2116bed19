"""The engine keeps to its own description: schemathesis calls it as it is described, rightly and wrongly."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from httpserver import HttpServer
from knowledge import API, ENGINE_KEY, api
from mcpvectordb.engine import openapi
from mcpvectordb.engine.operations import OPERATIONS

EXAMPLES = 25
schema = schemathesis.openapi.from_dict(openapi.description(has_key=True))


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_every_call_keeps_to_the_description(case: schemathesis.Case, engine: HttpServer) -> None:
    case.call_and_validate(
        base_url=f"http://{engine.host}:{engine.port}",
        headers={"Authorization": f"Bearer {ENGINE_KEY}"},
    )


def test_the_description_is_served_as_it_is_tested(engine: HttpServer) -> None:
    with api(engine) as client:
        for path in ("/openapi.json", f"{API}/openapi.json"):
            assert client.get(path).json() == openapi.description(has_key=True)


def test_the_description_is_valid_openapi_and_names_every_call() -> None:
    described = openapi.description(has_key=True)
    schema.validate()
    calls = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert calls == {(operation.method, API + operation.path) for operation in OPERATIONS}


@pytest.mark.parametrize("path", ["/jobs", "/documents", "/status"])
def test_head_is_answered_like_get(engine: HttpServer, path: str) -> None:
    with api(engine) as client:
        answer: httpx.Response = client.head(API + path)
        assert (answer.status_code, answer.content) == (200, b"")
