"""A lab refuses the mutating policies that kube-apiserver refuses; ``tests/kube`` compares the messages."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.trees import Tree
from tests.admission_policies import (
    INVALID_MUTATING_BINDINGS,
    INVALID_MUTATIONS,
    MUTATING,
    MUTATING_BINDINGS,
    invalid_mutation,
)
from tests.unit.apiserver.served import Served


@pytest.mark.parametrize("change", INVALID_MUTATIONS, ids=str)
def test_an_invalid_policy_is_refused(change: Tree) -> None:
    async def scenario() -> None:
        response = await Served().post(MUTATING, invalid_mutation(change))
        assert (response.code, response.body["reason"], response.warnings) == (422, "Invalid", [])

    asyncio.run(scenario())


@pytest.mark.parametrize("spec", INVALID_MUTATING_BINDINGS, ids=str)
def test_an_invalid_binding_is_refused(spec: Tree) -> None:
    async def scenario() -> None:
        response = await Served().post(MUTATING_BINDINGS, {"metadata": {"name": "refused"}, "spec": spec})
        assert (response.code, response.body["reason"]) == (422, "Invalid"), response

    asyncio.run(scenario())


def test_a_valid_policy_is_stored() -> None:
    async def scenario() -> None:
        served = Served()
        response = await served.post(MUTATING, invalid_mutation({}))
        assert response.code == 201, response
        update = await served.patch(f"{MUTATING}/refused", {"spec": {"mutations": []}})
        assert (update.code, update.body["details"]["causes"][0]["field"]) == (422, "spec.mutations")

    asyncio.run(scenario())
