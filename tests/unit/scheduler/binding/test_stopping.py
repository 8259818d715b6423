"""Shutdown: a scheduler finishes no long waits; the next one continues."""

from __future__ import annotations

import asyncio

from allotment.cluster.resources import CLAIMS
from allotment.cluster.shutdown import Shutdown
from tests.unit.cluster import idle
from tests.unit.scheduler.coexistence.test_coexistence import foreign_pending_pod
from tests.unit.scheduler.world import World, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 1), device_class(), claim("one"), pod("p", "one"))
READY = {
    "driver": "gpu.example.com", "pool": "a", "device": "gpu-0", "conditions": [{"type": "ready", "status": "True"}],
}  # fmt: skip


async def _stopped(lab: World, stopping: Shutdown) -> None:
    stopping.start()
    async with asyncio.timeout(2):
        await lab.ended.wait()


def test_a_settling_pod_is_left_to_the_next_scheduler() -> None:
    async def scenario() -> None:
        stopping = Shutdown()
        async with world(*CLUSTER, foreign_pending_pod(), settle=300, stopping=stopping) as first:
            await first.until(lambda: first.users("one") == ["p"])
            allocated = first.claim("one")["status"]["allocation"]
            await _stopped(first, stopping)
            assert first.node_of("p") == ""
            assert (first.claim("one")["status"]["allocation"], first.users("one")) == (allocated, ["p"])
        async with world(client=first.client, settle=0.1) as second:
            await second.bound("p")
            assert second.claim("one")["status"]["allocation"] == allocated

    idle.run(scenario())


def test_a_pod_waiting_for_binding_conditions_is_left_to_the_next_scheduler() -> None:
    async def scenario() -> None:
        stopping = Shutdown()
        slow = gpus("a", 1, bindsToNode=True, bindingConditions=["ready"])
        async with world(*CLUSTER, slow, stopping=stopping) as first:
            await first.until(lambda: first.events("BindingConditionsPending"))
            await _stopped(first, stopping)
            assert (first.node_of("p"), first.users("one")) == ("", ["p"])
        async with world(client=first.client) as second:
            tree = second.claim("one")
            second.put(CLAIMS, {**tree, "status": {**tree["status"], "devices": [READY]}})
            await second.bound("p")

    idle.run(scenario())


def test_a_binding_in_flight_finishes_before_shutdown() -> None:
    async def scenario() -> None:
        stopping = Shutdown()
        async with world(*CLUSTER, stopping=stopping) as lab:
            # The claim is written: what follows takes no time.
            lab.client.on_claim = lambda tree: stopping.start()
            async with asyncio.timeout(2):
                await lab.ended.wait()
            assert lab.node_of("p") == "a"

    idle.run(scenario())
