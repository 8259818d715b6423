"""A parked pod is retried when its own claim is replaced or allocated, as with Kubernetes' queueing hint for claims.

It is not retried when the claim is only deleted or labelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from allotment.cluster.resources import CLAIMS
from allotment.scheduler.attempt import Outcome, SchedulingAlgorithm
from allotment.scheduler.claim_ledger import CachedClaim
from allotment.scheduler.pods import QueuedPod
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, World, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class(), claim("c", count=8), pod("p", "c"))


def _in_two_changes(lab: World) -> None:
    lab.client.remove(CLAIMS, NAMESPACE, "c")
    lab.put(*claim("c", count=2))


def _in_one_change(lab: World) -> None:
    """As a cache sees it that lists again because its watch expired."""
    _in_two_changes(lab)
    lab.client.forget()
    lab.client.drop()


@pytest.mark.parametrize("replace", [_in_two_changes, _in_one_change])
def test_a_pod_without_devices_is_scheduled_after_its_claim_was_replaced(replace: Callable[[World], None]) -> None:
    async def scenario() -> None:
        async with world(*CLUSTER) as lab:
            await lab.reported_message("p")
            replace(lab)
            await lab.bound("p")
            assert len(lab.devices("c")) == 2

    idle.run(scenario())


def test_only_the_pod_of_the_changed_claim_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    attempted: list[str] = []
    schedule = SchedulingAlgorithm.schedule

    def recorded(self: SchedulingAlgorithm, pod: QueuedPod, claims: list[CachedClaim], *rest: Any) -> Outcome:
        attempted.append(pod.key.name)
        return schedule(self, pod, claims, *rest)

    async def scenario() -> None:
        async with world(*CLUSTER, claim("d", count=8), pod("q", "d")) as lab:
            await lab.reported_message("p")
            await lab.reported_message("q")
            monkeypatch.setattr(SchedulingAlgorithm, "schedule", recorded)
            lab.put(*claim("d", count=8, labels={"team": "ml"}))
            lab.client.remove(CLAIMS, NAMESPACE, "d")
            lab.client.remove(CLAIMS, NAMESPACE, "c")
            lab.put(*claim("c"))
            await lab.bound("p")

    idle.run(scenario())
    assert set(attempted) == {"p"}
