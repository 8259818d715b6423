"""Migrations simulated on a fleet or in a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectMeta, OwnerReference
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.simulation.comparison import Comparison, WorkloadComparison, compare
from allotment.tools.migrate.simulation.expected_slices import with_expected
from allotment.tools.migrate.target import MigrationStrategy, Target
from tests.unit.tools.migrate.manifests import documents


def on_fleet(*texts: str, fleet: str, strategy: MigrationStrategy = "auto", kube: str = "1.36") -> Migration:
    """Manifests migrated to a fleet."""
    cluster = cluster_of(parse_fleet([fleet]), kube)
    target = Target(
        kube=kube, features=Features(kube=kube), strategy=strategy, known=True, nodes=cluster.nodes,
        slices=cluster.slices,
        classes=cluster.classes, objects=(*cluster.nodes, *cluster.slices, *cluster.classes), fleet=(fleet,),
    )  # fmt: skip
    return migrate(documents(*texts), target)


def in_cluster(
    *texts: str, objects: Iterable[Object], strategy: MigrationStrategy = "auto", kube: str = "1.36"
) -> Migration:
    """Manifests migrated to a cluster with these objects."""
    listed = tuple(objects)
    target = Target(
        kube=kube,
        features=Features(kube=kube),
        strategy=strategy,
        known=True,
        nodes=tuple(value for value in listed if isinstance(value, Node)),
        slices=tuple(value for value in listed if isinstance(value, ResourceSlice)),
        classes=tuple(value for value in listed if isinstance(value, DeviceClass)),
        objects=listed,
    )
    return migrate(documents(*texts), with_expected(target))


def tried(migration: Migration) -> Comparison:
    """The comparison of a migration with a known target."""
    trial = compare(migration)
    assert trial is not None
    return trial


def row(migration: Migration, name: str = "") -> WorkloadComparison:
    """The comparison of a workload whose name ends so; without a name, of the only workload."""
    found = [workload_ for workload_ in tried(migration).workloads if workload_.subject.endswith(name)]
    assert len(found) == 1
    return found[0]


def node(name: str, labels: dict[str, str] | None = None, **allocatable: int) -> Node:
    """A node with a device plugin: ``nvidia_com_gpu=4``."""
    amounts = {key.replace("_com_", ".com/"): Quantity.of_int(count) for key, count in allocatable.items()}
    metadata = ObjectMeta(name=name, labels=labels or {})
    return Node(metadata=metadata, status=NodeStatus(allocatable=amounts, capacity=amounts))


def t4s(name: str, gpus: int = 4, shared: int = 0) -> Node:
    """A node with T4s, with the labels of feature discovery and the resources of the device plugin."""
    labels = {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.memory": "15360"}
    labels["nvidia.com/gpu.product"] = "Tesla-T4-SHARED" if shared else "Tesla-T4"
    labels["nvidia.com/gpu.replicas"] = str(shared or 1)
    return node(name, labels, nvidia_com_gpu=gpus * (shared or 1))


def running(name: str, on: str, owner: tuple[str, str] | None = None, **limits: int) -> Pod:
    """A running pod with GPUs of the device plugin."""
    amounts = {key.replace("_com_", ".com/"): Quantity.of_int(count) for key, count in limits.items()}
    owners = (OwnerReference(kind=owner[0], name=owner[1], controller=True),) if owner else ()
    container = Container(name="main", resources=ResourceRequirements(limits=amounts, requests=amounts))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", owner_references=owners),
        spec=PodSpec(node_name=on, containers=(container,)),
        status=PodStatus(phase="Running"),
    )
