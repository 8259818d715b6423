"""No event is lost between two checks, and the loop does not wait while there is work."""

from __future__ import annotations

import asyncio

from allotment.scheduler.cluster_events import ClusterEvent
from allotment.scheduler.pending_events import PendingEvents
from tests.unit.cluster import idle


def test_each_event_is_taken_once() -> None:
    events = PendingEvents()
    events.add(ClusterEvent.NODE)
    events.add(ClusterEvent.CLAIM_FREED)
    events.add(ClusterEvent.NODE)
    assert events.take() == {ClusterEvent.NODE, ClusterEvent.CLAIM_FREED}
    assert events.take() == frozenset()


def test_clearing_fails_after_an_event() -> None:
    events = PendingEvents()
    events.take()
    events.add(ClusterEvent.NODE)
    assert not events.try_clear()
    events.take()
    assert events.try_clear()


def test_waiting_ends_on_an_event_or_a_wake_up() -> None:
    async def scenario() -> None:
        for notify in (lambda events: events.add(ClusterEvent.NODE), PendingEvents.wake):
            events = PendingEvents()
            events.try_clear()
            waiting = asyncio.ensure_future(events.wait())
            await asyncio.sleep(0)
            assert not waiting.done()
            notify(events)
            await asyncio.wait_for(waiting, 1)

    idle.run(scenario())
