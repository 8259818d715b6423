"""Pods are scheduled where their volumes are: machines are ordered there, and moved pods stay within reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from allotment.autoscaler.options import AutoscalerOptions
from allotment.cluster.resources import NODES, REPLICA_SETS, VOLUME_CLAIMS, VOLUMES
from allotment.model.trees import Tree
from tests.unit.autoscaler.world import TYPES, World, options, world
from tests.unit.cluster import idle

ZONE = "topology.kubernetes.io/zone"
_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": True}


def run_scenario(chosen: AutoscalerOptions, scenario: Callable[[World], Awaitable[None]], speed: float = 60.0) -> None:
    async def test() -> None:
        async with world(chosen, speed) as cluster:
            cluster.client.put(REPLICA_SETS, {"metadata": {"name": "web", "namespace": "ns", "uid": "set"}})
            await scenario(cluster)

    idle.run(test())


def terms(*zones: str) -> Tree:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}]}


def volume(cluster: World, name: str, zone: str) -> None:
    spec = {"nodeAffinity": {"required": terms(zone)}}
    cluster.client.put(VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": spec})
    claim = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": f"pv-{name}"}}
    cluster.client.put(VOLUME_CLAIMS, claim)


def using(name: str) -> Tree:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}


def test_a_machine_is_ordered_in_the_zone_of_the_volume() -> None:
    zone = TYPES[0].zones[-1]

    async def scenario(cluster: World) -> None:
        volume(cluster, "data", zone)
        cluster.pod("a", spec=using("data"))
        await cluster.until(lambda: cluster.nominated("a"))
        (node,) = cluster.all(NODES)
        assert node["metadata"]["labels"][ZONE] == zone

    assert zone != TYPES[0].zones[0]
    run_scenario(options()._replace(planner=None), scenario)


def test_nothing_is_ordered_for_a_pod_without_its_volume_claim() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a", spec=using("data"))
        cluster.pod("b")
        await cluster.until(lambda: cluster.event_texts("NotTriggerScaleUp"))
        text = "no machine is ordered: PersistentVolumeClaim ns/data does not exist"
        assert cluster.event_texts("NotTriggerScaleUp") == [text]
        await cluster.until(lambda: cluster.nominated("b"))
        assert len(cluster.provider_machines()) == 1
        volume(cluster, "data", TYPES[0].zones[0])
        room = f"no machine is ordered: node {cluster.nominated('b')} already has capacity for it"
        await cluster.until(lambda: room in cluster.event_texts("NotTriggerScaleUp"))

    run_scenario(options()._replace(planner=None), scenario)


def test_pods_with_volumes_move_only_within_their_zone() -> None:
    async def scenario(cluster: World) -> None:
        for name in "abc":
            volume(cluster, name, TYPES[0].zones[0] if name != "c" else "elsewhere")
            cluster.pod(name, ownerReferences=[_SET], labels={"app": "web"}, spec=using(name))
        await cluster.until(lambda: len(cluster.event_texts("MachineReady")) == 3)
        placed = {name: cluster.nominated(name) for name in "abc"}
        for name, node in placed.items():
            cluster.bind(name, node)
        await cluster.until(lambda: list(cluster.machines()) == [placed["c"]])
        assert sorted(cluster.client.evicted) == ["a", "b"]

    chosen = options(consolidation="cheaper", consolidate_after=20, budget="100%")
    run_scenario(chosen, scenario)
