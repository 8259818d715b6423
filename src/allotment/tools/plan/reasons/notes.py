"""What somebody who trusts a plan should know: what in it is estimated, what must be installed, how old prices are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.labels import SETTERS
from allotment.fleet.catalog.price_dates import dated
from allotment.tools.plan.pending_pods.demand import Waiting, asked_labels


def notes_on(types: Sequence[InstanceType], seated: Iterable[Waiting]) -> Iterator[str]:
    """About the types that are bought, and the pods that come on machines of theirs."""
    estimated = [one.key for one in types if one.room is not None and one.room.estimated]
    if estimated:
        yield f"cpu and memory that {_have(estimated)} for pods are estimated"
    pods = list(seated)
    disks = [one.key for one in types if disk_of(one).estimated]
    if disks and any("ephemeral-storage" in pod.asked.requests for pod in pods):
        yield f"ephemeral-storage that {_have(disks)} for pods is estimated: ephemeral_gib of a catalogue says yours"
    borderline = [one.key for one in types if one.memory_bound]
    if borderline:
        yield f"GPU memory of {', '.join(borderline)} is not its driver's figure: claims near it are borderline"
    for setter, labels in _set_by(pods).items():
        yield f"{', '.join(sorted(labels))}: a node has it only where {setter} sets it"
    when = dated(one.as_of for one in types)
    if when:
        yield f"prices are of {when}"


def _have(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def _set_by(pods: Iterable[Waiting]) -> Mapping[str, set[str]]:
    """Labels that pods ask, by who would set them, where that one may not be there."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        for label in asked_labels(pod):
            setter = SETTERS.get(label.partition("/")[0])
            if setter is not None:
                found.setdefault(setter, set()).add(label)
    return found
