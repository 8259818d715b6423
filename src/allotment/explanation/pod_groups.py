"""Claims of PodGroups, as the claim controller and the scheduler handle them (KEP-5729, alpha)."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.model import pod_groups
from allotment.model.core import Pod, PodResourceClaim
from allotment.model.features import Features
from allotment.model.generated_claims import generated_claim
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from allotment.model.workloads import PodGroup


def group_of(pod: Pod, features: Features) -> str:
    """The name of a pod's PodGroup; empty if it has none or the feature is off."""
    if pod.spec.scheduling_group is None or not features.enabled(pod_groups.GATE):
        return ""
    return pod.spec.scheduling_group.pod_group_name or ""


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
