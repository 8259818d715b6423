"""The objects that reports on equivalent pods name: each pod's own claims, templates and workload."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence

from allotment.explanation.messages import Report
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler.pods import QueuedPod


def origin(pod: QueuedPod) -> Hashable:
    """Return the objects besides its claims that a report on a pod may name: its namespace, workload and templates."""
    owners = tuple(
        (owner["kind"], owner["name"])
        for owner in pod.tree["metadata"].get("ownerReferences") or ()
        if owner.get("controller")
    )
    entries = pod.tree["spec"].get("resourceClaims") or ()
    return pod.key.namespace, owners, tuple(entry.get("resourceClaimTemplateName") for entry in entries)


def with_claim_names(report: Report, names: Mapping[str, str]) -> Report:
    """Replace the claim names of a group's first pod by those of another pod."""
    if not names:
        return report
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    lines = tuple(pattern.sub(lambda found: names[found[0]], line) for line in report.lines)
    return Report(lines, report.cause.renamed(names))


def own_names(named: Sequence[str], pod: QueuedPod) -> dict[str, str]:
    """Return the names of a pod's claims by those of an equivalent pod; empty if ``named`` are its own."""
    extended = f"{pod.key}-extended-resources"
    own = [*claim_names(pod.tree), extended]
    if set(named) <= set(own):
        return {}
    # Pods of a group can also share a claim that is allocated already, and so is not among ``named``.
    made = {extended, *(f"{pod.key.namespace}/{name}" for name in _generated(pod.tree).values())}
    return dict(zip(named, (name for name in own if name in made or name in named), strict=False))


def claim_names(pod: Tree) -> list[str]:
    """Return the pod's claims in the order of its entries."""
    namespace = pod["metadata"].get("namespace", "")
    generated = _generated(pod)
    names = [e.get("resourceClaimName") or generated.get(e["name"]) for e in pod["spec"].get("resourceClaims") or ()]
    return [f"{namespace}/{name}" for name in names if name]


def _generated(pod: Tree) -> dict[str, str]:
    """Return claim names by entry."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {s["name"]: s["resourceClaimName"] for s in statuses if s.get("resourceClaimName")}


def templates_by_claim(pod: Tree) -> dict[ObjectKey, str]:
    """Return template names by the claims generated from them."""
    namespace = pod["metadata"].get("namespace", "")
    generated = _generated(pod)
    return {
        ObjectKey(namespace, name): entry["resourceClaimTemplateName"]
        for entry in pod["spec"].get("resourceClaims") or ()
        if entry.get("resourceClaimTemplateName") and (name := generated.get(entry["name"]))
    }
