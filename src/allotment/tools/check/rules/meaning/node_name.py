"""M410: a pod that goes past the scheduler, and so never gets its devices."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.core import HOSTNAME
from allotment.model.editing.edits import Edit, Nest, Remove, RenameKey, SetValue
from allotment.model.resource import ResourceClaim
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import Target, targets
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.views import PodView, mapping


def _find(bundle: Bundle) -> Iterator[Found]:
    everything = list(targets(bundle))
    for pod in bundle.pods:
        own = [target for target in everything if target.pod is pod]
        if not pod.node_name or not own or all(_allocated(target) for target in own):
            continue
        # A claim that another pod names may have been allocated for that one.
        maybe = all(_allocated(target) or _has_others(target, everything) for target in own)
        yield Found(
            pod.document,
            (*pod.spec, "nodeName"),
            "nodeName goes past the scheduler, which alone allocates claims: the pod never starts"
            + (" unless its claims are allocated before" if maybe else ""),
            help="let the scheduler choose that node: nodeSelector",
            fix=_fix(pod),
            level="warning" if maybe else None,
        )


def _allocated(target: Target) -> bool:
    return isinstance(target.stored, ResourceClaim) and target.stored.status.allocation is not None


def _has_others(target: Target, everything: list[Target]) -> bool:
    return target.entry.kind == "ResourceClaim" and any(
        other.key == target.key and other.entry.kind == target.entry.kind and not other.pod.node_name
        for other in everything
    )


def _fix(pod: PodView) -> Fix:
    path = (*pod.spec, "nodeName")
    selector = (*pod.spec, "nodeSelector")
    edits: tuple[Edit, ...]
    if mapping(pod.tree.get("nodeSelector")):
        edits = (SetValue((*selector, HOSTNAME), pod.node_name), Remove(path))
    elif "nodeSelector" in pod.tree:
        edits = (SetValue(selector, {HOSTNAME: pod.node_name}), Remove(path))
    else:  # a comment on the name stays with it
        edits = (RenameKey(path, HOSTNAME), Nest(pod.spec, (HOSTNAME,), "nodeSelector"))
    text = f"select node {pod.node_name} by its label {HOSTNAME} instead"
    return Fix(text, tuple((pod.document, edit) for edit in edits), safe=False)


RULE = Rule(
    code="M410",
    name="node-name",
    family="meaning",
    level="error",
    summary="a pod with claims has nodeName, which goes past the scheduler: its claims are never allocated",
    why=(
        "A pod with nodeName is on its node at once, and no scheduler sees it. But it is the scheduler that allocates "
        'claims. The kubelet then refuses to start the pod, again and again ("pod … is not allowed to use '
        'ResourceClaim …"). Only a claim that was allocated before, for another pod, can be used so. A nodeSelector '
        "for the label kubernetes.io/hostname picks the node and leaves the rest to the scheduler."
    ),
    bad=examples.together(
        examples.template("single-gpu"),
        examples.pod("server", "resourceClaimTemplateName: single-gpu", more="nodeName: gpu-1"),
    ),
    good=examples.together(
        examples.template("single-gpu"),
        examples.pod(
            "server", "resourceClaimTemplateName: single-gpu", more="nodeSelector:\n  kubernetes.io/hostname: gpu-1"
        ),
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#pre-scheduled-pods",
)
