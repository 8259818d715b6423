"""Requests of the unit tests on kube-apiserver: its plugins and authorizers give the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from allotment.model.features import Features
from bench import real_kube
from tests.admission_requests.definitions import DEFINITIONS, RULE_CASES, definition
from tests.admission_requests.nodes import NODES
from tests.admission_requests.plugins import PLUGINS
from tests.admission_requests.pod_security import POD_SECURITY
from tests.admission_requests.pod_warnings import POD_WARNINGS
from tests.admission_requests.request import CORE, Request
from tests.unit.apiserver.admission.answers import impersonation, unquoted
from tests.unit.apiserver.served import Served

_ACCOUNT = {"metadata": {"name": "default"}}

pytestmark = pytest.mark.every_release


@pytest.fixture(scope="module")
def server(paths: dict[str, str]) -> Iterator[real_kube.ApiServer]:
    with real_kube.api_server(paths, "--enable-admission-plugins=NodeRestriction", durable=False) as running:
        yield running


@pytest.mark.parametrize(
    "requests", [POD_SECURITY, NODES, PLUGINS, POD_WARNINGS], ids=["pod security", "nodes", "plugins", "warnings"]
)
def test_the_same_requests_get_the_same_answers(
    server: real_kube.ApiServer, release: str, requests: Sequence[Request]
) -> None:
    for request in requests:
        code, response, warnings = server.send_request_for_warnings(
            request.method, request.path, request.body, headers=impersonation(request.user)
        )
        message = response.get("message", "") if code >= 400 else ""
        if request.path == CORE and code == 201:  # there is no controller that creates the account
            server.send_request("POST", f"{CORE}/{response['metadata']['name']}/serviceaccounts", _ACCOUNT)
        actual = (code, message, tuple(map(unquoted, warnings)))
        assert request.shows(response), (request.method, request.path, response)
        assert actual == request.answer(release), (request.method, request.path, request.body)


def test_the_same_definitions_are_refused(server: real_kube.ApiServer, release: str) -> None:
    async def scenario() -> None:
        served = Served(features=Features(release))
        for plural, spec in RULE_CASES.items():
            written = definition(plural, spec)
            response = await served.post(DEFINITIONS, written)
            code, expected = server.send_request("POST", DEFINITIONS, written)
            actual = (response.code, response.body.get("message"))
            assert actual == (code, expected.get("message")), plural

    asyncio.run(scenario())
