"""M415: a toleration that lets the pod in, and does not keep it there."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import Edit, InsertItem, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, RuleMatch, Rule
from allotment.tools.views import at, items


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        for request in claim.requests:
            where = (*request.body, "tolerations")
            tolerations = list(items(at(claim.document.tree, where)))
            for number, toleration in tolerations:
                if toleration.get("effect"):
                    continue
                # Another one for the same key and effect NoExecute keeps the pod.
                if any(other.get("effect") == "NoExecute" and _is_same_taint(other, toleration) for _, other in tolerations):
                    continue
                edits: tuple[Edit, ...] = (
                    SetValue((*where, number, "effect"), "NoSchedule"),
                    InsertItem(where, number + 1, {**toleration, "effect": "NoExecute"}),
                )
                yield RuleMatch(
                    claim.document,
                    (*where, number),
                    "without effect it lets the pod onto a device tainted NoExecute, and does not keep it from being "
                    "evicted from there",
                    fix=Fix(
                        "write it once for each effect", tuple((claim.document, edit) for edit in edits), safe=True
                    ),
                )


def _is_same_taint(first: dict[str, object], second: dict[str, object]) -> bool:
    return all(first.get(field) == second.get(field) for field in ("key", "operator", "value"))


_TOLERATION = "- key: gpu.nvidia.com/xid\n  operator: Exists\n"

RULE = Rule(
    code="M415",
    name="toleration-evicted",
    family="meaning",
    level="warning",
    summary="a device toleration without effect does not keep the pod from being evicted",
    why=(
        "Without effect a toleration is for taints of every effect, and the scheduler reads it so (KEP-5055). The "
        "controller that evicts pods from devices with NoExecute taints counts only tolerations that say NoExecute "
        "themselves, up to Kubernetes 1.37 at least. So the pod is given the tainted device, is evicted, and comes "
        "back to the same device. Two tolerations, one for each effect, mean the same to both."
    ),
    bad=examples.template("any-health", request_extra=f"tolerations:\n{_TOLERATION}"),
    good=examples.template(
        "any-health", request_extra=f"tolerations:\n{_TOLERATION}  effect: NoSchedule\n{_TOLERATION}  effect: NoExecute\n"
    ),
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/5055",
)
