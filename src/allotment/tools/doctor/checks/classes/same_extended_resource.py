"""DeviceClasses with the same extended resource."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import listed
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Resources with several classes."""
    by_resource: dict[str, list[str]] = {}
    for name, class_ in cluster.classes.items():
        if class_.spec.extended_resource_name:
            by_resource.setdefault(class_.spec.extended_resource_name, []).append(name)
    for resource, names in by_resource.items():
        if len(names) > 1:
            names.sort()
            created = {name: cluster.classes[name].metadata.creation_timestamp or "" for name in names}
            newest, other, *_ = sorted(names, key=created.__getitem__, reverse=True)
            text = f"{listed(names)} have the same extendedResourceName, {resource}; the newest, {newest}, is used"
            help_ = remedy("Keep the name in only one of them.", f"kubectl edit deviceclass {other}")
            yield Symptom.of("class", names, text, help_)


CHECK = ClusterCheck(
    code="D404",
    severity="warning",
    summary="two DeviceClasses have the same extendedResourceName",
    why="The newest class is used; if both were created at the same time, the first one by name (KEP-5004). As a "
    "result, pods may get different devices than before, without notice.",
    find=find,
    needs=("deviceclasses",),
)
