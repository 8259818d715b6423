"""Why pods wait: the codes of ``allot explain``, found for one pod of each kind.

Pods of one namespace that ask for the same (replicas) wait for the same cause, so only one of them is tried. They are
tried in the order of the queue: what one would get, the next cannot have, as in ``allot explain``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from allotment.engine.refusal import CODES
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.tools.explain import explain

#: A node and devices would do: what the pod waits for is its turn, CPU, memory, a volume.
NONE: Final = "none"
#: Nobody has looked yet.
UNEXAMINED: Final = "unexamined"
#: Of claims: no pod that waits names it.
NO_POD: Final = "no-pod"
#: Of pods: a scheduling gate holds it back.
GATED: Final = "gated"

#: Every cause, with what it means: a closed set.
CAUSES: Final[Mapping[str, str]] = {
    **{name: code.summary for name, code in CODES.items()},
    NONE: "A node has the devices; the pod waits for its turn, or for CPU, memory or a volume.",
    GATED: "A scheduling gate of the pod holds it back.",
    UNEXAMINED: "Nobody has looked yet: the exporter has just started, or very many kinds of pods wait.",
    NO_POD: "Of claims: no pod that waits names it, so nobody allocates it.",
}


def _kind(pod: Pod) -> Hashable:
    """Pods of one kind ask for the same and may go to the same nodes."""
    spec = pod.spec
    claims = tuple((one.resource_claim_name, one.resource_claim_template_name) for one in spec.resource_claims)
    resources = tuple(
        tuple(sorted((name, str(amount)) for name, amount in of.items() if "/" in name))
        for one in (*spec.init_containers, *spec.containers)
        for of in (one.resources.requests, one.resources.limits)
    )
    group = spec.scheduling_group.pod_group_name if spec.scheduling_group else None
    where = repr(spec.affinity), tuple(sorted(spec.node_selector.items())), repr(spec.tolerations)
    return pod.metadata.namespace, claims, resources, group, where, bool(spec.scheduling_gates)


def kinds(pods: Iterable[Pod]) -> dict[Hashable, list[Pod]]:
    """Pods by kind, each kind in the order given."""
    found: dict[Hashable, list[Pod]] = {}
    for pod in pods:
        found.setdefault(_kind(pod), []).append(pod)
    return found


def examine(cluster: Iterable[Object], pods: Sequence[Pod], features: Features) -> Iterator[str]:
    """The cause of each pod; ``cluster`` are the objects without pods.

    Costs milliseconds for each pod and, at a thousand nodes, some tenths of a second to begin with.
    """
    asked = [pod for pod in pods if not pod.spec.scheduling_gates]
    named = {key for pod in asked for key in claims_of(pod)}
    # Claims that wait for other pods are left out: each would be tried, too, by itself.
    there = (
        value
        for value in cluster
        if not isinstance(value, ResourceClaim) or value.status.allocation is not None or value.key in named
    )
    answers = iter(explain((*there, *asked), features, tries=0).answers)
    for pod in pods:
        if pod.spec.scheduling_gates:
            yield GATED
            continue
        answer = next(answers)
        yield answer.reasons.headline.code if answer.reasons is not None else NONE


def claims_of(pod: Pod) -> Iterator[ObjectKey]:
    """The claims that a pod names, or was given for its templates."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return (ObjectKey(pod.metadata.namespace, name) for name in names if name)


def queued(pod: Pod) -> tuple[int, str, ObjectKey]:
    """For sorting pods as a scheduler takes them: by priority, then by age."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.key


class Causes:
    """What was found so far, by kind of pod; pods of a kind that nobody has looked at are unexamined.

    ``round`` says which kinds to look at now, ``learn`` what came of it: the work between may be done elsewhere.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, str] = {}
        self._looked: dict[Hashable, int] = {}
        self._rounds = 0
        self.unexamined = False
        """Whether there are kinds, as of the last round, that nobody has looked at."""

    def round(self, waiting: Iterable[Pod], most: int) -> dict[Hashable, Pod]:
        """A pod of each kind, at most so many: those first that were looked at longest ago, or never."""
        found = {kind: pods[0] for kind, pods in kinds(sorted(waiting, key=queued)).items()}
        self._known = {kind: cause for kind, cause in self._known.items() if kind in found}
        self._looked = {kind: at for kind, at in self._looked.items() if kind in found}
        self.unexamined = len(self._known) + most < len(found)
        chosen = set(sorted(found, key=lambda kind: self._looked.get(kind, -1))[:most])
        return {kind: pod for kind, pod in found.items() if kind in chosen}

    def learn(self, causes: Mapping[Hashable, str]) -> None:
        """Take note of what was found."""
        self._rounds += 1
        self._known.update(causes)
        self._looked.update(dict.fromkeys(causes, self._rounds))

    def of(self, waiting: Iterable[Pod]) -> dict[ObjectKey, str]:
        """The cause of each pod."""
        return {pod.key: self._known.get(kind, UNEXAMINED) for kind, pods in kinds(waiting).items() for pod in pods}
