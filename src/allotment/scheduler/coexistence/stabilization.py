"""Beside other schedulers: a pod is bound only after its claims were seen alone on their devices for a while.

Two schedulers can give one device to two claims, and no write of either conflicts. So ours writes a claim's allocation
and does not bind the pod yet. It waits until its view of all claims has come to that write, and then for as long as
`rivals` says. If another claim was given the same meanwhile, ours steps back (see `guards` for how, without misleading
the rival) and tries again with what is left. Pods settle beside each other, and others are placed meanwhile: it costs
time, and not throughput.

What this guarantees, and what not. A rival that wrote before us, in the order of the API server, is always seen. One
that writes after us is seen if it does so while we settle. A rival that writes later than that, on a view older than
our write, is not: it never looks again, so nobody can stop it. It is noticed all the same. Then the pod of ours gives
way if no container of it has started (see `yielding`), and otherwise both keep what they have, and an event says so.
Who must be sure keeps schedulers apart: each its own nodes, by a label or a taint, or its own classes.

Of two schedulers of this kind at least one notices: each looks after its own write, and one of them wrote last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.shutdown import Left, Stopping
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import ObjectKey
from allotment.scheduler.coexistence.contention import Contest, contests
from allotment.scheduler.coexistence.other_schedulers import Rivals
from allotment.scheduler.idle_bindings import Resting


class Settling:
    """Decisions that are written and may still be taken back."""

    def __init__(
        self, claims: Cache[Any], inventory: Inventory, rivals: Rivals, clock: Clock, stopping: Stopping,
        resting: Resting,
    ) -> None:  # fmt: skip
        self._claims = claims
        self._inventory = inventory
        self._rivals = rivals
        self._clock = clock
        self._stopping = stopping
        self._resting = resting
        self._waiting: dict[ObjectKey, asyncio.Event] = {}

    async def settle(self, claims: Iterable[ObjectKey], revision: str, node: str) -> tuple[ObjectKey, Contest] | None:
        """Wait until claims have settled; which of them is contested, and by whom, or None.

        ``revision``: of the last of them that was written. Raises Left where it is to stop: whoever comes next finds
        the claims as they are, and has them settle.
        """
        keys = tuple(claims)
        changed = asyncio.Event()
        with self._resting.one(), self._stopping.telling(changed.set):
            try:
                await self._claims.reached(revision)
                began = self._clock.seconds()
                self._waiting.update(dict.fromkeys(keys, changed))
                while True:
                    for key in keys:
                        for contest in contests(self._inventory, key, node):
                            return key, contest
                    left = began + self._rivals.seconds() - self._clock.seconds()
                    if left <= 0:
                        return None
                    if self._stopping.begun:
                        raise Left
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

    def notice(self, claim: ObjectKey) -> bool:
        """A claim is contested: wake whoever settles it; False if it does not settle any more."""
        waiting = self._waiting.get(claim)
        if waiting is not None:
            waiting.set()
        return waiting is not None
