"""CertificateSigningRequests: the requester, the subresources, and the permissions for signers."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from allotment.apiserver.http_messages import Peer, Response
from allotment.model.trees import Tree
from tests.unit.apiserver.served import MERGE, Served

GROUP = "certificates.k8s.io"
PATH = f"/apis/{GROUP}/v1/certificatesigningrequests"
PEM = b"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n"
APPROVED: Tree = {"type": "Approved", "status": "True", "reason": "r"}


def request(**overrides: Any) -> Tree:
    overrides = {
        "request": base64.b64encode(PEM).decode(),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "username": "another user",
        **overrides,
    }
    return {"metadata": {"name": "Any Name"}, "spec": overrides, "status": {"conditions": [APPROVED]}}


def test_the_server_sets_the_requester_and_drops_the_status() -> None:
    async def scenario() -> None:
        served = await Served().started()
        created = (await served.post(PATH, request())).body
        assert created["spec"]["username"] == "admin"
        assert created["spec"]["groups"] == ["system:masters", "system:authenticated"]
        assert created["status"] == {}
        changed = (await served.patch(f"{PATH}/Any%20Name", {"spec": {"username": "x"}})).body
        assert changed["spec"] == created["spec"]

    asyncio.run(scenario())


def test_each_subresource_changes_its_own_part() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(PATH, request())
        here = f"{PATH}/Any%20Name"
        rejected = await served.patch(f"{here}/status", {"status": {"conditions": [APPROVED]}}, MERGE)
        assert rejected.code == 422
        assert 'updates may not add a condition of type "Approved"' in rejected.message
        approval = {"status": {"conditions": [APPROVED], "certificate": "AA=="}}
        approved = (await served.patch(f"{here}/approval", approval)).body["status"]
        now = "2026-01-02T03:04:05Z"
        assert approved == {"conditions": [{**APPROVED, "lastUpdateTime": now, "lastTransitionTime": now}]}
        issued = (await served.patch(f"{here}/status", {"status": {"certificate": "AA=="}})).body["status"]
        assert issued == {**approved, "certificate": "AA=="}
        removal = await served.patch(f"{here}/approval", {"status": {"conditions": None}})
        assert 'updates may not remove a condition of type "Approved"' in removal.message
        denied = {"status": {"conditions": [APPROVED, {**APPROVED, "type": "Denied"}]}}
        assert "mutually exclusive" in (await served.patch(f"{here}/approval", denied)).message

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("subresource", "verb", "signer", "allowed"),
    [
        ("approval", "approve", "example.com/signer", True),
        ("approval", "approve", "example.com/*", True),
        ("approval", "approve", "example.com/other", False),
        ("approval", "sign", "example.com/signer", False),
        ("status", "sign", "example.com/signer", True),
        ("status", "approve", "example.com/signer", False),
    ],
)
def test_approving_and_signing_require_a_permission_for_the_signer(
    subresource: str, verb: str, signer: str, allowed: bool
) -> None:
    group = "rbac.authorization.k8s.io"
    rules = [
        {"verbs": ["patch"], "apiGroups": [GROUP], "resources": [f"certificatesigningrequests/{subresource}"]},
        {"verbs": [verb], "apiGroups": [GROUP], "resources": ["signers"], "resourceNames": [signer]},
    ]
    binding = {
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "ann"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "ann"}],
    }
    done = {"conditions": [APPROVED]} if subresource == "approval" else {"certificate": "AA=="}

    async def scenario() -> None:
        served = await Served().started()
        base = f"/apis/{group}/v1"
        assert (await served.post(f"{base}/clusterroles", {"metadata": {"name": "ann"}, "rules": rules})).code == 201
        assert (await served.post(f"{base}/clusterrolebindings", binding)).code == 201
        await served.post(PATH, request())
        here = f"{PATH}/Any%20Name/{subresource}"
        media, body = {"content-type": MERGE}, json.dumps({"status": done}).encode()
        answer = await served.send("PATCH", here, body, media, peer=Peer("ann", ()))
        assert isinstance(answer, Response)
        assert answer.code == (200 if allowed else 403)
        if not allowed:
            needed = "approve" if subresource == "approval" else "sign"
            assert json.loads(answer.body)["message"] == (
                'certificatesigningrequests.certificates.k8s.io "Any Name" is forbidden: user not permitted '
                f'to {needed} requests with signerName "example.com/signer"'
            )

    asyncio.run(scenario())


def test_invalid_requests_are_rejected() -> None:
    async def scenario() -> None:
        served = await Served().started()
        rejected = await served.post(
            PATH, request(request="AA==", usages=["x", "x"], signerName="", expirationSeconds=1)
        )
        fields = [cause["field"] for cause in rejected.body["details"]["causes"]]
        assert fields == [
            "spec.request", "spec.usages[0]", "spec.usages[1]", "spec.usages[1]", "spec.signerName",
            "spec.expirationSeconds",
        ]  # fmt: skip

    asyncio.run(scenario())
