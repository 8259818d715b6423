"""Pods that were promised a place (``status.nominatedNodeName``, KEP-5278) have it before anybody else is planned for.

The scheduler tries the promised node first, so a plan for those that have come since counts these as if they were
there, with the devices that they get. A promise that cannot be kept any more binds nobody: its pod is planned for anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.tools.plan.pending_pods.demand import demand_of
from allotment.tools.plan.placement.trial import Refused, Trial
from allotment.tools.plan.report import Seat


class Promised(NamedTuple):
    """``values``: the objects, with those pods on their nodes. ``seats``: theirs."""

    values: list[Object]
    seats: tuple[Seat, ...]


def with_promises(values: Iterable[Object], features: Features) -> Promised:
    """Keep the promises among these objects; in the order of the scheduler's queue, where not all can be kept.

    Pods of a gang start together, on whatever is best for all of it, and are promised nothing.
    """
    found = list(values)
    if not any(isinstance(value, Pod) and _promised(value) for value in found):
        return Promised(found, ())
    demand = demand_of(found, features)
    nodes = {node.metadata.name for node in demand.given.nodes}
    trial = Trial(demand, ())
    seats: dict[ObjectKey, Seat] = {}
    left = [pod for pod in demand.waiting if _promised(pod.pod) in nodes and not pod.gang]
    tried = 0
    # Who must wait for others is tried again when these are there.
    while left and len(left) != tried:
        tried = len(left)
        for pod in left:
            node = _promised(pod.pod)
            claims = trial.place(pod, node)
            if not isinstance(claims, Refused):
                seats[pod.key] = Seat(pod=pod.key, node=node, owner=pod.owner, claims=claims)
        left = [pod for pod in left if pod.key not in seats and pod.asked.waits_for_others]
    kept: list[Object] = []
    allocated = dict(trial.claims)
    for value in found:
        if isinstance(value, Pod) and (seat := seats.get(value.key)) is not None and not value.spec.node_name:
            value = replace(value, spec=replace(value.spec, node_name=seat.node))
        elif isinstance(value, ResourceClaim):
            value = allocated.pop(value.key, value)
        kept.append(value)
    return Promised([*kept, *allocated.values()], tuple(seats.values()))


def _promised(pod: Pod) -> str:
    return "" if pod.spec.node_name else pod.status.nominated_node_name
