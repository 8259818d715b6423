"""The Kubernetes feature gates that a document needs, by field, and which of them are disabled.

`allotment.model.validation.disabled_fields` does the same from the API server's point of view: it drops disabled fields
from an object. This module says where a field is written and what the consequences are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.model.features import GATES, RELEASES, Features
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.field_shapes import WrittenField, written_fields
from allotment.tools.check.rule import Level
from allotment.tools.views import is_dra, pod_views

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
_POD_GROUP: Final = GateEffect(("DRAWorkloadResourceClaims",), "every pod gets its own claim instead of the group's")
_TAINT_RULE: Final = GateEffect(("DRADeviceTaintRules",), "the rule has no effect: no device is tainted")
_POOL_STATUS: Final = GateEffect(("DRAResourcePoolStatus",), "no controller processes the request")
_IMPLICIT: Final = GateEffect(
    ("DRAExtendedResource",), "no node has such a resource, and the pod stays pending", "error"
)

_PER_REQUEST: Final = {"tolerations": _TOLERATIONS, "capacity": _CAPACITY}
_PER_DEVICE: Final = {
    "taints": _TAINTS,
    **dict.fromkeys(("consumesCounters", "nodeName", "nodeSelector", "allNodes"), _PARTITIONS),
    **dict.fromkeys(("bindsToNode", "bindingConditions", "bindingFailureConditions"), _BINDING),
    "allowMultipleAllocations": _SHARED,
    "nodeAllocatableResourceMappings": _NODE,
}
_FIELDS: Final[dict[str, dict[str, GateEffect]]] = {
    # v1beta1 has the fields of a request next to its name, and those of a device under `basic`.
    "DeviceRequest": {"firstAvailable": _LIST, "adminAccess": _ADMIN, **_PER_REQUEST},
    "ExactDeviceRequest": {"adminAccess": _ADMIN, **_PER_REQUEST},
    "DeviceSubRequest": _PER_REQUEST,
    "DeviceConstraint": {"distinctAttribute": _DISTINCT},
    "ResourceSliceSpec": dict.fromkeys(("sharedCounters", "perDeviceNodeSelection"), _PARTITIONS),
    "Device": _PER_DEVICE,
    "BasicDevice": _PER_DEVICE,
    "DeviceCapacity": {"requestPolicy": _SHARED},
    "DeviceAttribute": dict.fromkeys(("bools", "ints", "strings", "versions"), _LISTS),
    "DeviceClassSpec": {"extendedResourceName": _EXTENDED},
    "PodGroupSpec": {"resourceClaims": _POD_GROUP},
}
_KINDS: Final = {"DeviceTaintRule": _TAINT_RULE, "ResourcePoolStatusRequest": _POOL_STATUS}


def disabled_gates(bundle: Bundle, document: Document) -> Iterator[RequiredGate]:
    """The disabled gates that a document needs, once for each effect."""
    paths_by_gate: dict[tuple[str, GateEffect], list[Path]] = {}
    for effect, path in _required_effects(document):
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


def _required_effects(document: Document) -> Iterator[tuple[GateEffect, Path]]:
    if is_dra(document) and document.kind in _KINDS:
        yield _KINDS[document.kind], ("kind",)
    elif is_dra(document) or document.kind == "PodGroup":
        for field in written_fields(document):
            effect = _FIELDS.get(field.struct, {}).get(field.name)
            if effect is not None and not _is_unset(field):
                yield effect, field.path
    else:
        for container in (container for pod in pod_views(document) for container in pod.containers):
            for name in container.limits:
                if name.startswith(IMPLICIT_RESOURCE_PREFIX):
                    yield _IMPLICIT, (*container.path, "resources", "limits", name)


def _is_unset(field: WrittenField) -> bool:
    # Kubernetes treats empty values of these fields as absent; v1beta1 also treats false as absent in devices.
    return field.value in ([], {}, "") or (field.struct == "BasicDevice" and field.value is False)


# --- descriptions of gates ------------------------------------------------------------------------------------------


def stage_text(gate: str, features: Features) -> str:
    """The stage of a gate in a release: ``which is alpha and off by default in Kubernetes 1.35``."""
    stages, kube = GATES[gate], features.kube
    if kube not in stages:
        added = next(iter(stages))
        return f"which Kubernetes {kube} does not have (added in {added})"
    level, default = stages[kube]
    level_text = level if level == "GA" else level.lower()
    if default:
        return f"which is disabled here ({level_text} and on by default in Kubernetes {kube})"
    default_since = next((release for release in RELEASES if stages.get(release, ("", False))[1]), "")
    return f"which is {level_text} and off by default in Kubernetes {kube}" + (
        f", and on by default since {default_since}" if default_since else ""
    )


def gate_exists(gate: str, features: Features) -> bool:
    return features.kube in GATES[gate]
