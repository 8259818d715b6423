"""Nodes take pods when all is there that they were planned with, and together where pods could take each other's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal

from allotment.autoscaler.cordon import PROVISIONING
from allotment.autoscaler.options import AutoscalerOptions
from allotment.autoscaler.reservation import RESERVED, unreserved
from allotment.cluster.resources import NODES, PODS
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.trees import Tree
from allotment.packing.problem import KeepGoing
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.report import PlannedMachine, PodPlacement, ProvisioningPlan
from tests.unit.autoscaler.world import BIG, SMALL, TYPES, World, options, world
from tests.unit.cluster import idle


def play(chosen: AutoscalerOptions, story: Callable[[World], Awaitable[None]], speed: float = 30.0) -> None:
    async def test() -> None:
        async with world(chosen, speed) as cluster:
            await story(cluster)

    idle.run(test())


def by_name(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
    """Pods called big… get a big machine each, all others a small one."""
    waiting = [v for v in values if isinstance(v, Pod) and not v.spec.node_name and not v.status.nominated_node_name]
    machines = []
    for number, pod in enumerate(waiting):
        key = BIG if pod.metadata.name.startswith("big") else SMALL
        kind = next(one for one in TYPES if one.key == key)
        seat = PodPlacement(pod=ObjectKey(pod.metadata.namespace, pod.metadata.name), node=f"new-{number}")
        machines.append(
            PlannedMachine(
                node=seat.node, instance=key, form=kind.hardware, zone="us-east-1a", capacity_type="on-demand",
                usd_per_hour=Decimal(1), seats=(seat,), drivers=("gpu.nvidia.com",),
            )
        )  # fmt: skip
    return ProvisioningPlan(machines=tuple(machines))


def asks(cpu: str) -> Tree:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


def kept_for(cluster: World, node: str) -> str:
    taints = cluster.client.objects[NODES, "", node]["spec"].get("taints") or ()
    return next((one["value"] for one in taints if one["key"] == RESERVED), "")


def let_onto(cluster: World, pod: str) -> list[str]:
    tolerations = cluster.get(pod)["spec"].get("tolerations") or ()
    return [one["value"] for one in tolerations if one["key"] == RESERVED]


def small(cluster: World) -> str:
    return next((name for name, kind in cluster.machines().items() if kind == "g4dn.xlarge"), "")


def test_a_node_is_closed_until_its_devices_are_there() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: small(cluster) and not cluster.is_open(small(cluster)))
        node = small(cluster)
        assert PROVISIONING in cluster.client.objects[NODES, "", node]["metadata"]["annotations"]
        await cluster.until(lambda: cluster.is_open(node))
        assert cluster.nominated("a") == node
        assert PROVISIONING not in cluster.client.objects[NODES, "", node]["metadata"]["annotations"]

    play(options(planner=by_name), story)


def test_nodes_open_together_where_pods_of_one_could_take_the_devices_of_the_other() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("small", spec=asks("1"))
        cluster.pod("big", spec=asks("2"))
        await cluster.until(lambda: small(cluster))
        node = small(cluster)
        await cluster.after(10)
        assert not cluster.is_open(node)
        assert cluster.nominated("small") == ""
        await cluster.until(lambda: len(cluster.machines()) == 2)
        await cluster.until(lambda: all(map(cluster.is_open, cluster.machines())))
        assert cluster.nominated("small") == node
        assert cluster.nominated("big") not in ("", node)

    play(options("aws/g5.*=slow:30", planner=by_name), story)


def test_nobody_waits_for_machines_of_pods_that_ask_the_same() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("small", spec=asks("1"))
        cluster.pod("big", spec=asks("1"))
        await cluster.until(lambda: small(cluster))
        await cluster.until(lambda: cluster.is_open(small(cluster)))
        assert len(cluster.machines()) == 1

    play(options("aws/g5.*=slow:300", planner=by_name), story)


def test_a_machine_that_never_comes_holds_others_up_for_a_while_only() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("small", spec=asks("1"))
        cluster.pod("big", spec=asks("2"))
        await cluster.until(lambda: small(cluster))
        await cluster.after(10)
        assert not cluster.is_open(small(cluster))
        await cluster.until(lambda: cluster.is_open(small(cluster)))
        assert cluster.nominated("small") == small(cluster)
        assert len(cluster.machines()) == 1

    play(options("aws/g5.*=lost", planner=by_name, opening_window=20), story)


def test_a_cordon_of_somebody_else_stays() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("small", spec=asks("1"))
        cluster.pod("big", spec=asks("2"))
        await cluster.until(lambda: small(cluster) and not cluster.is_open(small(cluster)))
        node = cluster.client.objects[NODES, "", small(cluster)]
        said = {key: value for key, value in node["metadata"]["annotations"].items() if key != PROVISIONING}
        cluster.client.put(NODES, {**node, "metadata": {**node["metadata"], "annotations": said}})
        await cluster.until(lambda: len(cluster.told("MachineReady")) == 2)
        assert not cluster.is_open(small(cluster))

    play(options("aws/g5.*=slow:10", planner=by_name), story)


def test_a_node_opens_for_those_first_for_whom_it_was_bought() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("small", spec=asks("1") | {"tolerations": [{"key": "mine", "operator": "Exists"}]})
        cluster.pod("big", spec=asks("2"))
        await cluster.until(lambda: len(cluster.told("MachineReady")) == 2)
        for pod in ("small", "big"):
            assert let_onto(cluster, pod) == [kept_for(cluster, cluster.nominated(pod))] != [""]
        assert cluster.get("small")["spec"]["tolerations"][0] == {"key": "mine", "operator": "Exists"}
        node, other = cluster.nominated("small"), cluster.nominated("big")
        cluster.bind("small", node)
        await cluster.until(lambda: not kept_for(cluster, node))
        assert kept_for(cluster, other)
        cluster.end("big")
        await cluster.until(lambda: not kept_for(cluster, other))

    play(options(planner=by_name), story)


def test_a_node_that_nobody_takes_is_kept_for_half_a_minute_only() -> None:
    async def story(cluster: World) -> None:
        cluster.pod("small")
        await cluster.until(lambda: cluster.told("MachineReady"))
        node = cluster.nominated("small")
        assert kept_for(cluster, node)
        await cluster.after(20)
        assert kept_for(cluster, node)
        await cluster.until(lambda: not kept_for(cluster, node))

    play(options(planner=by_name), story, speed=60)


def test_where_pods_may_not_be_changed_nodes_open_for_everybody() -> None:
    async def story(cluster: World) -> None:
        cluster.client.unchangeable.add(PODS)
        cluster.pod("small")
        await cluster.until(lambda: cluster.told("MachineReady"))
        node = cluster.nominated("small")
        assert cluster.is_open(node)
        assert not kept_for(cluster, node)
        assert not let_onto(cluster, "small")

    play(options(planner=by_name), story)


def test_what_was_reserved_is_nothing_that_plans_are_made_of() -> None:
    toleration = {"key": RESERVED, "operator": "Equal", "value": "order", "effect": "NoSchedule"}
    own = {"key": "mine", "operator": "Exists"}
    assert unreserved({"spec": {"tolerations": [own, toleration]}}) == {"spec": {"tolerations": [own]}}
    assert unreserved({"spec": {"tolerations": [toleration]}}) == {"spec": {}}
    taint = {"key": RESERVED, "value": "order", "effect": "NoSchedule"}
    assert unreserved({"spec": {"taints": [taint], "unschedulable": True}}) == {"spec": {"unschedulable": True}}
    plain: Tree = {"kind": "ConfigMap"}
    assert unreserved(plain) is plain
