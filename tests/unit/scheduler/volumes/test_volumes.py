"""Pods wait for their volumes with kube-scheduler's messages, and run where these can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import (
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from allotment.controllers.volumes.binder import volume_binder
from allotment.controllers.volumes.provisioner import NAME, volume_provisioner
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import NO_PROVISIONER
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, World, node, pod, world

Object = tuple[Resource, Tree]
ZONE = "topology.kubernetes.io/zone"
CONTROLLERS = (volume_binder, volume_provisioner())
NODES = (node("a", labels={ZONE: "one"}), node("b", labels={ZONE: "two"}))


def claim(name: str = "data", *, bound: str = "", storage_class: str = "", **more: Any) -> Object:
    """A claim; ``bound`` is the volume to which it is bound. Other fields of its spec are in ``more``."""
    metadata: Tree = {"name": name, "namespace": NAMESPACE, **more.pop("metadata", {})}
    spec = {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class, **more,
    }  # fmt: skip
    status: Tree = {"phase": "Pending"}
    if bound:
        spec["volumeName"], status["phase"] = bound, "Bound"
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return VOLUME_CLAIMS, {"metadata": metadata, "spec": spec, "status": status}


def volume(name: str = "disk", *, on: str = "", labels: dict[str, str] | None = None, **more: Any) -> Object:
    """A free volume; ``on`` is the only node that can use it."""
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "", **more}
    if on:
        rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    metadata = {"name": name, "labels": labels or {}}
    return VOLUMES, {"metadata": metadata, "spec": spec, "status": {"phase": "Available"}}


def waiting_class(name: str, provisioner: str = NAME, **more: Any) -> Object:
    """A class whose claims are bound when their first pod is scheduled."""
    return STORAGE_CLASSES, {
        "metadata": {"name": name}, "provisioner": provisioner, "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer", **more,
    }  # fmt: skip


def using(*claims: str, name: str = "web", **more: Any) -> Object:
    """A pod with volumes of claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **more)


def with_scratch(**spec: Any) -> Object:
    """A pod with an ephemeral volume."""
    template = {"spec": claim(**spec)[1]["spec"]}
    return pod("web", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


async def message(lab: World, name: str = "web") -> str:
    """Kubernetes' part of the message of a pending pod, without what was tried by preemption."""
    return (await lab.reported_message(name)).splitlines()[-1].split(" no new claims")[0].split(" preemption:")[0]


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}
LOST = (VOLUME_CLAIMS, {**claim(bound="gone")[1], "status": {"phase": "Lost"}})
OTHERS_SCRATCH = claim("web-scratch")
NO_MATCH = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([using("data")], 'persistentvolumeclaim "data" not found.'),
        ([using("data"), claim()], "pod has unbound immediate PersistentVolumeClaims."),
        ([using("data"), claim(storage_class="missing")], "pod has unbound immediate PersistentVolumeClaims."),
        ([using("data"), claim(metadata=DELETED)], 'persistentvolumeclaim "data" is being deleted.'),
        ([using("data"), LOST], 'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone".'),
        ([using("data"), claim(bound="gone")], 'persistentvolume "gone" not found.'),
        (
            [with_scratch()],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch".',
        ),
        ([with_scratch(), OTHERS_SCRATCH], "PVC ns/web-scratch was not created for pod ns/web (pod is not owner)."),
    ],
    ids=["missing", "unbound", "no-class", "deleted", "lost", "no-volume", "ephemeral", "not-owned"],
)
def test_pod_is_not_scheduled_before_its_claims_can_be_used(objects: Sequence[Object], expected: str) -> None:
    async def scenario() -> None:
        async with world(*NODES, *objects) as lab:
            # The end is what is left of the message about devices, which are not tried.
            assert await message(lab) == f"0/2 nodes are available: {expected} not found"

    idle.run(scenario())


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        (
            [claim(bound="disk"), volume(on="elsewhere")],
            "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.",
        ),
        (
            [claim(bound="disk"), volume(labels={ZONE: "three__four"})],
            "0/2 nodes are available: 2 node(s) had no available volume zone.",
        ),
        ([claim(storage_class="local"), waiting_class("local", NO_PROVISIONER)], NO_MATCH),
        (
            [
                claim(storage_class="zonal"),
                waiting_class(
                    "zonal", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["three"]}]}]
                ),
            ],
            NO_MATCH,
        ),
        (
            [
                claim(storage_class="full"), waiting_class("full", "csi.example.com"),
                (CSI_DRIVERS, {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}),
                (CSI_CAPACITIES, {
                    "metadata": {"name": "c", "namespace": NAMESPACE}, "storageClassName": "full", "capacity": "100Mi",
                    "nodeTopology": {},
                }),
            ],
            "0/2 nodes are available: 2 node(s) did not have enough free storage.",
        ),
    ],
    ids=["affinity", "zone", "no-match", "topologies", "capacity"],
)  # fmt: skip
def test_nodes_that_cannot_use_the_volumes_are_refused(objects: Sequence[Object], expected: str) -> None:
    async def scenario() -> None:
        async with world(*NODES, *objects, using("data")) as lab:
            assert await message(lab) == expected

    idle.run(scenario())


@pytest.mark.parametrize(
    "objects",
    [
        [claim(bound="disk"), volume(on="b")],
        [claim(bound="disk"), volume(labels={ZONE: "two"})],
        [claim(bound="disk"), volume(labels={"failure-domain.beta.kubernetes.io/zone": "zero__two"})],
        [
            claim(storage_class="local"), waiting_class("local", NO_PROVISIONER),
            volume(on="b", storageClassName="local"),
        ],
        [
            claim(storage_class="zonal"),
            waiting_class(
                "zonal", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["two"]}]}]
            ),
        ],
        [claim(storage_class="any", metadata={"annotations": {"volume.kubernetes.io/selected-node": "b"}}),
         waiting_class("any")],
    ],
    ids=["affinity", "zone", "beta-zone", "match", "topologies", "selected"],
)  # fmt: skip
def test_pod_runs_where_its_volume_can_be_used(objects: Sequence[Object]) -> None:
    async def scenario() -> None:
        async with world(*NODES, *objects, using("data"), programs=CONTROLLERS) as lab:
            await lab.bound("web")
            assert lab.node_of("web") == "b"

    idle.run(scenario())


def test_pod_is_bound_after_its_claims() -> None:
    async def scenario() -> None:
        objects = (
            waiting_class("any"), claim("provisioned", storage_class="any"), claim("matched", storage_class="any"),
            volume(storageClassName="any"), using("provisioned", "matched"),
        )  # fmt: skip
        async with world(*NODES, *objects, programs=CONTROLLERS) as lab:
            await lab.bound("web")
            for name in ("provisioned", "matched"):
                assert lab.client.objects[VOLUME_CLAIMS, NAMESPACE, name]["status"]["phase"] == "Bound"
            (static,) = [
                tree for (kind, _, name), tree in lab.client.objects.items() if (kind, name) == (VOLUMES, "disk")
            ]
            assert static["spec"]["claimRef"]["name"] in ("matched", "provisioned")

    idle.run(scenario())


def test_two_pods_do_not_choose_the_same_volume() -> None:
    async def scenario() -> None:
        objects = (
            waiting_class("local", NO_PROVISIONER), volume(storageClassName="local"),
            claim("x", storage_class="local"), claim("y", storage_class="local"),
            using("x", name="first"), using("y", name="second"),
        )  # fmt: skip
        async with world(*NODES, *objects, programs=(volume_binder,)) as lab:
            await lab.until(lambda: lab.node_of("first") or lab.node_of("second"))
            left = "second" if lab.node_of("first") else "first"
            assert await message(lab, left) == NO_MATCH

    idle.run(scenario())


def test_claim_for_one_pod_is_used_by_one_pod_at_a_time() -> None:
    async def scenario() -> None:
        single = claim(bound="disk", accessModes=["ReadWriteOncePod"])
        async with world(*NODES, volume(), single, using("data", name="first")) as lab:
            await lab.bound("first")
            lab.put(*using("data", name="second"))
            assert await message(lab, "second") == (
                "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
                "access mode already in-use by another pod."
            )
            lab.end("first")
            await lab.bound("second")

    idle.run(scenario())


def test_pod_of_higher_priority_gets_a_claim_for_one_pod() -> None:
    async def scenario() -> None:
        single = claim(bound="disk", accessModes=["ReadWriteOncePod"])
        async with world(*NODES, volume(), single, using("data", name="first")) as lab:
            await lab.bound("first")
            lab.put(*using("data", name="urgent", priority=10))
            await lab.until(lambda: (PODS, NAMESPACE, "first") not in lab.client.objects)
            await lab.bound("urgent")

    idle.run(scenario())


def csi_volume(name: str) -> Object:
    return volume(name, csi={"driver": "csi.example.com", "volumeHandle": name})


def test_node_takes_no_more_volumes_than_its_driver_allows() -> None:
    async def scenario() -> None:
        driver = {"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}
        limit = (CSI_NODES, {"metadata": {"name": "a"}, "spec": {"drivers": [driver]}})
        claims = (claim("x", bound="x"), claim("y", bound="y"), csi_volume("x"), csi_volume("y"))
        async with world(node("a"), limit, *claims, using("x", name="first")) as lab:
            await lab.bound("first")
            lab.put(*using("x", name="same"))
            await lab.bound("same")
            lab.put(*using("y", name="other"))
            assert await message(lab, "other") == ("0/1 nodes are available: 1 node(s) exceed max volume count.")
            lab.put(node("b")[0], node("b")[1])
            await lab.bound("other")
            assert lab.node_of("other") == "b"

    idle.run(scenario())


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_node_lacks_a_driver_that_requires_to_be_present_from_1_37(release: str) -> None:
    async def scenario() -> None:
        driver = {"metadata": {"name": "csi.example.com"}, "spec": {"preventPodSchedulingIfMissing": True}}
        objects = (node("a"), (CSI_DRIVERS, driver), claim(bound="x"), csi_volume("x"), using("data"))
        async with world(*objects, features=Features(release)) as lab:
            if release == "1.37":
                assert await message(lab) == (
                    "0/1 nodes are available: 1 csi.example.com CSI driver is not installed on the node."
                )
                spec = {"drivers": [{"name": "csi.example.com", "nodeID": "a"}]}
                lab.put(CSI_NODES, {"metadata": {"name": "a"}, "spec": spec})
            await lab.bound("web")

    idle.run(scenario())


def test_claim_of_a_pod_that_is_deleted_while_it_waits_is_left_to_the_next_pod() -> None:
    async def scenario() -> None:
        objects = (waiting_class("slow", "csi.example.com"), claim(storage_class="slow"), using("data", name="first"))
        async with world(*NODES, *objects) as lab:
            selected = "volume.kubernetes.io/selected-node"
            known = lab.client.objects
            await lab.until(
                lambda: selected in (known[VOLUME_CLAIMS, NAMESPACE, "data"]["metadata"].get("annotations") or {})
            )
            lab.end("first")
            lab.put(*using("data", name="second"))
            lab.put(*volume(storageClassName="slow"))
            lab.put(*claim(bound="disk", storage_class="slow"))
            await lab.bound("second")

    idle.run(scenario())
