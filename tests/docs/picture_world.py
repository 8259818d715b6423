"""The cluster in the pictures of the documentation: four teams, eight machines, and pending pods with three causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace as replace_fields
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.model.core import Node
from allotment.model.meta import Object
from allotment.model.resource import (
    CELDeviceSelector,
    DeviceClaim,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceSlice,
)
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import fleet, pod, request, template, view

#: When the pictures are taken.
NOW: Final = "2026-11-03T08:00:00Z"
_REGION: Final = "us-east-1"


class _Machine(NamedTuple):
    """``hardware``: as in ``allot fleet list``. ``instance``: its type at AWS, which has a price."""

    name: str
    hardware: str
    instance: str
    zone: str


_MACHINES: Final = (
    _Machine("a100-1", "dgx-a100-40gb", "p4d.24xlarge", "a"),
    _Machine("a100-2", "dgx-a100-40gb", "p4d.24xlarge", "a"),
    _Machine("a100-mig", "dgx-a100-40gb/static-mig=3g.20gb+2g.10gb+1g.5gb:2", "p4d.24xlarge", "b"),
    _Machine("h100-1", "hgx-h100-aws-p5", "p5.48xlarge", "a"),
    _Machine("h100-2", "hgx-h100-aws-p5", "p5.48xlarge", "a"),
    _Machine("l40s-1", "l40s-8x-pcie", "g6e.48xlarge", "b"),
    _Machine("t4-1", "t4-4x-pcie", "g4dn.12xlarge", "b"),
    _Machine("t4-2", "t4-4x-pcie", "g4dn.12xlarge", "b"),
)


class _Running(NamedTuple):
    """Pods of a workload on a node. ``devices``: of each pod. ``of``: a part of the names of its devices."""

    namespace: str
    workload: str
    node: str
    pods: int = 1
    devices: int = 1
    of: str = "gpu"


_RUNNING: Final = (
    _Running("research", "Job/pretrain", "h100-1", devices=8),
    _Running("research", "Job/ablation", "h100-2", pods=2, devices=2),
    _Running("research", "Job/ablation", "a100-2", devices=4),
    _Running("assistants", "StatefulSet/summarize", "h100-2", pods=2),
    _Running("assistants", "StatefulSet/summarize", "a100-1", pods=3),
    _Running("vision", "StatefulSet/segment", "a100-1", pods=2, devices=2),
    _Running("vision", "StatefulSet/detect", "l40s-1", pods=5),
    _Running("notebooks", "StatefulSet/jupyter", "a100-mig", pods=4, of="3g20gb"),
    _Running("notebooks", "StatefulSet/jupyter", "a100-mig", pods=7, of="1g5gb"),
    _Running("vision", "StatefulSet/label", "a100-mig", pods=3, of="2g10gb"),
    _Running("notebooks", "StatefulSet/course", "t4-1", pods=3),
    _Running("notebooks", "StatefulSet/course", "t4-2", pods=1),
)


def _wanted(device_class: str, expression: str, count: int = 1) -> ResourceClaimSpec:
    exactly = ExactDeviceRequest(
        device_class_name=device_class, allocation_mode="ExactCount", count=count,
        selectors=(DeviceSelector(cel=CELDeviceSelector(expression=expression)),) if expression else (),
    )  # fmt: skip
    return ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),)))


_MEMORY: Final = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'
_H100: Final = 'device.attributes["gpu.nvidia.com"].productName.contains("H100")'
#: Namespace, workload, number of pods, since when, and what each pod requests.
_Waiting = tuple[str, str, int, str, ResourceClaimSpec]
_PENDING: Final[Sequence[_Waiting]] = (
    ("assistants", "StatefulSet/chat", 4, "2026-11-03T06:15:00Z", _wanted("gpu.nvidia.com", _MEMORY)),
    ("research", "Job/finetune", 2, "2026-11-02T21:40:00Z", _wanted("gpu.nvidia.com", _H100, 8)),
    ("notebooks", "StatefulSet/lecture", 1, "2026-11-03T07:32:00Z", _wanted("mig.nvidia.co", "")),
)


def picture_world() -> ClusterView:
    """Return the cluster."""
    return replace_fields(view(*_objects()), name="gpu-prod", seen_at=NOW)


def picture_history() -> Sequence[ClusterView]:
    """Return the states of a lab while its workloads start, oldest first."""
    clocks = (f"2026-11-03T07:{10 + 4 * minute:02}:00Z" for minute in range(len(_RUNNING) + 1))
    views = (view(*_objects(_RUNNING[:count], ()), revision=1 + count) for count in range(len(_RUNNING) + 1))
    return [
        replace_fields(each, name="allotment", place="lab", seen_at=clock)
        for each, clock in zip(views, clocks, strict=True)
    ]


def _objects(started: Sequence[_Running] = _RUNNING, pending: Sequence[_Waiting] = _PENDING) -> Iterator[Object]:
    machines = {machine.name: machine for machine in _MACHINES}
    free: dict[str, list[str]] = {}
    for value in fleet(*(f"{machine.name}={machine.hardware}" for machine in _MACHINES)):
        if isinstance(value, ResourceSlice):
            free.setdefault(value.spec.pool.name, []).extend(device.name for device in value.spec.devices or ())
        yield _at_provider(value, machines[value.metadata.name]) if isinstance(value, Node) else value
    numbers: Counter[tuple[str, str]] = Counter()
    for running in started:
        yield from _pods(running, free[running.node], numbers)
    for namespace, workload, count, since, spec in pending:
        name = workload.partition("/")[2]
        yield template(name, spec, namespace)
        for number in range(count):
            yield from pod(f"{name}-{number}", owner=workload, of=name, namespace=namespace, spec=spec, created=since)


def _at_provider(node: Node, machine: _Machine) -> Node:
    labels = {
        **node.metadata.labels,
        "node.kubernetes.io/instance-type": machine.instance,
        "topology.kubernetes.io/region": _REGION,
        "topology.kubernetes.io/zone": _REGION + machine.zone,
    }
    return replace(node, metadata=replace(node.metadata, labels=labels))


def _pods(running: _Running, free: list[str], numbers: Counter[tuple[str, str]]) -> Iterator[Object]:
    """The pods of a workload on a node. ``numbers``: of the pods of each workload so far."""
    key = (running.namespace, running.workload.partition("/")[2])
    spec = request(running.devices, "gpu.nvidia.com" if running.of == "gpu" else "mig.nvidia.com")
    if key not in numbers:
        yield template(key[1], spec, running.namespace)
    for _ in range(running.pods):
        devices = [device for device in free if running.of in device][: running.devices]
        for device in devices:
            free.remove(device)
        yield from pod(
            f"{key[1]}-{numbers[key]}", *devices, node=running.node, owner=running.workload, of=key[1],
            namespace=running.namespace, spec=spec, created="2026-11-01T09:00:00Z",
        )  # fmt: skip
        numbers[key] += 1
