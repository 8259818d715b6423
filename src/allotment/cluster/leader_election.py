"""One leader among several copies of a program, by a Lease that the leader keeps renewing.

Times in the Lease come from different machines, so no copy trusts them: a Lease counts as abandoned when it has not
*changed* for its duration as measured here. A leader that could not renew in time, or sees that another has it, stops
at once, before another may start.

A process that stood still (stopped, starved of processor time) notices this only after it has gone on for a moment.
:meth:`LeaderElection.barred` is for those who write: it looks at the time, not at what the process has noticed. Who is
late is barred, and has lost nothing yet: if the server takes a renewal of the very Lease that was written last, nobody
else has led meanwhile.
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
    """Seconds: how long a Lease holds, when a leader that cannot renew gives up, how often it is tried."""

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0


DEFAULT_TIMINGS: Final = LeaseTimings()


def identity() -> str:
    """What a copy on this machine is called, and no other copy anywhere."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaseLost(Exception):
    """Raised when a leader is no longer the leader: its Lease is another's, or could not be renewed in time."""


class LeaderElection:
    """A copy, ``identity``, that stands for the Lease ``namespace/name``."""

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
        self._seen: tuple[str, float] = ("", 0.0)  # resourceVersion of the Lease, and since when it has been that
        self._mine: Tree | None = None
        """The Lease as this copy wrote it last."""
        self._asked = 0.0
        """When it asked for that; others count from when they see it, which is later."""
        self._until = -inf
        """Until when nobody else can have the Lease, by the clock's ``seconds``."""
        self.leading = False
        """Whether this copy leads now."""
        self.holder: str | None = None
        """Whose the Lease is, as last seen; None before it was."""
        self.refused = ""
        """Why it could not be had the last time, if that was not another's right."""

    def write_block(self) -> str:
        """Why nothing may be written in the name of who leads; empty while nobody else can lead."""
        late = self._clock.seconds() - self._until
        if late < 0:
            return ""
        return f"{self.identity} has not renewed its Lease in time" if late < inf else f"{self.identity} is not the leader"

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead whenever it is this copy's turn, for ever; ``lead`` is cancelled when the Lease is lost."""
        while True:
            try:
                await self.lead(lead)
            except LeaseLost as error:
                log.info("%s: %s", self.name, error)

    async def lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for this copy's turn and lead once, until ``lead`` ends. Raises LeaseLost, with ``lead`` cancelled."""
        while not await self._try(self._terms.renew):
            await self._pause()
        log.info("%s: %s is the leader", self.name, self.identity)
        self._until = self._asked + self._terms.renew
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
        """Give the Lease back, so that the next leader need not wait."""
        lease = await self._client.get(LEASES, self.name, self.namespace)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == self.identity:
            spec = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.update(LEASES, {**lease, "spec": spec})

    async def _keep(self, leading: asyncio.Future[None]) -> str:
        """Renew until the work is done (then empty) or the Lease is lost (then why)."""
        while not leading.done():
            pause = asyncio.ensure_future(self._pause())
            await asyncio.wait([leading, pause], return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            if leading.done():
                break
            # Who begins late has one more try that can be answered: nothing is written meanwhile.
            left = self._until - self._clock.seconds()
            if await self._try(max(left, self._terms.renew / 2)):
                self._until = self._asked + self._terms.renew
            elif self.holder not in (None, self.identity):
                return f"{self.holder or 'no copy'} holds the Lease"
            elif self._clock.seconds() >= self._until:
                return f"the Lease could not be renewed for {self._terms.renew:g} s: {self.refused or 'no answer'}"
        return ""

    async def _pause(self) -> None:
        await self._clock.sleep(self._terms.retry * (1 + self._random.random() / 5))

    async def _try(self, seconds: float) -> bool:
        """Take or renew the Lease within some time; whether it is ours now."""
        taking = asyncio.ensure_future(self._take())
        late = self._clock.later(seconds, lambda: _call_off(taking))
        try:
            await asyncio.wait([taking])
        finally:
            late.cancel()
            taking.cancel()
        if taking.cancelled():
            self._refuse("the server did not answer in time")
            return False
        error = taking.exception()
        if error is None:
            self.refused = ""
            return taking.result()
        if not isinstance(error, StatusError | Unreachable):
            raise error
        others_were_faster = isinstance(error, StatusError) and error.code in (404, 409)
        self._refuse("" if others_were_faster else str(error))
        return False

    def _refuse(self, why: str) -> None:
        """The same is news once: a server may be gone for long."""
        if why and why != self.refused:
            log.info("%s: %s", self.name, why)
        self.refused = why

    async def _take(self) -> bool:
        if self.leading and self._mine is not None:
            # A leader knows its Lease: one request, and the server refuses it if anybody else has written.
            mine, self._mine = self._mine, None
            try:
                await self._write(mine)
            except StatusError as error:
                if error.code not in (404, 409):
                    self._mine = mine
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
        # Who leads may not take it again from others, nor from nobody: somebody may have led meanwhile.
        if holder != self.identity and (self.leading or (holder and not abandoned)):
            return False
        await self._write(lease)
        return True

    async def _write(self, lease: Tree) -> None:
        """Make the Lease ours for another while; if it was there, as it is here: others may want it now, too."""
        self._asked, known = self._clock.seconds(), "resourceVersion" in lease["metadata"]
        new = {**lease, "spec": self._spec(lease.get("spec") or {})}
        asked = self._client.update(LEASES, new) if known else self._client.create(LEASES, new, self.namespace)
        self._mine = await asked
        self.holder = self.identity

    def _spec(self, old: Tree) -> Tree:
        now = self._clock.now_micro()
        mine = old.get("holderIdentity") == self.identity
        return {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._terms.lease,
            "acquireTime": old["acquireTime"] if mine and "acquireTime" in old else now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (1 if old and not mine else 0),
        }


def _call_off(task: asyncio.Future[bool]) -> None:
    task.cancel()
