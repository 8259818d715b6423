"""Classes that are asked for and do not exist."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import about, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """Class by class. A claim that has its devices needs the class no more; of a template alone nobody waits."""
    for name, askers in case.askers.items():
        if name in case.classes:
            continue
        claims = unique(asker.name for asker in askers)
        severity: Severity = "error" if any(asker.waits for asker in askers) else "warning"
        verb = "asks" if len(claims) == 1 else "ask"
        text = f"{about('claim or template', claims)} {verb} for it, and there is no such class"
        words = f"Install the driver that brings it, or correct deviceClassName.{did_you_mean(name, case.classes)}"
        yield Sign(f"class/{name}", text, remedy(words, "kubectl get deviceclasses"), severity, claims)


CHECK = Check(
    code="D405",
    severity="error",
    summary="a class is asked for that does not exist",
    why="The API server takes a claim with any class. Only the scheduler says `device class … does not exist`, and the"
    " pod waits until it does. Where only a template asks, no pod waits yet, and it is a warning.",
    find=find,
    needs=("deviceclasses", "resourceclaims", "resourceclaimtemplates"),
)
