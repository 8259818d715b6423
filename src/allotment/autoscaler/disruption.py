"""Removes nodes that are not needed: idle nodes, and nodes whose pods fit elsewhere.

`allotment.planning.consolidation` finds the candidates by simulating the scheduler. They are removed step by step,
and each step may abort: replacement machines are provisioned; nodes are cordoned; the simulation is repeated on the
current cluster; pods are evicted, which PodDisruptionBudgets may reject; and empty nodes are released. After a crash
the next process undoes what was started.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from allotment.autoscaler.cluster_state import ObservedCluster, is_daemon, is_finished
from allotment.autoscaler.cordon import LEAVING, cordon, is_cordoned
from allotment.autoscaler.events import EventReporter, describe_machine
from allotment.autoscaler.nomination import Nominations
from allotment.autoscaler.options import AutoscalerOptions, Planner
from allotment.autoscaler.order import MachineOrder
from allotment.autoscaler.order_reconciler import OrderReconciler
from allotment.autoscaler.order_store import OrderStore
from allotment.autoscaler.provider import NoCapacity, OrderRejected
from allotment.autoscaler.purchase_backoff import PurchaseBackoff
from allotment.autoscaler.remaining_limits import remaining_limits
from allotment.autoscaler.scale_up import planner_of, run_in_thread
from allotment.autoscaler.unavailable_offerings import UnavailableOfferings
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import PODS
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.packing.problem import KeepGoing
from allotment.phrases import counted
from allotment.planning.consolidation.disruption import ConsolidationPolicy, DisruptionBudget
from allotment.planning.consolidation.search import Consolidation, OwnedNode, ReplacementOptions, consolidate
from allotment.planning.limits import PlanLimits
from allotment.planning.reasons.wording import dollars
from allotment.planning.report import ProvisioningPlan

log = logging.getLogger(__name__)

#: The key in the purchase back-off for replacement machines.
_REPLACEMENT: Final = "replacing"
#: Seconds: interval between steps; minimum time from cordon to release, because a binding may be in flight; time
#: without progress after which a drain is aborted; interval between searches without changes.
_STEP, _CORDON, _DRAIN, _SEARCH = 1.0, 2.0, 600.0, 300.0


class Disruption:
    """A disruption in progress. ``moves``: whether pods must be evicted. ``added``: orders of replacement machines."""

    def __init__(self, remove: Sequence[str], moves: bool, added: Sequence[str], now: float) -> None:
        self.remove = list(remove)
        self.moves = moves
        self.added = list(added)
        self.started = now
        self.cordoned: float | None = None
        self.progress = now
        self.left: int | None = None
        """Remaining pods at the last progress."""
        self.verified = not moves


class DisruptionController:
    """Searches for disruptions and carries them out; :meth:`run` is the task."""

    def __init__(
        self,
        options: AutoscalerOptions,
        clock: Clock,
        client: Client,
        cluster: ObservedCluster,
        orders: OrderStore,
        nominations: Nominations,
        offerings: UnavailableOfferings,
        backoff: PurchaseBackoff,
        events: EventReporter,
        reconciler: OrderReconciler,
    ) -> None:
        self._options = options
        self._clock = clock
        self._client = client
        self._cluster = cluster
        self._orders = orders
        self._nominations = nominations
        self._offerings = offerings
        self._backoff = backoff
        self._events = events
        self._reconciler = reconciler
        self._planner: Planner = planner_of(options)
        self._stable_since: dict[str, tuple[frozenset[str], float]] = {}
        """Pods (uid) by node, and since when they have been unchanged."""
        self._current: Disruption | None = None
        self._changed = asyncio.Event()
        self._last_search = float("-inf")
        self._reported: dict[str, str] = {}
        reasons = (
            () if options.consolidation == "cheaper" else (DisruptionBudget(nodes="0", reasons=("Underutilized",)),)
        )
        self._policy = ConsolidationPolicy(budgets=(DisruptionBudget(nodes=options.budget), *reasons))

    def notify(self) -> None:
        """Record that the cluster has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._restore()
        while True:
            try:
                seconds = await (self._search() if self._current is None else self._continue(self._current))
            except (StatusError, Unreachable) as error:
                log.warning("disruption: %s", error)
                seconds = _STEP
            await self._clock.sleep(seconds)

    # --- candidates ------------------------------------------------------------------------------------------------

    async def _search(self) -> float:
        now = self._clock.seconds()
        owned = self._owned()
        changed = self._update_stable_since(owned, now)
        kept = {node: text for node, order in owned.items() if (text := self._keep_reason(node, order, now))}
        if not changed and not self._changed.is_set() and now - self._last_search < _SEARCH:
            return _STEP
        if len(kept) == len(owned):
            return _STEP
        self._changed.clear()
        self._last_search = now
        found = await self._consolidate(owned, kept, replaces=self._options.consolidation == "cheaper")
        if not found.remove:
            return _STEP
        if self._options.dry_run:
            self._propose(found)
            return _STEP
        await self._begin(found, owned)
        return 0.0

    def _owned(self) -> dict[str, MachineOrder]:
        """Return the orders of existing nodes, by node."""
        by_node = {self._reconciler.node_of(order): order for order in self._orders.active() if order.initialised}
        return {node: order for node, order in by_node.items() if self._cluster.nodes.item("", node) is not None}

    def _update_stable_since(self, owned: Iterable[str], now: float) -> bool:
        """Update since when each node's pods have been unchanged; return whether a node has just become stable."""
        found: dict[str, tuple[frozenset[str], float]] = {}
        ripe = False
        for node in owned:
            pods = frozenset(pod.uid for pod in self._users(node))
            before = self._stable_since.get(node)
            found[node] = before if before is not None and before[0] == pods else (pods, now)
            ends = found[node][1] + self._options.consolidate_after
            ripe = ripe or self._last_search < ends <= now
        self._stable_since = found
        return ripe

    def _keep_reason(self, node: str, order: MachineOrder, now: float) -> str:
        """Return why a node is not a candidate yet; empty if it is."""
        quiet = now - self._stable_since[node][1]
        if quiet < self._options.consolidate_after:
            return f"its pods changed {quiet:.0f} s ago"
        if self._nominations.pods_of(order.name):
            return "pods are waiting for it"
        item = self._cluster.nodes.item("", node)
        if item is not None and item.spec.get("unschedulable") and not self._is_own_cordon(item):
            return "another client has cordoned it"
        return ""

    def _users(self, node: str) -> list[CachedItem[Any]]:
        """Return the pods of a node, without daemons and finished pods."""
        return [pod for pod in self._cluster.pods_by_node[node] if not is_daemon(pod) and not is_finished(pod)]

    async def _consolidate(
        self, owned: dict[str, MachineOrder], kept: dict[str, str], *, replaces: bool
    ) -> Consolidation:
        owned_nodes = [
            OwnedNode(
                node=node, instance=order.machine.instance, usd_per_hour=order.machine.usd_per_hour,
                zone=order.machine.zone, capacity_type=order.machine.capacity_type,
            )
            for node, order in owned.items()
        ]  # fmt: skip
        objects: list[Tree] = [item.tree for item, _ in self._cluster.plan_inputs()]
        objects += [item.tree for item in self._cluster.budgets.items()]
        replacing = None
        now = self._clock.seconds()
        if (
            replaces
            and not self._backoff.remaining(_REPLACEMENT, now)
            and not any(order.is_in_flight for order in self._orders)
        ):
            limits = remaining_limits(self._options.limits, [order.machine for order in self._orders])
            short = self._offerings.current(now)
            limits = replace(limits, unavailable=(*limits.unavailable, *short))
            replacing = ReplacementOptions(self._plan, self._options.catalog, limits)

        def work(keep_going: KeepGoing) -> Consolidation:
            return consolidate(
                objects, owned_nodes, self._policy, self._options.features, keep_going=keep_going, kept=kept,
                replacing=replacing,
            )  # fmt: skip

        return await run_in_thread(work, self._options.plan_seconds)

    def _plan(
        self, values: Iterable[Object], catalog: Sequence[InstanceType], limits: PlanLimits, features: Features, *,
        keep_going: Callable[[], bool],
    ) -> ProvisioningPlan:  # fmt: skip
        return self._planner(list(values), limits, keep_going)

    def _propose(self, found: Consolidation) -> None:
        for removal in found.remove:
            node = self._cluster.nodes.item("", removal.node)
            text = f"could be released ({removal.reason}), saving {dollars(found.saves)} USD/h in total"
            if node is not None and self._reported.get(node.uid) != text:
                self._reported[node.uid] = text
                self._events.removal(node.tree, text)

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _begin(self, found: Consolidation, owned: dict[str, MachineOrder]) -> None:
        added = []
        now = self._clock.now()
        self._backoff.start_plan()
        for machine in found.add:
            order = await self._orders.add(machine, now, (node.name for node in self._cluster.nodes.items()))
            self._backoff.ordered(order.name, (_REPLACEMENT,))
            try:
                await self._orders.place(order)
            except (NoCapacity, OrderRejected) as error:
                log.info("cannot order a replacement machine: %s", error)
                self._offerings.unavailable(
                    (machine.instance, machine.zone, machine.capacity_type), self._clock.seconds()
                )
                return  # machines already ordered are idle and will be released
            added.append(order.name)
            log.info("ordered %s as %s to replace other machines", describe_machine(machine), order.name)
        nodes = [removal.node for removal in found.remove if removal.node in owned]
        self._current = Disruption(nodes, bool(found.moves), added, self._clock.seconds())
        saves = dollars(found.saves)
        for removal in found.remove:
            node = self._cluster.nodes.item("", removal.node)
            if node is not None:
                why = "it is idle" if removal.reason == "Empty" else "its pods fit elsewhere at lower cost"
                self._events.removal(
                    node.tree, f"{why}; removing {counted(len(nodes), 'node')} saves {saves} USD/h in total"
                )

    async def _continue(self, course: Disruption) -> float:
        """Carry out the next step; return the seconds until the one after it."""
        now = self._clock.seconds()
        course.remove = [node for node in course.remove if self._cluster.nodes.item("", node) is not None]
        if not course.remove:
            self._current = None
            if course.added:
                self._backoff.served(_REPLACEMENT)
            return 0.0
        waits = self._awaits_replacements(course)
        if waits is None:
            self._backoff.failed(course.added[0], (_REPLACEMENT,), now)
            return await self._abort(course, "a replacement machine was not provisioned")
        if waits:
            return _STEP
        if course.cordoned is None:
            for node in course.remove:
                await self._cordon(node, True)
            course.cordoned = now
            return _CORDON
        if not course.verified:
            if not await self._verify(course):
                return await self._abort(course, "its pods no longer fit elsewhere")
            course.verified = True
        return await self._drain(course, now)

    def _awaits_replacements(self, course: Disruption) -> bool | None:
        """Whether replacement machines are still in flight; None if one of them failed."""
        orders = [self._orders.get(name) for name in course.added]
        if any(order is None or order.leaving for order in orders):
            return None
        return any(order is not None and not order.initialised for order in orders)

    async def _verify(self, course: Disruption) -> bool:
        """Whether all pods still fit elsewhere in the current cluster, including cordons and new machines."""
        owned = self._owned()
        kept = {node: "it is not a candidate for removal" for node in owned if node not in course.remove}
        policy, self._policy = self._policy, ConsolidationPolicy(budgets=())
        try:
            found = await self._consolidate(owned, kept, replaces=False)
        finally:
            self._policy = policy
        return {removal.node for removal in found.remove} >= set(course.remove)

    async def _drain(self, course: Disruption, now: float) -> float:
        """Evict pods, and release the nodes that are empty.

        Budgets may allow only one eviction at a time, so the limit is the time without progress.
        """
        left = 0
        for node in tuple(course.remove):
            # Not from the cache: the scheduler may have bound a pod before it saw the cordon.
            listed = await self._client.list(PODS, fields=f"spec.nodeName={node}")
            pods: list[CachedItem[Any]] = [CachedItem(tree) for tree in listed.items]
            users = [
                pod for pod in pods if pod.spec.get("nodeName") == node and not is_daemon(pod) and not is_finished(pod)
            ]
            if users and not course.moves:
                return await self._abort(course, "a new pod is using it")
            for pod in users:
                if not pod.deleting:
                    await self._evict(pod)
            left += len(users)
            if users:
                continue
            order = self._owned().get(node)
            if order is not None:
                await self._orders.mark_leaving(order, "it is idle")
                await self._orders.release(order)
                log.info("%s was released", order.name)
            course.remove.remove(node)
        if course.left is None or left < course.left:
            course.progress, course.left = now, left
        elif now - course.progress > _DRAIN:
            return await self._abort(course, f"no pod has terminated for {_DRAIN:.0f} s")
        return _STEP

    async def _evict(self, pod: CachedItem[Any]) -> None:
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }  # fmt: skip
        try:
            await self._client.create(PODS, eviction, pod.namespace, name=pod.name, subresource="eviction")
        except StatusError as error:
            if error.code not in (404, 409, 429):  # deleted; recreated; disallowed by its budget
                raise
            log.info("cannot evict pod %s/%s: %s", pod.namespace, pod.name, error)

    async def _abort(self, course: Disruption, why: str) -> float:
        """Keep the remaining nodes and uncordon them."""
        self._current = None
        for name in course.remove:
            node = self._cluster.nodes.item("", name)
            if node is not None:
                self._events.blocked(node.tree, f"the node is kept: {why}")
            await self._cordon(name, False)
        self._stable_since.clear()  # retried, but not immediately
        log.info("kept %s: %s", ", ".join(course.remove), why)
        return _STEP

    async def _cordon(self, name: str, on: bool) -> None:
        await cordon(self._client, self._cluster.nodes, name, LEAVING, on=on)

    def _is_own_cordon(self, node: CachedItem[Any]) -> bool:
        """Whether the autoscaler cordoned it."""
        return is_cordoned(node, LEAVING)

    async def _restore(self) -> None:
        """Uncordon nodes that an earlier process cordoned and did not release."""
        if self._options.dry_run:
            return
        own_nodes = {self._reconciler.node_of(order) for order in self._orders}
        for node in tuple(self._cluster.nodes.items()):
            if node.name in own_nodes and self._is_own_cordon(node):
                await self._cordon(node.name, False)
