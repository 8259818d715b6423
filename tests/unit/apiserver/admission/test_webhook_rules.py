"""A lab refuses the webhook configurations that kube-apiserver refuses; ``tests/kube`` compares the messages."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.trees import Tree
from tests.admission_policies import INVALID_WEBHOOKS, WEBHOOK, WEBHOOKS, invalid_configuration
from tests.unit.apiserver.served import Served


@pytest.mark.parametrize("path", WEBHOOKS.values(), ids=list(WEBHOOKS))
@pytest.mark.parametrize("change", INVALID_WEBHOOKS, ids=str)
def test_an_invalid_configuration_is_refused(path: str, change: Tree) -> None:
    async def scenario() -> None:
        response = await Served().post(path, invalid_configuration(change))
        assert (response.code, response.body["reason"]) == (422, "Invalid"), response
        assert any(cause["field"].startswith("webhooks[0]") for cause in response.body["details"]["causes"])
        assert response.warnings == []

    asyncio.run(scenario())


@pytest.mark.parametrize("path", WEBHOOKS.values(), ids=list(WEBHOOKS))
def test_a_valid_configuration_is_stored_and_stays_valid(path: str) -> None:
    async def scenario() -> None:
        served = Served()
        response = await served.post(path, {"metadata": {"name": "hooks"}, "webhooks": [WEBHOOK]})
        assert (response.code, response.warnings) == (201, [])
        changed = await served.patch(f"{path}/hooks", {"webhooks": [{**WEBHOOK, "timeoutSeconds": 0}]})
        assert (changed.code, changed.body["details"]["causes"][0]["field"]) == (422, "webhooks[0].timeoutSeconds")

    asyncio.run(scenario())
