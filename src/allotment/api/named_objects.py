"""The object of a cluster that a question names: ``trainer-0``, ``pod/trainer-0``, ``claim/shared``, ``deploy/llm``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Final, NamedTuple

from allotment.api.bound_pods import is_bound
from allotment.api.objects.unread_resources import must_know
from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from allotment.phrases import listed

#: The words before the slash of a name.
POD_WORDS: Final = ("pod", "pods", "po")
CLAIM_WORDS: Final = ("claim", "claims", "resourceclaim", "resourceclaims")
WORKLOAD_WORDS: Final[Mapping[str, type[Object]]] = {
    "deployment": Deployment, "deployments": Deployment, "deploy": Deployment, "statefulset": StatefulSet,
    "statefulsets": StatefulSet, "sts": StatefulSet, "daemonset": DaemonSet, "daemonsets": DaemonSet, "ds": DaemonSet,
    "replicaset": ReplicaSet, "replicasets": ReplicaSet, "rs": ReplicaSet, "job": Job, "jobs": Job,
    "cronjob": CronJob, "cronjobs": CronJob, "cj": CronJob, "replicationcontroller": ReplicationController,
    "rc": ReplicationController,
}  # fmt: skip


def object_name(value: Object) -> str:
    """Return kind and name, as changes name their object: ``Pod ml/trainer``."""
    return f"{type(value).__name__} {value.key}"


class ObjectsByName(Mapping[str, Object]):
    """Objects by kind and name, as changes name them, from the same objects by kind and key."""

    def __init__(self, objects: Mapping[tuple[str, ObjectKey], Object]) -> None:
        self._objects = objects

    def __getitem__(self, name: str) -> Object:
        """Return an object. Raises KeyError."""
        kind, _, full = name.partition(" ")
        namespace, _, name = full.rpartition("/")
        return self._objects[kind, ObjectKey(namespace, name)]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return map(object_name, self._objects.values())

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    def values(self) -> ValuesView[Object]:
        """Return the objects."""
        return self._objects.values()


class Subject(NamedTuple):
    """The objects to explain: pending pods, placed pods, a workload without pods, or an allocated claim.
    ``expected``: the number of pods that will exist."""

    waiting: tuple[Pod, ...] = ()
    placed: tuple[Pod, ...] = ()
    workload: Object | None = None
    claim: ResourceClaim | None = None
    expected: int = 0

    @property
    def served(self) -> bool:
        """Whether all pods are placed, or the claim is allocated."""
        if self.waiting or self.workload is not None:
            return False
        return self.claim is not None or (bool(self.placed) and len(self.placed) >= self.expected)


def subject_of(subject: str, namespace: str | None, values: Sequence[Object]) -> Subject | None:
    """Return the named object of a cluster; None without a name, or for a claim without pending pods.

    Raises InputError if there is no such object.
    """
    if not subject:
        return None
    kind, slash, name = subject.rpartition("/")
    kind = kind.lower()
    inside = [value for value in values if namespace in (None, value.metadata.namespace)]
    if kind in WORKLOAD_WORDS:
        if not any(isinstance(value, WORKLOAD_WORDS[kind]) and value.metadata.name == name for value in inside):
            raise _missing(WORKLOAD_WORDS[kind], kind, name, namespace, values)
        return _of_workload(WORKLOAD_WORDS[kind], name, inside)
    pods = [value for value in inside if isinstance(value, Pod)]
    chosen = [pod for pod in pods if pod.metadata.name == name] if not slash or kind in POD_WORDS else []
    if chosen:
        return _subject(chosen)
    if kind in POD_WORDS:
        missing = _missing(Pod, "pod", name, namespace, values)
        workload = _owner_named(name, pods)
        raise InputError(str(missing), f"did you mean {workload}?") if workload else missing
    claims = [value for value in inside if isinstance(value, ResourceClaim) and value.metadata.name == name]
    return _of_claim(claims[0], pods) if claims and (not slash or kind in CLAIM_WORDS) else None


def _of_claim(claim: ResourceClaim, pods: Iterable[Pod]) -> Subject | None:
    """Return an allocated claim, or the pending pods of an unallocated one."""
    if claim.status.allocation is not None:
        return Subject(claim=claim)
    name, namespace = claim.metadata.name, claim.metadata.namespace
    waiting = [pod for pod in pods if pod.metadata.namespace == namespace and name in _claims_of(pod)]
    return _subject(waiting) if waiting else None


def _claims_of(pod: Pod) -> set[str | None]:
    named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    return {*named, *(entry.resource_claim_name for entry in pod.status.resource_claim_statuses)}


def _missing(kind: type[Object], word: str, name: str, namespace: str | None, values: Sequence[Object]) -> InputError:
    """Return the error for an unknown name, with a suggestion. Raises InputError if the kind is not readable."""
    must_know(values, f"{kind.__name__.lower()}s")
    known = [value.metadata for value in values if isinstance(value, kind)]
    if elsewhere := sorted(key.namespace for key in known if key.name == name):
        return InputError(f"no {word} {name!r} in namespace {namespace}", f"it exists in namespace {listed(elsewhere)}")
    inside = [key.name for key in known if namespace in (None, key.namespace)]
    return InputError(f"no {word} {name!r} in {f'namespace {namespace}' if namespace else 'any namespace'}",
                   suggestion(name, inside))  # fmt: skip


def workload_named(name: str, namespace: str | None, values: Iterable[Object]) -> str:
    """Return a workload of this name as a subject: ``deploy/web``; empty if there is none, or its kind was not read."""
    inside = [value for value in values if namespace in (None, value.metadata.namespace)]
    for value in inside:
        if value.metadata.name == name and isinstance(value, tuple(WORKLOAD_WORDS.values())):
            return _subject_word(type(value).__name__, name)
    return _owner_named(name, (value for value in inside if isinstance(value, Pod)))


def _owner_named(name: str, pods: Iterable[Pod]) -> str:
    """Return the workload of this name that controls any of the pods, as a subject; empty if there is none."""
    for owner in (owner for pod in pods for owner in pod.metadata.owner_references if owner.controller):
        if owner.name == name:
            return _subject_word(owner.kind, name)
        if owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == name:
            return _subject_word("Deployment", name)
    return ""


def _subject_word(kind: str, name: str) -> str:
    return f"{'deploy' if kind == 'Deployment' else kind.lower()}/{name}"


def _of_workload(kind: type[Object], name: str, values: Sequence[Object]) -> Subject:
    owners = [value for value in values if isinstance(value, kind) and value.metadata.name == name]
    uids = {value.metadata.uid for value in owners}
    # The ReplicaSets of a Deployment or the Jobs of a CronJob, then their pods.
    for value in values:
        if isinstance(value, ReplicaSet | Job) and _owned(value, uids):
            uids.add(value.metadata.uid)
    pods = [value for value in values if isinstance(value, Pod) and _owned(value, uids)]
    if not pods:
        return Subject(workload=owners[0])
    return _subject(pods)._replace(expected=sum(len(pods_of(owner)) for owner in owners))


def _owned(value: Object, uids: set[str]) -> bool:
    return any(owner.uid in uids for owner in value.metadata.owner_references)


def _subject(pods: Iterable[Pod]) -> Subject:
    every = tuple(pods)
    return Subject(tuple(pod for pod in every if not is_bound(pod)), tuple(pod for pod in every if is_bound(pod)))
