"""Selects the objects to plan for: those that the user named, or the pending ones of a cluster.

If the user named objects, other pending pods of the cluster are only counted in a note. For a template or claim without
a pod, one pod is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from allotment.errors import InputError
from allotment.explanation.subjects import ANY_POD, identity, users_of_templates, without_pods_of
from allotment.fleet.errors import suggestion
from allotment.model.core import Container, Node, Pod, PodResourceClaim, PodSpec
from allotment.model.meta import Object, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceClaim
from allotment.model.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    template_of,
)
from allotment.phrases import counted, listed

_WORKLOADS = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job

_SHORT = {"deploy": "deployment", "po": "pod", "sts": "statefulset", "ds": "daemonset", "rs": "replicaset"}

#: More than any pod requests.
_ENOUGH = {
    "cpu": Quantity.parse("100k"),
    "memory": Quantity.parse("1Pi"),
    "ephemeral-storage": Quantity.parse("1Pi"),
    "pods": Quantity.parse("110"),
}


class Selection(NamedTuple):
    """The selected objects, and notes about the selection."""

    values: tuple[Object, ...]
    notes: tuple[str, ...] = ()


def select_objects(cluster: Sequence[Object], queried: Sequence[Object], only: str = "") -> Selection:
    """Select the objects to plan for. ``only``: the name or ``kind/name`` of the only pod, workload or claim.

    Raises InputError if nothing has that name.
    """
    notes: list[str] = []
    state = [
        value
        for value in without_pods_of(queried, cluster)
        if not isinstance(value, _WORKLOADS) or isinstance(value, DaemonSet) or not queried
    ]
    if queried:
        waiting = [value for value in state if _waits(value)]
        state = [value for value in state if not _waits(value)]
        if waiting:
            counted_pods = counted(len(waiting), "pending pod", "pending pods")
            verb = "is" if len(waiting) == 1 else "are"
            notes.append(
                f"{counted_pods} in the cluster {verb} not included: omit the files to plan for all pending pods"
            )
    allocated = {identity(v) for v in state if isinstance(v, ResourceClaim) and v.status.allocation}
    new = [value for value in queried if identity(value) not in allocated]
    named = {identity(value) for value in new}
    values = [*(v for v in state if identity(v) not in named), *new]
    values += [*users_of_templates(new), *_users_of_claims(values, new)]
    if only:
        values = _narrowed(values, only)
    silent = [v.metadata.name for v in values if isinstance(v, Node) and not v.status.allocatable]
    if silent:
        values = [_roomy(v) if isinstance(v, Node) and not v.status.allocatable else v for v in values]
        notes.append(
            f"{listed(silent[:3])}{' …' if len(silent) > 3 else ''}: cpu and memory are assumed to be sufficient"
        )
    return Selection(tuple(values), tuple(notes))


def _roomy(node: Node) -> Node:
    """Return the node with ample capacity, for nodes that report none (described hardware)."""
    return replace(node, status=replace(node.status, allocatable=_ENOUGH))


def _waits(value: Object) -> bool:
    return isinstance(value, Pod) and not value.spec.node_name and value.status.phase in ("", "Pending")


def _specs(values: Iterable[Object]) -> Iterable[tuple[Object, PodSpec]]:
    for value in values:
        template = template_of(value)
        if isinstance(value, Pod):
            yield value, value.spec
        elif template is not None:
            yield value, template[1].spec


def _users_of_claims(values: Sequence[Object], new: Iterable[Object]) -> list[Pod]:
    """Return a pod for each new claim that no pod uses."""
    used = {
        (value.metadata.namespace, entry.resource_claim_name)
        for value, spec in _specs(values)
        for entry in spec.resource_claims
    }
    claims = [value for value in new if isinstance(value, ResourceClaim) and value.status.allocation is None]
    return [
        Pod(
            metadata=ObjectMeta(name=f"{ANY_POD}{claim.metadata.name}", namespace=claim.metadata.namespace),
            spec=PodSpec(
                resource_claims=(PodResourceClaim(name="claim", resource_claim_name=claim.metadata.name),),
                containers=(Container(name="any"),),
            ),
        )
        for claim in claims
        if (claim.metadata.namespace, claim.metadata.name) not in used
    ]


def _narrowed(values: Sequence[Object], only: str) -> list[Object]:
    """Remove the pods and workloads that are not selected, but not the objects that they use."""
    kind, _, name = only.rpartition("/")
    waiting = [(value, spec) for value, spec in _specs(values) if not isinstance(value, Pod) or _waits(value)]
    selected = {id(value) for value, spec in waiting if _is_selected(value, spec, kind.lower(), name)}
    if not selected:
        names = sorted({value.metadata.name for value, _ in waiting} | {n for v, _ in waiting for _, n in _owners(v)})
        raise InputError(
            f"no pending pod, claim or workload is named {only!r}", suggestion(name, names), argument="only"
        )
    others = {id(value) for value, _ in waiting} - selected
    return [value for value in values if id(value) not in others]


def _is_selected(value: Object, spec: PodSpec, kind: str, name: str) -> bool:
    claims = {e.resource_claim_name for e in spec.resource_claims}
    claims |= {e.resource_claim_template_name for e in spec.resource_claims}
    if name in claims and kind in ("", "claim", "resourceclaim", "resourceclaimtemplate"):
        return True
    own = (type(value).__name__.lower(), value.metadata.name)
    return any(owner_name == name and _SHORT.get(kind, kind) in ("", of) for of, owner_name in (own, *_owners(value)))


def _owners(value: Object) -> list[tuple[str, str]]:
    """Yield the owners of a pod by kind and name. A Deployment's name is its ReplicaSet's without the hash."""
    owner = next((reference for reference in value.metadata.owner_references if reference.controller), None)
    if owner is None:
        return []
    found = [(owner.kind.lower(), owner.name)]
    stem, dash, _ = owner.name.rpartition("-")
    return [*found, ("deployment", stem)] if owner.kind == "ReplicaSet" and dash else found
