"""The control plane that the other tests use."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.resources import PODS
from bench.kube_programs import RELEASES
from bench.real_kube import ApiServer

pytestmark = pytest.mark.every_release

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def test_the_server_has_the_expected_release(kube: ApiServer, release: str) -> None:
    code, version = kube.send_request("GET", "/version")
    assert (code, version["gitVersion"]) == (200, RELEASES[release])


def test_the_certificate_is_verified_and_a_pod_is_bound(kube: ApiServer) -> None:
    node = {"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
    assert kube.send_request("POST", "/api/v1/nodes", node)[0] == 201
    assert kube.send_request("PATCH", "/api/v1/nodes/one", {"spec": {"taints": []}})[0] == 200

    async def bound() -> str:
        async with kube.client() as client:
            assert not client.target.insecure
            assert client.target.authority
            pod = {"metadata": {"name": "it"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            await client.create(PODS, pod, "default")
            while "nodeName" not in (pod := await client.get(PODS, "it", "default"))["spec"]:
                await asyncio.sleep(0.05)
            return str(pod["spec"]["nodeName"])

    assert asyncio.run(asyncio.wait_for(bound(), 300)) == "one"


def test_a_service_account_has_its_granted_permissions(kube: ApiServer) -> None:
    assert kube.send_request("POST", ACCOUNTS, {"metadata": {"name": "reader"}})[0] == 201
    token = kube.token_of("reader")
    assert kube.send_request("GET", "/api/v1/nodes", token=token)[0] == 403
    role = {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    given = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    binding = {"metadata": {"name": "reader"}, "roleRef": given, "subjects": [subject]}
    for kind, tree in (("clusterroles", role), ("clusterrolebindings", binding)):
        assert kube.send_request("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind}", tree)[0] == 201
    kube.await_("kube-apiserver", lambda: kube.send_request("GET", "/api/v1/nodes", token=token)[0] == 200)
