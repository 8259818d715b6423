"""Nodes are authorized and restricted as by kube-apiserver; ``tests/kube`` sends it the same requests."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.features import Features
from tests.admission_requests.nodes import NODES
from tests.unit.apiserver.admission.answers import answers
from tests.unit.apiserver.served import Served


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_nodes_access_only_their_own_objects(release: str) -> None:
    async def scenario() -> None:
        served = await Served(features=Features(release)).started()
        await served.post("/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}})
        await answers(served, NODES)

    asyncio.run(scenario())
