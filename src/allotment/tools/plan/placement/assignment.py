"""Every pod to a machine, proven one by one; what finds no place where it was meant to be is moved, or gets one more.

A packing answers for each machine alone and for its pods in one order. Here all of them come in the scheduler's order,
with spread and affinity over all nodes. So a few may fail: they go to another machine of the plan that takes them, or
to one bought for them, and all is tried again from the start, until one run (`turns`) seats everybody.

Pods that the plan has nothing for wait all the same, and go wherever the scheduler lets them. So they come in their
turn as well: who finds a place has it, and whoever that was meant for is helped like others that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from allotment.tools.explain.report import ClaimAllocation
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.placement.planned_nodes import PlannedNode
from allotment.tools.plan.placement.scheduling_run import RunConstraints, SchedulingRun
from allotment.tools.plan.placement.trial import PlacementRejection

#: A machine for an item of a kind alone, beside those that there are, and in none of these zones if there are any; None
#: if no more may be bought.
NodeProvisioner = Callable[[int, Item, Sequence[PlannedNode], Collection[str]], PlannedNode | None]


@dataclass(slots=True)
class Assignment:
    """Who sits where, with what. ``words``: why an item that no machine takes was refused, by identity."""

    placements: dict[int, tuple[str, tuple[ClaimAllocation, ...]]] = field(default_factory=dict)
    """Node and claims by the order of the pod."""
    nodes: list[PlannedNode] = field(default_factory=list)
    rejections: dict[int, PlacementRejection] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    """Pods (by order) that find their place only after others that come behind them."""


def assign_pods(
    formulation: Formulation, nodes: list[PlannedNode], items: Sequence[Sequence[Item]], unplanned: Collection[int], buy: NodeProvisioner
) -> Assignment:
    """Seat these items (by kind) on the nodes, which are added to where they do not suffice.

    Nothing is bought for ``spare`` ones (by identity).
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
            return Assignment(run.placements, [node for node in remaining if node.name in run.used_nodes], run.rejections(), late)
        nodes = remaining
        constraints.excluded |= run.order_dependent
        # Every run learns where a pod goes at once, buys for an item where nothing was bought for it before, gives one
        # up, or has less to seat, or to seat it on.
        for kind, item in run.failed:
            tried_zones = zones.setdefault(id(item), set())
            # It may be that others keep it from a zone, but from no other.
            can_retry = run.is_rejected_by_pods(item) if tried_zones else not run.is_rejected_everywhere(item)
            new_node = buy(kind, item, nodes, tried_zones) if can_retry else None
            if new_node is None:
                constraints.unplanned.add(id(item))
            else:
                tried_zones.add(new_node.candidate.zone)
                nodes.append(new_node)


def _run(formulation: Formulation, nodes: Sequence[PlannedNode], items: Sequence[Sequence[Item]], constraints: RunConstraints) -> SchedulingRun:
    """One run, and a second one where it matters when pods that found no node are tried again."""
    run = SchedulingRun(formulation, nodes, items, constraints)
    run.place_all("at last")
    if run.late:
        reversed_run = SchedulingRun(formulation, nodes, items, constraints)
        reversed_run.place_all("at once")
        run.compare(reversed_run)
    return run
