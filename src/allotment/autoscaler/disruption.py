"""Giving back what is not needed: nodes that nobody uses, and nodes whose pods have proven places elsewhere.

What could go is found by `allotment.tools.plan.consolidation`, which tries all of it as the scheduler would. What is
done about it goes slowly, one step at a time, each of which may end it: machines that replace others come first; nodes
are cordoned; it is tried again on the cluster as it is then; pods are evicted, which PodDisruptionBudgets may refuse;
and a node on which nobody is left is given back. What was begun by one that crashed is taken back by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from allotment.autoscaler.cluster_state import Waiting, is_daemon, is_finished
from allotment.autoscaler.cordon import LEAVING, cordon, is_cordoned
from allotment.autoscaler.events import Teller, described
from allotment.autoscaler.nomination import Promises
from allotment.autoscaler.options import Options, Planner
from allotment.autoscaler.order import Order
from allotment.autoscaler.order_reconciler import Tending
from allotment.autoscaler.order_store import Orders
from allotment.autoscaler.provider import NoCapacity, Refused
from allotment.autoscaler.purchase_backoff import Restraint
from allotment.autoscaler.remaining_limits import remaining
from allotment.autoscaler.scale_up import beside, planner_of
from allotment.autoscaler.unavailable_offerings import Shortages
from allotment.cluster.cached_item import Item
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import PODS
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.packing.problem import KeepGoing
from allotment.tools.plan.consolidation.disruption import ConsolidationPolicy, DisruptionBudget
from allotment.tools.plan.consolidation.search import Consolidation, OwnedNode, ReplacementOptions, consolidate
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.reasons.wording import dollars
from allotment.tools.plan.report import ProvisioningPlan

log = logging.getLogger(__name__)

#: What machines in vain are counted under where they were to replace others.
_REPLACING: Final = "replacing"
#: Seconds: how often a course is looked at; how long a cordon stands before a node is given back, for a binding may be
#: under way; how long pods have to leave, each; how often it is searched again where nothing changed.
_STEP, _CORDON, _DRAIN, _SEARCH = 1.0, 2.0, 600.0, 300.0


class Course:
    """What is being done. ``moves``: whether pods have to leave. ``added``: orders of the machines that replace."""

    def __init__(self, remove: Sequence[str], moves: bool, added: Sequence[str], now: float) -> None:
        self.remove = list(remove)
        self.moves = moves
        self.added = list(added)
        self.began = now
        self.cordoned: float | None = None
        self.progress = now
        self.left: int | None = None
        """Pods that were still there, and when they last became fewer."""
        self.proven = not moves


class Disrupting:
    """See the module; :meth:`run` is the task."""

    def __init__(
        self, options: Options, clock: Clock, client: Client, waiting: Waiting, orders: Orders, promises: Promises,
        shortages: Shortages, restraint: Restraint, teller: Teller, tender: Tending,
    ) -> None:  # fmt: skip
        self._options = options
        self._clock = clock
        self._client = client
        self._waiting = waiting
        self._orders = orders
        self._promises = promises
        self._shortages = shortages
        self._restraint = restraint
        self._teller = teller
        self._tender = tender
        self._planner: Planner = planner_of(options)
        self._quiet: dict[str, tuple[frozenset[str], float]] = {}
        """Pods (uid) by node, and since when they are these."""
        self._course: Course | None = None
        self._changed = asyncio.Event()
        self._searched = float("-inf")
        self._told: dict[str, str] = {}
        reasons = () if options.consolidation == "cheaper" else (DisruptionBudget(nodes="0", reasons=("Underutilized",)),)
        self._policy = ConsolidationPolicy(budgets=(DisruptionBudget(nodes=options.budget), *reasons))

    def look(self) -> None:
        """Something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Give back for ever."""
        await self._take_back()
        while True:
            try:
                seconds = await (self._search() if self._course is None else self._go_on(self._course))
            except (StatusError, Unreachable) as error:
                log.warning("disruption: %s", error)
                seconds = _STEP
            await self._clock.sleep(seconds)

    # --- what could go ---------------------------------------------------------------------------------------------

    async def _search(self) -> float:
        now = self._clock.seconds()
        owned = self._owned()
        changed = self._note_quiet(owned, now)
        kept = {node: text for node, order in owned.items() if (text := self._kept(node, order, now))}
        if not changed and not self._changed.is_set() and now - self._searched < _SEARCH:
            return _STEP
        if len(kept) == len(owned):
            return _STEP
        self._changed.clear()
        self._searched = now
        found = await self._consolidate(owned, kept, replaces=self._options.consolidation == "cheaper")
        if not found.remove:
            return _STEP
        if self._options.dry_run:
            self._propose(found)
            return _STEP
        await self._begin(found, owned)
        return 0.0

    def _owned(self) -> dict[str, Order]:
        """Our machines by their nodes, which are there."""
        by_node = {self._tender.node_of(order): order for order in self._orders.standing() if order.initialised}
        return {node: order for node, order in by_node.items() if self._waiting.nodes.item("", node) is not None}

    def _note_quiet(self, owned: Iterable[str], now: float) -> bool:
        """Since when each node's pods are those that it has; whether some node has just become quiet enough."""
        found: dict[str, tuple[frozenset[str], float]] = {}
        ripe = False
        for node in owned:
            pods = frozenset(pod.uid for pod in self._users(node))
            before = self._quiet.get(node)
            found[node] = before if before is not None and before[0] == pods else (pods, now)
            ends = found[node][1] + self._options.consolidate_after
            ripe = ripe or self._searched < ends <= now
        self._quiet = found
        return ripe

    def _kept(self, node: str, order: Order, now: float) -> str:
        """Why a node must not be looked at yet; empty if it may."""
        quiet = now - self._quiet[node][1]
        if quiet < self._options.consolidate_after:
            return f"its pods have changed {quiet:.0f} s ago"
        if self._promises.to(order.name):
            return "pods wait for it"
        item = self._waiting.nodes.item("", node)
        if item is not None and item.spec.get("unschedulable") and not self._is_ours(item):
            return "somebody has cordoned it"
        return ""

    def _users(self, node: str) -> list[Item[Any]]:
        """Pods of a node that are not its own and have not ended."""
        return [pod for pod in self._waiting.on_node[node] if not is_daemon(pod) and not is_finished(pod)]

    async def _consolidate(self, owned: dict[str, Order], kept: dict[str, str], *, replaces: bool) -> Consolidation:
        ours = [
            OwnedNode(
                node=node, instance=order.machine.instance, usd_per_hour=order.machine.usd_per_hour,
                zone=order.machine.zone, capacity_type=order.machine.capacity_type,
            )
            for node, order in owned.items()
        ]  # fmt: skip
        objects: list[Tree] = [item.tree for item, _ in self._waiting.seen()]
        objects += [item.tree for item in self._waiting.budgets.items()]
        replacing = None
        now = self._clock.seconds()
        if (
            replaces
            and not self._restraint.wait(_REPLACING, now)
            and not any(order.under_way for order in self._orders)
        ):
            limits = remaining(self._options.limits, [order.machine for order in self._orders])
            short = self._shortages.now(now)
            limits = replace(limits, unavailable=(*limits.unavailable, *short))
            replacing = ReplacementOptions(self._plan, self._options.catalog, limits)

        def work(keep_going: KeepGoing) -> Consolidation:
            return consolidate(
                objects, ours, self._policy, self._options.features, keep_going=keep_going, kept=kept,
                replacing=replacing,
            )  # fmt: skip

        return await beside(work, self._options.plan_seconds)

    def _plan(
        self, values: Iterable[Object], catalog: Sequence[InstanceType], limits: PlanLimits, features: Features, *,
        keep_going: Callable[[], bool],
    ) -> ProvisioningPlan:  # fmt: skip
        return self._planner(list(values), limits, keep_going)

    def _propose(self, found: Consolidation) -> None:
        for one in found.remove:
            node = self._waiting.nodes.item("", one.node)
            text = f"could be given back ({one.reason}), which would save {dollars(found.saves)} USD/h in all"
            if node is not None and self._told.get(node.uid) != text:
                self._told[node.uid] = text
                self._teller.leaves(node.tree, text)

    # --- doing it --------------------------------------------------------------------------------------------------

    async def _begin(self, found: Consolidation, owned: dict[str, Order]) -> None:
        added = []
        now = self._clock.now()
        self._restraint.begin()
        for machine in found.add:
            order = await self._orders.add(machine, now, (node.name for node in self._waiting.nodes.items()))
            self._restraint.ordered(order.name, (_REPLACING,))
            try:
                await self._orders.place(order)
            except (NoCapacity, Refused) as error:
                log.info("a replacement could not be had: %s", error)
                self._shortages.note((machine.instance, machine.zone, machine.capacity_type), self._clock.seconds())
                return  # machines that did come are empty, and go as such
            added.append(order.name)
            log.info("ordered %s as %s to replace others", described(machine), order.name)
        nodes = [one.node for one in found.remove if one.node in owned]
        self._course = Course(nodes, bool(found.moves), added, self._clock.seconds())
        saves = dollars(found.saves)
        for one in found.remove:
            node = self._waiting.nodes.item("", one.node)
            if node is not None:
                why = "nobody uses it" if one.reason == "Empty" else "its pods have room elsewhere, for less"
                self._teller.leaves(node.tree, f"{why}; {len(nodes)} nodes go, which saves {saves} USD/h in all")

    async def _go_on(self, course: Course) -> float:
        """One step of what was begun."""
        now = self._clock.seconds()
        course.remove = [node for node in course.remove if self._waiting.nodes.item("", node) is not None]
        if not course.remove:
            self._course = None
            if course.added:
                self._restraint.served(_REPLACING)
            return 0.0
        waits = self._awaits(course)
        if waits is None:
            self._restraint.note(course.added[0], (_REPLACING,), now)
            return await self._stop(course, "a machine that was to replace it has not come")
        if waits:
            return _STEP
        if course.cordoned is None:
            for node in course.remove:
                await self._cordon(node, True)
            course.cordoned = now
            return _CORDON
        if not course.proven:
            if not await self._prove(course):
                return await self._stop(course, "its pods have no place elsewhere any more")
            course.proven = True
        return await self._empty(course, now)

    def _awaits(self, course: Course) -> bool | None:
        """Whether machines have to come first; None if one of them never will."""
        orders = [self._orders.get(name) for name in course.added]
        if any(order is None or order.leaving for order in orders):
            return None
        return any(order is not None and not order.initialised for order in orders)

    async def _prove(self, course: Course) -> bool:
        """Whether all pods have places still, on the cluster as it is now, cordons and new machines and all."""
        owned = self._owned()
        kept = {node: "it is not asked about" for node in owned if node not in course.remove}
        policy, self._policy = self._policy, ConsolidationPolicy(budgets=())
        try:
            found = await self._consolidate(owned, kept, replaces=False)
        finally:
            self._policy = policy
        return {one.node for one in found.remove} >= set(course.remove)

    async def _empty(self, course: Course, now: float) -> float:
        """Evict whoever may be; give back the nodes on which nobody is left.

        Budgets may let pods go one at a time only, so what is bounded is the time in which none has left.
        """
        left = 0
        for node in tuple(course.remove):
            # Past the cache: the scheduler may have bound one before it saw the cordon.
            listed = await self._client.list(PODS, fields=f"spec.nodeName={node}")
            pods: list[Item[Any]] = [Item(tree) for tree in listed.items]
            users = [
                pod for pod in pods if pod.spec.get("nodeName") == node and not is_daemon(pod) and not is_finished(pod)
            ]
            if users and not course.moves:
                return await self._stop(course, "a pod has come")
            for pod in users:
                if not pod.deleting:
                    await self._evict(pod)
            left += len(users)
            if users:
                continue
            order = self._owned().get(node)
            if order is not None:
                await self._orders.leave(order, "nobody uses it")
                await self._orders.give_back(order)
                log.info("%s was given back", order.name)
            course.remove.remove(node)
        if course.left is None or left < course.left:
            course.progress, course.left = now, left
        elif now - course.progress > _DRAIN:
            return await self._stop(course, f"its pods have not left in {_DRAIN:.0f} s")
        return _STEP

    async def _evict(self, pod: Item[Any]) -> None:
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }  # fmt: skip
        try:
            await self._client.create(PODS, eviction, pod.namespace, name=pod.name, subresource="eviction")
        except StatusError as error:
            if error.code not in (404, 409, 429):  # gone; another of its name; its budget does not allow it now
                raise
            log.info("evicting %s/%s: %s", pod.namespace, pod.name, error)

    async def _stop(self, course: Course, why: str) -> float:
        """Leave the nodes where they are, for anybody's use again."""
        self._course = None
        for name in course.remove:
            node = self._waiting.nodes.item("", name)
            if node is not None:
                self._teller.blocked(node.tree, f"stays: {why}")
            await self._cordon(name, False)
        self._quiet.clear()  # it is tried again, but not at once
        log.info("%s stay: %s", ", ".join(course.remove), why)
        return _STEP

    async def _cordon(self, name: str, on: bool) -> None:
        await cordon(self._client, self._waiting.nodes, name, LEAVING, on=on)

    def _is_ours(self, node: Item[Any]) -> bool:
        """Whether it is cordoned by us."""
        return is_cordoned(node, LEAVING)

    async def _take_back(self) -> None:
        """Nodes that one before us cordoned and did not give back are anybody's again."""
        if self._options.dry_run:
            return
        mine = {self._tender.node_of(order) for order in self._orders}
        for node in tuple(self._waiting.nodes.items()):
            if node.name in mine and self._is_ours(node):
                await self._cordon(node.name, False)
