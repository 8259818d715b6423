"""The exporter as a program: it follows the cluster, makes new values when something has changed, and serves them.

Values are made every few seconds at most, however often somebody asks: a scrape reads what is ready. Why pods wait is
found on a thread of its own, for a limited number of kinds of pods at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.caches import all_synced
from allotment.cluster.program import Context, Program
from allotment.cluster.typed_objects import OF_DEVICES, value_of
from allotment.exporter.cardinality_limits import MOST_SERIES
from allotment.exporter.causes import Causes, examine
from allotment.exporter.definitions import BUILD_SECONDS, BUILDS, DIAGNOSIS_SECONDS, LAST_CONTACT
from allotment.exporter.families import Measured
from allotment.exporter.latency import Latencies
from allotment.exporter.metric import Family, Sample
from allotment.exporter.prices import Prices
from allotment.exporter.state import State
from allotment.fleet.catalog import InstanceType
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim

log = logging.getLogger(__name__)

Families: TypeAlias = tuple[Family, ...]


class Options(NamedTuple):
    """What an exporter is started with; times are seconds.

    ``every``: values are made at most so often. ``look``: why pods wait is found at most so often, at a time for at
    most ``kinds`` kinds of pods and about ``longest``. ``per_claim``: serve what each claim costs. ``most``: series of
    one metric.
    """

    features: Features
    catalog: Sequence[InstanceType] = ()
    every: float = 5.0
    look: float = 15.0
    kinds: int = 64
    longest: float = 5.0
    per_claim: bool = False
    most: int = MOST_SERIES


class Exporter(NamedTuple):
    """``program`` follows a cluster; ``families`` are the metrics as they are now, empty until it is known."""

    program: Program
    families: Callable[[], Families]


def exporter(options: Options) -> Exporter:
    """An exporter."""
    served = _Served()

    async def run(context: Context) -> None:
        await _Following(context, options, served).run()

    return Exporter(run, served.families)


class _Served:
    """What is handed out: the cluster's values, and what the exporter says of itself."""

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


class _Following:
    """One run of the program."""

    def __init__(self, context: Context, options: Options, served: _Served) -> None:
        self._clock = context.clock
        self._observing = context.observing
        self._options = options
        self._served = served
        self._state = State(options.features)
        self._causes = Causes()
        self._latencies = Latencies()
        prices = Prices(options.catalog)
        self._measured = Measured(self._state, prices, self._latencies, per_claim=options.per_claim, most=options.most)
        self._kinds: list[tuple[Cache[Any], type[Object]]] = [
            (context.caches.trees(resource), kind) for resource, kind in OF_DEVICES
        ]
        self._changed: dict[tuple[type[Object], ObjectKey], Item[Any] | None] = {}
        self._begun = False
        self._looked = -1
        self._state_in_use = asyncio.Lock()
        self._news, self._asked = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Serve for ever."""
        await all_synced(*(cache for cache, _ in self._kinds))
        ends = [cache.on_change(self._noting(kind)) for cache, kind in self._kinds]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._building(), name="building metrics")
                tasks.create_task(self._examining(), name="finding why pods wait")
        finally:
            for end in ends:
                end()

    def _noting(self, kind: type[Object]) -> Callable[[Item[Any] | None, Item[Any] | None], None]:
        def changed(old: Item[Any] | None, new: Item[Any] | None) -> None:
            item = new or old
            assert item is not None
            self._changed[kind, ObjectKey(*item.key)] = new
            self._news.set()

        return changed

    def _contact(self) -> float:
        """Seconds of the epoch."""
        silent = max(self._clock.seconds() - cache.heard for cache, _ in self._kinds)
        return self._clock.moment().timestamp() - silent / self._clock.speed

    # --- building -------------------------------------------------------------------------------------------------

    async def _building(self) -> None:
        while True:
            await self._build()
            await self._clock.sleep(self._options.every)
            await self._news.wait()

    async def _build(self) -> None:
        """The work is done on a thread, so that scrapes and probes are answered meanwhile."""
        self._news.clear()
        changed, self._changed = self._changed, {}
        async with self._state_in_use:
            with self._observing.work("measure"):
                self._served.cluster, self._served.build_seconds = await asyncio.to_thread(self._built, changed)
        self._served.builds += 1
        self._served.contact = self._contact
        if self._state.waiting and self._looked != self._state.moves:
            self._asked.set()

    def _built(self, changed: Mapping[tuple[type[Object], ObjectKey], Item[Any] | None]) -> tuple[Families, float]:
        began = time.perf_counter()
        for (kind, key), item in changed.items():
            self._take(kind, key, item)
        self._begun = True
        causes = self._causes.of(self._state.waiting.values())
        return self._measured.families(causes), time.perf_counter() - began

    def _take(self, kind: type[Object], key: ObjectKey, item: Item[Any] | None) -> None:
        if item is None or (kind is Pod and not _may_wait(item)):
            self._forget(kind, key)
            return
        value = value_of(item, kind)
        if value is None:
            self._forget(kind, key)
            return
        self._state.put(value)
        if isinstance(value, ResourceClaim):
            self._latencies.see(value, before=not self._begun)

    def _forget(self, kind: type[Object], key: ObjectKey) -> None:
        if kind is ResourceClaim and (claim := self._state.claims.get(key)) is not None:
            self._latencies.forget(claim.metadata.uid)
        self._state.remove(kind, key)

    # --- why pods wait --------------------------------------------------------------------------------------------

    async def _examining(self) -> None:
        """As many kinds of pods at a time as take no longer than they may; most of the time nothing is done."""
        many = 1
        while True:
            await self._asked.wait()
            self._asked.clear()
            async with self._state_in_use:
                self._looked = self._state.moves
                chosen = self._causes.round(self._state.waiting.values(), many)
                cluster, pods = tuple(self._state.values()), tuple(chosen.values())
            began = time.perf_counter()
            with self._observing.work("explain"):
                found = await asyncio.to_thread(_examined, cluster, pods, self._options.features)
            seconds = self._served.diagnosis_seconds = time.perf_counter() - began
            async with self._state_in_use:
                self._causes.learn(dict(zip(chosen, found, strict=True)))
            self._news.set()
            if len(chosen) == many:
                self._asked.set()  # there may be more of them
            few = seconds < self._options.longest / 2
            many = min(many * 4, self._options.kinds) if few else max(int(many * self._options.longest / seconds), 1)
            await self._clock.sleep(0 if self._causes.unexamined and few else max(self._options.look, 4 * seconds))


def _examined(cluster: Sequence[Object], pods: Sequence[Pod], features: Features) -> tuple[str, ...]:
    return tuple(examine(cluster, pods, features))


def _may_wait(pod: Item[Any]) -> bool:
    """Whether a pod is worth reading: most have a node."""
    return not pod.spec.get("nodeName") and (pod.status.get("phase") or "Pending") == "Pending"
