"""Kubernetes' own scheduler places pending pods after the first remedy of ``explain``; the command tries 200."""

from __future__ import annotations

import asyncio

import pytest

from bench.real_kube import ApiServer
from tests.kube.advice import outcome
from tests.storm.advice.planting import planted_world

#: Worlds of all kinds of remedies: names, units, counts, references, rules for nodes, cordons, taints, released claims.
WORLDS = (0, 1, 3, 9, 15, 25, 33, 36, 41, 42, 44, 47, 50, 51)


@pytest.mark.parametrize("number", WORLDS)
def test_the_pod_is_placed_after_the_first_remedy(number: int, kube: ApiServer) -> None:
    found = asyncio.run(outcome(kube, planted_world(f"kube/{number}")))
    assert found.result == "placed", found
