"""The scheduler as a program: it follows the cluster's state, decides on one pod at a time, and writes bindings.

One task makes all decisions; since there are no threads, the state does not change meanwhile. Bindings run
concurrently, and each decision is booked before the next is made. See `pod_claim_watch` for changes of pods and claims,
`pending_pods` and `queue` for the order of pods, `attempt` for one attempt, `scheduling_cycle` for what follows,
`binding` for the writes, `reporting` for conditions and events, `coexistence` for other schedulers.
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
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DISRUPTION_BUDGETS, POD_GROUPS, PODS
from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.attempt import SchedulingAlgorithm
from allotment.scheduler.binding.binder import Binder
from allotment.scheduler.binding.binding_conditions import BindingConditionWaiter
from allotment.scheduler.binding.claim_writer import ClaimWriter
from allotment.scheduler.binding.cycle import BindingCycle
from allotment.scheduler.binding.volume_binding import VolumeBinding
from allotment.scheduler.claim_ledger import ClaimLedger
from allotment.scheduler.cluster_events import CLUSTER_STATE_EVENTS, ClusterEvent
from allotment.scheduler.cluster_state import ClusterStateTracker
from allotment.scheduler.coexistence.contested_claims import ContestedClaims
from allotment.scheduler.coexistence.eviction import ContestedPodEvictor
from allotment.scheduler.coexistence.monitor import CoexistenceMonitor
from allotment.scheduler.coexistence.other_schedulers import OtherSchedulers
from allotment.scheduler.coexistence.stabilization import SettlingPeriod
from allotment.scheduler.gated_pods import GatedPods, after_entries
from allotment.scheduler.group_hierarchy import GroupHierarchy
from allotment.scheduler.groups.conditions import PodGroupConditions
from allotment.scheduler.groups.cycle import GroupCycle
from allotment.scheduler.groups.group_claims import GroupClaims
from allotment.scheduler.groups.group_preemption import GroupPreemption
from allotment.scheduler.groups.membership import membership_of
from allotment.scheduler.groups.simulation import GroupSimulation
from allotment.scheduler.idle_bindings import IdleBindings
from allotment.scheduler.pending_events import PendingEvents
from allotment.scheduler.pending_pods import PendingPods
from allotment.scheduler.pod_claim_watch import PodClaimWatch
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.preemption.eviction import PreemptionEvictor
from allotment.scheduler.queue import SchedulingQueue
from allotment.scheduler.reporting.pod_explainer import PodExplainer
from allotment.scheduler.reporting.reporter import StatusReporter
from allotment.scheduler.scheduling_cycle import SchedulingCycle
from allotment.scheduler.volumes.cluster_volumes import ClusterVolumes


class TaskTracker:
    """Starts tasks from synchronous code inside `running`."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._in_flight: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self, *background: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Run ``background`` and allow `start`; on exit wait for the started tasks and cancel ``background``."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                background_tasks = [tasks.create_task(coroutine) for coroutine in background]
                yield
                while self._in_flight:
                    await asyncio.wait(self._in_flight)
                for task in background_tasks:
                    task.cancel()
        finally:
            self._tasks = None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task."""
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)


_log = logging.getLogger(__name__)

DEFAULT_NAME: Final = "default-scheduler"
#: Decisions in a row before other tasks run.
_DECISIONS_PER_YIELD: Final = 16


class SchedulerOptions(NamedTuple):
    """``name`` is the ``schedulerName`` of the pods to schedule."""

    features: Features
    name: str = DEFAULT_NAME
    binding_seconds: float = 600.0
    """Timeout for devices and volumes to become ready."""
    settle: float | None = None
    """Settling period in seconds before a pod is bound, because of other schedulers; 0 if each has its own devices.
    None: none while no other scheduler is active, otherwise as long as estimated.
    """


def scheduler(options: SchedulerOptions) -> Program:
    """Return the program."""

    async def run(context: ProgramContext) -> None:
        await Scheduler(context, options).run()

    return run


class _Coexistence(NamedTuple):
    """The state of a scheduler that exists because others may allocate the same devices."""

    others: OtherSchedulers
    contested: ContestedClaims
    settling: SettlingPeriod
    monitor: CoexistenceMonitor


def _coexistence(
    context: ProgramContext, client: Client, recorder: Recorder, options: SchedulerOptions, ledger: ClaimLedger,
    inventory: Inventory, idle_bindings: IdleBindings, tasks: TaskTracker, node_of: Callable[[str], str | None],
) -> _Coexistence:  # fmt: skip
    clock = context.clock
    pods, claims = context.caches.trees(PODS), context.caches.trees(CLAIMS)
    others = OtherSchedulers(clock, options.name, options.settle)
    contested = ContestedClaims(client, clock, ledger, inventory, claims, pods)
    settling = SettlingPeriod(client, claims, inventory, others, clock, context.stopping, idle_bindings)
    evictor = ContestedPodEvictor(client, clock, recorder, context.observing, contested)
    monitor = CoexistenceMonitor(
        ledger, inventory, pods, clock, options.name, others, settling, node_of=node_of,
        evict=lambda pod, claim, text: tasks.start(evictor.evict(pod, claim, text), f"evict pod {pod.name}"),
    )  # fmt: skip
    return _Coexistence(others, contested, settling, monitor)


class Scheduler:
    """One scheduler: its components and its loop."""

    def __init__(self, context: ProgramContext, options: SchedulerOptions) -> None:
        client: Client = context.client_for("kube-scheduler")
        caches, clock, observing, stopping = context.caches, context.clock, context.observing, context.stopping
        recorder, features = context.recorder(options.name), options.features
        pods, claims, templates = caches.trees(PODS), caches.trees(CLAIMS), caches.trees(CLAIM_TEMPLATES)
        budgets = caches.trees(DISRUPTION_BUDGETS)
        events, tasks, demands = PendingEvents(), TaskTracker(), PodRequirementsCache()
        idle_bindings = IdleBindings(events.wake)
        assumed: dict[str, QueuedPod] = {}

        # Cluster state.
        inventory = Inventory(features)
        machines = NodeCache(inventory)
        ledger = ClaimLedger(inventory)
        groups = PodGroups(caches, features, events.add)
        hierarchy = GroupHierarchy(caches, features, assumed)
        cluster_state = ClusterStateTracker(caches, inventory, machines, self._cluster_event)
        volumes = ClusterVolumes(caches, features, events.add)

        others, contested, settling, monitor = _coexistence(
            context, client, recorder, options, ledger, inventory, idle_bindings, tasks,
            node_of=lambda uid: None if uid in assumed else machines.node_of(uid),
        )  # fmt: skip

        # Pending pods and reports.
        allocator = Allocator(inventory, share_id=lambda: str(uuid.uuid4()))
        algorithm = SchedulingAlgorithm(
            machines,
            ledger,
            allocator,
            features,
            cluster_state.namespaces,
            groups,
            lambda: others.settling_seconds() > 0,
            cluster_state.unreadable,
            demands,
            cluster_state.node_allocatable,
            volumes,
        )
        queue = SchedulingQueue()
        explainer = PodExplainer(algorithm, pods)
        reporter = StatusReporter(
            client, queue, machines, explainer, clock, recorder, pods,
            busy=lambda: queue.has_ready or bool(assumed),
        )  # fmt: skip
        gated = GatedPods(
            clock, recorder, lambda: ledger.known,
            lambda: [ObjectKey(item.namespace, item.name) for item in templates.items()], groups,
            lambda pod, entries: after_entries(pod, entries, algorithm, templates.tree, explainer.remedy),
        )  # fmt: skip
        pending_pods = PendingPods(
            ledger, groups, hierarchy, machines, algorithm, queue, gated, reporter, events, clock, tasks.start,
            contested.replace,
        )  # fmt: skip

        # Decisions and writes.
        claim_writer = ClaimWriter(client, ledger, groups, features, clock, claims)
        readiness = BindingConditionWaiter(
            client, ledger, features, clock, recorder, stopping, idle_bindings, options.binding_seconds
        )
        volume_binding = VolumeBinding(client, volumes, clock, stopping, idle_bindings, options.binding_seconds)
        binder = Binder(
            client, ledger, groups, clock, recorder, claim_writer, settling, contested, readiness, volume_binding
        )  # fmt: skip
        binding = BindingCycle(
            assumed, binder, algorithm, pending_pods, machines, ledger, idle_bindings, monitor, pods, demands,
            observing, events, tasks.start, reporter.wait_written,
        )  # fmt: skip
        preemptor = PreemptionEvictor(client, reporter, clock, recorder, pods, options.name)

        membership = membership_of(hierarchy, pods)
        group_cycle: GroupCycle | None = None
        if hierarchy.enabled:
            simulation = GroupSimulation(algorithm, ledger, binding, hierarchy, pending_pods.claims_of, features)
            conditions = PodGroupConditions(client, caches.trees(POD_GROUPS), clock, tasks.start)
            group_claims = GroupClaims(hierarchy, ledger, claim_writer, pending_pods, features)
            group_preemption = GroupPreemption(
                simulation, algorithm, binding, pending_pods, preemptor, budgets, membership, features
            )
            group_cycle = GroupCycle(
                hierarchy, simulation, algorithm, pending_pods, queue, gated, binding, reporter, conditions,
                group_claims, group_preemption, features,
            )  # fmt: skip

        self._clock, self._observing, self._stopping = clock, observing, stopping
        self._events, self._tasks = events, tasks
        self._cluster_state, self._groups, self._claims, self._pods = cluster_state, groups, claims, pods
        self._hierarchy, self._volumes, self._volume_binding = hierarchy, volumes, volume_binding
        self._watched: list[Cache[Any]] = [
            *cluster_state.caches(), *groups.caches(), *hierarchy.caches(), *volumes.caches(), claims, templates,
            budgets, pods,
        ]  # fmt: skip
        self._queue, self._gated, self._reporter, self._pending_pods = queue, gated, reporter, pending_pods
        self._contested, self._monitor, self._binding = contested, monitor, binding
        self._scheduling = SchedulingCycle(
            machines, ledger, groups, algorithm, pending_pods, binding, claim_writer, contested, preemptor, budgets,
            membership, group_cycle,
        )  # fmt: skip
        self._watch = PodClaimWatch(
            options.name,
            machines,
            ledger,
            queue,
            pending_pods,
            assumed,
            readiness,
            monitor,
            others,
            demands,
            events,
            clock,
        )
        for label_value, read in (("waiting", queue.__len__), ("binding", assumed.__len__)):
            observing.gauge("queue", f"scheduler {label_value}", read)

    def _cluster_event(self, event: ClusterEvent) -> None:
        self._events.add(event)
        if event in CLUSTER_STATE_EVENTS:
            self._reporter.cluster_changed()

    async def run(self) -> None:
        """Schedule until shutdown; then finish what is in flight, except for long waits."""
        if not await self._stopping.run_until_shutdown(all_synced(*self._watched)):
            return
        ends: list[Callable[[], None]] = []
        try:
            async with self._tasks.running(self._reporter.run(), self._contested.run()):
                # In this order, so that nodes, devices and claims are known before pods.
                ends += self._cluster_state.subscribe()
                ends += self._groups.subscribe()
                ends += self._hierarchy.subscribe(self._pending_pods.group_changed)
                ends += self._volumes.subscribe(self._pending_pods.retry, self._volume_binding.changed)
                ends += self._watch.subscribe(self._claims, self._pods)
                self._monitor.start()
                with self._stopping.callback(self._events.wake):
                    await self._schedule()
        finally:
            self._gated.close()
            self._reporter.close()
            for end in ends:
                end()

    async def _schedule(self) -> None:
        in_a_row = 0
        while not self._stopping.started:
            if happened := self._events.take():
                self._queue.wake(happened)
            now = self._clock.seconds()
            due = self._queue.flush_backoff(now)
            pod = self._queue.pop() if not self._binding.is_full else None
            if pod is None:
                if not self._events.try_clear() or self._stopping.started:
                    continue
                alarm = self._clock.later(due - now, self._events.wake) if due is not None else None
                await self._events.wait()
                if alarm is not None:
                    alarm.cancel()
                in_a_row = 0
                continue
            try:
                with self._observing.work("schedule", pod.uid) as work:
                    work.attributes["pod"] = str(pod.key)
                    self._scheduling.schedule_one(pod, work)
            except Exception as error:  # noqa: BLE001 - an error of one pod must not stop the others
                _log.exception("pod %s", pod.key)
                self._pending_pods.back_off(pod, f"internal error: {error}")
            in_a_row += 1
            if in_a_row >= _DECISIONS_PER_YIELD:
                in_a_row = 0
                await asyncio.sleep(0)
