"""Containers that get no device of a claim, or devices of two kinds of requests, although their pod fits.

Kubernetes does not report an error. A container that names a request which the claim does not have starts without a
device, because the kubelet finds no devices for the request's name, and so does a container that does not name the
claim. A limit for the resource of a device plugin is a request of its own, in addition to a claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.model.core import Container, Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from allotment.model.workload_pods import pods_of

#: The resources of vendors' device plugins for GPUs, by vendor.
PLUGIN_RESOURCES: Final = (
    ("nvidia", re.compile(r"nvidia\.com/(gpu|mig-.+|gpu\.shared)")),
    ("amd", re.compile(r"amd\.com/gpu")),
    ("intel", re.compile(r"gpu\.intel\.com/.+|habana\.ai/gaudi")),
)
#: Devices that are used exclusively unless they are divided; not channels, networks or CPUs.
_EXCLUSIVE: Final = re.compile(r"gpu|mig|tpu|accelerator", re.IGNORECASE)
#: Network devices, including those named after the accelerator that they serve: tpu-net-interface.
_NETWORK: Final = re.compile(r"\b(net|nic|nics|rdma|interface|interfaces)\b", re.IGNORECASE)


class _Reference(NamedTuple):
    """The object that an entry of `resourceClaims` names: ``claim a`` or ``template a``, and its spec if known."""

    description: str
    spec: ResourceClaimSpec | None

    @property
    def classes(self) -> set[str]:
        """The classes of its requests and alternatives."""
        requests = self.spec.devices.requests if self.spec is not None else ()
        parts = (part for r in requests for part in ((r.exactly,) if r.exactly is not None else r.first_available))
        return {part.device_class_name for part in parts}


def containers_without_device(values: Iterable[Object], pods: Iterable[Object]) -> Iterator[str]:
    """A sentence for each such container or claim of ``pods`` or workloads; ``values`` contain claims, templates and
    classes.
    """
    claims: dict[ObjectKey, ResourceClaimSpec] = {}
    templates: dict[ObjectKey, ResourceClaimSpec] = {}
    classes: dict[str, DeviceClass] = {}
    for value in values:
        if isinstance(value, ResourceClaim):
            claims[value.key] = value.spec
        elif isinstance(value, ResourceClaimTemplate):
            templates[value.key] = value.spec.spec
        elif isinstance(value, DeviceClass):
            classes[value.metadata.name] = value
    for value in pods:
        pod = next(iter(pods_of(value, nodes=("any",), limit=1)), None)
        if pod is not None:
            references = _references(pod, claims, templates)
            owner = f"{type(value).__name__} {value.key}"
            yield from _missing_requests(owner, pod, references)
            yield from _unused_claims(owner, pod, references)
            yield from _plugin_limits(owner, pod, references, classes)


def missing_request_text(container: str, request: str, claim: str, requests: Iterable[str]) -> str:
    """The sentence about a container that refers to a request which the claim or template does not have."""
    return (
        f"container {container} refers to request {request}, which {claim} does not have (its requests: "
        f"{', '.join(requests)}); Kubernetes starts the container without a device"
    )


def unused_claim_text(claim: str, owner: str = "") -> str:
    """The sentence about a claim of a pod that no container names."""
    of_owner = f" of {owner}" if owner else ""
    return f"no container{of_owner} uses claim {claim}: its devices are allocated but unused"


def plugin_limit_text(container: str, resource: str, claim: str) -> str:
    """The sentence about a container that requests GPUs of a device plugin in a pod with a claim for GPUs."""
    return (
        f"container {container} requests {resource}, and the pod references {claim} for GPUs of the same vendor: the "
        "pod gets GPUs from both, or stays pending if no node offers both"
    )


def has_exclusive_name(name: str) -> bool:
    """Whether the name of a class, driver or claim suggests devices that several programs cannot use at a time.

    >>> has_exclusive_name("mig.nvidia.com"), has_exclusive_name("dra.net"), has_exclusive_name("tpu-net-interface")
    (True, False, False)
    """
    return bool(_EXCLUSIVE.search(name)) and not _NETWORK.search(name)


def _references(
    pod: Pod, claims: Mapping[ObjectKey, ResourceClaimSpec], templates: Mapping[ObjectKey, ResourceClaimSpec]
) -> dict[str, _Reference]:
    references: dict[str, _Reference] = {}
    for entry in pod.spec.resource_claims:
        template, claim = entry.resource_claim_template_name, entry.resource_claim_name
        name = template or claim or ""
        spec = (templates if template else claims).get(ObjectKey(pod.metadata.namespace, name))
        references[entry.name] = _Reference(f"{'template' if template else 'claim'} {name}", spec)
    return references


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _missing_requests(owner: str, pod: Pod, references: Mapping[str, _Reference]) -> Iterator[str]:
    for container in _containers(pod):
        for use in container.resources.claims:
            reference = references.get(use.name)
            if reference is None or reference.spec is None or not use.request:
                continue
            requests = [request.name for request in reference.spec.devices.requests]
            if use.request not in requests:
                yield missing_request_text(f"{container.name} of {owner}", use.request, reference.description, requests)


def _unused_claims(owner: str, pod: Pod, references: Mapping[str, _Reference]) -> Iterator[str]:
    """Claims that no container names. Network drivers make their devices available to the whole pod."""
    used = {use.name for container in _containers(pod) for use in container.resources.claims}
    for name, reference in references.items():
        if name not in used and any(map(has_exclusive_name, reference.classes)):
            yield unused_claim_text(name, owner)


def _plugin_limits(
    owner: str, pod: Pod, references: Mapping[str, _Reference], classes: Mapping[str, DeviceClass]
) -> Iterator[str]:
    for container in _containers(pod):
        amounts = {**container.resources.requests, **container.resources.limits}
        for resource in (name for name, amount in amounts.items() if amount.nano > 0):
            vendor = next((vendor for vendor, names in PLUGIN_RESOURCES if names.fullmatch(resource)), "")
            claimed = (r for r in references.values() if vendor and _is_for_gpus_of(vendor, r, classes))
            reference = next(claimed, None)
            if reference is not None:
                yield plugin_limit_text(f"{container.name} of {owner}", resource, reference.description)


def _is_for_gpus_of(vendor: str, reference: _Reference, classes: Mapping[str, DeviceClass]) -> bool:
    """Whether a class of a claim, or a selector of the class, names the vendor's GPUs."""
    names = list(reference.classes)
    for name in reference.classes & classes.keys():
        names += [selector.cel.expression for selector in classes[name].spec.selectors if selector.cel is not None]
    return any(vendor in name and has_exclusive_name(name) and "compute-domain" not in name for name in names)
