"""What one pod asks for: the claims that it names, those that its templates make, and one for extended resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from allotment.engine.refusal import Diagnosis
from allotment.model.core import Pod
from allotment.model.generated_claims import generated_claim, is_owned_by, not_owner_message
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimConsumerReference
from allotment.tools.explain.extended_resources import extended_claim
from allotment.tools.explain.input import Input
from allotment.tools.explain.obstacles import Obstacle, invalid, invalid_class, missing, no_group, told
from allotment.tools.explain.pod_groups import claim_of, group_of, user_of


@dataclass(slots=True)
class Ask:
    """The claims of one pod: what is to be allocated now, what is allocated already, and where that may be used."""

    pending: list[ResourceClaim] = field(default_factory=list)
    before: list[ResourceClaim] = field(default_factory=list)
    templates: dict[ObjectKey, str] = field(default_factory=dict)
    users: dict[ObjectKey, ResourceClaimConsumerReference] = field(default_factory=dict)
    """For whom claims are reserved that are not the pod's alone."""
    extended: str = ""
    """The claim that the scheduler would make for extended resources; nobody can write it."""


def asked(
    pod: Pod, where: tuple[str, str], given: Input, claims: Mapping[ObjectKey, ResourceClaim], plugins: frozenset[str]
) -> Ask | Obstacle:
    """What a pod asks for, or what keeps it from being tried.

    ``where``: the object that the pod is written in, and where there. ``claims`` are those that there are by now,
    ``plugins`` the resources that device plugins have.
    """
    ask = Ask()
    namespace = pod.metadata.namespace
    group = group_of(pod, given.features)
    shared = given.groups.get(ObjectKey(namespace, group))
    if group and shared is None:
        return Obstacle(no_group(ObjectKey(namespace, group), given.groups))
    entries = pod.spec.resource_claims
    known: Mapping[str, Iterable[ObjectKey]] = {"ResourceClaim": claims, "ResourceClaimTemplate": given.templates}
    for number, entry in enumerate(entries):
        if entry.resource_claim_template_name:
            key = ObjectKey(namespace, entry.resource_claim_template_name)
            template = given.templates.get(key)
            if template is None:
                return missing("ResourceClaimTemplate", entries, number, key, known, where)
            refused = invalid(given, "ResourceClaimTemplate", key)
            if refused is not None:
                return refused
            named = next((x for x in pod.status.resource_claim_statuses if x.name == entry.name), None)
            claim = claims.get(ObjectKey(namespace, named.resource_claim_name or "")) if named else None
            if claim is not None and not is_owned_by(claim, pod, group):
                text = not_owner_message(claim, pod, group)
                return Obstacle(told("claim-not-owned", text, str(claim.key), kubernetes=text))
            if claim is None and shared is not None and entry in shared.spec.resource_claims:
                claim = claim_of(shared, entry, template, claims)
            claim = claim or generated_claim(pod, entry, template, str(number))
            own = claim.key
            ask.templates[own] = key.name
        else:
            own = ObjectKey(namespace, entry.resource_claim_name or "")
            found = claims.get(own)
            if found is None:
                return missing("ResourceClaim", entries, number, own, known, where)
            refused = invalid(given, "ResourceClaim", own)
            if refused is not None:
                return refused
            claim = found
        refused = invalid_class(given, claim.spec)
        if refused is not None:
            return refused
        (ask.pending if claim.status.allocation is None else ask.before).append(claim)
        if shared is not None and entry in shared.spec.resource_claims:
            ask.users[own] = user_of(shared)
    extended = extended_claim(pod, given.classes, given.features, plugins)
    if isinstance(extended, Diagnosis):
        return Obstacle(extended)
    if extended is not None:
        ask.pending.append(extended)
        ask.extended = f"ResourceClaim {extended.key}"
    return ask
