"""The devices that a pod requires by labels of nodes, such as ``nvidia.com/gpu.product``, as conditions of its claims.

On nodes without these labels, only claims can state the same. Without it, the pod could get any device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.node_eligibility import required_affinity
from allotment.fleet.gpu_product_labels import ARCHITECTURES, product_of_label, products_of_cloud
from allotment.model.core import Pod, PodSpec
from allotment.model.meta import ObjectKey
from allotment.model.node_selectors import NodeSelectorRequirement
from allotment.model.resource import CELDeviceSelector, DeviceSelector, ResourceClaim

_NVIDIA: Final = "gpu.nvidia.com"
#: Labels whose values are a cloud's names for products of NVIDIA.
_OF_CLOUDS: Final = frozenset({"cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"})


class StatedHardware(NamedTuple):
    """A label of nodes in a pod's rules that describes devices: its text, and the driver and the condition on devices
    that means the same; the condition is empty if it is not known. ``names``: the products that an unknown one means,
    perhaps misspelled."""

    key: str
    label: str
    driver: str
    condition: str
    text: str
    names: tuple[str, ...] = ()


def stated_hardware(pod: Pod) -> tuple[StatedHardware, ...]:
    """The labels in a pod's nodeSelector and required node affinity that describe devices."""
    of_selector = (NodeSelectorRequirement(key, "In", (value,)) for key, value in pod.spec.node_selector.items())
    affinity = required_affinity(pod.spec)
    terms = affinity.node_selector_terms if affinity is not None else ()
    found = map(_meaning, chain(of_selector, terms[0].match_expressions if len(terms) == 1 else ()))
    return tuple(stated for stated in found if stated is not None)


def lost_hardware(before: Pod, after: Pod) -> tuple[StatedHardware, ...]:
    """The labels that describe devices and whose rules a change of a pod removes."""
    kept = {stated.key for stated in stated_hardware(after)}
    return tuple(stated for stated in stated_hardware(before) if stated.key not in kept)


def _meaning(rule: NodeSelectorRequirement) -> StatedHardware | None:
    label = f"{rule.key}={rule.values[0]}" if len(rule.values) == 1 and rule.operator == "In" else rule.key
    match rule.key:
        case "nvidia.com/gpu.product":
            known = [product_of_label(value) for value in rule.values] if rule.operator == "In" else []
            names = [name for name, _ in known]
            if all(is_certain for _, is_certain in known):
                return _attribute(rule.key, label, _NVIDIA, "productName", names)
            return StatedHardware(rule.key, label, _NVIDIA, "", "", tuple(names))
        case key if key in _OF_CLOUDS:
            names = [name for value in rule.values for name in products_of_cloud(value)]
            return _attribute(key, label, _NVIDIA, "productName", names if rule.operator == "In" else [])
        case "nvidia.com/gpu.family":
            names = [ARCHITECTURES[value] for value in rule.values if value in ARCHITECTURES]
            return _attribute(rule.key, label, _NVIDIA, "architecture", names if rule.operator == "In" else [])
        case "amd.com/gpu.product-name":
            names = [value.replace("_", " ") for value in rule.values] if rule.operator == "In" else []
            return _attribute(rule.key, label, "gpu.amd.com", "productName", names)
        case "nvidia.com/gpu.memory":
            return _memory(rule, label)
    return None


def product_condition(stated: StatedHardware, names: Sequence[str]) -> StatedHardware:
    """Return the stated hardware with ``names`` for its unknown products."""
    return _attribute(stated.key, stated.label, stated.driver, "productName", names)


def _attribute(key: str, label: str, driver: str, name: str, values: Sequence[str]) -> StatedHardware:
    read, texts = f'device.attributes["{driver}"].{name}', [f'"{value}"' for value in dict.fromkeys(values)]
    if not texts:
        return StatedHardware(key, label, driver, "", "")
    condition = f"{read} == {texts[0]}" if len(texts) == 1 else f"{read} in [{', '.join(texts)}]"
    return StatedHardware(key, label, driver, condition, f"{name} {' or '.join(texts)}")


def _memory(rule: NodeSelectorRequirement, label: str) -> StatedHardware:
    """The label is in MiB; of several values, the least suffices."""
    is_known = rule.operator in ("In", "Gt") and bool(rule.values) and all(value.isdecimal() for value in rule.values)
    if not is_known:
        return StatedHardware(rule.key, label, _NVIDIA, "", "")
    least = f"{min(map(int, rule.values))}Mi"
    operator, words = (">", "more than") if rule.operator == "Gt" else (">=", "at least")
    condition = f'device.capacity["{_NVIDIA}"].memory.compareTo(quantity("{least}")) {operator} 0'
    return StatedHardware(rule.key, label, _NVIDIA, condition, f"memory of {words} {least}")


class StatingClaim(NamedTuple):
    """A claim that states the hardware, and the changes of its object for that."""

    claim: ResourceClaim
    changes: tuple[SuggestedChange, ...] = ()


def stating(
    claim: ResourceClaim, stated: Sequence[StatedHardware], driver_of: Callable[[str], str], template: str
) -> StatingClaim:
    """The claim with the conditions for the requests whose class has devices of the same driver.

    ``driver_of``: returns the driver of a class. ``template``: that of the claim, empty if it has none.
    """
    requests, changes = list(claim.spec.devices.requests), list[SuggestedChange]()
    key = ObjectKey(claim.metadata.namespace, template or claim.metadata.name)
    object_ = f"ResourceClaim{'Template' if template else ''} {key}"
    for number, request in enumerate(requests):
        exactly = request.exactly
        if exactly is None:
            continue
        of_driver = [one for one in stated if one.driver == driver_of(exactly.device_class_name)]
        new = [one for one in of_driver if not _states(exactly.selectors, one.condition)]
        if new:
            added = (DeviceSelector(cel=CELDeviceSelector(expression=one.condition)) for one in new)
            selectors = (*exactly.selectors, *added)
            requests[number] = replace(request, exactly=replace(exactly, selectors=selectors))
            changes.append(
                SuggestedChange(
                    text=f"request {' and '.join(one.text for one in new)} in {object_.partition(' ')[0]} {key.name}",
                    object=object_,
                    path=f"{'spec.' if template else ''}spec.devices.requests[{number}].exactly.selectors",
                    becomes=[to_builtins(selector) for selector in selectors],
                    remedy="select",
                )
            )
    devices = replace(claim.spec.devices, requests=tuple(requests))
    changed = replace(claim, spec=replace(claim.spec, devices=devices)) if changes else claim
    return StatingClaim(changed, tuple(changes))


def _states(selectors: Iterable[DeviceSelector], condition: str) -> bool:
    return any(selector.cel is not None and condition in selector.cel.expression for selector in selectors)


def classes_of(claims: Iterable[ResourceClaim]) -> Iterator[str]:
    """The classes of the requests without alternatives."""
    requests = (request for claim in claims for request in claim.spec.devices.requests)
    return (request.exactly.device_class_name for request in requests if request.exactly is not None)


def named_claims(spec: PodSpec, namespace: str) -> Iterator[str]:
    """The claims and templates that a pod names, with their kinds."""
    for entry in spec.resource_claims:
        if entry.resource_claim_template_name:
            yield f"ResourceClaimTemplate {ObjectKey(namespace, entry.resource_claim_template_name)}"
        elif entry.resource_claim_name:
            yield f"ResourceClaim {ObjectKey(namespace, entry.resource_claim_name)}"
