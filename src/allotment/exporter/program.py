"""The exporter as a program: follows the cluster, recomputes the metrics after changes, and serves them.

The metrics are computed every few seconds at most, independent of scrapes: a scrape reads the last result. Pending pods
are diagnosed in a thread, for a limited number of kinds of pods at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import all_synced
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.typed_objects import kinds_to_explain, value_of
from allotment.exporter.cardinality_limits import MAX_SERIES
from allotment.exporter.causes import CauseCache, examine
from allotment.exporter.costs import NodePrices
from allotment.exporter.definitions import BUILD_SECONDS, BUILDS, DIAGNOSIS_SECONDS, LAST_CONTACT
from allotment.exporter.families import FamilyBuilder
from allotment.exporter.latency import Latencies
from allotment.exporter.metric import Family, Sample
from allotment.exporter.state import ExporterState
from allotment.fleet.catalog import InstanceType
from allotment.model import pod_groups
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim

log = logging.getLogger(__name__)

Families: TypeAlias = tuple[Family, ...]


class ExporterOptions(NamedTuple):
    """The options of an exporter; times are in seconds.

    ``build_interval``: minimum time between computations. ``diagnosis_interval``: minimum time between diagnoses of
    pending pods, each for at most ``kinds`` kinds of pods and about ``diagnosis_limit``. ``per_claim``: export the cost
    of each claim. ``max_series``: maximum series of one metric.
    """

    features: Features
    catalog: Sequence[InstanceType] = ()
    build_interval: float = 5.0
    diagnosis_interval: float = 15.0
    kinds: int = 64
    diagnosis_limit: float = 5.0
    per_claim: bool = False
    max_series: int = MAX_SERIES


class Exporter(NamedTuple):
    """``program`` follows a cluster; ``families`` returns the current metrics, none until the cluster is known."""

    program: Program
    families: Callable[[], Families]


def exporter(options: ExporterOptions) -> Exporter:
    """Return an exporter with these options."""
    served = _ServedMetrics()

    async def run(context: ProgramContext) -> None:
        await _ExporterRun(context, options, served).run()

    return Exporter(run, served.families)


class _ServedMetrics:
    """The served metrics: those of the cluster, and those of the exporter itself."""

    def __init__(self) -> None:
        self.cluster: Families = ()
        self.contact: Callable[[], float] | None = None
        self.build_seconds = self.diagnosis_seconds = 0.0
        self.builds = 0

    def families(self) -> Families:
        if self.contact is None:
            return ()
        own = (
            Family(LAST_CONTACT, (Sample((), self.contact()),)),
            Family(BUILD_SECONDS, (Sample((), self.build_seconds),)),
            Family(BUILDS, (Sample((), self.builds),)),
            Family(DIAGNOSIS_SECONDS, (Sample((), self.diagnosis_seconds),)),
        )
        return (*self.cluster, *own)


class _ExporterRun:
    """One run of the program."""

    def __init__(self, context: ProgramContext, options: ExporterOptions, served: _ServedMetrics) -> None:
        self._clock = context.clock
        self._observing = context.observing
        self._options = options
        self._served = served
        self._state = ExporterState(options.features)
        self._causes = CauseCache()
        self._latencies = Latencies()
        prices = NodePrices(options.catalog)
        self._builder = FamilyBuilder(
            self._state, prices, self._latencies, per_claim=options.per_claim, max_series=options.max_series
        )
        self._kinds: list[tuple[Cache[Any], type[Object]]] = [
            (context.caches.trees(resource), kind) for resource, kind in kinds_to_explain(options.features)
        ]
        self._changed: dict[tuple[type[Object], ObjectKey], CachedItem[Any] | None] = {}
        self._started = False
        self._diagnosed_version = -1
        self._state_in_use = asyncio.Lock()
        self._changes_pending, self._diagnosis_due = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        await all_synced(*(cache for cache, _ in self._kinds))
        ends = [cache.on_change(self._recorder(kind)) for cache, kind in self._kinds]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._build_loop(), name="building metrics")
                tasks.create_task(self._diagnose_loop(), name="diagnosing pending pods")
        finally:
            for end in ends:
                end()

    def _recorder(self, kind: type[Object]) -> Callable[[CachedItem[Any] | None, CachedItem[Any] | None], None]:
        def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            item = new or old
            assert item is not None
            self._changed[kind, ObjectKey(*item.key)] = new
            self._changes_pending.set()

        return changed

    def _contact(self) -> float:
        """Return the time of the last contact in seconds since the epoch."""
        silent = max(self._clock.seconds() - cache.last_response for cache, _ in self._kinds)
        return self._clock.moment().timestamp() - silent / self._clock.speed

    # --- building -------------------------------------------------------------------------------------------------

    async def _build_loop(self) -> None:
        while True:
            await self._build()
            await self._clock.sleep(self._options.build_interval)
            await self._changes_pending.wait()

    async def _build(self) -> None:
        """Compute the metrics in a thread, so that scrapes and probes are answered meanwhile."""
        self._changes_pending.clear()
        changed, self._changed = self._changed, {}
        async with self._state_in_use:
            with self._observing.work("measure"):
                self._served.cluster, self._served.build_seconds = await asyncio.to_thread(self._compute, changed)
        self._served.builds += 1
        self._served.contact = self._contact
        if self._state.pending_pods and self._diagnosed_version != self._state.version:
            self._diagnosis_due.set()

    def _compute(
        self, changed: Mapping[tuple[type[Object], ObjectKey], CachedItem[Any] | None]
    ) -> tuple[Families, float]:
        started = time.perf_counter()
        for (kind, key), item in changed.items():
            self._apply(kind, key, item)
        self._started = True
        causes = self._causes.of(self._state.pending_pods.values())
        return self._builder.families(causes), time.perf_counter() - started

    def _apply(self, kind: type[Object], key: ObjectKey, item: CachedItem[Any] | None) -> None:
        if item is None or (kind is Pod and not self._may_matter(item)):
            self._forget(kind, key)
            return
        value = value_of(item, kind)
        if value is None:
            self._forget(kind, key)
            return
        self._state.put(value)
        if isinstance(value, ResourceClaim):
            self._latencies.observe(value, preexisting=not self._started)

    def _may_matter(self, pod: CachedItem[Any]) -> bool:
        """Whether a pod may be pending, or belongs to a group, so that it must be decoded: most pods have a node."""
        if self._state.groups and pod_groups.group_name(pod.spec):
            return True
        return not pod.spec.get("nodeName") and (pod.status.get("phase") or "Pending") == "Pending"

    def _forget(self, kind: type[Object], key: ObjectKey) -> None:
        if kind is ResourceClaim and (claim := self._state.claims.get(key)) is not None:
            self._latencies.forget(claim.metadata.uid)
        self._state.remove(kind, key)

    # --- diagnosis -------------------------------------------------------------------------------------------------

    async def _diagnose_loop(self) -> None:
        """Diagnose as many kinds of pods at a time as the time limit allows; idle most of the time."""
        limit = 1
        while True:
            await self._diagnosis_due.wait()
            self._diagnosis_due.clear()
            async with self._state_in_use:
                self._diagnosed_version = self._state.version
                chosen = self._causes.select(self._state.pending_pods.values(), limit)
                cluster, pods = tuple(self._state.values()), tuple(chosen.values())
                members = tuple(self._state.grouped_pods.values())
            started = time.perf_counter()
            with self._observing.work("explain"):
                found = await asyncio.to_thread(_examine_all, cluster, pods, self._options.features, members)
            seconds = self._served.diagnosis_seconds = time.perf_counter() - started
            async with self._state_in_use:
                self._causes.record(dict(zip(chosen, found, strict=True)))
            self._changes_pending.set()
            if len(chosen) == limit:
                self._diagnosis_due.set()  # there may be more kinds
            is_fast = seconds < self._options.diagnosis_limit / 2
            limit = (
                min(limit * 4, self._options.kinds)
                if is_fast
                else max(int(limit * self._options.diagnosis_limit / seconds), 1)
            )
            await self._clock.sleep(
                0 if self._causes.unexamined and is_fast else max(self._options.diagnosis_interval, 4 * seconds)
            )


def _examine_all(
    cluster: Sequence[Object], pods: Sequence[Pod], features: Features, members: Sequence[Pod]
) -> tuple[str, ...]:
    return tuple(examine(cluster, pods, features, members))
