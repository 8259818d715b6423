"""DeviceTaintRules that taint nothing."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.taints import rule_applies
from allotment.model.resource import DeviceTaintRule
from allotment.tools.doctor.case import Case
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.wording import remedy


def find(case: Case) -> Iterable[Sign]:
    """Rule by rule."""
    for rule in case.rules:
        if any(rule_applies(rule, id) for id in case.devices) or any(rule_applies(rule, id) for id in case.results):
            continue
        name = rule.metadata.name
        text = f"{_selected(rule)}: no published or allocated device is meant, so it taints none"
        words = "Correct its deviceSelector (names as in ResourceSlices), or delete the rule."
        yield Sign(f"devicetaintrule/{name}", text, remedy(words, f"kubectl describe devicetaintrule {name}"))


def _selected(rule: DeviceTaintRule) -> str:
    selector = rule.spec.device_selector
    if selector is None:
        return "it has no deviceSelector"
    parts = (("driver", selector.driver), ("pool", selector.pool), ("device", selector.device))
    return "it selects " + (", ".join(f"{name} {value}" for name, value in parts if value is not None) or "everything")


CHECK = Check(
    code="D306",
    severity="warning",
    summary="a DeviceTaintRule selects no device",
    why="The names in the selector must all be those of the device exactly; a rule without a selector taints nothing"
    " (KEP-5055). The hardware that somebody wanted to keep pods off is in use.",
    find=find,
    needs=("resourceslices", "resourceclaims", "devicetaintrules"),
)
