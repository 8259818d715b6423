"""M417: more than 256 pods reference one claim at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.meta import ObjectKey
from allotment.phrases import counted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, claim_references, qualified_name
from allotment.tools.check.rule import Rule, RuleMatch

#: The maximum number of consumers that a claim is reserved for (ResourceClaimReservedForMaxSize).
_MAX_PODS = 256


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    references_by_claim: dict[ObjectKey, list[ClaimReference]] = {}
    for reference in claim_references(bundle):
        if reference.entry.kind == "ResourceClaim":
            references_by_claim.setdefault(reference.key, []).append(reference)
    for key, references in references_by_claim.items():
        pods = sum(reference.pod.replicas for reference in references)
        if pods > _MAX_PODS:
            # Which pods stay pending is unknown; the finding points at the largest workload.
            largest = max(references, key=lambda reference: reference.pod.replicas)
            others = counted(len(references) - 1, "other workload")
            workloads = "" if len(references) == 1 else f" of {qualified_name(largest.pod)} and {others}"
            yield RuleMatch(
                largest.pod.document,
                largest.entry.name_path,
                f"{pods} pods{workloads} reference claim {key.name}; at most {_MAX_PODS} can use it at the same time",
                help="further pods stay pending until others have terminated; use several claims",
            )


RULE = Rule(
    code="M417",
    name="too-many-pods",
    family="meaning",
    level="error",
    summary="more than 256 pods reference one claim at the same time",
    why=(
        "Each pod that uses a claim is listed in the claim's status.reservedFor, which holds at most 256 entries. "
        'Further pods stay pending ("resourceclaim in use") until one of the listed pods has terminated.'
    ),
    bad=examples.join_documents(
        examples.claim("shared-gpu", class_name="gpu.example.com"),
        examples.deployment("server", "resourceClaimName: shared-gpu", 300),
    ),
    good=examples.join_documents(
        examples.claim("shared-gpu", class_name="gpu.example.com"),
        examples.deployment("server", "resourceClaimName: shared-gpu", 256),
    ),
    find=_find,
    see="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/",
)
