"""At most one replica leads; another one takes over when the leader has stopped."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

import pytest

from allotment.cluster.errors import Unreachable
from allotment.cluster.leader_election import LeaderElection, LeaseLost, LeaseTimings
from allotment.cluster.resources import LEASES
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

CLOCK = IdleClock()
TERMS = LeaseTimings(lease=3, renew=2.0, retry=0.4)


async def _for_ever() -> None:
    await asyncio.Event().wait()


class Copy:
    def __init__(self, client: MemoryClient, name: str, leading: list[str]) -> None:
        self.client = client
        self.name = name
        self.leading = leading
        self.election = LeaderElection(client, "controllers", name, clock=CLOCK, random=Random(1), terms=TERMS)
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        assert self.leading == []
        self.leading.append(self.name)
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.remove(self.name)


def test_the_next_replica_leads_after_the_leader() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        leading: list[str] = []
        first, second = Copy(client, "first", leading), Copy(client, "second", leading)
        await asyncio.sleep(5)
        assert leading == ["first"]
        first.task.cancel()
        await asyncio.sleep(0.5)
        assert leading == []
        await asyncio.sleep(10)
        assert leading == ["second"]
        lease = client.objects[LEASES, "kube-system", "controllers"]
        assert lease["spec"]["holderIdentity"] == "second"
        assert lease["spec"]["leaseTransitions"] == 1
        second.task.cancel()

    idle.run(scenario())


def test_a_leader_that_cannot_renew_stops_in_time_and_leads_again_later() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        leading: list[str] = []
        first = Copy(client, "first", leading)
        await asyncio.sleep(2)
        assert leading == ["first"]
        client.refuse = [Unreachable("no route")] * 12
        await asyncio.sleep(4)
        assert leading == []
        await asyncio.sleep(10)
        assert leading == ["first"]
        first.task.cancel()

    idle.run(scenario())


def test_a_released_lease_is_acquired_immediately() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        leading: list[str] = []
        first = Copy(client, "first", leading)
        await asyncio.sleep(1)
        first.task.cancel()
        await asyncio.sleep(0)
        await first.election.release()
        second = Copy(client, "second", leading)
        await asyncio.sleep(1)
        assert leading == ["second"]
        second.task.cancel()

    idle.run(scenario())


def test_a_leader_stops_when_it_sees_another_holder() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        leading: list[str] = []

        async def lead() -> None:
            leading.append("first")
            try:
                await asyncio.Event().wait()
            finally:
                leading.clear()

        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(lead))
        await asyncio.sleep(0.4)
        assert leading == ["first"]
        assert election.leading
        lease = client.objects[LEASES, "kube-system", "controllers"]
        await client.update(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "thief"}})
        with pytest.raises(LeaseLost, match="first is no longer the leader: thief holds the Lease"):
            await asyncio.wait_for(task, 1.5)  # of 2 s for renewals
        assert leading == []
        assert not election.leading

    idle.run(scenario())


def test_a_hanging_renewal_loses_the_lease_in_time() -> None:
    """A request that hangs must not make a leader believe that it still leads."""

    class Silent(MemoryClient):
        hangs = False

        async def get(self, *words: Any, **more: Any) -> Tree:
            if self.hangs:
                await asyncio.Event().wait()
            return await super().get(*words, **more)

    async def scenario() -> None:
        client = Silent()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        await asyncio.sleep(0.4)
        assert election.leading
        client.hangs = True
        with pytest.raises(LeaseLost, match="could not be renewed for 2 s: the server did not respond in time"):
            await asyncio.wait_for(task, TERMS.lease)

    idle.run(scenario())


def test_writes_are_blocked_after_the_process_was_suspended() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        assert election.write_block() == "first is not the leader"
        woke: list[str] = []

        async def lead() -> None:
            assert election.write_block() == ""
            await asyncio.sleep(0)
            idle.suspend(TERMS.renew)
            lease = client.objects[LEASES, "kube-system", "controllers"]
            client.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "second"}})
            woke.append(election.write_block())
            try:
                await asyncio.Event().wait()
            finally:
                woke.append(election.write_block())

        with pytest.raises(LeaseLost):
            await election.lead(lead)
        assert woke == ["first has not renewed its Lease in time", "first is not the leader"]

    idle.run(scenario())


class Counted(MemoryClient):
    """Records the verbs of requests for the Lease."""

    def __init__(self) -> None:
        super().__init__()
        self.verbs: list[str] = []

    async def get(self, *words: Any, **more: Any) -> Tree:
        self.verbs.append("get")
        return await super().get(*words, **more)

    async def update(self, *words: Any, **more: Any) -> Tree:
        verbs = [*self.verbs, "update"]
        try:
            return await super().update(*words, **more)
        finally:
            self.verbs = verbs  # the read inside of MemoryClient.update does not count


def test_a_renewal_is_one_request() -> None:
    async def scenario() -> None:
        client = Counted()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        while len(client.verbs) < 4:
            await asyncio.sleep(0.1)
        task.cancel()
        assert client.verbs[:4] == ["get", "update", "update", "update"]

    idle.run(scenario())


def test_a_leader_reads_the_lease_again_after_a_conflict() -> None:
    async def scenario() -> None:
        client = Counted()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        while not election.leading:
            await asyncio.sleep(0)
        lease = client.objects[LEASES, "kube-system", "controllers"]
        client.put(LEASES, {**lease, "metadata": {**lease["metadata"], "labels": {"a": "b"}}})
        while len(client.verbs) < 5:
            await asyncio.sleep(0.1)
        assert election.leading
        task.cancel()
        assert client.verbs[:5] == ["get", "update", "get", "update", "update"]

    idle.run(scenario())


def test_a_late_renewal_is_valid_if_no_other_replica_has_led() -> None:
    class Far(MemoryClient):
        async def update(self, *words: Any, **more: Any) -> Tree:
            await asyncio.sleep(0.1)
            return await super().update(*words, **more)

    async def scenario() -> None:
        async def lead() -> None:
            idle.suspend(TERMS.renew * 1.5)
            assert election.write_block() == "first has not renewed its Lease in time"
            while election.write_block():
                await asyncio.sleep(0.02)

        election = LeaderElection(Far(), "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        await election.lead(lead)

    idle.run(scenario())


def test_a_leader_stops_when_its_lease_has_no_holder() -> None:
    """Another replica may have led and released it in the meantime."""

    async def scenario() -> None:
        client = MemoryClient()

        async def lead() -> None:
            lease = client.objects[LEASES, "kube-system", "controllers"]
            client.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
            await asyncio.Event().wait()

        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        with pytest.raises(LeaseLost, match="no replica holds the Lease"):
            await election.lead(lead)

    idle.run(scenario())


def test_a_lease_without_a_spec_has_no_holder() -> None:
    """As created by a chart or left by a client that removed the spec."""

    async def scenario() -> None:
        client = MemoryClient()
        client.put(LEASES, {"metadata": {"name": "controllers", "namespace": "kube-system"}})
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        await election.release()
        task = asyncio.create_task(election.lead(_for_ever))
        await asyncio.sleep(1)
        assert election.leading
        task.cancel()

    idle.run(scenario())


def test_the_reason_why_no_replica_leads_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable(why) for why in ["no route"] * 10 + ["another reason"] * 10]
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        while not election.leading:
            await asyncio.sleep(1)
        task.cancel()

    idle.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "controllers: no route", "controllers: another reason", "controllers: first is the leader",
    ]  # fmt: skip
