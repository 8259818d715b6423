"""M415: a device toleration without effect, which does not prevent eviction."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import Edit, InsertItem, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, items


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        for request in claim.requests:
            where = (*request.body, "tolerations")
            tolerations = list(items(at(claim.document.tree, where)))
            for number, toleration in tolerations:
                if toleration.get("effect"):
                    continue
                # Another toleration for the same key with effect NoExecute prevents eviction.
                if any(
                    other.get("effect") == "NoExecute" and _is_same_taint(other, toleration) for _, other in tolerations
                ):
                    continue
                edits: tuple[Edit, ...] = (
                    SetValue((*where, number, "effect"), "NoSchedule"),
                    InsertItem(where, number + 1, {**toleration, "effect": "NoExecute"}),
                )
                yield RuleMatch(
                    claim.document,
                    (*where, number),
                    "a toleration that does not set effect allows scheduling onto a device with a NoExecute taint, "
                    "but does not prevent eviction from it",
                    fix=Fix(
                        "write one toleration per effect", tuple((claim.document, edit) for edit in edits), safe=True
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
    summary="a device toleration that does not set effect does not prevent eviction",
    why=(
        "A toleration that does not set effect is defined to match taints with any effect, and the scheduler "
        "evaluates it accordingly (KEP-5055). However, the controller that evicts pods from devices with NoExecute "
        "taints considers only tolerations with effect NoExecute, at least up to Kubernetes 1.37. The pod therefore "
        "gets the tainted device and is evicted, and its replacement may get the same device again. Two tolerations, "
        "one for each effect, have the same meaning for both components."
    ),
    bad=examples.template("any-health", request_extra=f"tolerations:\n{_TOLERATION}"),
    good=examples.template(
        "any-health",
        request_extra=f"tolerations:\n{_TOLERATION}  effect: NoSchedule\n{_TOLERATION}  effect: NoExecute\n",
    ),
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/5055",
)
