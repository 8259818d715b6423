"""The pods that a workload stands for: what its controllers would create, all at once and with predictable names.

Only what matters to claims is modelled: how many pods run at the same time, how they are named, whose they are.
Rolling updates, back-off and completions over time are the controllers' own affair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from allotment.model.core import Affinity, NodeAffinity, Pod, PodTemplateSpec, Toleration
from allotment.model.generated_claims import NameSuffix, generated_name
from allotment.model.meta import Object, ObjectKey, ObjectMeta, OwnerReference
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.storage import ClaimVolumeSource, PersistentVolumeClaim, PodVolume
from allotment.model.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # what Kubernetes draws its random names from
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

# What every daemon pod tolerates, so that node trouble does not take daemons away.
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{trouble}", operator="Exists", effect=effect)
    for trouble, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)

UidFactory = Callable[[ObjectKey], str]
# Workload, name endings, nodes to serve, the most pods to make.
PodFactory = Callable[[Object, NameSuffix, tuple[str, ...], int], list[Pod]]


def ordinal_suffix(_: str, number: int) -> str:
    """Siblings count from 0: ``web-0``, ``web-1``."""
    return str(number)


def hash_suffix(prefix: str, number: int) -> str:
    """Five characters that look like Kubernetes' random ones and are always the same for the same name."""
    digest = hashlib.sha256(f"{prefix}\0{number}".encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])


def pods_of(
    workload: Object,
    suffix: NameSuffix = ordinal_suffix,
    *,
    nodes: Iterable[str] = (),
    uid: UidFactory | None = None,
    limit: int = 100_000,
) -> tuple[Pod, ...]:
    """The pods that run at the same time for a workload; a pod stands for itself, other kinds for none.

    ``nodes`` are the names of the nodes that a DaemonSet serves. ``uid`` gives pods that nobody has created yet an
    identity; without it their uid is empty. No more than ``limit`` pods are made, whatever a file says. Between a
    Deployment and its pods no ReplicaSet shows in the names.
    """
    make = _MAKERS.get(type(workload))
    if make is None:
        pods: Iterable[Pod] = (workload,) if isinstance(workload, Pod) else ()
    else:
        pods = make(workload, suffix, tuple(nodes), limit)
    if uid is None:
        return tuple(pods)
    return tuple(pod if pod.metadata.uid else _identified(pod, uid) for pod in pods)


def _identified(pod: Pod, uid: UidFactory) -> Pod:
    key = pod.key
    return replace(pod, metadata=replace(pod.metadata, uid=uid(key)))


def _replicated(api_version: str) -> PodFactory:
    def make(workload: Object, suffix: NameSuffix, _: tuple[str, ...], limit: int) -> list[Pod]:
        assert isinstance(workload, Deployment | ReplicaSet | ReplicationController)
        spec = workload.spec
        owner = _owner(workload, workload.metadata, api_version)
        return _pods(spec.template, workload.metadata, owner, suffix, min(_or_one(spec.replicas), limit))

    return make


def _stateful(workload: Object, _: NameSuffix, __: tuple[str, ...], limit: int) -> list[Pod]:
    assert isinstance(workload, StatefulSet)
    spec = workload.spec
    owner = _owner(workload, workload.metadata, "apps/v1")
    first = spec.ordinals.start if spec.ordinals else 0
    count = min(_or_one(spec.replicas), limit)
    names = (f"{workload.metadata.name}-{ordinal}" for ordinal in range(first, first + max(count, 0)))
    pods = [_pod(spec.template, workload.metadata.namespace, name, owner) for name in names]
    return [_with_claims(pod, spec.volume_claim_templates) for pod in pods] if spec.volume_claim_templates else pods


def _with_claims(pod: Pod, templates: Iterable[PersistentVolumeClaim]) -> Pod:
    """Volumes of the set's own take the place of those of the same name."""
    own = {
        one.metadata.name: PodVolume(
            name=one.metadata.name,
            persistent_volume_claim=ClaimVolumeSource(claim_name=f"{one.metadata.name}-{pod.metadata.name}"),
        )
        for one in templates
    }
    kept = (volume for volume in pod.spec.volumes if volume.name not in own)
    return replace(pod, spec=replace(pod.spec, volumes=(*own.values(), *kept)))


def _daemons(workload: Object, suffix: NameSuffix, nodes: tuple[str, ...], limit: int) -> list[Pod]:
    assert isinstance(workload, DaemonSet)
    owner = _owner(workload, workload.metadata, "apps/v1")
    pods = _pods(workload.spec.template, workload.metadata, owner, suffix, min(len(nodes), limit))
    return [_bound_to(pod, node) for pod, node in zip(pods, nodes, strict=False)]


def _bound_to(pod: Pod, node: str) -> Pod:
    """A daemon pod finds its node through affinity, which replaces what the template required."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = pod.spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    spec = replace(
        pod.spec,
        affinity=replace(affinity, node_affinity=node_affinity),
        tolerations=(*pod.spec.tolerations, *_DAEMON_TOLERATIONS),
    )
    return replace(pod, spec=spec)


def _job(workload: Object, suffix: NameSuffix, _: tuple[str, ...], limit: int) -> list[Pod]:
    assert isinstance(workload, Job)
    return _job_pods(workload.spec, workload.metadata, _owner(workload, workload.metadata, "batch/v1"), suffix, limit)


def _job_pods(spec: JobSpec, metadata: ObjectMeta, owner: OwnerReference, suffix: NameSuffix, limit: int) -> list[Pod]:
    if spec.suspend:
        return []
    parallelism = min(_or_one(spec.parallelism), limit)
    # Without completions a job is a work queue: as many pods as may run at a time.
    at_once = parallelism if spec.completions is None else min(parallelism, spec.completions)
    if spec.completion_mode != "Indexed":
        return _pods(spec.template, metadata, owner, suffix, at_once)
    pods = []
    for index in range(max(at_once, 0)):
        prefix = f"{metadata.name}-{index}-"
        pod = _pod(spec.template, metadata.namespace, generated_name(prefix, suffix(prefix, index)), owner, prefix)
        annotations = {**pod.metadata.annotations, _COMPLETION_INDEX: str(index)}
        pods.append(replace(pod, metadata=replace(pod.metadata, annotations=annotations)))
    return pods


def _cron_job(workload: Object, suffix: NameSuffix, _: tuple[str, ...], limit: int) -> list[Pod]:
    """One run of it."""
    assert isinstance(workload, CronJob)
    if workload.spec.suspend:
        return []
    name = f"{workload.metadata.name}-{suffix(f'{workload.metadata.name}-', 0)}"
    metadata = ObjectMeta(name=name, namespace=workload.metadata.namespace)
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=name, controller=True, block_owner_deletion=True)
    return _job_pods(workload.spec.job_template.spec, metadata, owner, suffix, limit)


def _or_one(number: int | None) -> int:
    return 1 if number is None else number


def _pods(
    template: PodTemplateSpec, metadata: ObjectMeta, owner: OwnerReference, suffix: NameSuffix, count: int
) -> list[Pod]:
    prefix = f"{metadata.name}-"
    return [
        _pod(template, metadata.namespace, generated_name(prefix, suffix(prefix, number)), owner, prefix)
        for number in range(max(count, 0))
    ]


def _pod(template: PodTemplateSpec, namespace: str, name: str, owner: OwnerReference, prefix: str = "") -> Pod:
    metadata = ObjectMeta(
        name=name,
        generate_name=prefix,
        namespace=namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner,),
        finalizers=template.metadata.finalizers,
    )
    return Pod(metadata=metadata, spec=template.spec)


def _owner(workload: Object, metadata: ObjectMeta, api_version: str) -> OwnerReference:
    return OwnerReference(
        api_version=api_version,
        kind=type(workload).__name__,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


_MAKERS: Final[dict[type[Object], PodFactory]] = {
    Deployment: _replicated("apps/v1"),
    ReplicaSet: _replicated("apps/v1"),
    ReplicationController: _replicated("v1"),
    StatefulSet: _stateful,
    DaemonSet: _daemons,
    Job: _job,
    CronJob: _cron_job,
}
