"""Objects that make pods, as far as it matters how many they make and what the pods claim."""

from __future__ import annotations

from allotment.model.core import PodResourceClaim, PodResourceClaimStatus, PodTemplateSpec
from allotment.model.meta import Object, ObjectMeta, Value
from allotment.model.storage import PersistentVolumeClaim


class DeploymentSpec(Value, frozen=True):
    """``replicas`` defaults to 1."""

    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Deployment(Object, frozen=True):
    """Pods by way of a ReplicaSet."""

    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSet(Object, frozen=True):
    """So many equal pods."""

    spec: DeploymentSpec = DeploymentSpec()


class ReplicationController(Object, frozen=True):
    """The ReplicaSet's ancestor."""

    spec: DeploymentSpec = DeploymentSpec()


class StatefulSetOrdinals(Value, frozen=True):
    """The number of the first pod."""

    start: int = 0


class StatefulSetSpec(Value, frozen=True):
    """``replicas`` defaults to 1."""

    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    ordinals: StatefulSetOrdinals | None = None
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSet(Object, frozen=True):
    """Pods with numbers that stay."""

    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Value, frozen=True):
    """One pod a node."""

    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(Object, frozen=True):
    """A pod on every node that its template allows."""

    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Value, frozen=True):
    """Both numbers default to 1, ``parallelism`` for as long as completions are left."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(Object, frozen=True):
    """Pods that run to completion."""

    spec: JobSpec = JobSpec()


class JobTemplateSpec(Value, frozen=True):
    """What each job of a CronJob gets."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Value, frozen=True):
    """When, and what."""

    schedule: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Object, frozen=True):
    """A job again and again."""

    spec: CronJobSpec = CronJobSpec()


class PodGroupSpec(Value, frozen=True):
    """The claims that the pods of a group share."""

    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodGroupStatus(Value, frozen=True):
    """The claims generated for the group."""

    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(Object, frozen=True):
    """Pods that are scheduled together (alpha in 1.36)."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def template_of(value: object) -> tuple[str, PodTemplateSpec] | None:
    """The pod template of a workload, and the field path at which it stands; None for anything else."""
    if isinstance(value, CronJob):
        return "spec.jobTemplate.spec.template", value.spec.job_template.spec.template
    if isinstance(value, Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job):
        return "spec.template", value.spec.template
    return None
