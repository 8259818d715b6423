"""MutatingAdmissionPolicies change what is written; errors deny the request as kube-apiserver does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.model.trees import Tree
from tests.admission_webhooks import Case as WebhookCase
from tests.admission_webhooks import Hook, set_label
from tests.mutating_policies import CASES, DEFINITION, MAP, Case, Policy, apply, essence
from tests.unit.apiserver.served import MAPS, MERGE, Served
from tests.webhook_server import WebhookServer, webhook_server

#: Parts of the answers of kube-apiserver; tests/kube/test_mutating_policies.py compares all of them.
_ANSWERS: Final = json.loads(Path(__file__).with_name("mutating_answers.json").read_text())
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def configure(served: Served) -> None:
    """Create the namespaces and policies of all cases."""
    assert (await served.post(_DEFINITIONS, DEFINITION)).code == 201
    for case in CASES:
        assert (await served.post("/api/v1/namespaces", {"metadata": {"name": case.name}})).code == 201
    for case in CASES:
        for path, tree in case.resources:
            response = await served.post(path, tree)
            assert (response.code, response.warnings) == (201, []), response


async def answers(served: Served, case: Case) -> list[tuple[int, Tree]]:
    """The codes and bodies of the answers to the requests of a case."""
    found = []
    for method, path, body in case.requests:
        media = MERGE if method == "PATCH" else "application/json"
        response = await served.request(
            method, path.replace("{}", case.name), body, media, user_agent="test/1.0"
        )  # fmt: skip
        found.append((response.code, response.body))
    return found


def test_requests_are_changed_as_by_kubernetes() -> None:
    async def scenario() -> None:
        served = Served()
        await configure(served)
        for case in CASES:
            found = [essence(code, body) for code, body in await answers(served, case)]
            assert (case.name, found) == (case.name, _ANSWERS[case.name])
        await served.store.close()

    asyncio.run(scenario())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebhookServer]:
    with webhook_server(tmp_path) as running:
        yield running


def test_a_policy_is_applied_again_after_a_webhook(server: WebhookServer) -> None:
    count = 'Object{metadata: Object.metadata{labels: {"count": string(size(object.metadata.labels))}}}'
    policy = Policy([apply(count)], {"reinvocationPolicy": "IfNeeded"})

    async def scenario() -> None:
        served = await Served().started()
        for path, tree in Case("shop", [policy]).resources:
            assert (await served.post(path, tree)).code == 201
        webhook = WebhookCase("shop", [Hook(set_label("added"), kind="mutating")], ())
        for path, tree in webhook.configurations(server):
            assert (await served.post(path, tree)).code == 201
        labels: Any = (await served.post(MAPS, MAP)).body["metadata"]["labels"]
        assert labels == {"tier": "web", "added": "yes", "count": "3"}
        await served.api.outbound.close()
        await served.store.close()

    asyncio.run(scenario())
