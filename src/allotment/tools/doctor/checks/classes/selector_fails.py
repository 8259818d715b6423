"""DeviceClasses whose selector fails with an error."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Classes with a selector that fails on a node's devices."""
    for name, found in cluster.matches.items():
        failing = [node for node in found.nodes if node.error]
        if not failing:
            continue
        error = " ".join(failing[0].error.split())
        text = f"the selector fails for devices on {counted(len(failing), 'node')}: {error}"
        users = cluster.class_users.get(name, ())
        if users:
            text += f". The class is requested by {named('claim or template', unique(user.name for user in users))}"
        words = "Test the driver first, then attributes of its devices:"
        words += ' device.driver == "…" && …. Changing a class does not affect allocated claims.'
        severity: Severity = "error" if any(user.is_pending for user in users) else "warning"
        yield Symptom(f"class/{name}", text, remedy(words, f"kubectl edit deviceclass {name}"), severity)


CHECK = ClusterCheck(
    code="D403",
    severity="error",
    summary="the selector of a DeviceClass fails on existing devices",
    why="A selector that reads a missing attribute fails with an error instead of not matching (KEP-4381): the "
    "scheduler then rejects all nodes. Such a selector often works until a second driver is installed in the "
    "cluster.",
    find=find,
    needs=("resourceslices", "deviceclasses", "resourceclaims"),
)
