"""Default plugins decide as in kube-apiserver; ``tests/kube`` sends it the same requests."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence

import pytest

from allotment.model.features import Features
from tests.admission_requests.plugins import PLUGINS
from tests.admission_requests.pod_security import POD_SECURITY
from tests.admission_requests.pod_warnings import POD_WARNINGS
from tests.admission_requests.request import Request
from tests.unit.apiserver.admission.answers import answers
from tests.unit.apiserver.served import PODS, Served, pod


@pytest.mark.parametrize("requests", [PLUGINS, POD_WARNINGS], ids=["plugins", "warnings"])
@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_default_plugins_decide(release: str, requests: Sequence[Request]) -> None:
    async def scenario() -> None:
        await answers(await Served(features=Features(release)).started(), requests)

    asyncio.run(scenario())


def test_older_releases_do_not_copy_topology_labels() -> None:
    async def scenario() -> None:
        served = await Served(features=Features("1.34")).started()
        labels = {"topology.kubernetes.io/zone": "z"}
        await served.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
        target = {"kind": "Node", "name": "n"}
        await served.post(PODS, pod("web"))
        await served.post(f"{PODS}/web/binding", {"metadata": {"name": "web", "labels": labels}, "target": target})
        bound = await served.get(f"{PODS}/web")
        assert "labels" not in bound.body["metadata"]
        assert bound.body["spec"]["nodeName"] == "n"

    asyncio.run(scenario())


def test_a_disabled_plugin_admits_everything() -> None:
    async def scenario() -> None:
        served = await Served().started()
        served.api.verbs.admission.disabled_plugins = frozenset({"PodSecurity"})
        for request in POD_SECURITY[:3]:
            assert (await served.post(request.path, request.body)).code == 201

    asyncio.run(scenario())


def test_an_unreadable_certificate_request_for_a_client_is_refused() -> None:
    async def scenario() -> None:
        served = await Served().started()
        requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        pem = b"-----BEGIN CERTIFICATE REQUEST-----\nMAMCAQA=\n-----END CERTIFICATE REQUEST-----\n"
        spec = {"request": base64.b64encode(pem).decode(), "usages": ["client auth"]}
        for signer, code in (("kubernetes.io/kube-apiserver-client", 403), ("example.com/signer", 201)):
            body = {"metadata": {"name": "root"}, "spec": {**spec, "signerName": signer}}
            response = await served.post(requests, body)
            assert response.code == code
            if code == 403:
                subject = 'certificatesigningrequests.certificates.k8s.io "root" is forbidden'
                assert response.message.startswith(f"{subject}: failed to parse CSR: ")

    asyncio.run(scenario())


def test_attesting_for_a_signer_requires_a_permission() -> None:
    async def scenario() -> None:
        served = await Served(features=Features("1.37")).started()
        roles, bundles = "/apis/rbac.authorization.k8s.io/v1", "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
        certificates = "certificates.k8s.io"
        rules = [{"verbs": ["*"], "apiGroups": [certificates], "resources": ["clustertrustbundles"]}]
        await served.post(f"{roles}/clusterroles", {"metadata": {"name": "bundles"}, "rules": rules})
        attest = {"apiGroups": [certificates], "resources": ["signers"], "verbs": ["attest"]}
        signers = [{**attest, "resourceNames": ["example.com/*"]}]
        await served.post(f"{roles}/clusterroles", {"metadata": {"name": "signers"}, "rules": signers})

        async def bind(role: str) -> None:
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
            binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
            assert (await served.post(f"{roles}/clusterrolebindings", binding)).code == 201

        await bind("bundles")
        user = {"impersonate-user": "ann"}
        bundle = {"metadata": {"name": "example.com:a:b"}, "spec": {"signerName": "example.com/a", "trustBundle": ""}}
        denied = await served.request("POST", bundles, bundle, "application/json", **user)
        subject = 'clustertrustbundles.certificates.k8s.io "example.com:a:b"'
        reason = 'user not permitted to attest for signerName "example.com/a"'
        assert (denied.code, denied.message) == (403, f"{subject} is forbidden: {reason}")
        await bind("signers")
        assert (await served.request("POST", bundles, bundle, "application/json", **user)).code == 201

    asyncio.run(scenario())
