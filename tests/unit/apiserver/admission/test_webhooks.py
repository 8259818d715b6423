"""Webhooks decide about writes, get what is written, and do not keep other requests waiting."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.apiserver.http_messages import Peer
from allotment.cluster.resources import CONFIG_MAPS
from allotment.model.trees import Tree
from tests.admission_webhooks import API, CASES, CLOSED, KINDS, MAP, Case, Hook, Step, answer, patch, rule, set_label
from tests.unit.apiserver.admission.webhook_runs import configure, run_on_lab
from tests.unit.apiserver.served import MAPS, MERGE, PODS, Served, config_map, pod
from tests.webhook_server import WebhookServer, webhook_server

#: The answers of kube-apiserver; tests/kube/test_admission_webhooks.py compares all of their parts.
_ANSWERS: Final = json.loads(Path(__file__).with_name("webhook_answers.json").read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with webhook_server(tmp_path_factory.mktemp("pki")) as running:
        yield running


def _run(scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def whole() -> None:
        served = await Served().started()
        try:
            await scenario(served)
        finally:
            await served.api.outbound.close()
            await served.store.close()

    asyncio.run(whole())


async def _register(served: Served, server: WebhookServer, *hooks: Hook) -> None:
    for path, tree in Case("shop", hooks, ()).configurations(server):
        assert (await served.post(path, tree)).code == 201


def test_requests_are_answered_as_by_kubernetes(server: WebhookServer) -> None:
    async def scenario(served: Served) -> None:
        await configure(served, server)
        answers = {case.name: (await run_on_lab(served, case, server)).summary for case in CASES}
        for name, expected in _ANSWERS.items():
            assert (name, answers[name]) == (name, expected)

    _run(scenario)


def test_other_requests_are_served_while_a_webhook_decides(server: WebhookServer) -> None:
    may_answer = threading.Event()

    def wait(review: Tree) -> Any:
        may_answer.wait(10)
        return answer()(review)

    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(wait))
        waiting = asyncio.create_task(served.post(MAPS, MAP))
        while not any("shop" in each.target for each in server.received):
            assert (await served.get("/api/v1/namespaces/shop")).code == 200
            await asyncio.sleep(0)
        assert (await served.get(f"{MAPS}/settings")).code == 404
        may_answer.set()
        assert (await waiting).code == 201

    _run(scenario)


def _meanwhile(loop: asyncio.AbstractEventLoop, *changes: Callable[[], Awaitable[Any]]) -> Any:
    """Answer a review after a change, one for each of the first reviews."""
    left = list(changes)

    def handle(review: Tree) -> Any:
        if left:
            asyncio.run_coroutine_threadsafe(_awaited(left.pop(0)), loop).result(10)
        return set_label("added")(review)

    return handle


async def _awaited(change: Callable[[], Awaitable[Any]]) -> None:
    response = await change()
    assert response.code in (200, 201), response


def test_a_webhook_is_called_again_if_the_object_has_changed_meanwhile(server: WebhookServer) -> None:
    not_for_others = [{"name": "admin", "expression": "request.userInfo.username == 'admin'"}]

    async def scenario(served: Served) -> None:
        assert (await served.post(MAPS, MAP)).code == 201

        async def change() -> Any:
            headers = {"content-type": MERGE}
            other = Peer("other", ("system:masters",))
            return await served.send("PATCH", f"{MAPS}/settings", b'{"data": {"c": "3"}}', headers, other)

        first = len(server.received)
        handler = _meanwhile(asyncio.get_running_loop(), change)
        await _register(served, server, Hook(handler, {"matchConditions": not_for_others}, "mutating"))
        response = await served.patch(f"{MAPS}/settings", {"data": {"b": "2"}})
        assert response.body["data"] == {"a": "1", "b": "2", "c": "3"}
        assert response.body["metadata"]["labels"]["added"] == "yes"
        assert [each.body["request"]["object"]["data"] for each in server.received[first:]] == [
            {"a": "1", "b": "2"}, {"a": "1", "b": "2", "c": "3"},
        ]  # fmt: skip

    _run(scenario)


def test_an_object_that_is_created_meanwhile_is_a_conflict(server: WebhookServer) -> None:
    async def scenario(served: Served) -> None:
        async def other() -> Any:
            return await served.post(MAPS, {**MAP, "data": {"other": "1"}})

        handler = _meanwhile(asyncio.get_running_loop(), other)
        await _register(served, server, Hook(handler, kind="mutating"))
        response = await served.post(MAPS, MAP)
        assert (response.code, response.body["reason"]) == (409, "AlreadyExists")

    _run(scenario)


def test_a_webhook_that_does_not_answer_in_time(server: WebhookServer) -> None:
    may_answer = threading.Event()

    def wait(review: Tree) -> Any:
        may_answer.wait(10)
        return answer()(review)

    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(wait, {"timeoutSeconds": 1}))
        response = await served.post(MAPS, MAP)
        may_answer.set()
        assert response.code == 500
        assert response.message.endswith('/shop/validating/hook?timeout=1s": context deadline exceeded')

    _run(scenario)


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_webhooks_do_not_decide_about_webhooks(server: WebhookServer, kind: str) -> None:
    everything = {"rules": [rule("*", group="*", version="*")], "namespaceSelector": {}}

    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(answer(allowed=False), everything, kind))
        path = f"{API}/{KINDS[kind].lower()}s/shop-hook"
        assert (await served.post(MAPS, MAP)).code == 400
        assert (await served.delete(path)).code == 200
        assert (await served.post(MAPS, MAP)).code == 201

    _run(scenario)


def test_connections_to_containers(server: WebhookServer) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.post(PODS, pod("web", nodeName="n"))).code == 201
        await _register(served, server, Hook(answer(allowed=False), {"rules": [rule("pods/exec")]}))
        response = await served.request("POST", f"{PODS}/web/exec?command=ls&container=main&stdout=true")
        request = server.received[-1].body["request"]
        assert response.code == 400
        assert (request["operation"], request["kind"]["kind"]) == ("CONNECT", "PodExecOptions")
        assert request["object"] == {
            "kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "container": "main", "command": ["ls"],
        }  # fmt: skip

    _run(scenario)


def test_in_process_clients_wait_for_webhooks(server: WebhookServer) -> None:
    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(set_label("added"), kind="mutating"))
        created = await served.client().create(CONFIG_MAPS, config_map("settings", {"a": "b"}), "shop")
        assert created["metadata"]["labels"] == {"a": "b", "added": "yes"}

    _run(scenario)


@pytest.mark.parametrize(
    ("fields", "handler", "code"),
    [({}, answer(), 200), ({}, answer(allowed=False), 404), ({"clientConfig": CLOSED}, answer(), 200)],
    ids=["allowed", "denied", "not reached"],
)
def test_webhooks_decide_about_the_objects_of_a_new_namespace(
    server: WebhookServer, fields: Tree, handler: Any, code: int
) -> None:
    accounts = {"rules": [rule("serviceaccounts")], "namespaceSelector": {}, **fields}

    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(handler, accounts))
        assert (await served.post("/api/v1/namespaces", {"metadata": {"name": "new"}})).code == 201
        assert (await served.get("/api/v1/namespaces/new/serviceaccounts/default")).code == code

    _run(scenario)


def test_the_managed_fields_are_those_of_the_client(server: WebhookServer) -> None:
    change = patch({"op": "add", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/a"})

    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(change, kind="mutating"))
        created = (await served.post(MAPS, MAP)).body
        assert created["data"] == {"b": "2"}
        assert created["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] == {".": {}, "f:a": {}}

    _run(scenario)


@pytest.mark.parametrize(
    ("path", "value", "code", "kind", "namespace"),
    [("/metadata/namespace", "other", 400, "Status", None), ("/kind", "Secret", 201, "ConfigMap", "shop")],
)
def test_a_webhook_cannot_make_another_object_of_the_one_of_the_request(
    server: WebhookServer, path: str, value: str, code: int, kind: str, namespace: str | None
) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.post("/api/v1/namespaces", {"metadata": {"name": "other"}})).code == 201
        await _register(served, server, Hook(patch({"op": "replace", "path": path, "value": value}), kind="mutating"))
        created = await served.post(MAPS, MAP)
        assert (created.code, created.body["kind"]) == (code, kind)
        assert created.body["metadata"].get("namespace") == namespace
        maps = (await served.get("/api/v1/configmaps?fieldSelector=metadata.name=" + MAP["metadata"]["name"])).body
        assert [each["metadata"]["namespace"] for each in maps["items"]] == ([namespace] if namespace else [])

    _run(scenario)


@pytest.mark.parametrize(("given", "code"), [(0, 400), (200, 400), (403, 403), (200_000, 500)])
def test_the_status_of_a_denial_is_one_of_http(server: WebhookServer, given: int, code: int) -> None:
    def denied(review: Tree) -> Tree:
        decision = {"uid": review["request"]["uid"], "allowed": False, "status": {"code": given}}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": decision}

    async def scenario(served: Served) -> None:
        await _register(served, server, Hook(denied))
        assert (await served.post(MAPS, MAP)).code == code

    _run(scenario)


def test_custom_resources(server: WebhookServer) -> None:
    definition = {
        "metadata": {"name": "crons.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "crons", "kind": "Cron"},
            "versions": [
                {
                    "name": "v1", "served": True, "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                        "type": "object", "properties": {
                            "times": {"type": "integer"}, "zone": {"type": "string", "default": "UTC"},
                        },
                    }}}},
                }
            ],
        },
    }  # fmt: skip
    change = patch(
        {"op": "replace", "path": "/spec", "value": {"times": 2}}, {"op": "add", "path": "/other", "value": 1}
    )

    async def scenario(served: Served) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await served.post(path, definition)).code == 201
        await _register(served, server, Hook(change, {"rules": [rule("crons", group="example.com")]}, "mutating"))
        body = {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "x"}, "spec": {"times": 1}}
        created = (await served.post("/apis/example.com/v1/namespaces/shop/crons", body)).body
        assert created["spec"] == {"times": 2, "zone": "UTC"}
        assert "other" not in created

    _run(scenario)


def test_no_step_is_unused() -> None:
    steps: Sequence[Step] = [step for case in CASES for step in case.steps]
    assert all("{}" in step.path for step in steps)
