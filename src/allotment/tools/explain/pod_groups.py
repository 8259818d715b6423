"""Claims of PodGroups, as the claim controller and the scheduler handle them (KEP-5729, alpha)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.model import pod_groups
from allotment.model.core import Pod, PodResourceClaim
from allotment.model.features import Features
from allotment.model.generated_claims import generated_claim
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from allotment.model.workloads import PodGroup
from allotment.phrases import first_few


def group_of(pod: Pod, features: Features) -> str:
    """The name of a pod's PodGroup; empty if it has none or the feature is off."""
    if pod.spec.scheduling_group is None or not features.enabled(pod_groups.GATE):
        return ""
    return pod.spec.scheduling_group.pod_group_name or ""


def groups_note(pods: Iterable[Pod], features: Features) -> str:
    """The limit of an explanation of pods that Kubernetes schedules as a group; empty if there are none.

    From 1.37, a gang of which too few pods fit keeps all of them pending (KEP-4671, gate GenericWorkload).
    """
    if not (features.since("1.37") and features.enabled("GenericWorkload")):
        return ""
    references = [pod.spec.scheduling_group for pod in pods if not pod.spec.node_name]
    names = dict.fromkeys(found.pod_group_name for found in references if found and found.pod_group_name)
    if not names:
        return ""
    groups = first_few([f"PodGroup {name}" for name in names])
    return f"pods of {groups} are explained one by one; Kubernetes schedules none of a gang if too few of its pods fit"


def claim_of(
    group: PodGroup, entry: PodResourceClaim, template: ResourceClaimTemplate, claims: Mapping[ObjectKey, ResourceClaim]
) -> ResourceClaim:
    """The claim of a group for one of its entries: the one in its status, an existing generated one, or a new one."""
    namespace = group.metadata.namespace
    for status in group.status.resource_claim_statuses:
        claim = claims.get(ObjectKey(namespace, status.resource_claim_name or ""))
        if status.name == entry.name and claim is not None:
            return claim
    made = generated_claim(group, entry, template, str(group.spec.resource_claims.index(entry)))
    return claims.get(ObjectKey(namespace, made.metadata.name), made)


def user_of(group: PodGroup) -> ResourceClaimConsumerReference:
    """The consumer for which a group's claims are reserved."""
    metadata = group.metadata
    return ResourceClaimConsumerReference(
        api_group=pod_groups.GROUP, resource=pod_groups.RESOURCE, name=metadata.name, uid=metadata.uid
    )
