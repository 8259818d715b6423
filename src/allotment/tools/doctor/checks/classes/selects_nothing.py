"""Classes that no device satisfies."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import about, remedy, unique
from allotment.vocabulary.drivers import installed_classes


def find(case: Case) -> Iterable[Sign]:
    """Those that a claim waits for are a warning; of the others it is enough to know."""
    if any(pool not in case.usable for pool in case.pools):
        return  # nobody can tell what they would offer
    idle = [
        name for name, found in case.matches.items()
        if not found and not any(node.error for node in found.nodes)
    ]  # fmt: skip
    awaited = [name for name in idle if any(one.waits and not one.otherwise for one in case.askers.get(name, ()))]
    asked = [name for name in idle if name in case.askers and name not in awaited]
    alone = [name for name in idle if name not in case.askers and name not in installed_classes()]
    for names in (awaited, asked, alone):
        if not names:
            continue
        verb = "selects" if len(names) == 1 else "select"
        text = f"{about('class', names)} {verb} none of {counted(len(case.devices), 'device')}"
        if names is not alone:
            askers = unique(one.name for one in case.askers[names[0]])
            text += f"; {about('claim or template', askers)} {'asks' if len(askers) == 1 else 'ask'} for {names[0]}"
        words = "Correct its selector, or add hardware that it is for."
        help_ = "" if names is alone else remedy(words, f"kubectl get deviceclass {names[0]} -o yaml")
        yield Sign.of("class", names, text, help_, "warning" if names is awaited else "note")


CHECK = Check(
    code="D402",
    severity="warning",
    summary="a DeviceClass selects no device",
    why="Claims of the class wait for ever. Drivers' charts install classes for all that a driver can do, and hardware"
    " may be bought only when somebody waits, so one that no claim waits for, or that is one of several that will do,"
    " is only a note.",
    find=find,
    needs=("resourceslices", "deviceclasses", "resourceclaims"),
)
