"""Requests for certificates: who asked, who may say what of them."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from tests.unit.apiserver.served import MERGE, Served

Tree = dict[str, Any]

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PEM = b"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n"
APPROVED: Tree = {"type": "Approved", "status": "True", "reason": "r"}


def request(**spec: Any) -> Tree:
    wanted = {
        "request": base64.b64encode(PEM).decode(),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "username": "somebody else",
        **spec,
    }
    return {"metadata": {"name": "Any Name"}, "spec": wanted, "status": {"conditions": [APPROVED]}}


def test_a_request_says_who_asked_and_is_not_approved_by_himself() -> None:
    async def told() -> None:
        served = await Served().started()
        made = (await served.post(PATH, request())).body
        assert made["spec"]["username"] == "admin"
        assert made["spec"]["groups"] == ["system:masters", "system:authenticated"]
        assert made["status"] == {}
        changed = (await served.patch(f"{PATH}/Any%20Name", {"spec": {"username": "x"}})).body
        assert changed["spec"] == made["spec"]

    asyncio.run(told())


def test_each_side_changes_its_own_part() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(PATH, request())
        here = f"{PATH}/Any%20Name"
        refused = await served.patch(f"{here}/status", {"status": {"conditions": [APPROVED]}}, MERGE)
        assert refused.code == 422
        assert 'updates may not add a condition of type "Approved"' in refused.message
        approval = {"status": {"conditions": [APPROVED], "certificate": "AA=="}}
        approved = (await served.patch(f"{here}/approval", approval)).body["status"]
        now = "2026-01-02T03:04:05Z"
        assert approved == {"conditions": [{**APPROVED, "lastUpdateTime": now, "lastTransitionTime": now}]}
        issued = (await served.patch(f"{here}/status", {"status": {"certificate": "AA=="}})).body["status"]
        assert issued == {**approved, "certificate": "AA=="}
        taken = await served.patch(f"{here}/approval", {"status": {"conditions": None}})
        assert 'updates may not remove a condition of type "Approved"' in taken.message
        denied = {"status": {"conditions": [APPROVED, {**APPROVED, "type": "Denied"}]}}
        assert "mutually exclusive" in (await served.patch(f"{here}/approval", denied)).message

    asyncio.run(told())


def test_requests_that_ask_for_nothing_are_refused() -> None:
    async def told() -> None:
        served = await Served().started()
        refused = await served.post(
            PATH, request(request="AA==", usages=["x", "x"], signerName="", expirationSeconds=1)
        )
        fields = [cause["field"] for cause in refused.body["details"]["causes"]]
        assert fields == [
            "spec.request", "spec.usages[0]", "spec.usages[1]", "spec.usages[1]", "spec.signerName",
            "spec.expirationSeconds",
        ]  # fmt: skip

    asyncio.run(told())
