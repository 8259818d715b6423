"""Policies of the unit tests on kube-apiserver: it decides on the same requests in the same words."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.features import Features
from allotment.model.trees import Tree
from bench import real_kube
from tests.admission_policies import (
    BINDINGS,
    CASES,
    INVALID,
    INVALID_BINDINGS,
    INVALID_MUTATING_BINDINGS,
    INVALID_MUTATIONS,
    INVALID_WEBHOOKS,
    MUTATING,
    MUTATING_BINDINGS,
    POLICIES,
    WEBHOOKS,
    invalid_configuration,
    invalid_mutation,
    invalid_policy,
)
from tests.parameter_permissions import AUTHOR, REQUESTS, SETUP
from tests.polling import wait_until
from tests.unit.apiserver.admission.test_parameter_permissions import answers
from tests.unit.apiserver.admission.test_validating_policies import assert_answer
from tests.unit.apiserver.served import Served

pytestmark = pytest.mark.every_release


async def _posted(served: Served, path: str, body: Tree) -> Tree:
    response = await served.post(path, body)
    return dict(response.body)


def test_the_same_policies_are_refused_with_the_same_messages(
    admission_server: real_kube.ApiServer, release: str
) -> None:
    server = admission_server

    async def scenario() -> None:
        served = Served(features=Features(release))
        bodies = [(POLICIES, invalid_policy(change)) for change in INVALID]
        bodies += [(path, invalid_configuration(change)) for path in WEBHOOKS.values() for change in INVALID_WEBHOOKS]
        bodies += [(BINDINGS, {"metadata": {"name": "refused"}, "spec": spec}) for spec in INVALID_BINDINGS]
        bodies += [(MUTATING, invalid_mutation(change)) for change in INVALID_MUTATIONS]
        bodies += [
            (MUTATING_BINDINGS, {"metadata": {"name": "refused"}, "spec": spec}) for spec in INVALID_MUTATING_BINDINGS
        ]
        for path, body in bodies:
            _, expected = server.send_request("POST", path, body)
            assert await _posted(served, path, body) == expected, body

    asyncio.run(scenario())


def test_the_same_requests_are_denied_with_the_same_messages(admission_server: real_kube.ApiServer) -> None:
    server = admission_server
    for case in CASES:
        assert server.send_request("POST", "/api/v1/namespaces", {"metadata": {"name": case.name}})[0] == 201
        for path, body in case.existing:
            assert server.send_request("POST", path.format(case.name), body)[0] == 201
    for case in CASES:
        for tree in case.resources:
            path = POLICIES if tree["kind"] == "ValidatingAdmissionPolicy" else BINDINGS
            code, response = server.send_request("POST", path, tree)
            assert code == 201, response
    # kube-apiserver applies policies with a delay, all of them together.
    last = next(case for case in reversed(CASES) if case.message)
    probe = f"{last.path.format(last.name)}?dryRun=All"
    wait_until(lambda: server.send_request(last.method, probe, last.body)[0] == last.code)
    for case in CASES:
        code, response = server.send_request(case.method, case.path.format(case.name), case.body)
        assert_answer(case, code, response)


def test_the_same_parameters_must_be_readable(admission_server: real_kube.ApiServer, release: str) -> None:
    server = admission_server

    async def of_lab() -> list[Tree]:
        served = Served(features=Features(release))
        found = await answers(served)
        await served.store.close()
        return found

    for path, body in SETUP:
        code, response = server.send_request("POST", path, body)
        assert code == 201, response
    for index, ((path, spec), expected) in enumerate(zip(REQUESTS, asyncio.run(of_lab()), strict=True)):
        body = {"metadata": {"name": f"new-{index}"}, "spec": spec}
        code, response = server.send_request("POST", path, body, headers=AUTHOR)
        assert code == expected.get("code", 201)
        assert response.get("message") == expected.get("message")
