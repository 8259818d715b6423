"""Events are counted when they repeat, combined when only their messages differ, and dropped beyond a rate limit."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import COMBINED, Events
from allotment.cluster.resources import EVENTS, NEW_EVENTS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

POD: Tree = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"namespace": "ns", "name": "p", "uid": "u1", "resourceVersion": "7"},
}


def events(client: MemoryClient) -> list[Tree]:
    return [tree for (resource, _, _), tree in client.objects.items() if resource in (EVENTS, NEW_EVENTS)]


def name_of(event: Tree) -> str:
    return str(event["metadata"]["name"])


async def written(client: MemoryClient, notes: Events) -> list[Tree]:
    task = asyncio.create_task(notes.run())
    await notes.flush()
    task.cancel()
    return events(client)


def test_an_event_has_its_source_and_object() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock())
        notes.recorder("resource_claim").event(POD, "Warning", "FailedResourceClaimCreation", "no template")
        [event] = await written(client, notes)
        assert event["involvedObject"] == {
            "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u1", "apiVersion": "v1", "resourceVersion": "7",
        }  # fmt: skip
        assert event["metadata"]["name"].startswith("p.")
        assert event["metadata"]["namespace"] == "ns"
        assert (event["type"], event["reason"], event["message"], event["count"]) == (
            "Warning", "FailedResourceClaimCreation", "no template", 1,
        )  # fmt: skip
        assert event["source"] == {"component": "resource_claim"}

    idle.run(scenario())


def test_an_event_with_an_action_uses_the_new_api() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock(), instance="here")
        scheduler = notes.recorder("default-scheduler")
        scheduler.event(POD, "Normal", "Scheduled", "Successfully assigned ns/p to n1", "Binding")
        [event] = await written(client, notes)
        assert event["kind"] == "Event"
        assert event["apiVersion"] == "events.k8s.io/v1"
        assert event["regarding"]["name"] == "p"
        assert (event["action"], event["reportingInstance"]) == ("Binding", "default-scheduler-here")
        assert "series" not in event

    idle.run(scenario())


def test_repeated_events_are_counted() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        for _ in range(3):
            recorder.event(POD, "Normal", "Same", "the same")
        recorder.event(POD, "Normal", "New", "the same", "Acting")
        await written(client, notes)
        recorder.event(POD, "Normal", "Same", "the same")
        recorder.event(POD, "Normal", "New", "the same", "Acting")
        found = {event["reason"]: event for event in await written(client, notes)}
        assert found["Same"]["count"] == 4
        assert found["New"]["series"]["count"] == 2

    idle.run(scenario())


def test_many_different_messages_of_one_reason_are_combined() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        for number in range(20):
            recorder.event(POD, "Normal", "Chatty", f"message {number}")
        found = await written(client, notes)
        assert len(found) == 11
        [combined] = [event for event in found if event["message"].startswith("(combined")]
        assert combined["message"] == "(combined from similar events): message 19"
        assert combined["count"] == 10

    idle.run(scenario())


def test_events_are_rate_limited_per_object() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        for number in range(100):
            recorder.event(POD, "Normal", f"Reason{number}", "x")
        recorder.event({**POD, "metadata": {**POD["metadata"], "uid": "u2"}}, "Normal", "Other", "x")
        found = await written(client, notes)
        assert len(found) == 26

    idle.run(scenario())


def test_an_event_is_truncated_to_the_limit_of_the_api_server() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock(), instance=f"{'h' * 63}_{'u' * 36}")
        scheduler = notes.recorder(f"{'s' * 59}.com")
        for name in ("n" * 253, f"{'n' * 236}-.{'n' * 15}"):
            pod = {**POD, "metadata": {**POD["metadata"], "name": name}}
            for number in range(12):  # more than ten with different messages are combined
                scheduler.event(pod, "Warning", "FailedScheduling", f"{number} {'…' * 1000}", "Scheduling")
            scheduler.event(pod, "Warning", "Long", "x" * 4000)
        found = await written(client, notes)
        assert len(found) == 24
        for event in found:
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name_of(event))
            assert len(name_of(event)) <= 253
            assert len(event["reportingInstance"]) <= 128
            assert len(event.get("note", "").encode()) <= 1024
        assert len({name_of(event) for event in found}) == 24
        assert sum(event.get("note", "").startswith(COMBINED) for event in found) == 2

    idle.run(scenario())


def test_an_expired_event_is_created_again() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        recorder.event(POD, "Normal", "Same", "the same")
        [event] = await written(client, notes)
        client.remove(EVENTS, "ns", event["metadata"]["name"])
        recorder.event(POD, "Normal", "Same", "the same")
        [event] = await written(client, notes)
        assert event["count"] == 2

    idle.run(scenario())


def test_events_wait_while_the_api_server_is_unreachable() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable("no route")] * 30
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        recorder.event(POD, "Normal", "First", "x")
        task = asyncio.create_task(notes.run())
        await asyncio.sleep(20)
        recorder.event(POD, "Normal", "First", "x")
        recorder.event(POD, "Normal", "Second", "x")
        await notes.flush()
        assert {event["reason"]: event["count"] for event in events(client)} == {"First": 2, "Second": 1}
        task.cancel()

    idle.run(scenario())


def test_an_unreachable_api_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable("no route")] * 20
        notes = Events(client, clock=IdleClock())
        notes.recorder("c").event(POD, "Normal", "First", "x")
        await written(client, notes)

    idle.run(scenario())
    assert len(caplog.records) == 1


def refused(code: int, *causes: str) -> StatusError:
    details = {"causes": [{"reason": cause} for cause in causes]}
    return StatusError({"kind": "Status", "code": code, "details": details})


@pytest.mark.parametrize(
    ("refusal", "tries"),
    [(refused(403), 5), (refused(500), 5), (refused(422), 1), (refused(403, "NamespaceTerminating"), 1)],
)
def test_rejected_events_are_retried_a_few_times_if_useful(refusal: StatusError, tries: int) -> None:
    async def scenario() -> None:
        client = MemoryClient()
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        client.refuse = [refusal] * tries
        recorder.event(POD, "Normal", "Refused", "x")
        await written(client, notes)
        assert client.refuse == []
        assert events(client) == []
        client.refuse = [refusal] * (tries - 1)
        recorder.event(POD, "Normal", "Heard", "x")
        assert len(await written(client, notes)) == 1

    idle.run(scenario())


def test_a_lost_response_creates_no_second_event() -> None:
    class Losing(MemoryClient):
        async def create(self, *words: Any, **more: Any) -> Tree:
            tree = await super().create(*words, **more)
            if len(events(self)) == 1 and not self.lists:
                self.lists = 1
                raise Unreachable("the answer was lost")
            return tree

    async def scenario() -> None:
        client = Losing()
        notes = Events(client, clock=IdleClock())
        recorder = notes.recorder("c")
        recorder.event(POD, "Normal", "Same", "x")
        assert [event["count"] for event in await written(client, notes)] == [1]
        recorder.event(POD, "Normal", "Same", "x")
        assert [event["count"] for event in await written(client, notes)] == [2]

    idle.run(scenario())


def test_events_are_recorded_after_the_clock_was_set_back() -> None:
    class Wrong(Clock):
        now_is = datetime(2026, 1, 2, tzinfo=UTC)

        def moment(self) -> datetime:
            return self.now_is

    async def scenario() -> None:
        client, clock = MemoryClient(), Wrong()
        notes = Events(client, clock=clock)
        recorder = notes.recorder("c")
        recorder.event(POD, "Normal", "Before", "x")
        clock.now_is -= timedelta(days=1)
        recorder.event(POD, "Normal", "After", "x")
        recorder.event(POD, "Normal", "Later", "x")
        assert {event["reason"] for event in await written(client, notes)} == {"Before", "After", "Later"}

    idle.run(scenario())
