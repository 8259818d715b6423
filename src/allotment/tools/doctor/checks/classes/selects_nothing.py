"""Classes that no device satisfies."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.case import Case
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.wording import about, counted, remedy, subject
from allotment.vocabulary.drivers import installed_classes


def find(case: Case) -> Iterable[Sign]:
    """Those that somebody asks for are a warning; of the others it is enough to know."""
    idle = [
        name for name, found in case.matches.items()
        if not found and not any(node.error for node in found.nodes)
    ]  # fmt: skip
    for asked in (True, False):
        names = [name for name in idle if bool(case.askers.get(name)) is asked]
        if not asked:
            names = [name for name in names if name not in installed_classes()]
        if not names:
            continue
        verb = "selects" if len(names) == 1 else "select"
        text = f"{about('class', names)} {verb} none of {counted(len(case.devices), 'device')}"
        if asked:
            askers = case.askers[names[0]]
            text += f"; {about('claim or template', askers)} {'asks' if len(askers) == 1 else 'ask'} for {names[0]}"
        words = "Correct its selector, or add hardware that it is for."
        help_ = remedy(words, f"kubectl get deviceclass {names[0]} -o yaml") if asked else ""
        yield Sign(subject("class", names), text, help_, "warning" if asked else "note", tuple(names))


CHECK = Check(
    code="D402",
    severity="warning",
    summary="a DeviceClass selects no device",
    why="Claims of the class wait for ever. Drivers' charts install classes for all that a driver can do, so one that"
    " nobody asks for is only a note.",
    find=find,
    needs=("resourceslices", "deviceclasses", "resourceclaims"),
)
