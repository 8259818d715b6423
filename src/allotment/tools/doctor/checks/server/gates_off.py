"""Features that objects use although their gate is off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from allotment.model.resource import Device
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Disabled gates with the objects that use their features."""
    users: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for gate, noun, name in _uses(cluster):
        users[gate][noun].append(name)
    known = cluster.snapshot.gates or {}
    for gate, nouns in sorted(users.items()):
        if known.get(gate, cluster.features.enabled(gate)):
            continue
        used = " and ".join(named(noun, unique(names)) for noun, names in nouns.items())
        text = f"feature gate {gate} is disabled in the API server, but used by {used}"
        words = f"Enable it with --feature-gates={gate}=true in kube-apiserver, kube-scheduler,"
        words += " kube-controller-manager and the kubelets, or stop using the feature."
        yield Symptom(
            f"gate {gate}", text, remedy(words, "kubectl get --raw /metrics | grep kubernetes_feature_enabled")
        )


def _uses(cluster: ClusterIndex) -> Iterator[tuple[str, str, str]]:
    """Gate, kind and name of each object that uses a feature."""
    for slice_ in cluster.slices:
        name = slice_.metadata.name
        if slice_.spec.shared_counters or slice_.spec.per_device_node_selection:
            yield "DRAPartitionableDevices", "slice", name
        for gate in {gate for device in slice_.spec.devices or () for gate in _of_device(device)}:
            yield gate, "slice", name
    for name, class_ in cluster.classes.items():
        if class_.spec.extended_resource_name:
            yield "DRAExtendedResource", "class", name
    for rule in cluster.rules:
        yield "DRADeviceTaintRules", "rule", rule.metadata.name
    users_with_spec = [*(("claim", c, c.spec) for c in cluster.claims.values()),
              *(("template", t, t.spec.spec) for t in cluster.templates.values())]  # fmt: skip
    for noun, value, spec in users_with_spec:
        for request in spec.devices.requests:
            exact = request.exactly
            if exact is not None and exact.admin_access:
                yield "DRAAdminAccess", noun, name_of(value)
            if request.first_available:
                yield "DRAPrioritizedList", noun, name_of(value)
            if (exact is not None and exact.capacity) or any(sub.capacity for sub in request.first_available):
                yield "DRAConsumableCapacity", noun, name_of(value)


def _of_device(device: Device) -> Iterator[str]:
    if device.consumes_counters:
        yield "DRAPartitionableDevices"
    if device.taints:
        yield "DRADeviceTaints"
    if device.allow_multiple_allocations:
        yield "DRAConsumableCapacity"
    if device.binding_conditions:
        yield "DRADeviceBindingConditions"
    if device.node_allocatable_resource_mappings:
        yield "DRANodeAllocatableResources"


CHECK = ClusterCheck(
    code="D102",
    severity="error",
    summary="objects use a feature whose feature gate is disabled",
    why="If a feature gate is disabled, the API server drops the fields of the feature from new objects, and "
    "schedulers ignore these fields in existing objects: for example, partitions are allocated twice because their "
    "counters are ignored, and taints have no effect. The state of feature gates is read from "
    "the API server's metrics (kubernetes_feature_enabled); if this metric is not available, the defaults of the "
    "release are assumed. The feature gates of the scheduler, controllers and kubelets cannot be read.",
    find=find,
    needs=("gates",),
)
