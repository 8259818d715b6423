"""Pod Security levels are applied as by kube-apiserver; ``tests/kube`` sends it the same requests."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.features import Features
from tests.admission_requests.pod_security import POD_SECURITY
from tests.unit.apiserver.admission.answers import answers
from tests.unit.apiserver.served import Served


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_levels_are_enforced_and_warned_about(release: str) -> None:
    async def scenario() -> None:
        await answers(await Served(features=Features(release)).started(), POD_SECURITY)

    asyncio.run(scenario())
