"""What to try: objects that are asked about, in a cluster that has some of them already.

Pods that run are not tried again. What is asked replaces what the cluster has of it, except a claim that is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.core import Container, Pod, PodResourceClaim, PodSpec
from allotment.model.meta import Object, ObjectKey, ObjectMeta
from allotment.model.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from allotment.model.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    template_of,
)

#: How the names of pods start that are made up for templates.
ANY_POD = "any-pod-with-"


def to_try(cluster: Iterable[Object], asked: Iterable[Object]) -> tuple[Object, ...]:
    """The objects to explain, in order: the cluster's, those asked about, a pod for each template without one."""
    # Of two of one name the later one stays, as it does when both are applied.
    listed, wanted = tuple(cluster), tuple({identity(value): value for value in asked}.values())
    named = {identity(value) for value in wanted}
    existing = {identity(v) for v in listed if isinstance(v, ResourceClaim) and v.status.allocation}
    waiting = (value for value in listed if is_state(value, only_state=bool(wanted)))
    kept = [v for v in waiting if identity(v) in existing or identity(v) not in named]
    new = [value for value in wanted if identity(value) not in existing]
    return (*kept, *new, *users_of_templates(new))


def users_of_templates(values: Iterable[Object]) -> tuple[Pod, ...]:
    """A pod for each template that none of the given pods and workloads names, so that it can be explained alone.

    One that is named from another namespace is left to the answer for that pod.
    """
    templates: list[ObjectKey] = []
    named: set[str] = set()
    for value in values:
        if isinstance(value, ResourceClaimTemplate):
            templates.append(identity(value)[1])
            continue
        template = template_of(value)
        spec = value.spec if isinstance(value, Pod) else template[1].spec if template else PodSpec()
        named.update(
            entry.resource_claim_template_name for entry in spec.resource_claims if entry.resource_claim_template_name
        )
    unused = (key for key in dict.fromkeys(templates) if key.name not in named)
    return tuple(
        Pod(
            metadata=ObjectMeta(name=f"{ANY_POD}{key.name}", namespace=key.namespace),
            spec=PodSpec(
                resource_claims=(PodResourceClaim(name="claim", resource_claim_template_name=key.name),),
                containers=(Container(name="any"),),
            ),
        )
        for key in unused
    )


def user_of_class(device_class: DeviceClass) -> ResourceClaim:
    """A claim for one device of a class, to see what it selects."""
    request = DeviceRequest(name="any", exactly=ExactDeviceRequest(device_class_name=device_class.metadata.name))
    return ResourceClaim(
        metadata=ObjectMeta(name="any-claim", namespace="default"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
    )


def identity(value: Object) -> tuple[str, ObjectKey]:
    """Kind, namespace and name."""
    return type(value).__name__, value.key


def is_state(value: Object, only_state: bool) -> bool:
    """Whether an object of a cluster takes part: pods only while they wait, and not with ``only_state``.

    A cluster's workloads are left out: their pods are in it.
    """
    if isinstance(value, Pod):
        waits = not value.spec.node_name and value.status.phase in ("", "Pending")
        return waits and not only_state
    return not isinstance(value, Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job)
