"""Selection of the objects to explain from the objects of a cluster and the requested ones.

Running pods are not explained. Requested objects replace those of the cluster, except allocated claims. The pods of a
requested workload are explained as if none ran yet: those that run belong to it, with the devices of their own claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from allotment.explanation.origin_mapping import owner_of
from allotment.explanation.origin_mapping import template_of as template_and_path
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

_WORKLOADS: Final = frozenset({Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job})
#: Prefix of the names of pods that are generated for templates.
ANY_POD = "any-pod-with-"


def objects_to_explain(cluster: Iterable[Object], requested: Iterable[Object]) -> tuple[Object, ...]:
    """The objects to explain, in order: those of the cluster, the requested ones, a pod per template without a user."""
    # Of two objects with the same name the later one counts, as with `kubectl apply`.
    if not (requested := tuple(requested)):
        return tuple(value for value in cluster if is_relevant(value, only_state=False))
    distinct = tuple({identity(value): value for value in requested}.values())
    listed = without_pods_of(distinct, cluster)
    named = {identity(value) for value in distinct}
    existing = {identity(v) for v in listed if isinstance(v, ResourceClaim) and v.status.allocation}
    relevant = (value for value in listed if is_relevant(value, only_state=bool(distinct)))
    kept = [v for v in relevant if identity(v) in existing or identity(v) not in named]
    new = [value for value in distinct if identity(value) not in existing]
    return (*kept, *new, *users_of_templates(new))


def without_pods_of(requested: Iterable[Object], cluster: Iterable[Object]) -> tuple[Object, ...]:
    """The objects of a cluster without the pods of requested workloads, requested pods, and the claims made for them.

    Pending pods that are requested stay, because they are explained.
    """
    listed, given = tuple(cluster), tuple(requested)
    kinds = {type(value).__name__ for value in given}
    possible = [value for value in listed if type(value) is Pod and _may_belong_to(value, kinds)]
    if not possible:
        return listed
    named = {f"{kind} {key}" for kind, key in map(identity, given)}
    own = {value.key: value.metadata.uid for value in possible if template_and_path(value, owner_of(value))[0] in named}
    return tuple(value for value in listed if not _is_of(value, own)) if own else listed


def _may_belong_to(pod: Pod, kinds: set[str]) -> bool:
    """Whether a pod belongs to an object of these kinds; one that runs without an owner belongs to itself."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner.kind in kinds or (owner.kind == "ReplicaSet" and "Deployment" in kinds)
    return bool(pod.spec.node_name) and "Pod" in kinds


def _is_of(value: Object, pods: Mapping[ObjectKey, str]) -> bool:
    """Whether an object is one of these pods, which are given with their uids, or a claim that was made for one."""
    if isinstance(value, Pod):
        return value.key in pods
    if not isinstance(value, ResourceClaim):
        return False
    owners = [ref for ref in value.metadata.owner_references if ref.kind == "Pod" and ref.controller]
    return any(pods.get(ObjectKey(value.metadata.namespace, ref.name)) == ref.uid for ref in owners)


def other_pods(cluster: Iterable[Object], explained: Iterable[Object]) -> list[Pod]:
    """The pods of a cluster that are not explained: they use nodes, and are members of the explained pods' groups."""
    of_explained = tuple(explained)
    pods = (value.metadata for value in of_explained if isinstance(value, Pod))
    named = {(metadata.namespace, metadata.name) for metadata in pods}
    return [
        value
        for value in without_pods_of(of_explained, cluster)
        if isinstance(value, Pod)
        and value.status.phase not in ("Succeeded", "Failed")
        and (value.metadata.namespace, value.metadata.name) not in named
    ]


def users_of_templates(values: Iterable[Object]) -> tuple[Pod, ...]:
    """A pod for each template that no given pod or workload uses, so that it can be explained alone.

    A template that is named from another namespace is explained with that pod.
    """
    templates: list[ObjectKey] = []
    named: set[str] = set()
    for value in values:
        if isinstance(value, ResourceClaimTemplate):
            templates.append(identity(value)[1])
            continue
        named.update(
            entry.resource_claim_template_name
            for entry in pod_spec_of(value).resource_claims
            if entry.resource_claim_template_name
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


def pod_spec_of(value: Object) -> PodSpec:
    """The spec of a pod, or of a workload's pod template; empty for other kinds."""
    if isinstance(value, Pod):
        return value.spec
    template = template_of(value)
    return template[1].spec if template else PodSpec()


def user_of_class(device_class: DeviceClass) -> ResourceClaim:
    """A claim for one device of a class, to explain what the class selects."""
    request = DeviceRequest(name="any", exactly=ExactDeviceRequest(device_class_name=device_class.metadata.name))
    return ResourceClaim(
        metadata=ObjectMeta(name="any-claim", namespace="default"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
    )


def identity(value: Object) -> tuple[str, ObjectKey]:
    """Kind and key of an object."""
    return type(value).__name__, value.key


def is_relevant(value: Object, only_state: bool) -> bool:
    """Whether an object of a cluster is used: pods only while they are pending, and not with ``only_state``.

    Workloads of a cluster are ignored, because their pods exist.
    """
    kind = type(value)
    if kind is Pod:
        pod = cast("Pod", value)
        return not only_state and not pod.spec.node_name and pod.status.phase in ("", "Pending")
    return kind not in _WORKLOADS
