"""Determines the cause of each pending pod, with the codes of ``allot explain``, once for each kind of pod.

Pods of one namespace with equal requests (replicas) are pending for the same cause, so only one of them is examined.
The examination follows the order of the queue: devices that one pod would get are not available to the next, as in
``allot explain``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from allotment.engine.refusal import CODES
from allotment.explanation import explain
from allotment.explanation.gangs import group_key
from allotment.explanation.subjects import other_pods
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim

#: A node with matching devices is available: the pod waits for the scheduler, CPU, memory or a volume.
NONE: Final = "none"
#: The pod has not been examined yet.
UNEXAMINED: Final = "unexamined"
#: Of claims: no pending pod references it.
NO_POD: Final = "no-pod"
#: Of pods: a scheduling gate holds it back.
GATED: Final = "gated"

#: All causes with their meaning: a fixed set.
CAUSES: Final[Mapping[str, str]] = {
    **{name: code.summary for name, code in CODES.items()},
    NONE: "A node has matching devices available: the pod is waiting for the scheduler, CPU, memory or a volume.",
    GATED: "The pod has a scheduling gate.",
    UNEXAMINED: "The pod has not been examined yet: the exporter has just started, or many different pods are pending.",
    NO_POD: "For claims: no pending pod references the claim, so it will not be allocated.",
}


def _kind_of(pod: Pod) -> Hashable:
    """Return a key that is equal for pods with equal requests and node constraints."""
    spec = pod.spec
    claims = tuple((entry.resource_claim_name, entry.resource_claim_template_name) for entry in spec.resource_claims)
    resources = tuple(
        tuple(sorted((name, str(amount)) for name, amount in of.items() if "/" in name))
        for container in (*spec.init_containers, *spec.containers)
        for of in (container.resources.requests, container.resources.limits)
    )
    group = spec.scheduling_group.pod_group_name if spec.scheduling_group else None
    where = repr(spec.affinity), tuple(sorted(spec.node_selector.items())), repr(spec.tolerations)
    return pod.metadata.namespace, claims, resources, group, where, bool(spec.scheduling_gates)


def kinds(pods: Iterable[Pod]) -> dict[Hashable, list[Pod]]:
    """Group pods by kind, in the given order."""
    found: dict[Hashable, list[Pod]] = {}
    for pod in pods:
        found.setdefault(_kind_of(pod), []).append(pod)
    return found


def examine(
    cluster: Iterable[Object], pods: Sequence[Pod], features: Features, members: Sequence[Pod] = ()
) -> Iterator[str]:
    """Yield the cause of each pod; ``cluster``: the objects without pods; ``members``: the pods of all groups.

    Takes milliseconds per pod, plus some tenths of a second for a thousand nodes.
    """
    schedulable = [pod for pod in pods if not pod.spec.scheduling_gates]
    groups = {group_key(pod) for pod in schedulable} if members else set()
    others = [pod for pod in other_pods(members, schedulable) if group_key(pod) in groups]
    named = {key for pod in (*schedulable, *others) for key in claims_of(pod)}
    # Pending claims of other pods are left out: each would be examined as well.
    objects = (
        value
        for value in cluster
        if not isinstance(value, ResourceClaim) or value.status.allocation is not None or value.key in named
    )
    found = explain((*objects, *schedulable), features, tries=0, others=others).answers
    answers = {answer.name: answer for answer in found if answer.kind == "Pod"}
    for pod in pods:
        if pod.spec.scheduling_gates:
            yield GATED
            continue
        answer = answers[str(pod.key)]
        yield answer.reasons.headline.code if answer.reasons is not None else NONE


def claims_of(pod: Pod) -> Iterator[ObjectKey]:
    """Return the claims that a pod references or that were generated for it."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return (ObjectKey(pod.metadata.namespace, name) for name in names if name)


def queue_order(pod: Pod) -> tuple[int, str, ObjectKey]:
    """Return the sort key for the order of a scheduler: by priority, then by age."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.key


class CauseCache:
    """The causes found so far, by kind of pod.

    ``select`` returns the kinds to examine now, ``record`` stores the result; the examination may run in a thread.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, str] = {}
        self._examined_in: dict[Hashable, int] = {}
        self._rounds = 0
        self.unexamined = False
        """Whether kinds remained unexamined in the last round."""

    def select(self, pods: Iterable[Pod], limit: int) -> dict[Hashable, Pod]:
        """Return one pod of each kind, for at most ``limit`` kinds: the never or least recently examined first."""
        found = {kind: pods[0] for kind, pods in kinds(sorted(pods, key=queue_order)).items()}
        self._known = {kind: cause for kind, cause in self._known.items() if kind in found}
        self._examined_in = {kind: at for kind, at in self._examined_in.items() if kind in found}
        self.unexamined = len(self._known) + limit < len(found)
        chosen = set(sorted(found, key=lambda kind: self._examined_in.get(kind, -1))[:limit])
        return {kind: pod for kind, pod in found.items() if kind in chosen}

    def record(self, causes: Mapping[Hashable, str]) -> None:
        """Store the causes that were found."""
        self._rounds += 1
        self._known.update(causes)
        self._examined_in.update(dict.fromkeys(causes, self._rounds))

    def of(self, pods: Iterable[Pod]) -> dict[ObjectKey, str]:
        """Return the cause of each pod."""
        return {pod.key: self._known.get(kind, UNEXAMINED) for kind, pods in kinds(pods).items() for pod in pods}
