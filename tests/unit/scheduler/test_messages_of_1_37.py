"""The messages of pending pods in Kubernetes 1.37, where they differ from those of 1.36."""

from __future__ import annotations

import pytest

from allotment.cluster.resources import PODS
from allotment.model.features import Features
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, claim, device_class, gpus, node, pod, world


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("1.36", ". still not schedulable, preemption: 0/1 nodes are available: "),
        ("1.37", ". preemption: 0/1 nodes are available: "),
    ],
)
def test_a_pod_without_devices(release: str, text: str) -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("a"), gpus("a", 1))
        async with world(*cluster, claim("c", count=2), pod("p", "c"), features=Features(release)) as lab:
            message = await lab.reported_message("p")
            sentence = f"0/1 nodes are available: 1 cannot allocate all claims{text}1 Preemption is not helpful for "
            assert sentence in message

    idle.run(scenario())


@pytest.mark.parametrize(
    ("release", "text"),
    [("1.36", ""), ("1.37", " preemption: found a potential placement for pod on node a, preempting 1 victims")],
)
def test_a_pod_that_preempts(release: str, text: str) -> None:
    async def scenario() -> None:
        low = pod("low", nodeName="a", requests={"cpu": "8"}, priority=0)
        low[1]["metadata"]["finalizers"] = ["wait"]
        async with world(node("a", cpu="8"), low, features=Features(release)) as lab:
            lab.put(*pod("high", requests={"cpu": "8"}, priority=10))
            message = await lab.reported_message("high")
            assert message.endswith(f"0/1 nodes are available: 1 Insufficient cpu.{text}")
            lab.client.remove(PODS, NAMESPACE, "low")
            await lab.bound("high")

    idle.run(scenario())
