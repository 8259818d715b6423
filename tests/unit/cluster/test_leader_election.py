"""At most one copy leads; another takes over when the leader is gone."""

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


def test_the_next_copy_leads_when_the_leader_is_gone() -> None:
    async def story() -> None:
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

    idle.run(story())


def test_a_leader_that_cannot_renew_stops_in_time_and_leads_again_when_it_can() -> None:
    async def story() -> None:
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

    idle.run(story())


def test_a_released_lease_is_taken_at_once() -> None:
    async def story() -> None:
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

    idle.run(story())


def test_a_leader_that_sees_another_holder_ends_before_its_time_is_up() -> None:
    async def story() -> None:
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
            await asyncio.wait_for(task, 1.5)  # of the 2 s that it may try
        assert leading == []
        assert not election.leading

    idle.run(story())


def test_a_server_that_is_silent_takes_the_lease_away_in_time() -> None:
    """A request that hangs must not make a leader believe that it still leads."""

    class Silent(MemoryClient):
        hangs = False

        async def get(self, *words: Any, **more: Any) -> Tree:
            if self.hangs:
                await asyncio.Event().wait()
            return await super().get(*words, **more)

    async def story() -> None:
        client = Silent()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        await asyncio.sleep(0.4)
        assert election.leading
        client.hangs = True
        with pytest.raises(LeaseLost, match="could not be renewed for 2 s: the server did not answer in time"):
            await asyncio.wait_for(task, TERMS.lease)

    idle.run(story())


def test_who_stood_still_may_write_nothing_before_it_has_noticed() -> None:
    async def story() -> None:
        client = MemoryClient()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        assert election.write_block() == "first is not the leader"
        woke: list[str] = []

        async def lead() -> None:
            assert election.write_block() == ""
            await asyncio.sleep(0)
            idle.stand_still(TERMS.renew)
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

    idle.run(story())


class Counted(MemoryClient):
    """``asked``: what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def get(self, *words: Any, **more: Any) -> Tree:
        self.asked.append("get")
        return await super().get(*words, **more)

    async def update(self, *words: Any, **more: Any) -> Tree:
        asked = [*self.asked, "update"]
        try:
            return await super().update(*words, **more)
        finally:
            self.asked = asked  # its own look at what is there is no question


def test_a_leader_renews_by_one_request() -> None:
    async def story() -> None:
        client = Counted()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        while len(client.asked) < 4:
            await asyncio.sleep(0.1)
        task.cancel()
        assert client.asked[:4] == ["get", "update", "update", "update"]

    idle.run(story())


def test_a_leader_whose_lease_was_written_by_others_looks_whose_it_is() -> None:
    async def story() -> None:
        client = Counted()
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        while not election.leading:
            await asyncio.sleep(0)
        lease = client.objects[LEASES, "kube-system", "controllers"]
        client.put(LEASES, {**lease, "metadata": {**lease["metadata"], "labels": {"a": "b"}}})
        while len(client.asked) < 5:
            await asyncio.sleep(0.1)
        assert election.leading
        task.cancel()
        assert client.asked[:5] == ["get", "update", "get", "update", "update"]

    idle.run(story())


def test_a_renewal_that_is_late_counts_if_nobody_else_has_led() -> None:
    class Far(MemoryClient):
        async def update(self, *words: Any, **more: Any) -> Tree:
            await asyncio.sleep(0.1)
            return await super().update(*words, **more)

    async def story() -> None:
        async def lead() -> None:
            idle.stand_still(TERMS.renew * 1.5)
            assert election.write_block() == "first has not renewed its Lease in time"
            while election.write_block():
                await asyncio.sleep(0.02)

        election = LeaderElection(Far(), "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        await election.lead(lead)

    idle.run(story())


def test_who_finds_that_nobody_has_its_lease_leads_no_longer() -> None:
    """Another may have led meanwhile, and have given it back."""

    async def story() -> None:
        client = MemoryClient()

        async def lead() -> None:
            lease = client.objects[LEASES, "kube-system", "controllers"]
            client.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
            await asyncio.Event().wait()

        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        with pytest.raises(LeaseLost, match="no copy holds the Lease"):
            await election.lead(lead)

    idle.run(story())


def test_a_lease_without_a_spec_is_nobodys() -> None:
    """As a chart makes it, or who deletes it while it is led by."""

    async def story() -> None:
        client = MemoryClient()
        client.put(LEASES, {"metadata": {"name": "controllers", "namespace": "kube-system"}})
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        await election.release()
        task = asyncio.create_task(election.lead(_for_ever))
        await asyncio.sleep(1)
        assert election.leading
        task.cancel()

    idle.run(story())


def test_why_nobody_can_lead_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable(why) for why in ["no route"] * 10 + ["another reason"] * 10]
        election = LeaderElection(client, "controllers", "first", clock=CLOCK, random=Random(1), terms=TERMS)
        task = asyncio.create_task(election.lead(_for_ever))
        while not election.leading:
            await asyncio.sleep(1)
        task.cancel()

    idle.run(story())
    assert [record.getMessage() for record in caplog.records] == [
        "controllers: no route", "controllers: another reason", "controllers: first is the leader",
    ]  # fmt: skip
