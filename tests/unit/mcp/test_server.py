"""The MCP server: read-only tools with schemas, short answers, and problems instead of failures."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from allotment import Cluster
from allotment.queries import table
from allotment.queries.brief import BRIEF
from allotment.queries.table import QUERIES
from allotment.watched.cluster import view_of
from tests.program_server import Tools, text_of, tools
from tests.unit.queries.manifests import APP, BROKEN

FLEET = ("dgx-a100-40gb:20", "t4-4x-pcie:80")


@pytest.fixture(scope="module")
def client() -> Iterator[Tools]:
    with tools(view_of(Cluster.fleet(*FLEET))) as found:
        yield found


def test_every_query_is_a_tool_that_only_reads(client: Tools) -> None:
    listed = client.list_tools()
    assert [tool.name for tool in listed] == [query.name for query in QUERIES]
    for tool in listed:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        assert tool.input_schema["type"] == "object"
        assert "$ref" not in json.dumps(tool.input_schema)
        assert tool.input_schema["properties"]["detail"]["type"] == "boolean"


def test_the_tools_take_little_of_a_context_window(client: Tools) -> None:
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in client.list_tools()) < 16_000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("why", {"manifests": APP}),
        ("would-fit", {"gpus": 8, "copies": 30}),
        ("free", {}),
        ("check", {"manifests": APP * 40}),
        ("fix", {"manifests": APP, "unsafe": True}),
        ("what-if", {"changes": [{"action": "remove", "target": "t4-4x-pcie-1"}]}),
        ("what-if", {}),
        ("plan", {"manifests": APP, "catalog": ["aws"]}),
        ("explain-code", {"code": "M410"}),
    ],
)
def test_an_answer_is_short_unless_detail_is_requested(tool: str, arguments: dict[str, Any], client: Tools) -> None:
    short, whole = client.call(tool, **arguments), client.call(tool, **arguments, detail=True)
    assert not short.is_error
    assert len(text_of(short).encode()) <= BRIEF
    assert len(text_of(whole)) >= len(text_of(short))
    assert short.structured_content == json.loads(text_of(short))


def test_free_devices_are_counted_by_product(client: Tools) -> None:
    found = client.answer("free")
    assert [(each["kind"], each["count"], each["states"]) for each in found["devices"]] == [
        ("NVIDIA A100-SXM4-40GB", 160, {"free": 160}),
        ("Tesla T4", 320, {"free": 320}),
    ]
    shown = [len(each["freeOn"]) for each in found["devices"]]
    assert sum(shown) + found["omitted"]["devices.freeOn"] == 100


def test_pods_that_would_fit_are_counted(client: Tools) -> None:
    found = client.answer("would-fit", gpus=8, copies=30)
    assert (found["fits"], found["pods"], found["fitting"]) == (False, 30, 20)
    (refused,) = found["refused"]
    assert (refused["code"], refused["count"]) == ("devices-in-use", 10)


def test_a_fixed_text_is_whole_or_left_out(client: Tools) -> None:
    assert client.answer("fix", manifests=APP, unsafe=True)["texts"] == {"<text>": APP.replace("9", "8")}
    large = client.answer("fix", manifests=f"{APP}#{'x' * 3000}\n", unsafe=True)
    assert (large["texts"], large["textsHint"]) == ({}, "detail: true returns the fixed texts")


@pytest.mark.parametrize(
    ("tool", "arguments", "detail"),
    [
        ("why", {"nam": "x"}, "unknown field 'nam'"),
        ("why", {"name": ["x"]}, "name: expected str, found array"),
        ("why", {"detail": "yes"}, "detail: expected bool, found str"),
        ("why", {"name": "nope"}, "pod or claim not found: 'nope'"),
        ("why", {"manifests": BROKEN}, "<text>:2:1: invalid YAML"),
        ("why", {"manifests": "/etc/passwd"}, "<text>:1:1: expected an object"),
        ("wy", {}, "unknown query 'wy'"),
        ("explain-code", {"code": "x"}, "code: unknown code 'x'"),
    ],
)
def test_a_wrong_call_is_one_problem(tool: str, arguments: dict[str, Any], detail: str, client: Tools) -> None:
    result = client.call(tool, **arguments)
    assert result.is_error
    assert json.loads(text_of(result))["detail"].startswith(detail)
    assert "Traceback" not in text_of(result)


def test_only_the_first_problems_of_manifests_are_listed(client: Tools) -> None:
    result = client.call("why", manifests="---\n".join(["kind: Pod\n"] * 9))
    found = json.loads(text_of(result))
    assert (len(found["errors"]), found["omitted"]) == (5, {"errors": 4})


def test_a_cluster_that_was_never_read_is_a_problem(client: Tools) -> None:
    view = client.view
    client.view = replace(view, connected=False, error="the cluster cannot be read: refused")
    try:
        result = client.call("free")
    finally:
        client.view = view
    assert result.is_error
    assert json.loads(text_of(result))["detail"] == "the cluster cannot be read: refused"


def test_an_answer_about_an_old_state_says_so(client: Tools) -> None:
    view = client.view
    client.view = replace(view, connected=False, error="the cluster cannot be read: refused", seen_at="2026-01-01")
    try:
        found = client.answer("free")
    finally:
        client.view = view
    assert found["stale"] == "the cluster cannot be read: refused; as of 2026-01-01"


def test_a_bug_is_logged_and_not_shown(
    client: Tools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(table.Query, "answer", broken)
    with caplog.at_level(logging.ERROR):
        result = client.call("free")
    assert result.is_error
    assert "secret" not in text_of(result)
    assert "ZeroDivisionError: secret" in caplog.text
