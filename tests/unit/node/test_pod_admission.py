"""A pod that names its node fails if it does not fit there, with the kubelet's reasons."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.resources import NODES
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.node.world import NODE, world

PORT: Tree = {"ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]}
SCHEDULED: Tree = {"conditions": [{"type": "PodScheduled", "status": "True"}]}


def requesting(**requests: str) -> Tree:
    return {"main": {"resources": {"requests": requests}}}


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"main": PORT}, "NodePorts",
         "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"),
        (requesting(cpu="7500m"), "OutOfcpu",
         "Node didn't have enough resource: cpu, requested: 7500, used: 1000, capacity: 8000"),
        ({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity",
         "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
    ],
    ids=["ports", "cpu", "selector"],
)  # fmt: skip
def test_pod_that_does_not_fit_is_rejected(fields: dict[str, Any], reason: str, message: str) -> None:
    async def scenario() -> None:
        async with world() as on:
            on.pod("first", main={**PORT, "resources": {"requests": {"cpu": "1"}}})
            await on.until(lambda: on.phase("first") == "Running")
            on.pod(**fields)
            await on.until(lambda: on.phase() == "Failed")
            await on.flush_events()
            status = on.now()["status"]
            assert (status["reason"], status["message"]) == (reason, f"Pod was rejected: {message}")
            assert on.events(reason) == [message]
            assert on.runtime.started == ["main"]

    idle.run(scenario())


def test_pod_does_not_tolerate_that_the_node_evicts_pods() -> None:
    async def scenario() -> None:
        async with world() as on:
            node = on.client.objects[NODES, "", NODE]
            taint = {"key": "maintenance", "effect": "NoExecute"}
            on.client.put(NODES, {**node, "spec": {"taints": [taint]}})
            on.pod()
            await on.until(lambda: on.phase() == "Failed")
            assert on.now()["status"]["reason"] == "TaintToleration"
            on.pod("other", tolerations=[{"operator": "Exists"}])
            await on.until(lambda: on.phase("other") == "Running")

    idle.run(scenario())


def test_pods_that_a_scheduler_assigned_and_ports_of_ended_pods_are_not_rejected() -> None:
    async def scenario() -> None:
        async with world() as on:
            on.pod("first", main=PORT, restartPolicy="Never")
            await on.until(lambda: on.phase("first") == "Running")
            on.pod("scheduled", main=PORT, status=SCHEDULED)
            await on.until(lambda: on.phase("scheduled") == "Running")
            for name in ("first", "scheduled"):
                on.delete(name)
            await on.until(lambda: not on.exists("first") and not on.exists("scheduled"))
            on.pod("next", main=PORT)
            await on.until(lambda: on.phase("next") == "Running")

    idle.run(scenario())
