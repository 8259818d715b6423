"""Classes that stand for the same extended resource."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.case import Case
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.wording import remedy, subject


def find(case: Case) -> Iterable[Sign]:
    """Resource by resource."""
    by_resource: dict[str, list[str]] = {}
    for name, one in case.classes.items():
        if one.spec.extended_resource_name:
            by_resource.setdefault(one.spec.extended_resource_name, []).append(name)
    for resource, names in by_resource.items():
        if len(names) > 1:
            order = sorted(sorted(names), key=lambda n: case.classes[n].metadata.creation_timestamp or "", reverse=True)
            newest = max(case.classes[name].metadata.creation_timestamp or "" for name in names)
            wins = min(name for name in names if (case.classes[name].metadata.creation_timestamp or "") == newest)
            text = f"{', '.join(sorted(names))} all have extendedResourceName {resource}; {wins}, the newest, serves it"
            losers = [name for name in order if name != wins]
            words = "Leave the name with one of them."
            help_ = remedy(words, f"kubectl edit deviceclass {losers[0]}")
            yield Sign(subject("class", sorted(names)), text, help_, objects=tuple(sorted(names)))


CHECK = Check(
    code="D404",
    severity="warning",
    summary="two DeviceClasses have the same extendedResourceName",
    why="The newest serves the resource, of equally old ones the first by name (KEP-5004); pods get other devices than"
    " the day before, and nobody is told.",
    find=find,
    needs=("deviceclasses",),
)
