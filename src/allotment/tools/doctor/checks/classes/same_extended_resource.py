"""Classes that stand for the same extended resource."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import remedy


def find(case: Case) -> Iterable[Sign]:
    """Resource by resource."""
    by_resource: dict[str, list[str]] = {}
    for name, one in case.classes.items():
        if one.spec.extended_resource_name:
            by_resource.setdefault(one.spec.extended_resource_name, []).append(name)
    for resource, names in by_resource.items():
        if len(names) > 1:
            names.sort()
            made = {name: case.classes[name].metadata.creation_timestamp or "" for name in names}
            wins, other, *_ = sorted(names, key=made.__getitem__, reverse=True)
            text = f"{', '.join(names)} all have extendedResourceName {resource}; {wins}, the newest, serves it"
            help_ = remedy("Leave the name with one of them.", f"kubectl edit deviceclass {other}")
            yield Sign.of("class", names, text, help_)


CHECK = Check(
    code="D404",
    severity="warning",
    summary="two DeviceClasses have the same extendedResourceName",
    why="The newest serves the resource, of equally old ones the first by name (KEP-5004); pods get other devices than"
    " the day before, and nobody is told.",
    find=find,
    needs=("deviceclasses",),
)
