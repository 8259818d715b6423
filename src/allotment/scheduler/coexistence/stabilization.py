"""The settling period: a pod is bound only after its claims have been the only holders of their devices for a while.

Two schedulers can allocate one device to two claims without a write conflict. This scheduler therefore writes a claim's
allocation without binding the pod, waits until its view of all claims includes that write, and then for the time that
`other_schedulers` estimates. If another claim gets the same devices meanwhile, the decision is reverted (see
`contested_claims` for how, without misleading the other scheduler) and the pod is scheduled again. Pods settle
concurrently while others are scheduled: this costs latency, not throughput.

Guarantees: a write of another scheduler before this one's, in the order of the API server, is always seen. A write
after it is seen if it happens during the settling period. A later write that is based on an older state cannot be
prevented, because the other scheduler does not check again. It is detected: the pod of this scheduler is evicted if no
container of it has started (see `eviction`); otherwise both keep their devices, and an event reports it. To exclude
this, separate the schedulers: by node, with a label or taint, or by DeviceClass.

Of two schedulers of this kind at least one notices: each checks after its own write, and one of them wrote last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.shutdown import Shutdown, ShutdownStarted
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import ObjectKey
from allotment.scheduler.coexistence.contention import Contest, contests
from allotment.scheduler.coexistence.other_schedulers import OtherSchedulers
from allotment.scheduler.idle_bindings import IdleBindings


class SettlingPeriod:
    """Decisions that are written and may still be reverted."""

    def __init__(
        self, claims: Cache[Any], inventory: Inventory, others: OtherSchedulers, clock: Clock, stopping: Shutdown,
        idle_bindings: IdleBindings,
    ) -> None:  # fmt: skip
        self._claims = claims
        self._inventory = inventory
        self._others = others
        self._clock = clock
        self._stopping = stopping
        self._idle_bindings = idle_bindings
        self._waiting: dict[ObjectKey, asyncio.Event] = {}

    async def settle(self, claims: Iterable[ObjectKey], revision: str, node: str) -> tuple[ObjectKey, Contest] | None:
        """Wait until claims have settled; return a contested one and its contest, or None.

        ``revision``: resourceVersion of the last one written. Raises ShutdownStarted on shutdown: the next scheduler
        finds the claims as they are and lets them settle.
        """
        keys = tuple(claims)
        changed = asyncio.Event()
        with self._idle_bindings.idle(), self._stopping.callback(changed.set):
            try:
                await self._claims.wait_for_revision(revision)
                started = self._clock.seconds()
                self._waiting.update(dict.fromkeys(keys, changed))
                while True:
                    for key in keys:
                        for contest in contests(self._inventory, key, node):
                            return key, contest
                    left = started + self._others.settling_seconds() - self._clock.seconds()
                    if left <= 0:
                        return None
                    if self._stopping.started:
                        raise ShutdownStarted
                    changed.clear()
                    alarm = self._clock.later(left, changed.set)
                    try:
                        await changed.wait()
                    finally:
                        alarm.cancel()
            finally:
                for key in keys:
                    if self._waiting.get(key) is changed:
                        del self._waiting[key]

    def notify(self, claim: ObjectKey) -> bool:
        """Wake the decision that settles a contested claim; return False if none does."""
        waiting = self._waiting.get(claim)
        if waiting is not None:
            waiting.set()
        return waiting is not None
