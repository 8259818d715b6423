"""The scheduler as a program: what the cluster tells goes into the state, decisions are made on it, writes go out.

One task decides; nothing else changes the state while it does, for there are no threads. Binding takes its time
beside it, many at once, and each decision is booked before the next is made. See `following` for what the cluster
tells, `waiting` and `queue` for who comes next, `attempt` for how a node is found, `deciding` for what follows,
`binding` for what is written, `telling` for what pods hear, `beside` for other schedulers.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.caches import all_synced
from allotment.cluster.client import Client
from allotment.cluster.program import Context, Program
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DISRUPTION_BUDGETS, PODS
from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.node_fit.nodes import Machines
from allotment.node_fit.pod_requirements import Demands
from allotment.scheduler.attempt import Attempts
from allotment.scheduler.binding.binder import Binder
from allotment.scheduler.binding.binding_conditions import Readying
from allotment.scheduler.binding.claim_writer import Claims
from allotment.scheduler.binding.cycle import Carrying
from allotment.scheduler.claim_ledger import Ledger
from allotment.scheduler.cluster_events import OF_SURROUNDINGS, Happening
from allotment.scheduler.cluster_state import Surroundings
from allotment.scheduler.coexistence.contested_claims import Guards
from allotment.scheduler.coexistence.eviction import Yielding
from allotment.scheduler.coexistence.monitor import Watching
from allotment.scheduler.coexistence.other_schedulers import Rivals
from allotment.scheduler.coexistence.stabilization import Settling
from allotment.scheduler.gated_pods import Held
from allotment.scheduler.idle_bindings import Resting
from allotment.scheduler.pending_events import News
from allotment.scheduler.pending_pods import Waiting
from allotment.scheduler.pod_claim_watch import Following
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.preemption.eviction import Sender
from allotment.scheduler.queue import Queue
from allotment.scheduler.reporting.reporter import Teller
from allotment.scheduler.scheduling_cycle import Deciding


class UnderWay:
    """Can be begun from plain functions while `going`."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def going(self, *beside: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Work can begin; at the end all of it is waited for, and what goes on for ever beside it is called off."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for_ever = [tasks.create_task(one) for one in beside]
                yield
                while self._under_way:
                    await asyncio.wait(self._under_way)
                for task in for_ever:
                    task.cancel()
        finally:
            self._tasks = None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Begin a piece of work."""
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


_log = logging.getLogger(__name__)

DEFAULT_NAME: Final = "default-scheduler"
#: Decisions after which everybody else has a turn.
_IN_A_ROW: Final = 16


class Options(NamedTuple):
    """``name`` is what pods have as ``schedulerName``."""

    features: Features
    name: str = DEFAULT_NAME
    binding_seconds: float = 600.0
    """How long devices may take to get ready."""
    settle: float | None = None
    """Seconds that a decision settles before its pod is bound, for the sake of other schedulers; 0 where each has
    devices of its own. None: none where no other is seen at work, else as long as it seems to need."""


def scheduler(options: Options) -> Program:
    """The program."""

    async def run(context: Context) -> None:
        await Scheduler(context, options).run()

    return run


class Scheduler:
    """One scheduler: its parts, and its one loop."""

    def __init__(self, context: Context, options: Options) -> None:
        client: Client = context.client_for("kube-scheduler")
        caches, clock, observing, stopping = context.caches, context.clock, context.observing, context.stopping
        recorder, features = context.recorder(options.name), options.features
        pods, claims, templates = caches.trees(PODS), caches.trees(CLAIMS), caches.trees(CLAIM_TEMPLATES)
        budgets = caches.trees(DISRUPTION_BUDGETS)
        news, under_way, demands = News(), UnderWay(), Demands()
        resting = Resting(news.wake)
        assumed: dict[str, WaitingPod] = {}

        # What there is.
        inventory = Inventory(features)
        machines = Machines(inventory)
        ledger = Ledger(inventory)
        groups = Grouping(caches, features, news.happened)
        surroundings = Surroundings(caches, inventory, machines, self._surroundings_changed)

        # Who else is there.
        rivals = Rivals(clock, options.name, options.settle)
        guards = Guards(client, clock, ledger, inventory, claims, pods)
        settling = Settling(claims, inventory, rivals, clock, stopping, resting)
        yielding = Yielding(client, clock, recorder, observing, guards)
        watching = Watching(
            ledger, inventory, pods, clock, options.name, rivals, settling,
            node_of=lambda uid: None if uid in assumed else machines.node_of(uid),
            give_way=lambda pod, claim, text: under_way.start(
                yielding.give_way(pod, claim, text), f"give way {pod.name}"
            ),
        )  # fmt: skip

        # Who waits, and what they hear.
        allocator = Allocator(inventory, share_id=lambda: str(uuid.uuid4()))
        attempts = Attempts(
            machines, ledger, allocator, features, surroundings.namespaces, groups, lambda: rivals.seconds() > 0,
            surroundings.unreadable,
        )  # fmt: skip
        queue = Queue()
        teller = Teller(
            client, queue, attempts, clock, recorder, pods, busy=lambda: queue.busy or bool(assumed)
        )  # fmt: skip
        held = Held(
            clock, recorder, lambda: ledger.known,
            lambda: [ObjectKey(item.namespace, item.name) for item in templates.items()], groups,
        )  # fmt: skip
        waiting = Waiting(
            ledger, groups, machines, attempts, queue, held, teller, news, clock, under_way.start, guards.replace
        )

        # What is decided, and done.
        writing = Claims(client, ledger, groups, features, clock, claims)
        readying = Readying(client, ledger, features, clock, recorder, stopping, resting, options.binding_seconds)
        binder = Binder(client, ledger, groups, clock, recorder, writing, settling, guards, readying)
        carrying = Carrying(
            assumed, binder, waiting, machines, ledger, resting, watching, pods, demands, observing, news,
            under_way.start, teller.finished,
        )  # fmt: skip
        sender = Sender(client, teller, clock, recorder, pods, options.name)

        self._clock, self._observing, self._stopping = clock, observing, stopping
        self._news, self._under_way = news, under_way
        self._surroundings, self._groups, self._claims, self._pods = surroundings, groups, claims, pods
        self._watched: list[Cache[Any]] = [
            *surroundings.caches(), *groups.caches(), claims, templates, budgets, pods,
        ]  # fmt: skip
        self._queue, self._held, self._teller, self._waiting = queue, held, teller, waiting
        self._guards, self._watching, self._carrying = guards, watching, carrying
        self._deciding = Deciding(
            machines, ledger, groups, attempts, waiting, carrying, writing, guards, sender, budgets
        )
        self._following = Following(
            options.name, machines, ledger, queue, waiting, assumed, readying, watching, rivals, demands, news, clock
        )
        for which, read in (("waiting", queue.__len__), ("binding", assumed.__len__)):
            observing.level("queue", f"scheduler {which}", read)

    def _surroundings_changed(self, happening: Happening) -> None:
        self._news.happened(happening)
        if happening in OF_SURROUNDINGS:
            self._teller.cluster_changed()

    async def run(self) -> None:
        """Schedule until it is to stop; then finish what is under way, but wait for nothing that may take long."""
        if not await self._stopping.unless(all_synced(*self._watched)):
            return
        ends: list[Callable[[], None]] = []
        try:
            async with self._under_way.going(self._teller.run(), self._guards.run()):
                # In this order, so that pods find nodes, devices and claims known.
                ends += self._surroundings.follow()
                ends += self._groups.follow()
                ends += self._following.follow(self._claims, self._pods)
                self._watching.begin()
                with self._stopping.telling(self._news.wake):
                    await self._schedule()
        finally:
            self._held.close()
            for end in ends:
                end()

    async def _schedule(self) -> None:
        in_a_row = 0
        while not self._stopping.begun:
            if happened := self._news.take():
                self._queue.wake(happened)
            now = self._clock.seconds()
            due = self._queue.due(now)
            pod = self._queue.pop() if not self._carrying.full else None
            if pod is None:
                if not self._news.looked() or self._stopping.begun:
                    continue
                alarm = self._clock.later(due - now, self._news.wake) if due is not None else None
                await self._news.wait()
                if alarm is not None:
                    alarm.cancel()
                in_a_row = 0
                continue
            try:
                with self._observing.work("schedule", pod.uid) as work:
                    work.attributes["pod"] = str(pod.key)
                    self._deciding.decide(pod, work)
            except Exception as error:  # noqa: BLE001 - one pod that cannot be judged must not hold up the others
                _log.exception("pod %s", pod.key)
                self._waiting.failed(pod, f"internal error: {error}")
            in_a_row += 1
            if in_a_row >= _IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)
