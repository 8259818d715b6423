"""M410: a pod with claims and nodeName, which bypasses the scheduler, so that its claims are never allocated."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.core import HOSTNAME_LABEL
from allotment.model.editing.edits import Edit, Nest, Remove, RenameKey, SetValue
from allotment.model.resource import ResourceClaim
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, claim_references
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import PodView, mapping


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    references = list(claim_references(bundle))
    for pod in bundle.pods:
        pod_references = [reference for reference in references if reference.pod is pod]
        if not pod.node_name or not pod_references or all(_is_allocated(reference) for reference in pod_references):
            continue
        # A claim that another pod references may already be allocated for that pod.
        is_uncertain = all(
            _is_allocated(reference) or _is_used_elsewhere(reference, references) for reference in pod_references
        )
        yield RuleMatch(
            pod.document,
            (*pod.spec, "nodeName"),
            "nodeName bypasses the scheduler, which allocates claims: the pod never starts"
            + (" unless its claims are already allocated" if is_uncertain else ""),
            help="use nodeSelector to let the scheduler place the pod on that node",
            fix=_fix(pod),
            level="warning" if is_uncertain else None,
        )


def _is_allocated(reference: ClaimReference) -> bool:
    return isinstance(reference.stored, ResourceClaim) and reference.stored.status.allocation is not None


def _is_used_elsewhere(reference: ClaimReference, references: list[ClaimReference]) -> bool:
    return reference.entry.kind == "ResourceClaim" and any(
        other.key == reference.key and other.entry.kind == reference.entry.kind and not other.pod.node_name
        for other in references
    )


def _fix(pod: PodView) -> Fix:
    path = (*pod.spec, "nodeName")
    selector = (*pod.spec, "nodeSelector")
    edits: tuple[Edit, ...]
    if mapping(pod.tree.get("nodeSelector")):
        edits = (SetValue((*selector, HOSTNAME_LABEL), pod.node_name), Remove(path))
    elif "nodeSelector" in pod.tree:
        edits = (SetValue(selector, {HOSTNAME_LABEL: pod.node_name}), Remove(path))
    else:  # RenameKey keeps a comment on the line
        edits = (RenameKey(path, HOSTNAME_LABEL), Nest(pod.spec, (HOSTNAME_LABEL,), "nodeSelector"))
    text = f"select node {pod.node_name} by its label {HOSTNAME_LABEL} instead"
    return Fix(text, tuple((pod.document, edit) for edit in edits), safe=False)


RULE = Rule(
    code="M410",
    name="node-name",
    family="meaning",
    level="error",
    summary="a pod with claims sets nodeName, which bypasses the scheduler: its claims are never allocated",
    why=(
        "A pod with nodeName is assigned to its node immediately and bypasses the scheduler, which is the component "
        "that "
        'allocates claims. The kubelet then repeatedly refuses to start the pod ("pod … is not allowed to '
        'use ResourceClaim …"). Only a claim that is already allocated for another pod can be used in this way. '
        "A nodeSelector for the label kubernetes.io/hostname selects the node and leaves allocation to the "
        "scheduler."
    ),
    bad=examples.join_documents(
        examples.template("single-gpu"),
        examples.pod("server", "resourceClaimTemplateName: single-gpu", spec_extra="nodeName: gpu-1"),
    ),
    good=examples.join_documents(
        examples.template("single-gpu"),
        examples.pod(
            "server",
            "resourceClaimTemplateName: single-gpu",
            spec_extra="nodeSelector:\n  kubernetes.io/hostname: gpu-1",
        ),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#pre-scheduled-pods",
)
