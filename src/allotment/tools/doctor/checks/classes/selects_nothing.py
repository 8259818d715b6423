"""DeviceClasses that select no device."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique
from allotment.vocabulary.drivers import installed_classes


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Classes that pending claims request as warnings, other ones as notes."""
    if any(pool not in cluster.usable for pool in cluster.pools):
        return  # the devices of unusable pools are unknown
    idle = [
        name for name, found in cluster.matches.items()
        if not found and not any(node.error for node in found.nodes)
    ]  # fmt: skip
    awaited = [
        name
        for name in idle
        if any(user.is_pending and not user.is_alternative for user in cluster.class_users.get(name, ()))
    ]
    requested = [name for name in idle if name in cluster.class_users and name not in awaited]
    unused = [name for name in idle if name not in cluster.class_users and name not in installed_classes()]
    for names in (awaited, requested, unused):
        if not names:
            continue
        verb = "selects" if len(names) == 1 else "select"
        text = f"{named('class', names)} {verb} none of the cluster's {counted(len(cluster.devices), 'device')}"
        if names is not unused:
            users = unique(user.name for user in cluster.class_users[names[0]])
            text += f"; {named('claim or template', users)} {'requests' if len(users) == 1 else 'request'} {names[0]}"
        words = "Correct the selector of the class, or add hardware that it selects."
        help_ = "" if names is unused else remedy(words, f"kubectl get deviceclass {names[0]} -o yaml")
        yield Symptom.of("class", names, text, help_, "warning" if names is awaited else "note")


CHECK = ClusterCheck(
    code="D402",
    severity="warning",
    summary="a DeviceClass selects no device",
    why="Claims that request the class stay pending. Drivers' Helm charts install classes for all kinds of devices, "
    "and hardware"
    " may be provisioned only on demand, so this is only a note if no claim is waiting for the class, or if the "
    "class is one of several alternatives in a request.",
    find=find,
    needs=("resourceslices", "deviceclasses", "resourceclaims"),
)
