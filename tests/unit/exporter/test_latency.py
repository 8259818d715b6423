"""Latencies of claims, with skewed clocks."""

from __future__ import annotations

import pytest

from tests.polling import until
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.exporter.clusters import claim, fleet
from tests.unit.exporter.test_program import exporting, put, value


@pytest.mark.parametrize("timestamp", ["2026-05-31T23:00:00Z", "2026-06-01T01:00:00Z"])
def test_a_skewed_scheduler_clock_does_not_affect_latencies(timestamp: str) -> None:
    async def scenario() -> None:
        client = MemoryClient()
        put(client, *fleet("a=4xt4"), claim("before", "gpu-0", allocated=timestamp))
        async with exporting(client) as exporter_:
            await until(lambda: value(exporter_, "allotment_claims", "ml", "allocated") == 1)
            assert value(exporter_, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "user") is None
            put(client, claim("after", "gpu-1", allocated=timestamp))
            await until(lambda: value(exporter_, "allotment_claims", "ml", "allocated") == 2)
            assert value(exporter_, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "user") == 1

    idle.run(scenario())
