"""One trial of a plan from the start: all pods come in the scheduler's order, each to where the plan wants it.

A pod that finds no node may find one later, since others have come: some that it must be near, or that even out a
spread. Kubernetes tries it again when its wait is over, and whether the pods behind it have had their turn by then is a
matter of seconds. So a trial can be run either way, and what comes out of both is what can be promised.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from allotment.tools.explain.report import ClaimAllocation
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.pending_pods.demand import PendingPod
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.placement.planned_nodes import PlannedNode
from allotment.tools.plan.placement.trial import PlacementRejection, PlacementTrial

#: When those that found no node are tried again: each time that somebody found one, or when all have had their turn.
RetryPolicy: TypeAlias = Literal["at once", "at last"]

_ORDER: Final = (
    "it can only come after other pods, and where it then finds a place, if at all, hangs on when it is tried again"
)


@dataclass(slots=True)
class RunConstraints:
    """What earlier runs have taught."""

    unplanned: set[int]
    """Items (by identity) that nothing is bought for."""
    excluded: set[int] = field(default_factory=set)
    """Pods (by order) that do not come: nothing can be promised of them."""
    pinned: dict[int, str] = field(default_factory=dict)
    """Nodes by pod (by order) that are tried first, since that is where it went at once."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod's turn. ``at``: which of its item's pods it is."""

    kind: int
    item: Item
    index: int
    pod: PendingPod


class SchedulingRun:
    """One trial from the start."""

    def __init__(
        self, formulation: Formulation, nodes: Sequence[PlannedNode], items: Sequence[Sequence[Item]], terms: RunConstraints
    ) -> None:
        kube = formulation.demand.features.kube
        self.nodes = nodes
        self._question = formulation
        self.trial = PlacementTrial(formulation.demand, [node.template(kube) for node in nodes if node.is_new])
        self.placements: dict[int, tuple[str, tuple[ClaimAllocation, ...]]] = {}
        self.used_nodes: set[str] = set()
        self.failed: list[tuple[int, Item]] = []
        self._failed_ids: set[int] = set()
        self._rejections: dict[int, PlacementRejection] = {}
        self._item_nodes: dict[int, PlannedNode] = {}
        self._constraints = terms
        self._by_name = {node.name: node for node in nodes}
        self._rejected_kinds: dict[int, PlacementRejection] = {}
        """Kinds of which the first pod of one item that is gone found nothing: nor will that of the next."""
        self._retryable: list[QueuedPod] = []
        """Those that the pods to come may help, in the order of the queue."""
        self.late: set[int] = set()
        """All that ever were such (by order), so that it matters when they are tried again."""
        self.order_dependent: set[int] = set()
        """Pods (by order) that nothing is bought for, and that sit elsewhere in another order, or nowhere."""
        self.alternative_nodes: dict[int, str] = {}
        """Nodes of pods (by order) in another order, if it was another one."""
        self._kinds: list[tuple[int, Item]] = [(kind, item) for kind, ones in enumerate(items) for item in ones]
        self._expected = [node.expected.copy() for node in nodes]
        self._by_kind: dict[int, list[int]] = {}
        for number, node in enumerate(nodes):
            for kind in node.expected:
                self._by_kind.setdefault(kind, []).append(number)

    def place_all(self, again: RetryPolicy) -> None:
        """Items in the order of the first pod of each; its other pods go where the first one went, if they may.

        Where they may not just then, the scheduler takes any other node that will do.
        """
        queue = [QueuedPod(kind, item, at, pod) for kind, item in self._kinds for at, pod in enumerate(item.pods)]
        queue.sort(key=lambda turn: turn.pod.order)
        for turn in queue:
            if turn.pod.order in self._constraints.excluded:
                self._rejections[id(turn.item)] = PlacementRejection(_ORDER, cause="order")
                continue
            if self._try_place(turn):
                if again == "at once":
                    self._retry()
            elif turn.pod.requirements.waits_for_others:
                self.late.add(turn.pod.order)
                self._retryable.append(turn)
            else:
                self._fail(turn)
        self._retry()
        for turn in self._retryable:
            self._fail(turn)

    def _retry(self) -> None:
        """Pods that others may let in by coming are tried again, until no more of them find a place."""
        while (lucky := self._place_one_retryable()) is not None:
            self._retryable.remove(lucky)

    def _place_one_retryable(self) -> QueuedPod | None:
        """The first of them that has a place now. Items of one pod that are alike are refused alike."""
        refused: set[int] = set()
        for turn in self._retryable:
            if turn.kind not in refused and self._try_place(turn):
                return turn
            if len(turn.item.pods) == 1:
                refused.add(turn.kind)
        return None

    def _try_place(self, turn: QueuedPod) -> bool:
        """A pod takes its turn; whether it has a place now."""
        if id(turn.item) in self._failed_ids:
            return False
        meant = self._by_name.get(self._constraints.pinned.get(turn.pod.order, ""))
        if meant is not None and self._place_on(turn, meant):
            return True
        if id(turn.item) in self._constraints.unplanned:
            return self._place_unplanned(turn)
        known = self._item_nodes.get(id(turn.item))
        if known is None:
            return self._place_as_packed(turn)
        return self._place_on(turn, known) or self._place_on_any(turn, but=(known,))

    def _fail(self, turn: QueuedPod) -> None:
        item = turn.item
        if id(item) in self._constraints.unplanned or id(item) in self._failed_ids:
            return
        self._failed_ids.add(id(item))
        self._item_nodes.pop(id(item), None)
        for pod in item.pods:
            if self.placements.pop(pod.order, None) is not None:
                self.trial.remove(pod)
        self.failed.append((turn.kind, item))

    def _place_unplanned(self, turn: QueuedPod) -> bool:
        """A pod that nothing is bought for takes what it finds."""
        hopeless = self._rejected_kinds.get(turn.kind)
        if hopeless is not None and not turn.index:
            self._rejections.setdefault(id(turn.item), hopeless)
            return False
        if self._place_on_any(turn):
            return True
        # What becomes of the other pods of an item hangs on where its first one is.
        if not turn.index and not turn.pod.requirements.waits_for_others and id(turn.item) in self._rejections:
            self._rejected_kinds[turn.kind] = self._rejections[id(turn.item)]
        return False

    def _place_as_packed(self, turn: QueuedPod) -> bool:
        """Where the packing wants its kind; where that is refused, on any machine of the plan."""
        kind = turn.kind
        wanted = [number for number in self._by_kind.get(kind, ()) if self._expected[number][kind] > 0]
        for number in wanted:
            if self._place_on(turn, self.nodes[number]):
                self._expected[number][kind] -= 1
                return True
        return self._place_on_any(turn, but=[self.nodes[number] for number in wanted])

    def _place_on_any(self, turn: QueuedPod, but: Collection[PlannedNode] = ()) -> bool:
        """On the first machine that takes it, if it is known now whether that will."""
        names = {node.name for node in but}
        unknowable = self._question.is_run_time_only
        return any(
            node.name not in names and not unknowable(turn.kind, node.candidate) and self._place_on(turn, node)
            for node in self.nodes
        )

    def _place_on(self, turn: QueuedPod, node: PlannedNode) -> bool:
        item, pod = turn.item, turn.pod
        found = self.trial.place(pod, node.name)
        if isinstance(found, PlacementRejection):
            known = self._rejections.get(id(item))
            if known is None or found.severity >= known.severity:
                self._rejections[id(item)] = found
            return False
        self._item_nodes.setdefault(id(item), node)
        self.placements[pod.order] = (node.name, found)
        self.used_nodes.add(node.name)
        return True

    def compare(self, other: SchedulingRun) -> None:
        """With a run of the same in another order: who sits elsewhere there, or nowhere, has failed, or is doubtful."""
        for kind, item in self._kinds:
            unlike = [pod.order for pod in item.pods if self._node(pod) != other._node(pod)]
            if not unlike:
                continue
            self._rejections[id(item)] = PlacementRejection(_ORDER, cause="order")
            self.alternative_nodes |= {order: other.placements[order][0] for order in unlike if order in other.placements}
            if id(item) in self._constraints.unplanned:
                self.order_dependent.update(unlike)
            elif id(item) not in self._failed_ids:
                self._failed_ids.add(id(item))
                self.failed.append((kind, item))

    def _node(self, pod: PendingPod) -> str:
        return self.placements[pod.order][0] if pod.order in self.placements else ""

    def is_rejected_everywhere(self, item: Item) -> bool:
        """Whether an error keeps the item from every node."""
        return id(item) in self._rejections and self._rejections[id(item)].on_every_node

    def is_rejected_by_pods(self, item: Item) -> bool:
        """Whether it was other pods, on other nodes as well, that kept the item away."""
        return id(item) in self._rejections and self._rejections[id(item)].cause in ("neighbours", "spread", "order")

    def rejections(self) -> dict[int, PlacementRejection]:
        """Of every item that does not sit whole, why."""
        return {
            id(item): self._rejections.get(id(item), PlacementRejection("no node is there"))
            for _, item in self._kinds
            if any(pod.order not in self.placements for pod in item.pods)
        }

    def nodes_in_use(self) -> list[PlannedNode]:
        """The nodes that somebody uses, each expecting who sat there."""
        for node in self.nodes:
            node.expected.clear()
        for kind, item in self._kinds:
            if id(item) in self._item_nodes and id(item) not in self._constraints.unplanned:
                self._item_nodes[id(item)].expected[kind] += 1
        return [node for node in self.nodes if node.name in self.used_nodes or not node.is_new]
