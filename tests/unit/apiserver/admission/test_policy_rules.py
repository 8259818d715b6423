"""A lab refuses the policies and bindings that kube-apiserver refuses; ``tests/kube`` compares the messages."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.trees import Tree
from tests.admission_policies import BINDINGS, INVALID, INVALID_BINDINGS, POLICIES, invalid_policy
from tests.unit.apiserver.served import Served


@pytest.mark.parametrize("change", INVALID, ids=str)
def test_an_invalid_policy_is_refused(change: Tree) -> None:
    async def scenario() -> None:
        response = await Served().post(POLICIES, invalid_policy(change))
        assert (response.code, response.body["reason"]) == (422, "Invalid"), response

    asyncio.run(scenario())


@pytest.mark.parametrize("spec", INVALID_BINDINGS, ids=str)
def test_an_invalid_binding_is_refused(spec: Tree) -> None:
    async def scenario() -> None:
        response = await Served().post(BINDINGS, {"metadata": {"name": "refused"}, "spec": spec})
        assert (response.code, response.body["reason"]) == (422, "Invalid"), response

    asyncio.run(scenario())


def test_the_message_has_each_expression_that_does_not_compile() -> None:
    async def scenario() -> None:
        change = {"validations": [{"expression": "nothing"}, {"expression": "1"}]}
        response = await Served().post(POLICIES, invalid_policy(change))
        assert response.message == (
            'ValidatingAdmissionPolicy.admissionregistration.k8s.io "refused" is invalid: '
            '[spec.validations[0].expression: Invalid value: "nothing": compilation failed: ERROR: <input>:1:1: '
            "undeclared reference to 'nothing' (in container '')\n | nothing\n | ^, "
            'spec.validations[1].expression: Invalid value: "1": must evaluate to bool but got int]'
        )

    asyncio.run(scenario())


def test_the_status_of_a_policy_can_be_written() -> None:
    async def scenario() -> None:
        served = Served()
        policy = (await served.post(POLICIES, invalid_policy({"validations": [{"expression": "true"}]}))).body
        written = {**policy, "status": {"observedGeneration": 1, "typeChecking": {}}}
        response = await served.put(f"{POLICIES}/refused/status", written)
        assert (response.code, response.body["status"]["observedGeneration"]) == (200, 1)

    asyncio.run(scenario())
