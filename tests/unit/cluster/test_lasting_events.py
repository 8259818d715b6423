"""An event about a state is written when the state changes, and again before the API server deletes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from allotment.cluster.lasting_events import REPEAT_SECONDS, LastingEvents, StateEvent
from allotment.cluster.recorder import Events
from allotment.cluster.resources import NEW_EVENTS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

POD: Tree = {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "ns", "name": "p", "uid": "u1"}}
#: The default ``--event-ttl`` of kube-apiserver.
EVENT_TTL = 3600.0


class Fixture:
    def __init__(self, speed: float = 1.0) -> None:
        self.client = MemoryClient()
        self.clock = IdleClock(speed)
        self.events = Events(self.client, clock=self.clock)
        self.pending = {"u1"}
        self.lasting = LastingEvents(self.events.recorder("s"), self.clock, self.pending.__contains__)

    def report(self, state: str, message: str = "") -> bool:
        event = StateEvent(POD, "Warning", "FailedScheduling", message or state, "Scheduling", {"state": state})
        return self.lasting.record("u1", state, event)

    async def written(self) -> list[Tree]:
        """The events in the cluster, once all are written."""
        await self.events.flush()
        return [tree for (kind, _, _), tree in self.client.objects.items() if kind == NEW_EVENTS]

    def expire(self, event: Tree) -> None:
        self.client.remove(NEW_EVENTS, "ns", event["metadata"]["name"])


@asynccontextmanager
async def recording(speed: float = 1.0) -> AsyncIterator[Fixture]:
    lab = Fixture(speed)
    task = asyncio.create_task(lab.events.run())
    try:
        yield lab
    finally:
        lab.lasting.close()
        task.cancel()


def test_an_unchanged_state_is_one_event_and_counted_again_before_it_expires() -> None:
    async def scenario() -> None:
        async with recording() as lab:
            assert lab.report("busy")
            assert not lab.report("busy")
            (event,) = await lab.written()
            assert "series" not in event
            await lab.clock.sleep(EVENT_TTL - 1)
            (event,) = await lab.written()
            assert event["series"]["count"] == 2

    idle.run(scenario())


def test_the_latest_message_is_repeated() -> None:
    """Otherwise, the event would advise to uncordon a node that no longer exists."""

    async def scenario() -> None:
        async with recording() as lab:
            assert lab.report("cordoned", "uncordon alpha")
            assert not lab.report("cordoned", "uncordon beta")
            assert [event["note"] for event in await lab.written()] == ["uncordon alpha"]
            await lab.clock.sleep(EVENT_TTL - 1)
            assert [event["note"] for event in await lab.written()] == ["uncordon alpha", "uncordon beta"]

    idle.run(scenario())


def test_an_expired_event_is_written_again() -> None:
    async def scenario() -> None:
        async with recording() as lab:
            lab.report("busy")
            (event,) = await lab.written()
            lab.expire(event)
            await lab.clock.sleep(REPEAT_SECONDS + 1)
            (again,) = await lab.written()
            assert (again["note"], again["metadata"]["annotations"]) == ("busy", {"state": "busy"})

    idle.run(scenario())


def test_the_interval_is_that_of_the_clock() -> None:
    async def scenario() -> None:
        async with recording(speed=60) as lab:
            lab.report("busy")
            await lab.clock.sleep(REPEAT_SECONDS + 1)
            (event,) = await lab.written()
            assert event["series"]["count"] == 2
            assert asyncio.get_running_loop().time() < EVENT_TTL / 60

    idle.run(scenario())


def test_a_changed_state_is_repeated_instead_of_the_earlier_one() -> None:
    async def scenario() -> None:
        async with recording() as lab:
            lab.report("busy")
            await lab.clock.sleep(REPEAT_SECONDS / 2)
            assert lab.report("cordoned")
            await lab.clock.sleep(REPEAT_SECONDS + 1)
            counts = {event["note"]: event.get("series", {}).get("count", 1) for event in await lab.written()}
            assert counts == {"busy": 1, "cordoned": 2}

    idle.run(scenario())


def test_nothing_is_repeated_once_the_state_has_ended() -> None:
    async def scenario() -> None:
        async with recording() as lab:
            lab.report("busy")
            lab.pending.clear()
            await lab.clock.sleep(2 * REPEAT_SECONDS)
            (event,) = await lab.written()
            assert "series" not in event
            assert "u1" not in lab.lasting
            lab.pending.add("u1")
            assert lab.report("busy")
            lab.lasting.forget("u1")
            await lab.clock.sleep(2 * REPEAT_SECONDS)
            (event,) = await lab.written()
            assert event["series"]["count"] == 2  # the second report

    idle.run(scenario())
