"""The pods of a workload as its controllers would create them, with deterministic names.

Only properties that matter to claims are modelled: the number of pods that run at the same time, their names and their
owners. Rolling updates, back-off and completions over time are not modelled.
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

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # the characters of Kubernetes' random names
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

# The tolerations of every daemon pod, so that node conditions do not evict it.
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{condition}", operator="Exists", effect=effect)
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)

UidFactory = Callable[[ObjectKey], str]
# Arguments: the workload, name suffixes, the nodes of a DaemonSet, and the maximum number of pods.
PodFactory = Callable[[Object, NameSuffix, tuple[str, ...], int], list[Pod]]


def ordinal_suffix(_: str, number: int) -> str:
    """The index as suffix: ``web-0``, ``web-1``."""
    return str(number)


def hash_suffix(prefix: str, number: int) -> str:
    """Five characters that look like Kubernetes' random suffixes and depend only on the arguments."""
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
    """The pods of a workload that run at the same time; for a pod, the pod itself; for other kinds, none.

    ``nodes``: the names of the nodes of a DaemonSet. ``uid``: returns the uid of a pod that is not created yet; without
    it the uid is empty. ``limit``: the maximum number of pods. Names of a Deployment's pods do not contain a
    ReplicaSet.
    """
    factory = _FACTORIES.get(type(workload))
    if factory is None:
        pods: Iterable[Pod] = (workload,) if isinstance(workload, Pod) else ()
    else:
        pods = factory(workload, suffix, tuple(nodes), limit)
    if uid is None:
        return tuple(pods)
    return tuple(pod if pod.metadata.uid else _with_uid(pod, uid) for pod in pods)


def _with_uid(pod: Pod, uid: UidFactory) -> Pod:
    key = pod.key
    return replace(pod, metadata=replace(pod.metadata, uid=uid(key)))


def _replicated(api_version: str) -> PodFactory:
    def factory(workload: Object, suffix: NameSuffix, _: tuple[str, ...], limit: int) -> list[Pod]:
        assert isinstance(workload, Deployment | ReplicaSet | ReplicationController)
        spec = workload.spec
        owner = _owner(workload, workload.metadata, api_version)
        return _pods(spec.template, workload.metadata, owner, suffix, min(_or_one(spec.replicas), limit))

    return factory


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
    """Add the volumes of the set's claim templates; they replace volumes of the same name."""
    volumes = {
        template.metadata.name: PodVolume(
            name=template.metadata.name,
            persistent_volume_claim=ClaimVolumeSource(claim_name=f"{template.metadata.name}-{pod.metadata.name}"),
        )
        for template in templates
    }
    other_volumes = (volume for volume in pod.spec.volumes if volume.name not in volumes)
    return replace(pod, spec=replace(pod.spec, volumes=(*volumes.values(), *other_volumes)))


def _daemons(workload: Object, suffix: NameSuffix, nodes: tuple[str, ...], limit: int) -> list[Pod]:
    assert isinstance(workload, DaemonSet)
    owner = _owner(workload, workload.metadata, "apps/v1")
    pods = _pods(workload.spec.template, workload.metadata, owner, suffix, min(len(nodes), limit))
    return [_bound_to(pod, node) for pod, node in zip(pods, nodes, strict=False)]


def _bound_to(pod: Pod, node: str) -> Pod:
    """Bind a daemon pod to its node by a node affinity, which replaces the required terms of the template."""
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
    # Without completions a job is a work queue with ``parallelism`` pods.
    running_count = parallelism if spec.completions is None else min(parallelism, spec.completions)
    if spec.completion_mode != "Indexed":
        return _pods(spec.template, metadata, owner, suffix, running_count)
    pods = []
    for index in range(max(running_count, 0)):
        prefix = f"{metadata.name}-{index}-"
        pod = _pod(spec.template, metadata.namespace, generated_name(prefix, suffix(prefix, index)), owner, prefix)
        annotations = {**pod.metadata.annotations, _COMPLETION_INDEX: str(index)}
        pods.append(replace(pod, metadata=replace(pod.metadata, annotations=annotations)))
    return pods


def _cron_job(workload: Object, suffix: NameSuffix, _: tuple[str, ...], limit: int) -> list[Pod]:
    """The pods of one job of a CronJob."""
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


_FACTORIES: Final[dict[type[Object], PodFactory]] = {
    Deployment: _replicated("apps/v1"),
    ReplicaSet: _replicated("apps/v1"),
    ReplicationController: _replicated("v1"),
    StatefulSet: _stateful,
    DaemonSet: _daemons,
    Job: _job,
    CronJob: _cron_job,
}
