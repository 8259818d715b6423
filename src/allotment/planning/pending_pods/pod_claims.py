"""The claims of a pending pod: those that it references, and those that will be generated from templates.

Generated claims have the name that the claim controller would give them except for the random suffix, so that a plan
can name claims that do not exist yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis
from allotment.explanation.input import ExplainInput
from allotment.explanation.obstacles import (
    Obstacle,
    group_missing,
    invalid,
    invalid_class,
    refused_everywhere,
    too_many_consumers,
)
from allotment.explanation.origin_mapping import template_of
from allotment.explanation.pod_groups import claim_of, group_of
from allotment.explanation.references import Known, OtherNamespaces, missing_reference
from allotment.model.core import Pod, PodResourceClaim
from allotment.model.generated_claims import generated_claim, is_owned_by, not_owner_message
from allotment.model.meta import ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimSpec
from allotment.model.workloads import PodGroup

#: The maximum number of entries in status.reservedFor of a ResourceClaim.
MAX_CONSUMERS: Final = 256


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod. ``pending``: without an allocation, in the order in which they are allocated."""

    pending: list[ResourceClaim] = field(default_factory=list)
    allocated: list[ResourceClaim] = field(default_factory=list)
    templates: dict[ObjectKey, str] = field(default_factory=dict)
    """The template name by claim, for claims generated from one."""


def claims_of(
    pod: Pod,
    owner: str,
    objects: ExplainInput,
    claims: Mapping[ObjectKey, ResourceClaim],
    classes: Mapping[str, DeviceClass],
) -> PodClaims | Diagnosis:
    """The claims of a pod, except for its extended resources, or the reason why it cannot be scheduled."""
    result = PodClaims()
    group = group_of(pod, objects.features)
    key = ObjectKey(pod.metadata.namespace, group)
    shared = objects.groups.get(key)
    if group and shared is None:
        return group_missing(key, objects.groups)
    for number, entry in enumerate(pod.spec.resource_claims):
        claim = _claim(pod, owner, objects, claims, number, entry, shared, result.templates)
        if isinstance(claim, Obstacle):
            return claim.reasons
        refused = invalid_class(objects, claim.spec)
        if refused is not None:
            return refused.reasons
        missing_class = _missing_class(claim.spec, classes)
        if missing_class:
            return _missing_class_diagnosis(missing_class, claim)
        if claim.status.allocation is None:
            result.pending.append(claim)
        elif len(claim.status.reserved_for) >= MAX_CONSUMERS:
            return too_many_consumers(str(claim.key), len(claim.status.reserved_for))
        else:
            result.allocated.append(claim)
    return result


def _claim(
    pod: Pod, owner: str, objects: ExplainInput, claims: Mapping[ObjectKey, ResourceClaim], number: int,
    entry: PodResourceClaim, shared: PodGroup | None, templates: dict[ObjectKey, str],
) -> ResourceClaim | Obstacle:  # fmt: skip
    namespace = pod.metadata.namespace
    where, entries = template_of(pod, owner), pod.spec.resource_claims
    existing: Known = {"ResourceClaim": objects.claims, "ResourceClaimTemplate": objects.templates}
    others = OtherNamespaces(objects, claims)
    if not entry.resource_claim_template_name:
        key = ObjectKey(namespace, entry.resource_claim_name or "")
        named = claims.get(key)
        if named is None:
            return missing_reference("ResourceClaim", entries, number, key, existing, where, others)
        return invalid(objects, "ResourceClaim", key) or named
    group = group_of(pod, objects.features)
    key = ObjectKey(namespace, entry.resource_claim_template_name)
    template = objects.templates.get(key)
    status = next((s for s in pod.status.resource_claim_statuses if s.name == entry.name), None)
    claim = claims.get(ObjectKey(namespace, status.resource_claim_name or "")) if status is not None else None
    if claim is not None:
        # The claim exists: its template no longer matters.
        if not is_owned_by(claim, pod, group):
            text = not_owner_message(claim, pod, group)
            return Obstacle(refused_everywhere("claim-not-owned", text, str(claim.key), kubernetes=text))
        templates[claim.key] = key.name
        return claim
    if template is None:
        return missing_reference("ResourceClaimTemplate", entries, number, key, existing, where, others)
    refused = invalid(objects, "ResourceClaimTemplate", key)
    if refused is not None:
        return refused
    if shared is not None and entry in shared.spec.resource_claims:
        claim = claim_of(shared, entry, template, dict(claims))
    claim = claim or generated_claim(pod, entry, template, str(number))
    templates[claim.key] = key.name
    return claim


def _missing_class(spec: ResourceClaimSpec, classes: Mapping[str, DeviceClass]) -> str:
    """The first class of a claim that does not exist, including those of alternatives: Kubernetes looks up all
    classes before it tries any alternative."""
    for request in spec.devices.requests:
        for subrequest in (*((request.exactly,) if request.exactly is not None else ()), *request.first_available):
            if subrequest.device_class_name not in classes:
                return str(subrequest.device_class_name)
    return ""


def _missing_class_diagnosis(name: str, claim: ResourceClaim) -> Diagnosis:
    refused = AllocationRefusal(
        code="class-missing",
        summary=f'DeviceClass "{name}" does not exist',
        claim=str(claim.key),
        kubernetes=CODES["class-missing"].kubernetes,
    )
    return Diagnosis(headline=refused)
