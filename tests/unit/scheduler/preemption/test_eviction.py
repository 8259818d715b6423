"""Preemption when the API server rejects requests at first."""

from __future__ import annotations

import pytest

from allotment.cluster.client import Propagation, Resource
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import SchedulingClient, node, pod, world


class FailingClient(SchedulingClient):
    """Raises the given errors for the first deletions."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        if self.errors and resource == PODS:
            raise self.errors.pop(0)
        return await super().delete(resource, name, namespace, uid=uid)


@pytest.mark.parametrize(
    "error", [Unreachable("it is restarted"), refusal(500, "InternalError", "the webhook"), refusal(403, "Forbidden")]
)
def test_a_failed_preemption_is_retried(error: Exception) -> None:
    async def scenario() -> None:
        client = FailingClient(error, error)
        async with world(node("a"), pod("low", requests={"cpu": "8"}), client=client) as lab:
            await lab.bound("low")
            lab.put(*pod("high", requests={"cpu": "4"}, priority=100))
            await lab.bound("high")
            assert not client.errors

    idle.run(scenario())
