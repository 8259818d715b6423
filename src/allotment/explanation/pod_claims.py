"""The claims of a pod: named claims, claims generated from templates, and the claim for extended resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from allotment.engine.refusal import Diagnosis
from allotment.explanation.extended_resources import extended_claim, name_corrections
from allotment.explanation.input import ExplainInput
from allotment.explanation.obstacles import Obstacle, group_missing, invalid, invalid_class, refused_everywhere
from allotment.explanation.pod_groups import claim_of, group_of, user_of
from allotment.explanation.references import Known, OtherNamespaces, missing_reference
from allotment.model.core import Pod
from allotment.model.generated_claims import generated_claim, is_owned_by, not_owner_message
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimConsumerReference


@dataclass(slots=True)
class PodClaims:
    """The claims of one pod: pending and allocated ones, their templates and their consumers."""

    pending: list[ResourceClaim] = field(default_factory=list)
    allocated: list[ResourceClaim] = field(default_factory=list)
    templates: dict[ObjectKey, str] = field(default_factory=dict)
    consumers: dict[ObjectKey, ResourceClaimConsumerReference] = field(default_factory=dict)
    """The consumers of claims that belong to a PodGroup."""
    extended: str = ""
    """The claim that the scheduler would create for extended resources; users cannot change it."""


def pod_claims(
    pod: Pod,
    where: tuple[str, str],
    objects: ExplainInput,
    claims: Mapping[ObjectKey, ResourceClaim],
    plugins: frozenset[str],
) -> PodClaims | Obstacle:
    """The claims of a pod, or the obstacle that prevents scheduling.

    ``where``: the object that contains the pod, and the path there. ``claims`` are the existing claims, ``plugins`` the
    resources that device plugins provide.
    """
    result = PodClaims()
    namespace = pod.metadata.namespace
    group = group_of(pod, objects.features)
    shared = objects.groups.get(ObjectKey(namespace, group))
    if group and shared is None:
        return Obstacle(group_missing(ObjectKey(namespace, group), objects.groups))
    entries = pod.spec.resource_claims
    known: Known = {"ResourceClaim": claims, "ResourceClaimTemplate": objects.templates}
    others = OtherNamespaces(objects, claims)
    for number, entry in enumerate(entries):
        if entry.resource_claim_template_name:
            template_key = ObjectKey(namespace, entry.resource_claim_template_name)
            template = objects.templates.get(template_key)
            if template is None:
                return missing_reference("ResourceClaimTemplate", entries, number, template_key, known, where, others)
            refused = invalid(objects, "ResourceClaimTemplate", template_key)
            if refused is not None:
                return refused
            named = next((x for x in pod.status.resource_claim_statuses if x.name == entry.name), None)
            claim = claims.get(ObjectKey(namespace, named.resource_claim_name or "")) if named else None
            if claim is not None and not is_owned_by(claim, pod, group):
                text = not_owner_message(claim, pod, group)
                return Obstacle(refused_everywhere("claim-not-owned", text, str(claim.key), kubernetes=text))
            if claim is None and shared is not None and entry in shared.spec.resource_claims:
                claim = claim_of(shared, entry, template, claims)
            claim = claim or generated_claim(pod, entry, template, str(number))
            key = claim.key
            result.templates[key] = template_key.name
        else:
            key = ObjectKey(namespace, entry.resource_claim_name or "")
            found = claims.get(key)
            if found is None:
                return missing_reference("ResourceClaim", entries, number, key, known, where, others)
            refused = invalid(objects, "ResourceClaim", key)
            if refused is not None:
                return refused
            claim = found
        refused = invalid_class(objects, claim.spec)
        if refused is not None:
            return refused
        (result.pending if claim.status.allocation is None else result.allocated).append(claim)
        if shared is not None and entry in shared.spec.resource_claims:
            result.consumers[key] = user_of(shared)
    extended = extended_claim(pod, objects.classes, objects.features, plugins)
    if isinstance(extended, Diagnosis):
        changes = name_corrections(pod, where, objects.classes, objects.features, plugins)
        return Obstacle(extended, changes)
    if extended is not None:
        result.pending.append(extended)
        result.extended = f"ResourceClaim {extended.key}"
    return result
