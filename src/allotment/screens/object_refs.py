"""References between objects: a pod to its claims and node, a claim to its devices and classes, a slice to its pool.

Devices and pools are no objects of the API; here they have a name in the namespace of their pool or driver, so that
``device node-a/gpu-0`` and ``pool gpu.nvidia.com/node-a`` can be named as objects are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.explanation.node_eligibility import nodes_of
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.model.core import Node, Pod
from allotment.model.meta import Object, ObjectKey, Value
from allotment.model.resource import (
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.model.workloads import template_of as pod_template_of
from allotment.watched.view import ClusterView

#: The words of the page for kinds of objects; all workloads are one.
KINDS: Final[Mapping[type[Object], str]] = {
    Node: "node", ResourceSlice: "slice", ResourceClaim: "claim", ResourceClaimTemplate: "template",
    DeviceClass: "class", Pod: "pod",
}  # fmt: skip
WORKLOAD, DEVICE, POOL = "workload", "device", "pool"


class ObjectRef(NamedTuple):
    """An object of the page. The ``namespace`` of a device is its pool, that of a pool its driver, that of a workload
    its namespace; its name is ``Kind/name``."""

    kind: str
    namespace: str
    name: str


class Relation(Value, frozen=True, omit_defaults=False):
    """A reference to or from another object. ``relation``: a verb, from the object that refers."""

    relation: str
    kind: str
    namespace: str
    name: str


def ref_of(value: Object) -> ObjectRef | None:
    """Return the name of an object on the page; None for kinds that it does not show."""
    word = KINDS.get(type(value))
    if word is not None:
        return ObjectRef(word, value.metadata.namespace, value.metadata.name)
    if pod_template_of(value) is not None:
        return ObjectRef(WORKLOAD, value.metadata.namespace, f"{type(value).__name__}/{value.metadata.name}")
    return None


def outgoing(value: Object) -> Iterator[tuple[str, ObjectRef]]:
    """Yield the references of an object, each with a verb."""
    namespace = value.metadata.namespace
    if isinstance(value, Pod):
        yield from _of_pod(value)
    elif isinstance(value, ResourceClaim):
        yield from ((f"requests {request}", ref) for request, ref in _classes(value.spec))
        for owner in value.metadata.owner_references:
            if owner.controller and owner.kind == "Pod":
                yield "is generated for", ObjectRef("pod", namespace, owner.name)
        if value.status.allocation is not None:
            for result in value.status.allocation.devices.results:
                yield "has", ObjectRef(DEVICE, result.pool, result.device)
    elif isinstance(value, ResourceClaimTemplate):
        yield from ((f"requests {request}", ref) for request, ref in _classes(value.spec.spec))
    elif isinstance(value, ResourceSlice):
        yield "is part of", ObjectRef(POOL, value.spec.driver, value.spec.pool.name)
        for node in nodes_of(value):
            yield "is of", ObjectRef("node", "", node)
    elif (template := pod_template_of(value)) is not None:
        for entry in template[1].spec.resource_claims:
            yield from _of_entry(namespace, entry.resource_claim_name, entry.resource_claim_template_name)


def _of_pod(pod: Pod) -> Iterator[tuple[str, ObjectRef]]:
    namespace = pod.metadata.namespace
    owner = owner_of(pod)
    if owner:
        yield "belongs to", workload_ref(template_of(pod, owner)[0])
    if pod.spec.node_name:
        yield "runs on", ObjectRef("node", "", pod.spec.node_name)
    for entry in pod.spec.resource_claims:
        yield from _of_entry(namespace, entry.resource_claim_name, entry.resource_claim_template_name)
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name:
            yield "uses", ObjectRef("claim", namespace, status.resource_claim_name)


def _of_entry(namespace: str, claim: str | None, template: str | None) -> Iterator[tuple[str, ObjectRef]]:
    if claim:
        yield "uses", ObjectRef("claim", namespace, claim)
    if template:
        yield "gets claims from", ObjectRef("template", namespace, template)


def workload_ref(name: str) -> ObjectRef:
    """Return the reference to a workload with a name such as ``Deployment ml/web``."""
    kind, _, full = name.partition(" ")
    namespace, _, plain = full.rpartition("/")
    return ObjectRef(WORKLOAD, namespace, f"{kind}/{plain}")


def _classes(spec: ResourceClaimSpec) -> Iterator[tuple[str, ObjectRef]]:
    for request in spec.devices.requests:
        for name, class_name in _class_names(request):
            yield name, ObjectRef("class", "", class_name)


def _class_names(request: DeviceRequest) -> Iterator[tuple[str, str]]:
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
    for part in request.first_available:
        yield f"{request.name}/{part.name}", part.device_class_name


def incoming(view: ClusterView) -> Mapping[ObjectRef, tuple[tuple[str, ObjectRef], ...]]:
    """Return who refers to each object."""
    return view.cached("screens.incoming", lambda: _incoming(view))


def _incoming(view: ClusterView) -> Mapping[ObjectRef, tuple[tuple[str, ObjectRef], ...]]:
    found: dict[ObjectRef, dict[tuple[str, ObjectRef], None]] = {}
    for value in view.inputs.cluster:
        own = ref_of(value)
        for relation, target in outgoing(value) if own is not None else ():
            if own is not None:
                found.setdefault(target, {})[relation, own] = None
    return {target: tuple(sources) for target, sources in found.items()}


def as_relations(found: Iterator[tuple[str, ObjectRef]] | tuple[tuple[str, ObjectRef], ...]) -> tuple[Relation, ...]:
    """Return references as values, without duplicates."""
    return tuple(Relation(relation, *ref) for relation, ref in dict.fromkeys(found))


def key_in(ref: ObjectRef) -> ObjectKey:
    """Return the key of a reference to an object of the API."""
    return ObjectKey(ref.namespace, ref.name.rpartition("/")[2])
