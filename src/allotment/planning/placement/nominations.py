"""Places pods on their nominated nodes (``status.nominatedNodeName``, KEP-5278) before planning for other pods.

The scheduler tries the nominated node first, so a plan for newer pods counts nominated pods as running there, with
their devices. A nominated pod that no longer fits its node is planned like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.placement.trial import PlacementRejection, PlacementTrial
from allotment.planning.report import PodPlacement


class NominatedPods(NamedTuple):
    """``objects``: with nominated pods on their nodes and their claims allocated. ``placements``: of these pods."""

    objects: list[Object]
    placements: tuple[PodPlacement, ...]


def place_nominated_pods(values: Iterable[Object], features: Features) -> NominatedPods:
    """Place the nominated pods in the order of the scheduler's queue, as far as they fit.

    Nominations of gang members are ignored: a gang starts as a whole on any nodes.
    """
    objects = list(values)
    if not any(isinstance(value, Pod) and _nominated_node(value) for value in objects):
        return NominatedPods(objects, ())
    demand = read_demand(objects, features)
    node_names = {node.metadata.name for node in demand.objects.nodes}
    trial = PlacementTrial(demand, ())
    placements: dict[ObjectKey, PodPlacement] = {}
    remaining = [pod for pod in demand.pending if _nominated_node(pod.pod) in node_names and not pod.gang]
    last_count = 0
    # Pods that depend on others are retried after these are placed.
    while remaining and len(remaining) != last_count:
        last_count = len(remaining)
        for pod in remaining:
            node_name = _nominated_node(pod.pod)
            claims = trial.place(pod, node_name)
            if not isinstance(claims, PlacementRejection):
                placements[pod.key] = PodPlacement(pod=pod.key, node=node_name, owner=pod.owner, claims=claims)
        remaining = [
            pod for pod in remaining if pod.key not in placements and pod.requirements.may_fit_after_other_pods
        ]
    result: list[Object] = []
    allocated = dict(trial.claims)
    for value in objects:
        if isinstance(value, Pod) and (placement := placements.get(value.key)) is not None and not value.spec.node_name:
            value = replace(value, spec=replace(value.spec, node_name=placement.node))
        elif isinstance(value, ResourceClaim):
            value = allocated.pop(value.key, value)
        result.append(value)
    return NominatedPods([*result, *allocated.values()], tuple(placements.values()))


def _nominated_node(pod: Pod) -> str:
    return "" if pod.spec.node_name else pod.status.nominated_node_name
