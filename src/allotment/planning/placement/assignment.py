"""Assigns every pod to a node and verifies the assignment by simulated scheduling runs (`scheduling_run`).

A packing checks each machine by itself. Here all pods are placed in the scheduler's order, with topology spread and
affinity over all nodes, so that a few may fail: they go to another machine of the plan that fits, or to an additional
one, and the run is repeated from the start until one run places all items.

Pods without a planned machine stay pending and take any node that the scheduler finds. So runs include them, and an
item that loses its capacity to one of them is treated like any other that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from allotment.explanation.report import ClaimAllocation
from allotment.planning.formulation.problem import Formulation
from allotment.planning.pending_pods.grouping import Item
from allotment.planning.placement.planned_nodes import PlannedNode
from allotment.planning.placement.scheduling_run import RunConstraints, SchedulingRun
from allotment.planning.placement.trial import PlacementRejection

#: Provisions an additional machine for one item of a kind, given the planned nodes and the zones to avoid; None if the
#: limits do not allow one.
NodeProvisioner = Callable[[int, Item, Sequence[PlannedNode], Collection[str]], PlannedNode | None]


@dataclass(slots=True)
class Assignment:
    """The placement of all pods. ``rejections``: why an item is not placed, by the item's identity."""

    placements: dict[int, tuple[str, tuple[ClaimAllocation, ...]]] = field(default_factory=dict)
    """Node name and claims by pod order."""
    nodes: list[PlannedNode] = field(default_factory=list)
    rejections: dict[int, PlacementRejection] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    """Pods (by order) that fit only after pods behind them in the queue are placed."""


def assign_pods(
    formulation: Formulation,
    nodes: list[PlannedNode],
    items: Sequence[Sequence[Item]],
    unplanned: Collection[int],
    provision: NodeProvisioner,
) -> Assignment:
    """Place these items (by kind) on the nodes, and provision further nodes if needed.

    No node is provisioned for the ``unplanned`` items (by identity).
    """
    constraints = RunConstraints(set(unplanned))
    zones: dict[int, set[str]] = {}
    while True:
        run = _run(formulation, nodes, items, constraints)
        if run.alternative_nodes.keys() - constraints.pinned.keys():
            constraints.pinned = run.alternative_nodes | constraints.pinned
            continue
        remaining = run.nodes_in_use()
        if not run.failed and not run.order_dependent and len(remaining) == len(nodes):
            late = run.late & run.placements.keys()
            return Assignment(
                run.placements, [node for node in remaining if node.name in run.used_nodes], run.rejections(), late
            )
        nodes = remaining
        constraints.excluded |= run.order_dependent
        # This ends: every run pins a pod, provisions a node in a new zone for an item, marks an item as unplanned, or
        # has fewer pods or nodes.
        for kind, item in run.failed:
            tried_zones = zones.setdefault(id(item), set())
            # Other pods may reject it in one zone and not in another.
            can_retry = run.is_rejected_by_pods(item) if tried_zones else not run.is_rejected_everywhere(item)
            new_node = provision(kind, item, nodes, tried_zones) if can_retry else None
            if new_node is None:
                constraints.unplanned.add(id(item))
            else:
                tried_zones.add(new_node.candidate.zone)
                nodes.append(new_node)


def _run(
    formulation: Formulation, nodes: Sequence[PlannedNode], items: Sequence[Sequence[Item]], constraints: RunConstraints
) -> SchedulingRun:
    """A run, compared with one in the other retry order if that matters."""
    run = SchedulingRun(formulation, nodes, items, constraints)
    run.place_all("at-end")
    if run.late:
        other = SchedulingRun(formulation, nodes, items, constraints)
        other.place_all("after-each")
        run.compare(other)
    return run
