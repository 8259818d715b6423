"""Generated claims whose template was changed, or deleted and created again, since: they keep the earlier request.

A pod gets the claims of the present template only if it is created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.further_changes import AfterChange
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.explanation.report import Answer
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate

#: The key of the remedy; its change has no object, because the pod itself stays as it is.
RECREATE: Final = "recreate"


class StaleClaim(NamedTuple):
    """A claim of a pod that was created from an earlier version of its template."""

    claim: ObjectKey
    template: ObjectKey


def stale_claims(
    pod: Pod, claims: Mapping[ObjectKey, ResourceClaim], templates: Mapping[ObjectKey, ResourceClaimTemplate]
) -> Iterator[StaleClaim]:
    """The stale claims of a pod in a cluster. Allocated ones are left out: their devices are what the pod gets."""
    generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        namespace = pod.metadata.namespace
        of = ObjectKey(namespace, entry.resource_claim_template_name or "")
        key = ObjectKey(namespace, generated.get(entry.name) or "")
        template, claim = templates.get(of), claims.get(key)
        # Both are defaulted if they are from an API server.
        if template is None or claim is None or not claim.metadata.uid or not template.metadata.uid:
            continue
        if claim.status.allocation is None and claim.spec != template.spec.spec:
            yield StaleClaim(key, of)


def with_recreation(answer: Answer, pod: Pod, stale: StaleClaim, after: Callable[[Pod], AfterChange]) -> Answer:
    """The answer with the remedy to create the pod again, and what else is necessary then; as it is if nothing helps.

    ``after``: what happens to a pod without claims.
    """
    if answer.reasons is None:
        return answer
    new = replace(pod, status=replace(pod.status, resource_claim_statuses=()))
    node, further = after(new)
    if not node and not further:
        return answer
    what = template_of(pod, owner_of(pod))[0].replace("Pod ", "pod ")
    text = (
        f"delete {what} and create it again: claim {stale.claim} was created from an earlier version of "
        f"ResourceClaimTemplate {stale.template}"
    )
    recreation = SuggestedChange(text=text, node=node or further[0].node, remedy=RECREATE)
    headline = replace(answer.reasons.headline, changes=(recreation, *further), otherwise=())
    rows = tuple(
        replace(row, refused=headline) if row.refused == answer.reasons.headline else row
        for row in answer.reasons.nodes
    )
    return replace(answer, reasons=replace(answer.reasons, headline=headline, nodes=rows))
