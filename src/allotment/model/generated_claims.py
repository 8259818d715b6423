"""Which claims a pod uses, and the claims that Kubernetes generates for it from templates.

A pod names a claim or a template. For a template the claim controller makes one claim per pod, owned by the pod, and
writes its name into the pod's status; until it is there the claim is "not created yet". Random name suffixes come in as
arguments, so that equal input gives equal names.
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

#: Of a claim that was made from a template: what its pod calls it.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"

# A generated name is a DNS label: 63 characters less a dash and five random ones.
_LONGEST_BASE: Final = 57
_LONGEST_PREFIX: Final = 58

#: Makes the end of a generated name: from what stands before it and a number that tells siblings apart.
NameSuffix = Callable[[str, int], str]


class UnresolvedClaim(LookupError):
    """Raised when a pod's claim has no name yet, or never will; the text is Kubernetes' own."""


class GeneratedClaims(NamedTuple):
    """A pod with its status filled in, the claims made for it, and entries whose template does not exist."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    missing: tuple[PodResourceClaim, ...]


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The name of the claim behind an entry of ``spec.resourceClaims``; ``None`` when no claim is needed.

    Raises ``UnresolvedClaim`` when the claim is not created yet, or the entry names neither claim nor template.
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
    """Whether the pod, or a PodGroup of this name, is the claim's controlling owner."""
    return any(
        owner.controller
        and (
            (owner.kind == "Pod" and owner.uid == pod.metadata.uid)
            or (group and owner.kind == pod_groups.KIND and owner.name == group and _is_of_groups(owner))
        )
        for owner in claim.metadata.owner_references
    )


def _is_of_groups(owner: OwnerReference) -> bool:
    return owner.api_version.startswith(f"{pod_groups.GROUP}/")


def not_owner_message(claim: ResourceClaim, pod: Pod, group: str = "") -> str:
    """What Kubernetes says when a pod's generated claim belongs to somebody else."""
    mine, its = pod.metadata, claim.metadata
    return pod_groups.not_owner_message(f"{its.namespace}/{its.name}", f"{mine.namespace}/{mine.name}", group)


def name_prefix(pod_name: str, entry_name: str) -> str:
    """What the name of a generated claim starts with.

    Too long a prefix is cut on both sides in proportion, and then, as in Kubernetes, ends without a dash.
    """
    prefix = f"{pod_name}-{entry_name}-"
    length = len(prefix)
    if length <= _LONGEST_BASE:
        return prefix
    pod_part = pod_name[: len(pod_name) * _LONGEST_BASE // length]
    return f"{pod_part}-{entry_name[: len(entry_name) * _LONGEST_BASE // length]}"


def generated_name(prefix: str, suffix: str) -> str:
    """A name from ``generateName`` and its random end, which the API server keeps within 63 characters."""
    return prefix[:_LONGEST_PREFIX] + suffix


def generated_claim(
    maker: Pod | PodGroup, entry: PodResourceClaim, template: ResourceClaimTemplate, suffix: str
) -> ResourceClaim:
    """The claim that a template makes for a pod or a group; ``suffix`` is the random end of its name."""
    its = maker.metadata
    prefix = name_prefix(its.name, entry.name)
    kind, version = (pod_groups.KIND, pod_groups.VERSION) if isinstance(maker, PodGroup) else ("Pod", "v1")
    owner = OwnerReference(api_version=version, kind=kind, name=its.name, uid=its.uid, controller=True)
    metadata = ObjectMeta(
        name=generated_name(prefix, suffix),
        generate_name=prefix,
        namespace=its.namespace,
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
    """Do for one pod what the claim controller does: make the claims it lacks and note their names in its status.

    ``existing`` claims that were made for the pod and entry before are used again.
    """
    known = {status.name for status in pod.status.resource_claim_statuses}
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
        if entry.resource_claim_template_name is None or entry.name in known:
            continue
        claim = reusable.get(entry.name)
        if claim is None:
            template = templates.get(ObjectKey(pod.metadata.namespace, entry.resource_claim_template_name))
            if template is None:
                missing.append(entry)
                continue
            end = suffix(name_prefix(pod.metadata.name, entry.name), number)
            claim = generated_claim(pod, entry, template, end)
            claims.append(claim)
        statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.metadata.name))
    if len(statuses) != len(pod.status.resource_claim_statuses):
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses)))
    return GeneratedClaims(pod, tuple(claims), tuple(missing))
