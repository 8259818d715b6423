"""The changes to make in manifests after commands have changed the cluster."""

from __future__ import annotations

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.manifest_changes import change_in_manifests

REMOVED = SuggestedChange("remove the nodeSelector", "Deployment ml/web", "spec.template.spec.nodeSelector")
EXPRESSION = SuggestedChange(
    text="request productName", object="ResourceClaimTemplate ml/gpu",
    path="spec.spec.devices.requests[0].exactly.selectors[0].cel.expression",
    becomes='device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-80GB"',
)  # fmt: skip
UNCORDON = SuggestedChange("uncordon a", "Node a", "spec.unschedulable", remedy="uncordon")
WAIT = SuggestedChange("wait for pod b to finish", "ResourceClaim ml/b", "status.allocation", remedy="wait")


def test_the_fields_of_each_object_are_named_and_short_values_quoted() -> None:
    count = SuggestedChange("", "ResourceClaimTemplate ml/gpu", "spec.spec.devices.requests[0].exactly.count", 2)
    assert change_in_manifests([REMOVED, count, EXPRESSION]).endswith(
        ": remove nodeSelector in Deployment web; count: 2 and expression in ResourceClaimTemplate gpu"
    )


def test_what_no_manifest_contains_is_left_out() -> None:
    assert change_in_manifests([UNCORDON, WAIT]) == ""
    assert "Node" not in change_in_manifests([UNCORDON, REMOVED])
