"""One leader among several copies of a program, by a Lease that the leader keeps renewing.

Times in the Lease come from different machines, so no copy trusts them: a Lease counts as abandoned when it has not
*changed* for its duration as measured here. A leader that could not renew in time stops at once, before another
may start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, NamedTuple

from allotment.cluster.client import Client, Tree
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import LEASES

log = logging.getLogger(__name__)


class Terms(NamedTuple):
    """Seconds: how long a Lease holds, when a leader that cannot renew gives up, how often it is tried."""

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0


USUAL: Final = Terms()


class LeaderElection:
    """A copy, ``identity``, that stands for the Lease ``namespace/name``."""

    def __init__(
        self, client: Client, name: str, identity: str, *, clock: Clock, random: Random,
        namespace: str = "kube-system", terms: Terms = USUAL,
    ) -> None:  # fmt: skip
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._random = random
        self._terms = terms
        self._seen: tuple[str, float] = ("", 0.0)  # resourceVersion of the Lease, and since when it has been that

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead whenever it is this copy's turn, for ever; ``lead`` is cancelled when the Lease is lost."""
        while True:
            while not await self._try():
                await self._pause()
            log.info("%s: %s leads", self._name, self._identity)
            leading = asyncio.ensure_future(lead())
            try:
                await self._keep(leading)
            finally:
                leading.cancel()
                await asyncio.wait([leading])
            if not leading.cancelled() and (error := leading.exception()) is not None:
                raise error
            log.info("%s: %s leads no longer", self._name, self._identity)

    async def release(self) -> None:
        """Give the Lease back, so that the next leader need not wait."""
        lease = await self._client.get(LEASES, self._name, self._namespace)
        if lease["spec"].get("holderIdentity") == self._identity:
            spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.update(LEASES, {**lease, "spec": spec})

    async def _keep(self, leading: asyncio.Future[None]) -> None:
        renewed = self._clock.seconds()
        while not leading.done():
            pause = asyncio.ensure_future(self._pause())
            await asyncio.wait([leading, pause], return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            if leading.done():
                return
            if await self._try():
                renewed = self._clock.seconds()
            elif self._clock.seconds() - renewed >= self._terms.renew:
                return

    async def _pause(self) -> None:
        await self._clock.sleep(self._terms.retry * (1 + self._random.random() / 5))

    async def _try(self) -> bool:
        """Take or renew the Lease; whether it is ours now."""
        try:
            return await self._take()
        except StatusError as error:
            log.debug("%s: %s", self._name, error)
        except Unreachable as error:
            log.info("%s: %s", self._name, error)
        return False

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            metadata = {"name": self._name, "namespace": self._namespace}
            new = {
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": metadata,
                "spec": self._spec({}),
            }
            await self._client.create(LEASES, new, self._namespace)
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity", "")
        revision = lease["metadata"]["resourceVersion"]
        if revision != self._seen[0]:
            self._seen = revision, self._clock.seconds()
        abandoned = self._clock.seconds() - self._seen[1] >= spec.get("leaseDurationSeconds", self._terms.lease)
        if holder not in ("", self._identity) and not abandoned:
            return False
        # The resourceVersion in the metadata makes sure that nobody else takes it at the same time.
        await self._client.update(LEASES, {**lease, "spec": self._spec(spec)})
        return True

    def _spec(self, old: Tree) -> Tree:
        now = self._clock.now_micro()
        mine = old.get("holderIdentity") == self._identity
        return {
            **old,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.lease,
            "acquireTime": old["acquireTime"] if mine and "acquireTime" in old else now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (1 if old and not mine else 0),
        }
