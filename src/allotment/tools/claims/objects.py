"""The objects of a request: a ResourceClaim or ResourceClaimTemplate, or a DeviceClass with an extended resource."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from allotment.model.features import Features, on_by_default_since
from allotment.model.validation.claim_status import RESULTS_MAX
from allotment.model.validation.requests import ALTERNATIVES_MAX
from allotment.tools.claims.alternatives import PCIE_ROOT, Alternative
from allotment.tools.claims.commented_yaml import Commented
from allotment.tools.claims.request import ClaimError, Requirements
from allotment.tools.claims.supply import DIALECTS

Kind: TypeAlias = Literal["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"]

_API: Final = "resource.k8s.io/v1"


class ClaimObject(NamedTuple):
    """An object to create: ``tree`` has comments; ``why``: why it is of its kind, a sentence."""

    kind: Kind
    name: str
    tree: dict[str, Any]
    why: str


class Plan(NamedTuple):
    """The objects to create, and the pod's reference to them. ``claim``: None for an extended resource.

    ``limits``: the extended resource and its number, for the container. ``new``: the objects to create.
    """

    new: tuple[ClaimObject, ...]
    claim: ClaimObject | None = None
    limits: tuple[str, int] | None = None


def check_requirements(required: Requirements, features: Features) -> None:
    """Raise ClaimError for requests that contradict themselves, or that the release cannot serve."""
    if not 1 <= required.gpus <= RESULTS_MAX:
        raise ClaimError(f"expected 1 to {RESULTS_MAX} devices in one claim, found {required.gpus}", argument="gpus")
    if required.same_root and required.gpus < 2 and not required.all_devices:
        raise ClaimError("requires several devices", "request several, or all", argument="same_switch")
    if required.divides and (required.gpus > 1 or required.all_devices):
        raise ClaimError("expected one device for a part of its memory", "omit the number", argument="share")
    if required.divides and required.part != "whole":
        raise ClaimError("a part of a GPU is either a share or a partition", "request one of them", argument="share")
    if required.part == "partition" and required.memory is not None:
        # A GPU that is partitioned on demand publishes its whole memory for each partition.
        raise ClaimError("not allowed with a partition", "the mode decides the memory, such as cpx", argument="memory")
    if required.extended and (required.same_root or required.all_devices or required.share is not None):
        raise ClaimError(
            "an extended resource is only a number of devices",
            "omit the common switch, the share, and the request for all devices",
            argument="extended",
        )
    for needed, argument, gate in (
        (required.divides, "share", "DRAConsumableCapacity"),
        (required.extended, "extended", "DRAExtendedResource"),
    ):
        if needed and not features.enabled(gate):
            since = on_by_default_since(gate)
            raise ClaimError(
                f"requires feature gate {gate}, which is off in Kubernetes {features.kube}",
                f"it is on by default since {since}; for a cluster that enables it, add --feature-gates {gate}=true",
                argument=argument,
            )


def default_name(required: Requirements, workload: str = "") -> str:
    """Return the name of the claim: from the workload, or from what is requested.

    >>> (
    ...     default_name(Requirements(), "llm"),
    ...     default_name(Requirements(all_devices=True)),
    ...     default_name(Requirements(model="A100")),
    ... )
    ('llm-gpu', 'all-gpus', 'a100')
    """
    # `allot check` takes a claim with this word in its name for one that is shared.
    words = ["shared"] if required.is_shared else []
    if workload:
        return _label("-".join([workload[:40], *words, "gpus" if required.all_devices else "gpu"]))
    if required.all_devices:
        return _label("-".join([*words, "all-gpus"]))
    if required.part == "mig":
        words += ["mig", required.profile or (required.memory.written if required.memory else "")]
    else:
        words += [required.model or ("gpu-partition" if required.part == "partition" else "gpu"), required.profile]
        words += [required.memory.written] if required.memory else []
    words += ["share"] if required.divides else []
    return _label("-".join([*filter(None, words), *([f"x{required.gpus}"] if required.gpus > 1 else [])]))


def _label(text: str) -> str:
    """A text as a DNS label."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:63].strip("-")


def plan_objects(
    required: Requirements, found: tuple[Alternative, ...], name: str, namespace: str = "", *, for_each_pod: bool = True
) -> Plan:
    """Return the objects for a request. ``for_each_pod``: each pod gets devices of its own. Raises ClaimError."""
    if required.extended:
        return _extended(required, found, name)
    claim = _claim(name, namespace, _devices(required, found), is_template=for_each_pod and not required.is_shared)
    return Plan((claim,), claim)


def _claim(name: str, namespace: str, devices: dict[str, Any], *, is_template: bool) -> ClaimObject:
    kind: Kind = "ResourceClaimTemplate" if is_template else "ResourceClaim"
    why = (
        "each pod gets a new claim, and so devices of its own"
        if is_template
        else "all pods that name the claim share its devices, and run on the same node"
    )
    metadata: dict[str, Any] = {"name": Commented(name, "the name that pods refer to")}
    if namespace:
        metadata["namespace"] = Commented(namespace, "that of the pods")
    spec: dict[str, Any] = {"devices": devices}
    tree = {
        "apiVersion": Commented(_API, "served since Kubernetes 1.34"),
        "kind": Commented(kind, why),
        "metadata": metadata,
        "spec": {"spec": Commented(spec, "the spec of the claims")} if is_template else spec,
    }
    return ClaimObject(kind, name, tree, why)


def request_name(required: Requirements) -> str:
    """Return the name of the claim's only request."""
    if required.all_devices:
        return "all-gpus"
    return {"whole": "gpu", "mig": "mig", "partition": "partition"}[required.part]


def _devices(required: Requirements, found: tuple[Alternative, ...]) -> dict[str, Any]:
    name = request_name(required)
    request: dict[str, Any] = {"name": Commented(name, "the name of the request within the claim")}
    if len(found) == 1:
        request["exactly"] = _exactly(required, found[0])
    else:
        comment = "the scheduler takes the first alternative that fits; the DeviceClass of each must exist"
        request["firstAvailable"] = Commented(
            [
                {"name": alternative.vendor, **_exactly(required, alternative)}
                for alternative in found[:ALTERNATIVES_MAX]
            ],
            comment,
        )
    devices: dict[str, Any] = {"requests": [request]}
    if required.same_root:
        constraint = {
            "requests": [name],
            "matchAttribute": Commented(PCIE_ROOT, "all devices are under the same PCIe root"),
        }
        devices["constraints"] = [constraint]
    return devices


def _exactly(required: Requirements, alternative: Alternative) -> dict[str, Any]:
    fields: dict[str, Any] = {"deviceClassName": Commented(alternative.class_name, alternative.comment)}
    if required.all_devices:
        fields["allocationMode"] = Commented("All", "every matching device of a node; none may be in use")
    elif required.gpus > 1:
        fields["count"] = Commented(required.gpus, "devices, all on the same node")
    if alternative.conditions:
        fields["selectors"] = [
            Commented({"cel": {"expression": condition.expression}}, condition.comment)
            for condition in alternative.conditions
        ]
    if alternative.capacity:
        amount = Commented(alternative.capacity, "of the GPU's memory; other claims can use the rest")
        fields["capacity"] = {"requests": {"memory": amount}}
    return fields


# --- extended resources ----------------------------------------------------------------------------------------------


def _extended(required: Requirements, found: tuple[Alternative, ...], name: str) -> Plan:
    if len(found) > 1:
        vendors = " or ".join(alternative.vendor for alternative in found)
        raise ClaimError("expected one vendor", f"state {vendors}", argument="extended")
    alternative = found[0]
    if alternative.extended and not (required.model or required.memory):
        return Plan((), limits=(alternative.extended, required.gpus))
    if not alternative.vendor:
        raise ClaimError(f"DeviceClass {alternative.class_name} has no extended resource name", argument="extended")
    created = _device_class(alternative, name, f"{alternative.vendor}-gpu" if name == "gpu" else name)
    return Plan((created,), limits=(_resource_name(alternative, name), required.gpus))


def _resource_name(alternative: Alternative, name: str) -> str:
    return f"{DIALECTS[alternative.vendor].resources}/{name}"


def _device_class(alternative: Alternative, name: str, class_name: str) -> ClaimObject:
    """A class that serves an extended resource: the conditions of the original class, and those of the request."""
    dialect = DIALECTS[alternative.vendor]
    why = "pods that request the extended resource get devices of this class, without a claim of their own"
    tree = {
        "apiVersion": Commented(_API, "served since Kubernetes 1.34"),
        "kind": Commented("DeviceClass", why),
        "metadata": {"name": Commented(class_name, "created by an administrator: classes have no namespace")},
        "spec": {
            "extendedResourceName": Commented(
                _resource_name(alternative, name), "the name that containers write in their limits"
            ),
            "selectors": [
                Commented({"cel": {"expression": expression}}, comment)
                for expression, comment in _class_conditions(alternative, dialect.driver)
            ],
        },
    }
    return ClaimObject("DeviceClass", class_name, tree, why)


def _class_conditions(alternative: Alternative, driver: str) -> Iterator[tuple[str, str]]:
    yield f'device.driver == "{driver}"', "devices of this driver only; others lack its attributes"
    part = alternative.kinds[0].part
    dialect = DIALECTS[alternative.vendor]
    types = [name for name, of in dialect.types.items() if of == part and name]
    condition = f'device.attributes["{driver}"].type == "{types[0]}"' if types else ""
    written = [known for known in alternative.conditions if known.expression != condition]
    if types:
        yield condition, f"type {types[0]}, as DeviceClass {alternative.class_name} selects"
    for known in written:
        if known.expression != f'device.driver == "{driver}"':
            yield known.expression, known.comment
