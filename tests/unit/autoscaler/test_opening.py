"""Nodes accept pods once they are complete, and together if pods of one could take devices of the other."""

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
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine, PodPlacement, ProvisioningPlan
from tests.unit.autoscaler.world import BIG, SMALL, TYPES, World, options, world
from tests.unit.cluster import idle


def run_scenario(chosen: AutoscalerOptions, scenario: Callable[[World], Awaitable[None]], speed: float = 30.0) -> None:
    async def test() -> None:
        async with world(chosen, speed) as cluster:
            await scenario(cluster)

    idle.run(test())


def by_name(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
    """Plan a big machine for each pod named big…, and a small one for each other pod."""
    waiting = [v for v in values if isinstance(v, Pod) and not v.spec.node_name and not v.status.nominated_node_name]
    machines = []
    for number, pod in enumerate(waiting):
        key = BIG if pod.metadata.name.startswith("big") else SMALL
        kind = next(instance for instance in TYPES if instance.key == key)
        placement = PodPlacement(pod=ObjectKey(pod.metadata.namespace, pod.metadata.name), node=f"new-{number}")
        machines.append(
            PlannedMachine(
                node=placement.node, instance=key, form=kind.hardware, zone="us-east-1a", capacity_type="on-demand",
                usd_per_hour=Decimal(1), placements=(placement,), drivers=("gpu.nvidia.com",),
            )
        )  # fmt: skip
    return ProvisioningPlan(machines=tuple(machines))


def pod_spec(cpu: str) -> Tree:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


def reserved_for(cluster: World, node: str) -> str:
    taints = cluster.client.objects[NODES, "", node]["spec"].get("taints") or ()
    return next((taint["value"] for taint in taints if taint["key"] == RESERVED), "")


def has_toleration(cluster: World, pod: str) -> list[str]:
    tolerations = cluster.get(pod)["spec"].get("tolerations") or ()
    return [toleration["value"] for toleration in tolerations if toleration["key"] == RESERVED]


def small(cluster: World) -> str:
    return next((name for name, kind in cluster.machines().items() if kind == "g4dn.xlarge"), "")


def test_a_node_is_cordoned_until_its_devices_are_published() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: small(cluster) and not cluster.is_open(small(cluster)))
        node = small(cluster)
        assert PROVISIONING in cluster.client.objects[NODES, "", node]["metadata"]["annotations"]
        await cluster.until(lambda: cluster.is_open(node))
        assert cluster.nominated("a") == node
        assert PROVISIONING not in cluster.client.objects[NODES, "", node]["metadata"]["annotations"]

    run_scenario(options(planner=by_name), scenario)


def test_nodes_open_together_if_pods_of_one_could_take_devices_of_the_other() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("small", spec=pod_spec("1"))
        cluster.pod("big", spec=pod_spec("2"))
        await cluster.until(lambda: small(cluster))
        node = small(cluster)
        await cluster.after(10)
        assert not cluster.is_open(node)
        assert cluster.nominated("small") == ""
        await cluster.until(lambda: len(cluster.machines()) == 2)
        await cluster.until(lambda: all(map(cluster.is_open, cluster.machines())))
        assert cluster.nominated("small") == node
        assert cluster.nominated("big") not in ("", node)

    run_scenario(options("aws/g5.*=slow:30", planner=by_name), scenario)


def test_machines_of_equivalent_pods_open_independently() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("small", spec=pod_spec("1"))
        cluster.pod("big", spec=pod_spec("1"))
        await cluster.until(lambda: small(cluster))
        await cluster.until(lambda: cluster.is_open(small(cluster)))
        assert len(cluster.machines()) == 1

    run_scenario(options("aws/g5.*=slow:300", planner=by_name), scenario)


def test_a_failed_machine_delays_others_only_for_the_opening_window() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("small", spec=pod_spec("1"))
        cluster.pod("big", spec=pod_spec("2"))
        await cluster.until(lambda: small(cluster))
        await cluster.after(10)
        assert not cluster.is_open(small(cluster))
        await cluster.until(lambda: cluster.is_open(small(cluster)))
        assert cluster.nominated("small") == small(cluster)
        assert len(cluster.machines()) == 1

    run_scenario(options("aws/g5.*=lost", planner=by_name, opening_window=20), scenario)


def test_a_foreign_cordon_is_kept() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("small", spec=pod_spec("1"))
        cluster.pod("big", spec=pod_spec("2"))
        await cluster.until(lambda: small(cluster) and not cluster.is_open(small(cluster)))
        node = cluster.client.objects[NODES, "", small(cluster)]
        message = {key: value for key, value in node["metadata"]["annotations"].items() if key != PROVISIONING}
        cluster.client.put(NODES, {**node, "metadata": {**node["metadata"], "annotations": message}})
        await cluster.until(lambda: len(cluster.event_texts("MachineReady")) == 2)
        assert not cluster.is_open(small(cluster))

    run_scenario(options("aws/g5.*=slow:10", planner=by_name), scenario)


def test_a_node_opens_first_for_the_pods_it_was_ordered_for() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("small", spec=pod_spec("1") | {"tolerations": [{"key": "mine", "operator": "Exists"}]})
        cluster.pod("big", spec=pod_spec("2"))
        await cluster.until(lambda: len(cluster.event_texts("MachineReady")) == 2)
        for pod in ("small", "big"):
            assert has_toleration(cluster, pod) == [reserved_for(cluster, cluster.nominated(pod))] != [""]
        assert cluster.get("small")["spec"]["tolerations"][0] == {"key": "mine", "operator": "Exists"}
        node, other = cluster.nominated("small"), cluster.nominated("big")
        cluster.bind("small", node)
        await cluster.until(lambda: not reserved_for(cluster, node))
        assert reserved_for(cluster, other)
        cluster.end("big")
        await cluster.until(lambda: not reserved_for(cluster, other))

    run_scenario(options(planner=by_name), scenario)


def test_an_unused_node_is_reserved_for_only_thirty_seconds() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("small")
        await cluster.until(lambda: cluster.event_texts("MachineReady"))
        node = cluster.nominated("small")
        assert reserved_for(cluster, node)
        await cluster.after(20)
        assert reserved_for(cluster, node)
        await cluster.until(lambda: not reserved_for(cluster, node))

    run_scenario(options(planner=by_name), scenario, speed=60)


def test_without_permission_to_patch_pods_nodes_open_for_all_pods() -> None:
    async def scenario(cluster: World) -> None:
        cluster.client.unchangeable.add(PODS)
        cluster.pod("small")
        await cluster.until(lambda: cluster.event_texts("MachineReady"))
        node = cluster.nominated("small")
        assert cluster.is_open(node)
        assert not reserved_for(cluster, node)
        assert not has_toleration(cluster, "small")

    run_scenario(options(planner=by_name), scenario)


def test_reservations_are_no_input_of_plans() -> None:
    toleration = {"key": RESERVED, "operator": "Equal", "value": "order", "effect": "NoSchedule"}
    own = {"key": "mine", "operator": "Exists"}
    assert unreserved({"spec": {"tolerations": [own, toleration]}}) == {"spec": {"tolerations": [own]}}
    assert unreserved({"spec": {"tolerations": [toleration]}}) == {"spec": {}}
    taint = {"key": RESERVED, "value": "order", "effect": "NoSchedule"}
    assert unreserved({"spec": {"taints": [taint], "unschedulable": True}}) == {"spec": {"unschedulable": True}}
    plain: Tree = {"kind": "ConfigMap"}
    assert unreserved(plain) is plain
