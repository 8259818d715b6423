"""The claims that a pod uses, and the claims that Kubernetes generates for it from templates.

A pod refers to a claim or a template. For a template the claim controller creates one claim per pod, owned by the pod,
and writes its name to the pod's status; before that the claim is "not created yet". Random name suffixes are arguments,
so that equal input results in equal names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.model import pod_groups
from allotment.model.core import Pod, PodResourceClaim, PodResourceClaimStatus
from allotment.model.meta import ObjectKey, ObjectMeta, OwnerReference
from allotment.model.quoting import quote
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.model.workloads import PodGroup

#: The annotation of a generated claim with the name of its entry in ``spec.resourceClaims``.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
#: The annotation of a claim that a scheduler created for extended resources (KEP-5004); its value is ``true``.
EXTENDED_RESOURCE_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"

# A generated name is a DNS label: 63 characters less a dash and five random ones.
_BASE_MAX: Final = 57
_PREFIX_MAX: Final = 58

#: Returns the suffix of a generated name, for the prefix and the index of the object among its siblings.
NameSuffix = Callable[[str, int], str]


class UnresolvedClaim(LookupError):
    """Raised if a pod's claim has no name yet or never gets one; the text is Kubernetes' own."""


class GeneratedClaims(NamedTuple):
    """A pod with its claims in its status, the claims generated for it, and entries without an existing template."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    missing: tuple[PodResourceClaim, ...]


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The name of the claim for an entry of ``spec.resourceClaims``; ``None`` if no claim is needed.

    Raises ``UnresolvedClaim`` if the claim is not created yet, or if the entry names neither a claim nor a template.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_template_name is None:
        raise UnresolvedClaim(f"{where}, spec.resourceClaim {quote(entry.name)}: none of the supported fields are set")
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise UnresolvedClaim(f"{where}: ResourceClaim not created yet")


def is_owned_by(claim: ResourceClaim, pod: Pod, group: str = "") -> bool:
    """Whether the pod, or the PodGroup of this name, is the controlling owner of the claim."""
    return any(
        owner.controller
        and (
            (owner.kind == "Pod" and owner.uid == pod.metadata.uid)
            or (group and owner.kind == pod_groups.KIND and owner.name == group and _is_pod_group_owner(owner))
        )
        for owner in claim.metadata.owner_references
    )


def _is_pod_group_owner(owner: OwnerReference) -> bool:
    return owner.api_version.startswith(f"{pod_groups.GROUP}/")


def not_owner_message(claim: ResourceClaim, pod: Pod, group: str = "") -> str:
    """Kubernetes' message for a generated claim that has another owner than the pod."""
    pod_meta, claim_meta = pod.metadata, claim.metadata
    return pod_groups.not_owner_message(
        f"{claim_meta.namespace}/{claim_meta.name}", f"{pod_meta.namespace}/{pod_meta.name}", group
    )


def name_prefix(pod_name: str, entry_name: str) -> str:
    """The prefix of the name of a generated claim.

    If the prefix is too long, both names are truncated in proportion, and the final dash is omitted, as in Kubernetes.
    """
    prefix = f"{pod_name}-{entry_name}-"
    length = len(prefix)
    if length <= _BASE_MAX:
        return prefix
    pod_part = pod_name[: len(pod_name) * _BASE_MAX // length]
    return f"{pod_part}-{entry_name[: len(entry_name) * _BASE_MAX // length]}"


def generated_name(prefix: str, suffix: str) -> str:
    """A name from ``generateName`` and a suffix, limited to 63 characters as by the API server."""
    return prefix[:_PREFIX_MAX] + suffix


def generated_claim(
    parent: Pod | PodGroup, entry: PodResourceClaim, template: ResourceClaimTemplate, suffix: str
) -> ResourceClaim:
    """The claim generated from a template for a pod or a PodGroup. ``suffix``: the random end of its name."""
    parent_meta = parent.metadata
    prefix = name_prefix(parent_meta.name, entry.name)
    kind, version = (pod_groups.KIND, pod_groups.VERSION) if isinstance(parent, PodGroup) else ("Pod", "v1")
    owner = OwnerReference(api_version=version, kind=kind, name=parent_meta.name, uid=parent_meta.uid, controller=True)
    metadata = ObjectMeta(
        name=generated_name(prefix, suffix),
        generate_name=prefix,
        namespace=parent_meta.namespace,
        labels=template.spec.metadata.labels,
        annotations={**template.spec.metadata.annotations, POD_CLAIM_NAME: entry.name},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def generate_claims(
    pod: Pod,
    templates: Mapping[ObjectKey, ResourceClaimTemplate],
    suffix: NameSuffix,
    existing: Iterable[ResourceClaim] = (),
) -> GeneratedClaims:
    """Generate the missing claims of a pod and add their names to its status, as the claim controller does.

    ``existing``: claims that were generated for the pod and the entry before are reused.
    """
    recorded = {status.name for status in pod.status.resource_claim_statuses}
    statuses = list(pod.status.resource_claim_statuses)
    reusable = {
        claim.metadata.annotations[POD_CLAIM_NAME]: claim
        for claim in existing
        if POD_CLAIM_NAME in claim.metadata.annotations
        and claim.metadata.namespace == pod.metadata.namespace
        and pod.metadata.uid
        and is_owned_by(claim, pod)
    }
    claims: list[ResourceClaim] = []
    missing: list[PodResourceClaim] = []
    for number, entry in enumerate(pod.spec.resource_claims):
        if entry.resource_claim_template_name is None or entry.name in recorded:
            continue
        claim = reusable.get(entry.name)
        if claim is None:
            template = templates.get(ObjectKey(pod.metadata.namespace, entry.resource_claim_template_name))
            if template is None:
                missing.append(entry)
                continue
            name_suffix = suffix(name_prefix(pod.metadata.name, entry.name), number)
            claim = generated_claim(pod, entry, template, name_suffix)
            claims.append(claim)
        statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.metadata.name))
    if len(statuses) != len(pod.status.resource_claim_statuses):
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses)))
    return GeneratedClaims(pod, tuple(claims), tuple(missing))
