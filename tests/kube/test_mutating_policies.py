"""Mutating policies of the unit tests on kube-apiserver: it changes the same requests in the same way."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.features import Features
from allotment.model.trees import Tree
from bench import real_kube
from tests.mutating_policies import CASES, DEFINITION, MAP, Case, Policy, apply
from tests.polling import wait_until
from tests.unit.apiserver.admission.test_mutating_policies import answers, configure
from tests.unit.apiserver.served import Served

pytestmark = pytest.mark.every_release

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AGENT = {"User-Agent": "test/1.0"}
#: Policies become active together, so the others are if this one is; it is created last.
_LAST = Case("mutation-last", [Policy([apply("Object{metadata: Object.metadata{labels: {'is': 'active'}}}")])])


async def _on_lab(release: str) -> list[list[tuple[int, Tree]]]:
    served = Served(features=Features(release), runtime_config=())
    await configure(served)
    found = [await answers(served, case) for case in CASES]
    await served.store.close()
    return found


def test_the_same_requests_are_changed(admission_server: real_kube.ApiServer, release: str) -> None:
    server = admission_server
    of_lab = asyncio.run(_on_lab(release))
    assert server.send_request("POST", _DEFINITIONS, DEFINITION)[0] == 201
    for case in (*CASES, _LAST):
        assert server.send_request("POST", "/api/v1/namespaces", {"metadata": {"name": case.name}})[0] == 201
    for case in (*CASES, _LAST):
        for path, tree in case.resources:
            code, response = server.send_request("POST", path, tree)
            assert code == 201, response
    wait_until(lambda: _is_active(server) and _is_custom_kind_active(server))
    for case, expected in zip(CASES, of_lab, strict=True):
        for (method, path, body), answer in zip(case.requests, expected, strict=True):
            found = server.send_request(method, path.replace("{}", case.name), body, headers=_AGENT)
            assert (case.name, case.recorded(list(found))) == (case.name, case.recorded(list(answer)))


def _is_active(server: real_kube.ApiServer) -> bool:
    _, body = server.send_request("POST", f"/api/v1/namespaces/{_LAST.name}/configmaps?dryRun=All", MAP)
    return "is" in body["metadata"]["labels"]


def _is_custom_kind_active(server: real_kube.ApiServer) -> bool:
    """Whether the schema of the custom kind is known to the policies."""
    case = next(case for case in CASES if case.name == "mutation-custom")
    _, path, body = case.requests[0]
    return server.send_request("POST", f"{path.replace('{}', case.name)}?dryRun=All", body)[0] == 201
