"""The claims of a pod that waits: those that it names, those that templates will make for it, or why there are none.

What is generated here has the name that the claim controller would give it but for the random end, so that a plan can
name claims that nobody has created yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.engine.refusal import CODES, Diagnosis, Refused
from allotment.model.core import Pod, PodResourceClaim
from allotment.model.generated_claims import generated_claim, is_owned_by, not_owner_message
from allotment.model.meta import ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimSpec
from allotment.model.workloads import PodGroup
from allotment.tools.explain.input import Input
from allotment.tools.explain.obstacles import Obstacle, invalid, invalid_class, missing, no_group, taken, told
from allotment.tools.explain.origin_mapping import template_of
from allotment.tools.explain.pod_groups import claim_of, group_of

#: AllocationResult.reservedFor has room for so many.
MOST_USERS: Final = 256


@dataclass(slots=True)
class Claims:
    """What a pod's claims are. ``pending``: to be allocated, in the order in which that will be done."""

    pending: list[ResourceClaim] = field(default_factory=list)
    before: list[ResourceClaim] = field(default_factory=list)
    templates: dict[ObjectKey, str] = field(default_factory=dict)
    """Template by claim, of those that are made from one."""


def claims_of(
    pod: Pod, owner: str, given: Input, claims: Mapping[ObjectKey, ResourceClaim], classes: Mapping[str, DeviceClass]
) -> Claims | Diagnosis:
    """The claims of a pod without those of its extended resources, or what keeps it from being tried at all."""
    found = Claims()
    group = group_of(pod, given.features)
    key = ObjectKey(pod.metadata.namespace, group)
    shared = given.groups.get(key)
    if group and shared is None:
        return no_group(key, given.groups)
    for number, entry in enumerate(pod.spec.resource_claims):
        claim = _claim(pod, owner, given, claims, number, entry, shared, found.templates)
        if isinstance(claim, Obstacle):
            return claim.reasons
        refused = invalid_class(given, claim.spec)
        if refused is not None:
            return refused.reasons
        lacking = _lacking_class(claim.spec, classes)
        if lacking:
            return _no_class(lacking, claim)
        if claim.status.allocation is None:
            found.pending.append(claim)
        elif len(claim.status.reserved_for) >= MOST_USERS:
            return taken(str(claim.key), len(claim.status.reserved_for))
        else:
            found.before.append(claim)
    return found


def _claim(
    pod: Pod, owner: str, given: Input, claims: Mapping[ObjectKey, ResourceClaim], number: int,
    entry: PodResourceClaim, shared: PodGroup | None, templates: dict[ObjectKey, str],
) -> ResourceClaim | Obstacle:  # fmt: skip
    namespace = pod.metadata.namespace
    where = template_of(pod, owner)
    there: Mapping[str, Iterable[ObjectKey]] = {"ResourceClaim": given.claims, "ResourceClaimTemplate": given.templates}
    if not entry.resource_claim_template_name:
        key = ObjectKey(namespace, entry.resource_claim_name or "")
        named = claims.get(key)
        if named is None:
            return missing("ResourceClaim", pod.spec.resource_claims, number, key, there, where)
        return invalid(given, "ResourceClaim", key) or named
    group = group_of(pod, given.features)
    key = ObjectKey(namespace, entry.resource_claim_template_name)
    template = given.templates.get(key)
    known = next((s for s in pod.status.resource_claim_statuses if s.name == entry.name), None)
    claim = claims.get(ObjectKey(namespace, known.resource_claim_name or "")) if known is not None else None
    if claim is not None:
        # It is there: what became of its template no longer matters.
        if not is_owned_by(claim, pod, group):
            text = not_owner_message(claim, pod, group)
            return Obstacle(told("claim-not-owned", text, str(claim.key), kubernetes=text))
        templates[claim.key] = key.name
        return claim
    if template is None:
        return missing("ResourceClaimTemplate", pod.spec.resource_claims, number, key, there, where)
    refused = invalid(given, "ResourceClaimTemplate", key)
    if refused is not None:
        return refused
    if shared is not None and entry in shared.spec.resource_claims:
        claim = claim_of(shared, entry, template, dict(claims))
    claim = claim or generated_claim(pod, entry, template, str(number))
    templates[claim.key] = key.name
    return claim


def _lacking_class(spec: ResourceClaimSpec, classes: Mapping[str, DeviceClass]) -> str:
    """The first class that a claim names and that is not there. One for which there is an alternative counts, too:
    Kubernetes looks all of them up before it tries any."""
    for request in spec.devices.requests:
        for asked in (*((request.exactly,) if request.exactly is not None else ()), *request.first_available):
            if asked.device_class_name not in classes:
                return str(asked.device_class_name)
    return ""


def _no_class(name: str, claim: ResourceClaim) -> Diagnosis:
    refused = Refused(
        code="class-missing",
        summary=f'DeviceClass "{name}" does not exist',
        claim=str(claim.key),
        kubernetes=CODES["class-missing"].kubernetes,
    )
    return Diagnosis(headline=refused)
