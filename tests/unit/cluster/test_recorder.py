"""Events are counted when they repeat, combined when they only differ in words, and dropped when they flood."""

from __future__ import annotations

import asyncio

from allotment.cluster.client import Tree
from allotment.cluster.clock import Clock
from allotment.cluster.errors import Unreachable
from allotment.cluster.recorder import Events
from allotment.cluster.resources import EVENTS, NEW_EVENTS
from tests.unit.cluster.memory import MemoryClient

POD: Tree = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"namespace": "ns", "name": "p", "uid": "u1", "resourceVersion": "7"},
}


def events(client: MemoryClient) -> list[Tree]:
    return [tree for (resource, _, _), tree in client.objects.items() if resource in (EVENTS, NEW_EVENTS)]


async def written(client: MemoryClient, notes: Events) -> list[Tree]:
    task = asyncio.create_task(notes.run())
    await notes.written()
    task.cancel()
    return events(client)


def test_an_event_says_who_speaks_about_what() -> None:
    async def story() -> None:
        client = MemoryClient()
        notes = Events(client, clock=Clock())
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

    asyncio.run(story())


def test_an_event_with_an_action_is_written_the_new_way() -> None:
    async def story() -> None:
        client = MemoryClient()
        notes = Events(client, clock=Clock(), instance="here")
        scheduler = notes.recorder("default-scheduler")
        scheduler.event(POD, "Normal", "Scheduled", "Successfully assigned ns/p to n1", "Binding")
        [event] = await written(client, notes)
        assert event["kind"] == "Event"
        assert event["apiVersion"] == "events.k8s.io/v1"
        assert event["regarding"]["name"] == "p"
        assert (event["action"], event["reportingInstance"]) == ("Binding", "default-scheduler-here")
        assert "series" not in event

    asyncio.run(story())


def test_what_is_said_again_is_counted() -> None:
    async def story() -> None:
        client = MemoryClient()
        notes = Events(client, clock=Clock())
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

    asyncio.run(story())


def test_many_different_messages_of_one_reason_are_combined() -> None:
    async def story() -> None:
        client = MemoryClient()
        notes = Events(client, clock=Clock())
        recorder = notes.recorder("c")
        for number in range(20):
            recorder.event(POD, "Normal", "Chatty", f"message {number}")
        found = await written(client, notes)
        assert len(found) == 11
        [combined] = [event for event in found if event["message"].startswith("(combined")]
        assert combined["message"] == "(combined from similar events): message 19"
        assert combined["count"] == 10

    asyncio.run(story())


def test_a_flood_about_one_object_is_cut_and_others_are_heard() -> None:
    async def story() -> None:
        client = MemoryClient()
        notes = Events(client, clock=Clock())
        recorder = notes.recorder("c")
        for number in range(100):
            recorder.event(POD, "Normal", f"Reason{number}", "x")
        recorder.event({**POD, "metadata": {**POD["metadata"], "uid": "u2"}}, "Normal", "Other", "x")
        found = await written(client, notes)
        assert len(found) == 26

    asyncio.run(story())


def test_an_event_that_the_cluster_forgot_is_written_anew() -> None:
    async def story() -> None:
        client = MemoryClient()
        notes = Events(client, clock=Clock())
        recorder = notes.recorder("c")
        recorder.event(POD, "Normal", "Same", "the same")
        [event] = await written(client, notes)
        client.remove(EVENTS, "ns", event["metadata"]["name"])
        recorder.event(POD, "Normal", "Same", "the same")
        [event] = await written(client, notes)
        assert event["count"] == 2

    asyncio.run(story())


def test_a_cluster_that_does_not_answer_costs_the_event_and_no_more() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable("no route")]
        notes = Events(client, clock=Clock())
        recorder = notes.recorder("c")
        recorder.event(POD, "Normal", "Lost", "x")
        assert await written(client, notes) == []
        recorder.event(POD, "Normal", "Heard", "x")
        [event] = await written(client, notes)
        assert event["reason"] == "Heard"

    asyncio.run(story())
