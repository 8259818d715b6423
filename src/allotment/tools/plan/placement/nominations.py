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
from allotment.tools.plan.pending_pods.demand import read_demand
from allotment.tools.plan.placement.trial import PlacementRejection, PlacementTrial
from allotment.tools.plan.report import PodPlacement


class NominatedPods(NamedTuple):
    """``values``: the objects, with those pods on their nodes. ``seats``: theirs."""

    objects: list[Object]
    placements: tuple[PodPlacement, ...]


def place_nominated_pods(values: Iterable[Object], features: Features) -> NominatedPods:
    """Keep the promises among these objects; in the order of the scheduler's queue, where not all can be kept.

    Pods of a gang start together, on whatever is best for all of it, and are promised nothing.
    """
    objects = list(values)
    if not any(isinstance(value, Pod) and _nominated_node(value) for value in objects):
        return NominatedPods(objects, ())
    demand = read_demand(objects, features)
    node_names = {node_name.metadata.name for node_name in demand.objects.nodes}
    trial = PlacementTrial(demand, ())
    seats: dict[ObjectKey, PodPlacement] = {}
    remaining = [pod for pod in demand.pending if _nominated_node(pod.pod) in node_names and not pod.gang]
    last_count = 0
    # Who must wait for others is tried again when these are there.
    while remaining and len(remaining) != last_count:
        last_count = len(remaining)
        for pod in remaining:
            node_name = _nominated_node(pod.pod)
            claims = trial.place(pod, node_name)
            if not isinstance(claims, PlacementRejection):
                seats[pod.key] = PodPlacement(pod=pod.key, node=node_name, owner=pod.owner, claims=claims)
        remaining = [pod for pod in remaining if pod.key not in seats and pod.requirements.waits_for_others]
    result: list[Object] = []
    allocated = dict(trial.claims)
    for value in objects:
        if isinstance(value, Pod) and (placement := seats.get(value.key)) is not None and not value.spec.node_name:
            value = replace(value, spec=replace(value.spec, node_name=placement.node))
        elif isinstance(value, ResourceClaim):
            value = allocated.pop(value.key, value)
        result.append(value)
    return NominatedPods([*result, *allocated.values()], tuple(seats.values()))


def _nominated_node(pod: Pod) -> str:
    return "" if pod.spec.node_name else pod.status.nominated_node_name
