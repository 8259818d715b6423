"""The Kubernetes feature gates that a document needs, by field, and which of them are disabled.

`allotment.model.validation.disabled_fields` does the same from the API server's point of view: it drops disabled fields
from an object. This module says where a field is written and what the consequences are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.model.features import GATES, Features, on_by_default_since
from allotment.model.field_history import shape_at
from allotment.model.fields import shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.quantity import Quantity, QuantityError
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import is_group, newest_version
from allotment.tools.check.objects.field_shapes import WrittenField, written_fields
from allotment.tools.check.rule import Level
from allotment.tools.views import at, is_dra, pod_views

#: The prefix of extended resources that exist implicitly for each class (KEP-5004).
IMPLICIT_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class GateEffect(NamedTuple):
    """The gates that a field needs, and the consequence if one of them is disabled."""

    gates: tuple[str, ...]
    result: str
    level: Level = "warning"


class RequiredGate(NamedTuple):
    """A gate that is required but disabled: its effect, and all paths of the document that need it."""

    gate: str
    effect: GateEffect
    paths: tuple[Path, ...]


_DROPPED: Final = "the API server silently drops the field"
_LIST: Final = GateEffect(
    ("DRAPrioritizedList",), f"{_DROPPED} and then rejects the request, which is left empty", "error"
)
_TOLERATIONS: Final = GateEffect(("DRADeviceTaints",), f"{_DROPPED}; device taints have no effect either")
_TAINTS: Final = GateEffect(("DRADeviceTaints",), f"{_DROPPED}, and pods still get the device")
_ADMIN: Final = GateEffect(("DRAAdminAccess",), f"{_DROPPED}: the claim then reserves its devices", "error")
_CAPACITY: Final = GateEffect(("DRAConsumableCapacity",), f"{_DROPPED}: a claim gets whole devices")
_SHARED: Final = GateEffect(("DRAConsumableCapacity",), f"{_DROPPED}: each device is allocated to one claim at a time")
_DISTINCT: Final = GateEffect(
    ("DRAConsumableCapacity",), f"{_DROPPED}: the allocated devices may have equal values", "error"
)
_PARTITIONS: Final = GateEffect(
    ("DRAPartitionableDevices",),
    f"{_DROPPED}: partitions of one GPU are allocated as if each were a separate GPU",
    "error",
)
_BINDING: Final = GateEffect(
    ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
    f"{_DROPPED}, and pods are bound before their devices are ready",
)
_NODE: Final = GateEffect(
    ("DRANodeAllocatableResources",), f"{_DROPPED}: the CPU and memory that the devices use on the node are not counted"
)
_LISTS: Final = GateEffect(
    ("DRAListTypeAttributes",), f"{_DROPPED} and then rejects the attribute, which has no value left", "error"
)
_EXTENDED: Final = GateEffect(
    ("DRAExtendedResource",), f"{_DROPPED}: pods that request the resource get no device of the class"
)
_TAINT_RULE: Final = GateEffect(("DRADeviceTaintRules",), "the rule has no effect: no device is tainted")
_POOL_STATUS: Final = GateEffect(("DRAResourcePoolStatus",), "no controller processes the request")
_IMPLICIT: Final = GateEffect(
    ("DRAExtendedResource",), "no node has such a resource, and the pod stays pending", "error"
)
_DERIVED: Final = GateEffect(
    ("DRADerivedAttributes",),
    f"{_DROPPED}: constraints then compare the attribute of that name that the devices publish, and are not met if "
    "they publish none",
)
_COMPATIBILITY: Final = GateEffect(
    ("DRADeviceCompatibilityGroups",), f"{_DROPPED}: devices that exclude each other are allocated together"
)
_PARTITION_TYPE: Final = GateEffect(
    ("DRAPartitionableDevicesType",), f"{_DROPPED}: the status of the pool has no summary of its partitions"
)
_SKIPPED: Final = GateEffect(
    ("DRAOptionalNodeOperations",),
    f"{_DROPPED}: pods start only when the driver on their node has prepared the devices",
)
#: The API server does not drop these amounts: it rounds them up to whole numbers.
_FRACTION: Final = GateEffect(
    ("DRAFractionalCapacityRange",), "amounts are rounded up to whole numbers: a share of 500m counts as 1"
)
# Groups of pods. The gates of 1.36 that 1.37 removed are part of GenericWorkload there.
_POD_GROUP: Final = GateEffect(("DRAWorkloadResourceClaims",), "every pod gets its own claim instead of the group's")
_IN_GROUP: Final = GateEffect(("GenericWorkload",), f"{_DROPPED}: the pods are scheduled one by one")
_GROUP_KIND: Final = GateEffect(("GenericWorkload",), "the API server does not serve the kind")
_COMPOSITE_KIND: Final = GateEffect(("CompositePodGroup",), "the API server does not serve the kind")
_TOPOLOGY: Final = GateEffect(
    ("TopologyAwareWorkloadScheduling",), f"{_DROPPED}: the pods of the group can be placed in different domains"
)
_PREEMPTION: Final = GateEffect(
    ("PodGroupPreemptionPolicy",), f"{_DROPPED}: the group can preempt pods of lower priority"
)
_PARENT: Final = GateEffect(
    ("CompositePodGroup",), f"{_DROPPED}: the group is scheduled without the other groups of its parent"
)
_CHILDREN: Final = GateEffect(
    ("CompositePodGroup",), f"{_DROPPED} and then rejects the Workload, which has no templates left", "error"
)
_JOB: Final = GateEffect(("WorkloadWithJob",), f"{_DROPPED}: the pods of the Job are scheduled one by one")

_PER_REQUEST: Final = {"tolerations": _TOLERATIONS, "capacity": _CAPACITY, "derivedAttributes": _DERIVED}
_PER_DEVICE: Final = {
    "taints": _TAINTS,
    **dict.fromkeys(("consumesCounters", "nodeName", "nodeSelector", "allNodes"), _PARTITIONS),
    **dict.fromkeys(("bindsToNode", "bindingConditions", "bindingFailureConditions"), _BINDING),
    "allowMultipleAllocations": _SHARED,
    **dict.fromkeys(("nodeAllocatableResourceMappings", "nodeAllocatableResources"), _NODE),
}
_PER_GROUP: Final = {
    "resourceClaims": _POD_GROUP,
    "schedulingConstraints": _TOPOLOGY,
    "preemptionPolicy": _PREEMPTION,
    "parentCompositePodGroupName": _PARENT,
    "compositePodGroupTemplates": _CHILDREN,
}
_FIELDS: Final[dict[str, dict[str, GateEffect]]] = {
    # v1beta1 has the fields of a request next to its name, and those of a device under `basic`.
    "DeviceRequest": {"firstAvailable": _LIST, "adminAccess": _ADMIN, **_PER_REQUEST},
    "ExactDeviceRequest": {"adminAccess": _ADMIN, **_PER_REQUEST},
    "DeviceSubRequest": _PER_REQUEST,
    "DeviceConstraint": {"distinctAttribute": _DISTINCT},
    "DeviceRequestAllocationResult": {"skipNodeOperations": _SKIPPED},
    "ResourceSliceSpec": {
        **dict.fromkeys(("sharedCounters", "perDeviceNodeSelection"), _PARTITIONS),
        "partitionTypeAttribute": _PARTITION_TYPE,
        "skipNodeOperations": _SKIPPED,
    },
    "Device": _PER_DEVICE,
    "BasicDevice": _PER_DEVICE,
    "DeviceCounterConsumption": {"compatibilityGroups": _COMPATIBILITY},
    "DeviceCapacity": {"requestPolicy": _SHARED},
    "DeviceAttribute": dict.fromkeys(("bools", "ints", "strings", "versions"), _LISTS),
    "DeviceClassSpec": {"extendedResourceName": _EXTENDED},
    "ResourcePoolStatusRequestSpec": {"defaultPartitionTypeAttribute": _PARTITION_TYPE},
    **dict.fromkeys(
        ("PodGroupSpec", "WorkloadSpec", "PodGroupTemplate", "CompositePodGroupSpec", "CompositePodGroupTemplate"),
        _PER_GROUP,
    ),
    "JobSpec": {"scheduling": _JOB},
}
#: Fields whose effect depends on their value: fractional amounts of a request policy.
_AMOUNTS: Final = frozenset(
    {
        ("CapacityRequestPolicy", "default"),
        ("CapacityRequestPolicyRange", "min"),
        ("CapacityRequestPolicyRange", "max"),
        ("CapacityRequestPolicyRange", "step"),
    }
)
_KINDS: Final = {"DeviceTaintRule": _TAINT_RULE, "ResourcePoolStatusRequest": _POOL_STATUS}
_GROUP_KINDS: Final = {"PodGroup": _GROUP_KIND, "Workload": _GROUP_KIND, "CompositePodGroup": _COMPOSITE_KIND}


def disabled_gates(bundle: Bundle, document: Document) -> Iterator[RequiredGate]:
    """The disabled gates that a document needs, once for each effect."""
    paths_by_gate: dict[tuple[str, GateEffect], list[Path]] = {}
    for effect, path in _required_effects(document, bundle.features):
        for gate in (_gate_in_release(gate, bundle.features) for gate in effect.gates):
            if not bundle.features.enabled(gate):
                paths_by_gate.setdefault((gate, effect), []).append(path)
    for (gate, effect), paths in paths_by_gate.items():
        yield RequiredGate(gate, effect, tuple(paths))


def _gate_in_release(gate: str, features: Features) -> str:
    """The gate for taint rules; releases before they had their own gate use that of taints."""
    if gate == "DRADeviceTaintRules" and features.kube not in GATES[gate]:
        return "DRADeviceTaints"
    return gate


def is_unknown_gate_field(struct: str, name: str, features: Features) -> bool:
    """Whether a field belongs to a gate that the release does not have, so that its gate explains why it is unknown."""
    effect = _FIELDS.get(struct, {}).get(name)
    return effect is not None and any(not gate_exists(gate, features) for gate in effect.gates)


def _required_effects(document: Document, features: Features) -> Iterator[tuple[GateEffect, Path]]:
    if is_dra(document):
        if document.kind in _KINDS:
            yield _KINDS[document.kind], ("kind",)
        yield from _effects_of_fields(document, features)
    elif is_group(document):
        # The advice for a field of a group includes the gate of the group.
        effects = [(effect, path) for effect, path in _effects_of_fields(document, features)]
        disabled = [item for item in effects if not all(map(features.enabled, item[0].gates))]
        if document.kind in _GROUP_KINDS and newest_version(document, features.kube) and not disabled:
            yield _GROUP_KINDS[document.kind], ("kind",)
        yield from disabled
    else:
        yield from _effects_of_pods(document, features)


def _effects_of_fields(document: Document, features: Features) -> Iterator[tuple[GateEffect, Path]]:
    for field in written_fields(document, features.kube):
        effect = _FIELDS.get(field.struct, {}).get(field.name)
        if effect is not None and not _is_unset(field) and (field.known or not _gates_exist(effect, features)):
            yield effect, field.path
        elif (field.struct, field.name) in _AMOUNTS and _gates_exist(_FRACTION, features) and _is_fraction(field.value):
            yield _FRACTION, field.path


def _effects_of_pods(document: Document, features: Features) -> Iterator[tuple[GateEffect, Path]]:
    for pod in pod_views(document):
        group: Path = (*pod.spec, "schedulingGroup")
        if pod.tree.get("schedulingGroup") and not pod.custom and _is_field(document, group, features):
            yield _IN_GROUP, group
        for container in pod.containers:
            for name in container.limits:
                if name.startswith(IMPLICIT_RESOURCE_PREFIX):
                    yield _IMPLICIT, (*container.path, "resources", "limits", name)
    job: Path = ("spec",) if document.kind == "Job" else ("spec", "jobTemplate", "spec")
    scheduling: Path = (*job, "scheduling")
    if document.api_version == "batch/v1" and at(document.tree, scheduling):
        if _is_field(document, scheduling, features):
            yield _JOB, scheduling


def _is_field(document: Document, path: Path, features: Features) -> bool:
    """Whether the release knows the field; another rule reports one that it does not know."""
    return shape_at(shape_of(document.api_version, document.kind, features.kube), path) is not None


def _gates_exist(effect: GateEffect, features: Features) -> bool:
    return all(gate_exists(_gate_in_release(gate, features), features) for gate in effect.gates)


def _is_unset(field: WrittenField) -> bool:
    # Kubernetes treats empty values of these fields as absent; v1beta1 also treats false as absent in devices.
    return field.value in ([], {}, "") or (field.struct == "BasicDevice" and field.value is False)


def _is_fraction(value: Any) -> bool:
    """Whether a written quantity is not a whole number."""
    try:
        return Quantity.parse(str(value)).nano % 10**9 != 0
    except QuantityError:
        return False


# --- descriptions of gates ------------------------------------------------------------------------------------------


def stage_text(gate: str, features: Features) -> str:
    """The stage of a gate in a release: ``which is alpha and off by default in Kubernetes 1.35``."""
    stages, kube = GATES[gate], features.kube
    if kube not in stages:
        added = next(iter(stages))
        return f"which Kubernetes {kube} does not have (added in {added})"
    level, default, *_ = stages[kube]
    level_text = level if level == "GA" else level.lower()
    if default:
        return f"which is disabled here ({level_text} and on by default in Kubernetes {kube})"
    default_since = on_by_default_since(gate)
    return f"which is {level_text} and off by default in Kubernetes {kube}" + (
        f", and on by default since {default_since}" if default_since else ""
    )


def gate_exists(gate: str, features: Features) -> bool:
    return features.kube in GATES[gate]


def gates_to_enable(gate: str, features: Features) -> list[str]:
    """A gate after the disabled gates that it requires in the release."""
    found: dict[str, None] = {}
    for required in GATES[gate][features.kube].requires if gate_exists(gate, features) else ():
        if required in GATES and not features.enabled(required):
            found.update(dict.fromkeys(gates_to_enable(required, features)))
    return [*found, gate]
