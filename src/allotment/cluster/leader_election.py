"""Leader election among several copies of a program, by a Lease that the leader renews.

Timestamps in the Lease come from different machines and are not compared: a Lease has expired if it has not *changed*
for its duration as measured here. A leader that cannot renew in time, or sees another holder, stops immediately, before
another copy may start.

A process that was suspended (stopped, without CPU time) notices this only some time after it has resumed. Therefore
clients call :meth:`LeaderElection.write_block` before each write: it compares times. A late leader may not write, but
has not lost the Lease yet: if the server accepts a renewal of the last written version, no other copy has led since.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from math import inf
from random import Random
from typing import Final, NamedTuple

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import LEASES
from allotment.model.trees import Tree

log = logging.getLogger(__name__)


class LeaseTimings(NamedTuple):
    """Seconds: duration of the Lease, time after which a leader that cannot renew stops, interval between tries."""

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0


DEFAULT_TIMINGS: Final = LeaseTimings()


def identity() -> str:
    """A unique identity for a copy on this machine."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaseLost(Exception):
    """Raised when a leader has lost its Lease to another copy, or could not renew it in time."""


class LeaderElection:
    """A candidate, ``identity``, for the Lease ``namespace/name``."""

    def __init__(
        self, client: Client, name: str, identity: str, *, clock: Clock, random: Random,
        namespace: str = "kube-system", terms: LeaseTimings = DEFAULT_TIMINGS,
    ) -> None:  # fmt: skip
        self._client = client
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self._clock = clock
        self._random = random
        self._terms = terms
        self._seen: tuple[str, float] = ("", 0.0)  # resourceVersion of the Lease, and when it was first observed
        self._own_lease: Tree | None = None
        """The Lease as this copy last wrote it."""
        self._sent_at = 0.0
        """When it sent that write; the others count from their observation, which is later."""
        self._until = -inf
        """Until when no other copy can hold the Lease, in the clock's ``seconds``."""
        self.leading = False
        """Whether this copy is the leader."""
        self.holder: str | None = None
        """The last observed holder of the Lease; None before the first observation."""
        self.refused = ""
        """The error of the last try, or empty."""

    def write_block(self) -> str:
        """The reason why the leader may not write now; empty while no other copy can lead."""
        late = self._clock.seconds() - self._until
        if late < 0:
            return ""
        return (
            f"{self.identity} has not renewed its Lease in time" if late < inf else f"{self.identity} is not the leader"
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead whenever this copy gets the Lease, until cancelled; ``lead`` is cancelled when the Lease is lost."""
        while True:
            try:
                await self.lead(lead)
            except LeaseLost as error:
                log.info("%s: %s", self.name, error)

    async def lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease and lead once, until ``lead`` ends. If it is lost, cancel ``lead`` and raise LeaseLost."""
        while not await self._try(self._terms.renew):
            await self._pause()
        log.info("%s: %s is the leader", self.name, self.identity)
        self._until = self._sent_at + self._terms.renew
        self.leading = True
        leading = asyncio.ensure_future(lead())
        try:
            lost = await self._keep(leading)
            if lost:
                self._until = -inf
        finally:
            self.leading = False
            leading.cancel()
            await asyncio.wait([leading])
        if not leading.cancelled() and (error := leading.exception()) is not None:
            raise error
        if lost:
            raise LeaseLost(f"{self.identity} is no longer the leader: {lost}")

    async def release(self) -> None:
        """Release the Lease, so that the next leader need not wait."""
        lease = await self._client.get(LEASES, self.name, self.namespace)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == self.identity:
            spec = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.update(LEASES, {**lease, "spec": spec})

    async def _keep(self, leading: asyncio.Future[None]) -> str:
        """Renew until the work is done (returns an empty string) or the Lease is lost (returns the reason)."""
        while not leading.done():
            pause = asyncio.ensure_future(self._pause())
            await asyncio.wait([leading, pause], return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            if leading.done():
                break
            # A late leader has one more try with enough time for a response; writes are blocked meanwhile.
            left = self._until - self._clock.seconds()
            if await self._try(max(left, self._terms.renew / 2)):
                self._until = self._sent_at + self._terms.renew
            elif self.holder not in (None, self.identity):
                return f"{self.holder or 'no replica'} holds the Lease"
            elif self._clock.seconds() >= self._until:
                return f"the Lease could not be renewed for {self._terms.renew:g} s: {self.refused or 'no response'}"
        return ""

    async def _pause(self) -> None:
        await self._clock.sleep(self._terms.retry * (1 + self._random.random() / 5))

    async def _try(self, seconds: float) -> bool:
        """Take or renew the Lease within some seconds; returns whether this copy holds it."""
        taking = asyncio.ensure_future(self._take())
        late = self._clock.later(seconds, lambda: _cancel(taking))
        try:
            await asyncio.wait([taking])
        finally:
            late.cancel()
            taking.cancel()
        if taking.cancelled():
            self._record_error("the server did not respond in time")
            return False
        error = taking.exception()
        if error is None:
            self.refused = ""
            return taking.result()
        if not isinstance(error, StatusError | Unreachable):
            raise error
        others_were_faster = isinstance(error, StatusError) and error.code in (404, 409)
        self._record_error("" if others_were_faster else str(error))
        return False

    def _record_error(self, why: str) -> None:
        """Log an error once while it stays the same: an outage may be long."""
        if why and why != self.refused:
            log.info("%s: %s", self.name, why)
        self.refused = why

    async def _take(self) -> bool:
        if self.leading and self._own_lease is not None:
            # A leader knows its Lease: one request, which the server rejects if another copy has written it.
            lease, self._own_lease = self._own_lease, None
            try:
                await self._write(lease)
            except StatusError as error:
                if error.code not in (404, 409):
                    self._own_lease = lease
                    raise
            else:
                return True
        try:
            lease = await self._client.get(LEASES, self.name, self.namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            await self._write({
                "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"name": self.name, "namespace": self.namespace},
            })  # fmt: skip
            return True
        spec = lease.get("spec") or {}
        holder = self.holder = spec.get("holderIdentity", "")
        revision = lease["metadata"]["resourceVersion"]
        if revision != self._seen[0]:
            self._seen = revision, self._clock.seconds()
        abandoned = self._clock.seconds() - self._seen[1] >= spec.get("leaseDurationSeconds", self._terms.lease)
        # A leader may not take a Lease that another holds or has released: that copy may have led meanwhile.
        if holder != self.identity and (self.leading or (holder and not abandoned)):
            return False
        await self._write(lease)
        return True

    async def _write(self, lease: Tree) -> None:
        """Write this copy as the holder. An existing Lease must not have changed: others may also write it."""
        self._sent_at, known = self._clock.seconds(), "resourceVersion" in lease["metadata"]
        new = {**lease, "spec": self._spec(lease.get("spec") or {})}
        response = self._client.update(LEASES, new) if known else self._client.create(LEASES, new, self.namespace)
        self._own_lease = await response
        self.holder = self.identity

    def _spec(self, old: Tree) -> Tree:
        now = self._clock.now_micro()
        is_own = old.get("holderIdentity") == self.identity
        return {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._terms.lease,
            "acquireTime": old["acquireTime"] if is_own and "acquireTime" in old else now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (1 if old and not is_own else 0),
        }


def _cancel(task: asyncio.Future[bool]) -> None:
    task.cancel()
