"""The HTTP API for programs: every request has an answer or one clear problem, and never a traceback."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from allotment import Cluster
from allotment.queries import table
from allotment.queries.openapi import DESCRIPTION, PREFIX, openapi
from allotment.queries.table import QUERIES
from allotment.watched.cluster import view_of
from allotment.web.problems import error_handlers
from allotment.web.program_api import MAX_BODY, ViewOf, program_routes
from tests.program_server import ProgramServer
from tests.unit.queries.manifests import APP, BROKEN

COMMENT = "# " + "x" * 78 + "\n"


def application(view_of: ViewOf) -> Starlette:
    return Starlette(routes=program_routes(view_of, asyncio.Event()), exception_handlers=error_handlers())


@pytest.fixture(scope="module")
def server() -> Iterator[ProgramServer]:
    with ProgramServer(view_of(Cluster.fleet("t4-4x-pcie"))) as found:
        yield found


def test_a_question_by_url_and_by_body(server: ProgramServer) -> None:
    by_url = server.get("explain-code", code="devices-in-use")
    assert by_url.status == 200
    assert by_url.data["summary"] == "Matching devices exist, but too few of them are free."
    assert server.post("explain-code", code="devices-in-use").data == by_url.data


def test_lists_of_a_url_are_repeated_parameters(server: ProgramServer) -> None:
    assert server.get("free", tolerations=["a=b:NoSchedule", "c"]).status == 200
    reply = server.get("free", tolerations=["a:b"])
    assert reply.data["detail"].startswith("tolerations: expected KEY[=VALUE][:EFFECT]")


def test_the_description_is_served(server: ProgramServer) -> None:
    assert server.send("GET", DESCRIPTION).data == json.loads(json.dumps(openapi()))


def test_answers_say_about_which_state_of_the_cluster_they_are(server: ProgramServer) -> None:
    headers = server.get("free").headers
    assert headers["allotment-revision"] == "1"
    assert headers["allotment-connected"] == "true"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("query", "fields", "status", "detail"),
    [
        ("why", {"name": 1}, 400, "name: expected str, found int"),
        ("why", {"nam": "x"}, 400, "unknown field 'nam'"),
        ("why", {"name": "nope"}, 400, "pod or claim not found: 'nope'"),
        ("why", {"manifests": "  \n"}, 400, "manifests: expected manifests, found an empty text"),
        ("why", {"manifests": BROKEN}, 422, "<text>:2:1: invalid YAML"),
        ("why", {"manifests": "/etc/passwd"}, 422, "<text>:1:1: expected an object, found a single value"),
        ("why", {"manifests": "-"}, 422, "<text>:1:"),
        ("why", {"manifests": "kind: Pod"}, 422, "<text>:1:1: Object 'apiVersion' is missing"),
        ("would-fit", {}, 400, "manifests: expected manifests or devices, found neither"),
        ("would-fit", {"gpus": 1, "manifests": APP}, 400, "manifests: expected manifests or devices, found both"),
        ("would-fit", {"gpus": -1}, 400, "gpus: expected int >= 0"),
        ("would-fit", {"gpus": 1, "copies": 10**6}, 400, "copies: expected int <= 256"),
        ("would-fit", {"vendor": "intel"}, 400, "vendor: invalid enum value 'intel'"),
        ("would-fit", {"memory": "many"}, 400, "memory: "),
        ("free", {"tolerations": "gpu"}, 400, "tolerations: expected array, found str"),
        ("check", {}, 400, "manifests: expected manifests, found none"),
        ("check", {"manifests": APP, "select": ["X9"]}, 400, "select: unknown"),
        ("what-if", {"changes": [{"action": "drain", "target": "x"}]}, 400, "changes[0]: "),
        ("what-if", {"changes": [{"action": "burn"}]}, 400, "changes[0].action: invalid enum value 'burn'"),
        ("what-if", {"changes": "drain"}, 400, "changes: expected array, found str"),
        ("plan", {"manifests": APP, "catalog": ["/etc/passwd"]}, 400, "catalog: unknown provider '/etc/passwd'"),
        ("plan", {"manifests": APP, "catalog": ["aws,./prices.csv"]}, 400, "catalog: unknown provider './prices.csv'"),
        ("plan", {"manifests": APP, "timeLimit": 3600}, 400, "time_limit: expected at most 20 seconds, found 3600"),
        ("plan", {"manifests": APP, "budget": "cheap"}, 400, "budget: "),
        ("explain-code", {}, 400, "object missing required field code"),
        ("explain-code", {"code": ""}, 400, "code: unknown code ''"),
        ("wy", {}, 404, "unknown query 'wy'"),
    ],
)
def test_a_wrong_request_is_one_problem(
    query: str, fields: dict[str, Any], status: int, detail: str, server: ProgramServer
) -> None:
    reply = server.post(query, **fields)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")
    assert reply.data["detail"].startswith(detail), reply.data
    assert reply.data["status"] == status
    assert reply.data["type"].startswith("urn:allotment:problem:")
    assert reply.data["title"]
    assert reply.data["instance"] == f"{PREFIX}{query}"
    assert "Traceback" not in reply.body.decode()


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "invalid JSON: "),
        (b"[]", "expected object, found array"),
        (b'"why"', "expected object, found str"),
        (b"\xff\xfe", "invalid JSON: "),
        (b'{"name": "\xff"}', "invalid JSON: "),
        (b'{"name":' + b"[" * 200_000, "name: expected str, found array"),
        (b"[" * 200_000, "expected object, found array"),
        (b"null", "expected object, found null"),
    ],
)
def test_a_wrong_body_is_one_problem(body: bytes, detail: str, server: ProgramServer) -> None:
    reply = server.send("POST", f"{PREFIX}why", body)
    assert (reply.status, reply.data["detail"][: len(detail)]) == (400, detail)


def test_an_empty_body_is_a_request_without_fields(server: ProgramServer) -> None:
    assert server.send("POST", f"{PREFIX}why", b"").data == {"fits": True, "answers": [], "notes": []}


def test_manifests_of_5_megabytes_are_answered(server: ProgramServer) -> None:
    text = APP + COMMENT * (4_800_000 // len(COMMENT))
    reply = server.post("why", manifests=text)
    assert (reply.status, reply.data["fits"]) == (200, False)


def test_larger_requests_are_rejected(server: ProgramServer) -> None:
    reply = server.post("check", manifests="#" * MAX_BODY)
    assert (reply.status, reply.data["detail"]) == (413, "expected at most 5 MiB")


def test_deeply_nested_manifests_are_one_problem(server: ProgramServer) -> None:
    for text in ("[" * 50_000, "a: " + "{a: " * 5_000, "- " * 20_000 + "x"):
        reply = server.post("why", manifests=text)
        assert reply.status == 422, reply.data


def test_aliases_that_grow_without_end_are_one_problem(server: ProgramServer) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    reply = server.post("check", manifests="\n".join(lines))
    assert reply.status in (200, 422)
    assert len(reply.body) < 100_000


def test_only_json_is_accepted(server: ProgramServer) -> None:
    """A form of another page cannot send it unnoticed."""
    reply = server.send("POST", f"{PREFIX}why", b"name=x", "application/x-www-form-urlencoded")
    assert (reply.status, reply.data["title"]) == (415, "The request is not JSON")


@pytest.mark.parametrize(
    ("method", "query", "allowed"), [("GET", "check", "POST"), ("DELETE", "why", "GET, HEAD, POST")]
)
def test_other_methods_are_rejected(method: str, query: str, allowed: str, server: ProgramServer) -> None:
    reply = server.send(method, f"{PREFIX}{query}")
    assert (reply.status, reply.headers["allow"]) == (405, allowed)


def test_a_bug_is_logged_and_not_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(table.Query, "answer", broken)
    view = view_of(Cluster())

    async def view_now(_: Request) -> Any:
        return view

    client = TestClient(application(view_now), raise_server_exceptions=False)
    with caplog.at_level(logging.ERROR):
        reply = client.get(f"{PREFIX}why")
    assert (reply.status_code, reply.json()["detail"]) == (500, "ZeroDivisionError")
    assert "secret" not in reply.text
    assert "ZeroDivisionError: secret" in caplog.text


def test_a_visitor_without_rights_gets_a_problem() -> None:
    async def view_of_visitor(_: Request) -> Any:
        raise HTTPException(401, "expected a token", {"WWW-Authenticate": "Bearer"})

    reply = TestClient(application(view_of_visitor)).get(f"{PREFIX}free")
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert reply.json() == {
        "type": "urn:allotment:problem:rejected", "title": "The request was rejected", "status": 401,
        "detail": "expected a token", "instance": f"{PREFIX}free",
    }  # fmt: skip


def test_every_query_has_a_route(server: ProgramServer) -> None:
    for query in QUERIES:
        assert server.post(query.name).status in (200, 400), query.name
