"""Classes whose selector stops with an error."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import about, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """Class by class."""
    for name, found in case.matches.items():
        failing = [node for node in found.nodes if node.error]
        if not failing:
            continue
        error = " ".join(failing[0].error.split())
        text = f"on {counted(len(failing), 'node')}: {error}"
        askers = case.askers.get(name, ())
        if askers:
            text += f". It is asked for by {about('claim or template', unique(asker.name for asker in askers))}"
        words = "Ask first for the driver, and only then for what its devices have:"
        words += ' device.driver == "…" && …. Changing a class changes no claim that is allocated.'
        severity: Severity = "error" if any(asker.waits for asker in askers) else "warning"
        yield Sign(f"class/{name}", text, remedy(words, f"kubectl edit deviceclass {name}"), severity)


CHECK = Check(
    code="D403",
    severity="error",
    summary="the selector of a DeviceClass fails on devices that there are",
    why="A selector that reads what a device does not have is an error, not a no (KEP-4381): the scheduler gives up"
    " the whole attempt, for every node. Often it works until a second driver comes to the cluster.",
    find=find,
    needs=("resourceslices", "deviceclasses", "resourceclaims"),
)
