"""The settling period: a pod is bound only after its claims have been the only holders of their devices for a while.

Two schedulers can allocate one device to two claims without a write conflict. This scheduler therefore writes a claim's
allocation without binding the pod, waits until its view of all claims includes that write, and then for the time that
`other_schedulers` estimates. If another claim gets the same devices meanwhile, the decision is reverted (see
`contested_claims` for how, without misleading the other scheduler) and the pod is scheduled again. Pods settle
concurrently while others are scheduled: this costs latency, not throughput.

At the end of the period the view may lag behind by seconds if CPU is scarce, here or in the API server. So a write
precedes the last check: when the watch reports it, the view includes everything that was written before. Decisions that
end at the same time share one such write.

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
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS
from allotment.cluster.shutdown import Shutdown, ShutdownStarted
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import ObjectKey
from allotment.scheduler.coexistence.contention import Contest, contests
from allotment.scheduler.coexistence.contested_claims import CHECKED_AT_ANNOTATION
from allotment.scheduler.coexistence.other_schedulers import OtherSchedulers
from allotment.scheduler.idle_bindings import IdleBindings

#: Attempts to write to a claim that others change at the same time.
_TRIES: Final = 5


class _Barrier:
    """Brings the view of claims up to date by a write that the watch reports after all earlier ones."""

    def __init__(self, client: Client, claims: Cache[Any], clock: Clock) -> None:
        self._client = client
        self._claims = claims
        self._clock = clock
        self._started = self._passed = 0
        """The numbers of the last write that was started, and of the last one that the watch has reported."""
        self._writing = asyncio.Lock()

    async def pass_with(self, claim: ObjectKey) -> None:
        """Return when the view includes every write that precedes this call; ``claim`` may be written to.

        Raises StatusError and Unreachable.
        """
        number = self._started + 1  # one that was started already may precede what others have written since
        async with self._writing:
            if self._passed >= number:
                return
            self._started += 1
            started = self._started
            await self._claims.wait_for_revision(await self._write(claim))
            self._passed = started

    async def _write(self, claim: ObjectKey) -> str:
        """Change an annotation of a claim; return its new resourceVersion."""
        known = self._claims.item(claim.namespace, claim.name)
        tree = known.tree if known is not None else await self._client.get(CLAIMS, claim.name, claim.namespace)
        for attempt in range(_TRIES):
            metadata = tree["metadata"]
            annotations = {**(metadata.get("annotations") or {}), CHECKED_AT_ANNOTATION: self._clock.now_micro()}
            changed = {**tree, "metadata": {**metadata, "annotations": annotations}}
            try:
                made = await self._client.update(CLAIMS, changed)
                break
            except StatusError as error:
                if error.code != 409 or attempt == _TRIES - 1:
                    raise
                tree = await self._client.get(CLAIMS, claim.name, claim.namespace)
        self._claims.record_write(made)
        return str(made["metadata"]["resourceVersion"])


class SettlingPeriod:
    """Decisions that are written and may still be reverted."""

    def __init__(
        self, client: Client, claims: Cache[Any], inventory: Inventory, others: OtherSchedulers, clock: Clock,
        stopping: Shutdown, idle_bindings: IdleBindings,
    ) -> None:  # fmt: skip
        self._barrier = _Barrier(client, claims, clock)
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
        finds the claims as they are and lets them settle. Raises StatusError and Unreachable.
        """
        keys = tuple(claims)
        changed = asyncio.Event()
        with self._idle_bindings.idle(), self._stopping.callback(changed.set):
            try:
                await self._claims.wait_for_revision(revision)
                started, is_current = self._clock.seconds(), False
                self._waiting.update(dict.fromkeys(keys, changed))
                while True:
                    for key in keys:
                        for contest in contests(self._inventory, key, node):
                            return key, contest
                    period = self._others.settling_seconds()
                    left = started + period - self._clock.seconds()
                    if left <= 0 and (is_current or not period):
                        return None
                    if self._stopping.started:
                        raise ShutdownStarted
                    if left <= 0:
                        await self._barrier.pass_with(keys[0])
                        is_current = True
                        continue
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
