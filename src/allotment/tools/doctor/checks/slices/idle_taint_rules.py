"""DeviceTaintRules that select no device."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.taints import rule_applies
from allotment.model.resource import DeviceTaintSelector
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Rules without a published or allocated device."""
    for rule in cluster.rules:
        if any(rule_applies(rule, id) for id in cluster.devices) or any(
            rule_applies(rule, id) for id in cluster.results
        ):
            continue
        name = rule.metadata.name
        if rule.spec.device_selector is None:
            # k8s.io/dynamic-resource-allocation up to 0.36, resourceslice/tracker: no selector means every device.
            text = (
                "the rule has no deviceSelector: up to Kubernetes 1.36, kube-scheduler treats all devices as tainted, "
                "although no pod is evicted; from 1.37 on, the rule taints no device"
            )
            words = "Add a deviceSelector (names as in ResourceSlices), or delete the rule."
        else:
            text = f"{_selected(rule.spec.device_selector)}, but no published or allocated device matches"
            words = "Correct its deviceSelector (names as in ResourceSlices), or delete the rule."
        yield Symptom(f"devicetaintrule/{name}", text, remedy(words, f"kubectl describe devicetaintrule {name}"))


def _selected(selector: DeviceTaintSelector) -> str:
    parts = (("driver", selector.driver), ("pool", selector.pool), ("device", selector.device))
    return "the rule selects " + (
        ", ".join(f"{name} {value}" for name, value in parts if value is not None) or "everything"
    )


CHECK = ClusterCheck(
    code="D306",
    severity="warning",
    summary="a DeviceTaintRule selects no device",
    why="All names in the selector must match the device exactly. A rule without a selector should taint no device"
    " (KEP-5055), but kube-scheduler up to 1.36 applies it to all devices. Therefore, either the intended devices "
    "are not tainted, or all devices are.",
    find=find,
    needs=("resourceslices", "resourceclaims", "devicetaintrules"),
)
