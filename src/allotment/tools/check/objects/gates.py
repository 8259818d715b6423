"""Which feature gates of Kubernetes a document needs, field by field, and which of them are off.

The same facts as `allotment.model.validation.disabled_fields`, seen from the document: there, what is dropped from an
object's value; here, where it was written, and what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.model.features import GATES, RELEASES, Features
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.field_shapes import FieldSeen, fields_seen
from allotment.tools.check.rule import Level
from allotment.tools.views import is_dra, pod_views

#: Resources that stand for a class without anybody having to name them (KEP-5004).
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


class Effect(NamedTuple):
    """What a gate is for, and what comes of an object that needs it while it is off."""

    gates: tuple[str, ...]
    result: str
    level: Level = "warning"


class Needed(NamedTuple):
    """One gate that is off: the effect, and every place of the document that needs it."""

    gate: str
    effect: Effect
    places: tuple[Path, ...]


_DROPPED: Final = "the API server drops the field without a word"
_LIST: Final = Effect(
    ("DRAPrioritizedList",), f"{_DROPPED} and then refuses the request: nothing is left of it", "error"
)
_TOLERATIONS: Final = Effect(("DRADeviceTaints",), f"{_DROPPED}; no taint of a device counts either")
_TAINTS: Final = Effect(("DRADeviceTaints",), f"{_DROPPED}, and pods go on getting the device")
_ADMIN: Final = Effect(("DRAAdminAccess",), f"{_DROPPED}: the claim takes its devices away from others", "error")
_CAPACITY: Final = Effect(("DRAConsumableCapacity",), f"{_DROPPED}: a claim gets whole devices")
_SHARED: Final = Effect(("DRAConsumableCapacity",), f"{_DROPPED}: each device is given to one claim at a time")
_DISTINCT: Final = Effect(("DRAConsumableCapacity",), f"{_DROPPED}: nothing keeps the devices apart", "error")
_PARTS: Final = Effect(
    ("DRAPartitionableDevices",), f"{_DROPPED}: parts of one GPU are handed out as if each were a GPU", "error"
)
_BINDING: Final = Effect(
    ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
    f"{_DROPPED}, and pods are bound before their devices are ready",
)
_NODE: Final = Effect(
    ("DRANodeAllocatableResources",), f"{_DROPPED}: the devices stand for no CPU or memory of the node"
)
_LISTS: Final = Effect(
    ("DRAListTypeAttributes",), f"{_DROPPED}, and refuses the attribute, which has no value left", "error"
)
_EXTENDED: Final = Effect(
    ("DRAExtendedResource",), f"{_DROPPED}: pods that ask for the resource get no device of the class"
)
_GROUP: Final = Effect(("DRAWorkloadResourceClaims",), "every pod gets a claim of its own instead of the group's")
_RULE: Final = Effect(("DRADeviceTaintRules",), "nobody acts upon the rule, and no device is tainted by it")
_STATUS: Final = Effect(("DRAResourcePoolStatus",), "nobody answers the request")
_IMPLICIT: Final = Effect(("DRAExtendedResource",), "no node has such a resource, and the pod stays pending", "error")

_PER_REQUEST: Final = {"tolerations": _TOLERATIONS, "capacity": _CAPACITY}
_PER_DEVICE: Final = {
    "taints": _TAINTS,
    **dict.fromkeys(("consumesCounters", "nodeName", "nodeSelector", "allNodes"), _PARTS),
    **dict.fromkeys(("bindsToNode", "bindingConditions", "bindingFailureConditions"), _BINDING),
    "allowMultipleAllocations": _SHARED,
    "nodeAllocatableResourceMappings": _NODE,
}
_FIELDS: Final[dict[str, dict[str, Effect]]] = {
    # v1beta1 has the fields of a request beside its name, and those of a device under `basic`.
    "DeviceRequest": {"firstAvailable": _LIST, "adminAccess": _ADMIN, **_PER_REQUEST},
    "ExactDeviceRequest": {"adminAccess": _ADMIN, **_PER_REQUEST},
    "DeviceSubRequest": _PER_REQUEST,
    "DeviceConstraint": {"distinctAttribute": _DISTINCT},
    "ResourceSliceSpec": dict.fromkeys(("sharedCounters", "perDeviceNodeSelection"), _PARTS),
    "Device": _PER_DEVICE,
    "BasicDevice": _PER_DEVICE,
    "DeviceCapacity": {"requestPolicy": _SHARED},
    "DeviceAttribute": dict.fromkeys(("bools", "ints", "strings", "versions"), _LISTS),
    "DeviceClassSpec": {"extendedResourceName": _EXTENDED},
    "PodGroupSpec": {"resourceClaims": _GROUP},
}
_KINDS: Final = {"DeviceTaintRule": _RULE, "ResourcePoolStatusRequest": _STATUS}


def gates_in_the_way(bundle: Bundle, document: Document) -> Iterator[Needed]:
    """The gates that a document needs and that are off, each once for each thing that comes of it."""
    found: dict[tuple[str, Effect], list[Path]] = {}
    for effect, path in _needs(document):
        for gate in (_in_release(gate, bundle.features) for gate in effect.gates):
            if not bundle.features.enabled(gate):
                found.setdefault((gate, effect), []).append(path)
    for (gate, effect), places in found.items():
        yield Needed(gate, effect, tuple(places))


def _in_release(gate: str, features: Features) -> str:
    """Taint rules belonged to the gate of taints before they got one of their own."""
    if gate == "DRADeviceTaintRules" and features.kube not in GATES[gate]:
        return "DRADeviceTaints"
    return gate


def _needs(document: Document) -> Iterator[tuple[Effect, Path]]:
    if is_dra(document) and document.kind in _KINDS:
        yield _KINDS[document.kind], ("kind",)
    elif is_dra(document) or document.kind == "PodGroup":
        for seen in fields_seen(document):
            effect = _FIELDS.get(seen.struct, {}).get(seen.name)
            if effect is not None and not _is_unset(seen):
                yield effect, seen.path
    else:
        for container in (one for pod in pod_views(document) for one in pod.containers):
            for name in container.limits:
                if name.startswith(IMPLICIT):
                    yield _IMPLICIT, (*container.path, "resources", "limits", name)


def _is_unset(seen: FieldSeen) -> bool:
    # Of these, Kubernetes does not tell empty from absent; v1beta1's nodeName and allNodes neither.
    return seen.value in ([], {}, "") or (seen.struct == "BasicDevice" and seen.value is False)


# --- what is said of a gate ------------------------------------------------------------------------------------------


def stage(gate: str, features: Features) -> str:
    """Where a gate stands in a release: ``alpha and off by default in Kubernetes 1.35, on by default since 1.36``."""
    known, kube = GATES[gate], features.kube
    if kube not in known:
        first = next(iter(known))
        return f"which Kubernetes {kube} does not have (it came with {first})"
    level, default = known[kube]
    word = level if level == "GA" else level.lower()
    if default:
        return f"which is switched off here ({word} and on by default in Kubernetes {kube})"
    later = next((release for release in RELEASES if known.get(release, ("", False))[1]), "")
    return f"{word} and off by default in Kubernetes {kube}" + (f", on by default since {later}" if later else "")


def is_known(gate: str, features: Features) -> bool:
    """Whether a release has a gate at all."""
    return features.kube in GATES[gate]
