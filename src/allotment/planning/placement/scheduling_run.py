"""Simulates one scheduling run of a plan: pods in the scheduler's order, each placed on its planned node.

A pod that fits no node may fit later, after other pods are placed: pods that its affinity requires, or pods that even
out a topology spread. Kubernetes retries it after a back-off, and whether the pods behind it are scheduled by then is a
matter of seconds. So a run supports both orders, and only placements that are equal in both are guaranteed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from allotment.explanation.report import ClaimAllocation
from allotment.planning.formulation.problem import Formulation
from allotment.planning.pending_pods.demand import PendingPod
from allotment.planning.pending_pods.grouping import Item
from allotment.planning.placement.planned_nodes import PlannedNode
from allotment.planning.placement.trial import PlacementRejection, PlacementTrial

#: When pods without a node are retried: after each placement, or after all pods in the queue.
RetryPolicy: TypeAlias = Literal["after-each", "at-end"]

_ORDER: Final = "it fits only after other pods are placed, and its node depends on when the scheduler retries it"


@dataclass(slots=True)
class RunConstraints:
    """Constraints from the results of earlier runs."""

    unplanned: set[int]
    """Items (by identity) for which no machine is provisioned."""
    excluded: set[int] = field(default_factory=set)
    """Pods (by order) that are not placed, as their node cannot be predicted."""
    pinned: dict[int, str] = field(default_factory=dict)
    """Node by pod (by order) that is tried first: its node when retried after each placement."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue. ``index``: its position in its item."""

    kind: int
    item: Item
    index: int
    pod: PendingPod


class SchedulingRun:
    """One run from the initial state of the cluster."""

    def __init__(
        self,
        formulation: Formulation,
        nodes: Sequence[PlannedNode],
        items: Sequence[Sequence[Item]],
        constraints: RunConstraints,
    ) -> None:
        kube = formulation.demand.features.kube
        self.nodes = nodes
        self._formulation = formulation
        self.trial = PlacementTrial(formulation.demand, [node.template(kube) for node in nodes if node.is_new])
        self.placements: dict[int, tuple[str, tuple[ClaimAllocation, ...]]] = {}
        self.used_nodes: set[str] = set()
        self.failed: list[tuple[int, Item]] = []
        self._failed_ids: set[int] = set()
        self._rejections: dict[int, PlacementRejection] = {}
        self._item_nodes: dict[int, PlannedNode] = {}
        self._constraints = constraints
        self._by_name = {node.name: node for node in nodes}
        self._rejected_kinds: dict[int, PlacementRejection] = {}
        """By kind, the rejection of an unplanned item's first pod, which holds for the next item too."""
        self._retryable: list[QueuedPod] = []
        """Pods without a node that may fit after other pods are placed, in queue order."""
        self.late: set[int] = set()
        """Pods (by order) that were ever retryable, so that the retry order matters."""
        self.order_dependent: set[int] = set()
        """Unplanned pods (by order) whose placement differs in the other retry order."""
        self.alternative_nodes: dict[int, str] = {}
        """The node of pods (by order) in the other retry order, if it differs."""
        self._kinds: list[tuple[int, Item]] = [(kind, item) for kind, of_kind in enumerate(items) for item in of_kind]
        self._expected = [node.expected.copy() for node in nodes]
        self._by_kind: dict[int, list[int]] = {}
        for number, node in enumerate(nodes):
            for kind in node.expected:
                self._by_kind.setdefault(kind, []).append(number)

    def place_all(self, retry: RetryPolicy) -> None:
        """Place all pods in the scheduler's order; further pods of an item go to the node of its first one if possible.

        Otherwise the scheduler takes any other node that fits.
        """
        queue = [QueuedPod(kind, item, at, pod) for kind, item in self._kinds for at, pod in enumerate(item.pods)]
        queue.sort(key=lambda queued: queued.pod.order)
        for queued in queue:
            if queued.pod.order in self._constraints.excluded:
                self._rejections[id(queued.item)] = PlacementRejection(_ORDER, cause="order")
                continue
            if self._try_place(queued):
                if retry == "after-each":
                    self._retry()
            elif queued.pod.requirements.may_fit_after_other_pods:
                self.late.add(queued.pod.order)
                self._retryable.append(queued)
            else:
                self._fail(queued)
        self._retry()
        for queued in self._retryable:
            self._fail(queued)

    def _retry(self) -> None:
        """Retry pods that may fit after others are placed, until no more of them fit."""
        while (placed := self._place_one_retryable()) is not None:
            self._retryable.remove(placed)

    def _place_one_retryable(self) -> QueuedPod | None:
        """Place the first retryable pod that fits. Equal items with a single pod are rejected together."""
        rejected: set[int] = set()
        for queued in self._retryable:
            if queued.kind not in rejected and self._try_place(queued):
                return queued
            if len(queued.item.pods) == 1:
                rejected.add(queued.kind)
        return None

    def _try_place(self, queued: QueuedPod) -> bool:
        """Try to place a pod; returns whether it has a node."""
        if id(queued.item) in self._failed_ids:
            return False
        pinned = self._by_name.get(self._constraints.pinned.get(queued.pod.order, ""))
        if pinned is not None and self._place_on(queued, pinned):
            return True
        if id(queued.item) in self._constraints.unplanned:
            return self._place_unplanned(queued)
        node = self._item_nodes.get(id(queued.item))
        if node is None:
            return self._place_as_packed(queued)
        return self._place_on(queued, node) or self._place_on_any(queued, excluded=(node,))

    def _fail(self, queued: QueuedPod) -> None:
        item = queued.item
        if id(item) in self._constraints.unplanned or id(item) in self._failed_ids:
            return
        self._failed_ids.add(id(item))
        self._item_nodes.pop(id(item), None)
        for pod in item.pods:
            if self.placements.pop(pod.order, None) is not None:
                self.trial.remove(pod)
        self.failed.append((queued.kind, item))

    def _place_unplanned(self, queued: QueuedPod) -> bool:
        """Place a pod without a planned machine on any node that fits."""
        rejection = self._rejected_kinds.get(queued.kind)
        if rejection is not None and not queued.index:
            self._rejections.setdefault(id(queued.item), rejection)
            return False
        if self._place_on_any(queued):
            return True
        # The placement of further pods of an item depends on the node of its first one.
        if (
            not queued.index
            and not queued.pod.requirements.may_fit_after_other_pods
            and id(queued.item) in self._rejections
        ):
            self._rejected_kinds[queued.kind] = self._rejections[id(queued.item)]
        return False

    def _place_as_packed(self, queued: QueuedPod) -> bool:
        """Place a pod where the packing has its kind, or else on any machine of the plan."""
        kind = queued.kind
        planned = [number for number in self._by_kind.get(kind, ()) if self._expected[number][kind] > 0]
        for number in planned:
            if self._place_on(queued, self.nodes[number]):
                self._expected[number][kind] -= 1
                return True
        return self._place_on_any(queued, excluded=[self.nodes[number] for number in planned])

    def _place_on_any(self, queued: QueuedPod, excluded: Collection[PlannedNode] = ()) -> bool:
        """Place a pod on the first node that fits, except nodes whose fit depends on run-time attributes."""
        names = {node.name for node in excluded}
        is_run_time_only = self._formulation.is_run_time_only
        return any(
            node.name not in names
            and not is_run_time_only(queued.kind, node.candidate)
            and self._place_on(queued, node)
            for node in self.nodes
        )

    def _place_on(self, queued: QueuedPod, node: PlannedNode) -> bool:
        item, pod = queued.item, queued.pod
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
        """Compare with a run in the other retry order: pods whose node differs fail, or are order-dependent."""
        for kind, item in self._kinds:
            differing = [pod.order for pod in item.pods if self._node(pod) != other._node(pod)]
            if not differing:
                continue
            self._rejections[id(item)] = PlacementRejection(_ORDER, cause="order")
            self.alternative_nodes |= {
                order: other.placements[order][0] for order in differing if order in other.placements
            }
            if id(item) in self._constraints.unplanned:
                self.order_dependent.update(differing)
            elif id(item) not in self._failed_ids:
                self._failed_ids.add(id(item))
                self.failed.append((kind, item))

    def _node(self, pod: PendingPod) -> str:
        return self.placements[pod.order][0] if pod.order in self.placements else ""

    def is_rejected_everywhere(self, item: Item) -> bool:
        """Whether an error rejects the item on every node."""
        return id(item) in self._rejections and self._rejections[id(item)].on_every_node

    def is_rejected_by_pods(self, item: Item) -> bool:
        """Whether the item was rejected because of other pods, possibly on other nodes."""
        return id(item) in self._rejections and self._rejections[id(item)].cause in ("neighbours", "spread", "order")

    def rejections(self) -> dict[int, PlacementRejection]:
        """The rejection of every item that is not placed completely."""
        return {
            id(item): self._rejections.get(id(item), PlacementRejection("there are no nodes"))
            for _, item in self._kinds
            if any(pod.order not in self.placements for pod in item.pods)
        }

    def nodes_in_use(self) -> list[PlannedNode]:
        """The existing nodes and the new ones in use; sets ``expected`` to the items that were placed."""
        for node in self.nodes:
            node.expected.clear()
        for kind, item in self._kinds:
            if id(item) in self._item_nodes and id(item) not in self._constraints.unplanned:
                self._item_nodes[id(item)].expected[kind] += 1
        return [node for node in self.nodes if node.name in self.used_nodes or not node.is_new]
