"""Workloads, as far as they decide the number of pods and their claims."""

from __future__ import annotations

from allotment.model.core import PodResourceClaim, PodResourceClaimStatus, PodTemplateSpec
from allotment.model.meta import Object, ObjectMeta, Value
from allotment.model.storage import PersistentVolumeClaim


class DeploymentSpec(Value, frozen=True):
    """``replicas`` defaults to 1."""

    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Deployment(Object, frozen=True):
    """A workload that manages pods through a ReplicaSet."""

    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSet(Object, frozen=True):
    """A number of equal pods."""

    spec: DeploymentSpec = DeploymentSpec()


class ReplicationController(Object, frozen=True):
    """The predecessor of the ReplicaSet."""

    spec: DeploymentSpec = DeploymentSpec()


class StatefulSetOrdinals(Value, frozen=True):
    """The ordinal of the first pod."""

    start: int = 0


class StatefulSetSpec(Value, frozen=True):
    """``replicas`` defaults to 1."""

    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    ordinals: StatefulSetOrdinals | None = None
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSet(Object, frozen=True):
    """Pods with stable ordinals."""

    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Value, frozen=True):
    """The template of one pod per node."""

    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(Object, frozen=True):
    """A pod on every node that the template allows."""

    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Value, frozen=True):
    """Both numbers default to 1; no more pods run than completions are left."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(Object, frozen=True):
    """Pods that run to completion."""

    spec: JobSpec = JobSpec()


class JobTemplateSpec(Value, frozen=True):
    """Metadata and spec of the jobs of a CronJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Value, frozen=True):
    """The schedule, and the job to create."""

    schedule: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Object, frozen=True):
    """Jobs on a schedule."""

    spec: CronJobSpec = CronJobSpec()


class GangSchedulingPolicy(Value, frozen=True):
    """The number of pods that must be schedulable together."""

    min_count: int | None = None


class PodGroupSchedulingPolicy(Value, frozen=True):
    """Without ``gang`` (the basic policy), pods are bound even if others of the group do not fit."""

    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Value, frozen=True):
    """The label whose value the nodes of all pods share."""

    key: str = ""


class PodGroupSchedulingConstraints(Value, frozen=True):
    """Where the pods of a group may run (KEP-5732)."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Value, frozen=True):
    """The number of pods of a group that are scheduled together, their place, and the claims that they share."""

    parent_composite_pod_group_name: str | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodGroupStatus(Value, frozen=True):
    """The claims generated for the group."""

    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(Object, frozen=True):
    """Pods that are scheduled together (alpha in 1.36)."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def template_of(value: object) -> tuple[str, PodTemplateSpec] | None:
    """The field path and the pod template of a workload; None for other objects."""
    if isinstance(value, CronJob):
        return "spec.jobTemplate.spec.template", value.spec.job_template.spec.template
    if isinstance(value, Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job):
        return "spec.template", value.spec.template
    return None
