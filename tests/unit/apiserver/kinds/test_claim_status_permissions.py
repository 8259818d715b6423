"""Parts of a claim's status need permissions of their own; ``tests/kube`` sends kube-apiserver the same requests."""

from __future__ import annotations

import asyncio

from allotment.model.features import Features
from tests.claim_status_permissions import ACCOUNT, SETUP, STATUS, STEPS, assert_answer
from tests.unit.apiserver.served import Served


async def _posted(served: Served, *objects: tuple[str, object]) -> None:
    for path, body in objects:
        response = await served.post(path, body)
        assert response.code == 201, response


def test_a_service_account_changes_the_parts_of_the_status_that_it_may_change() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await _posted(served, *SETUP)
        for step in STEPS:
            await _posted(served, *step.before)
            headers = {name.lower(): value for name, value in step.headers.items()}
            response = await served.patch(STATUS, step.patch, **headers)
            assert_answer(step, response.code, response.body)

    asyncio.run(scenario())


def test_without_the_feature_the_permission_for_the_status_is_sufficient() -> None:
    async def scenario() -> None:
        gate = {"DRAResourceClaimGranularStatusAuthorization": False}
        served = await Served(features=Features("1.37", gate)).started()
        await _posted(served, *SETUP)
        headers = {name.lower(): value for name, value in ACCOUNT.items()}
        response = await served.patch(STATUS, STEPS[0].patch, **headers)
        assert response.code == 200, response

    asyncio.run(scenario())
