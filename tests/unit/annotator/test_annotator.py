"""Pending pods of another scheduler are explained once, and again when the reason changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from allotment.annotator import program as annotator_program
from allotment.annotator.program import AVAILABLE, NAME, UNAVAILABLE, Options, annotator
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, Listing, WatchEvent
from allotment.cluster.clock import Clock, parse
from allotment.cluster.errors import Unreachable
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CLAIM_TEMPLATES, EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS
from allotment.explanation import Explanation, explain
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.lab.harness import LabHarness, lab_harness

FEATURES = Features(kube="1.36")
#: The API server deletes events after an hour; here, after two seconds.
HALF_HOUR_A_SECOND = Clock(speed=1800.0)
SCHEDULER_MESSAGE = "0/1 nodes are available: 1 cannot allocate all claims."


class Line:
    """A client whose reads can be disconnected; its writes use another connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._cut = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def cut(self) -> None:
        self._cut.set()

    def reconnect(self) -> None:
        self._cut = asyncio.Event()

    async def list(self, *words: Any, **options: Any) -> Listing:
        if self._cut.is_set():
            raise Unreachable("no route")
        return await self._client.list(*words, **options)

    async def watch(self, *words: Any, **options: Any) -> AsyncIterator[WatchEvent]:
        events = self._client.watch(*words, **options)
        ended = asyncio.ensure_future(self._cut.wait())
        while True:
            coming = asyncio.ensure_future(anext(events))
            await asyncio.wait((coming, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                coming.cancel()
                raise Unreachable("it broke off")
            yield coming.result()


@asynccontextmanager
async def annotated(
    on: LabHarness, line: Line | None = None, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Caches]:
    """Run the annotator with a scheduler that reports no more than that of Kubernetes. ``clock``: its own one."""
    plane = on.plane
    client: Any = line or plane.client(NAME)
    clock = clock or plane.clock
    caches = Caches(client, clock=clock, random=Random(1))
    context = ProgramContext(lambda name, manager="": client, caches, clock, Events(client, clock=clock), Random(1))
    program = annotator(Options(**{"features": FEATURES, "delay": 0.0, "every": 0.5, **options}))
    task = asyncio.create_task(run({NAME: program}, context))
    try:
        yield caches
    finally:
        task.cancel()
        await asyncio.wait([task])


def template(name: str, count: int = 1) -> Tree:
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}


def pod(name: str, template: str, **spec: Any) -> Tree:
    container = {"name": "main", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    pod_spec = {"schedulerName": "another", "containers": [container], "resourceClaims": claims, **spec}
    return {"metadata": {"name": name}, "spec": pod_spec}


async def reject(on: LabHarness, name: str, message: str = SCHEDULER_MESSAGE) -> None:
    """Set the PodScheduled condition as the other scheduler does."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    await on.client.patch(
        PODS, name, {"status": {"conditions": [condition]}}, "default", kind="strategic", subresource="status"
    )


async def annotator_events(on: LabHarness, name: str) -> list[Tree]:
    """The annotator's events about a pod, oldest first."""
    fields = f"involvedObject.name={name},reportingComponent={NAME}"
    items = (await on.client.list(EVENTS, "default", fields=fields)).items
    return sorted(items, key=lambda event: int(event["metadata"]["resourceVersion"]))


async def until(on: LabHarness, name: str, true: Callable[[list[Tree]], Any]) -> list[Tree]:
    events: list[Tree] = []
    try:
        async with asyncio.timeout(120):
            while not true(events := await annotator_events(on, name)):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{name} has events {[event['message'] for event in events]}") from None
    return events


async def quiet(on: LabHarness, seconds: float = 3.0) -> None:
    """Wait long enough for several batches."""
    await on.plane.clock.sleep(seconds)


def test_the_reason_precedes_the_scheduler_message() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on):
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("greedy", "nine"), "default")
            await reject(on, "greedy")
            (event,) = (
                await until(on, "greedy", lambda events: events and SCHEDULER_MESSAGE in events[-1]["message"])
            )[-1:]
            first, *_, last = event["message"].splitlines()
            assert first.endswith("(too-few-devices)"), first
            assert last == f"Last message of the scheduler: {SCHEDULER_MESSAGE}"
            assert (event["type"], event["reason"], event["involvedObject"]["kind"]) == ("Warning", UNAVAILABLE, "Pod")

    asyncio.run(scenario())


def test_a_pod_without_claim_is_explained_without_a_scheduler_message() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on):
            await on.client.create(PODS, pod("lost", "absent"), "default")
            (event,) = await until(on, "lost", bool)
            assert "absent" in event["message"].splitlines()[0]
            assert event["message"].endswith("The scheduler has not reported a reason.")

    asyncio.run(scenario())


def test_an_event_names_no_other_namespace() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on):
            await on.client.create(NAMESPACES, {"metadata": {"name": "secret-team"}})
            await on.client.create(CLAIM_TEMPLATES, template("absent"), "secret-team")
            await on.client.create(PODS, pod("lost", "absent"), "default")
            (event,) = await until(on, "lost", bool)
            assert event["message"].splitlines()[0].endswith("does not exist in namespace default (template-missing)")
            assert "secret-team" not in event["message"]

    asyncio.run(scenario())


def test_a_reason_is_reported_once_across_restarts_and_a_new_reason_again() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on:
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("greedy", "nine"), "default")
            async with annotated(on):
                await until(on, "greedy", bool)
                await on.client.patch(NODES, "t4-4x-pcie-1", {"metadata": {"labels": {"changed": "yes"}}})
                await quiet(on)
            async with annotated(on):
                await quiet(on)
                (event,) = await annotator_events(on, "greedy")
                assert "series" not in event
                await on.client.patch(NODES, "t4-4x-pcie-1", {"spec": {"unschedulable": True}})
                _, other = await until(on, "greedy", lambda events: len(events) == 2)
                assert other["message"].splitlines()[0] != event["message"].splitlines()[0]

    asyncio.run(scenario())


def test_a_recurring_reason_is_not_repeated_after_a_restart() -> None:
    async def cordoned(on: LabHarness, *, yes: bool) -> None:
        await on.client.patch(NODES, "t4-4x-pcie-1", {"spec": {"unschedulable": yes}})

    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on:
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("greedy", "nine"), "default")
            async with annotated(on):
                await until(on, "greedy", bool)
                await cordoned(on, yes=True)
                await until(on, "greedy", lambda events: len(events) == 2)
                await cordoned(on, yes=False)
                before = await until(on, "greedy", lambda events: any("series" in event for event in events))
            async with annotated(on):
                await quiet(on)
                assert await annotator_events(on, "greedy") == before

    asyncio.run(scenario())


def test_an_event_is_written_again_after_the_server_deleted_it() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on, clock=HALF_HOUR_A_SECOND):
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("greedy", "nine"), "default")
            (event,) = await until(on, "greedy", bool)
            await on.client.delete(EVENTS, event["metadata"]["name"], "default")
            (again,) = await until(on, "greedy", bool)
            assert again["message"] == event["message"]

    asyncio.run(scenario())


def test_an_event_of_an_earlier_process_is_repeated_before_the_server_deletes_it() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on:
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("greedy", "nine"), "default")
            async with annotated(on):
                (event,) = await until(on, "greedy", bool)
            async with annotated(on, clock=HALF_HOUR_A_SECOND):
                _, again = await until(on, "greedy", lambda events: len(events) == 2)
                assert again["message"] == event["message"]
                assert again["metadata"]["annotations"] == event["metadata"]["annotations"]

    asyncio.run(scenario())


def test_a_pod_that_fits_is_reported_only_after_its_scheduler_rejected_it() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on):
            await on.client.create(CLAIM_TEMPLATES, template("one"), "default")
            await on.client.create(PODS, pod("fine", "one"), "default")
            await quiet(on)
            assert await annotator_events(on, "fine") == []
            await reject(on, "fine")
            (event,) = await until(on, "fine", bool)
            assert (event["type"], event["reason"]) == ("Normal", AVAILABLE)
            assert event["message"].startswith("The pod's claims now fit on node t4-4x-pcie-1 (gpu-0).")

    asyncio.run(scenario())


def test_pods_without_devices_or_not_to_be_scheduled_are_ignored() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on):
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            plain = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "999"}}}]}
            gated = pod("gated", "nine", schedulingGates=[{"name": "wait"}])
            for tree in (
                {"metadata": {"name": "plain"}, "spec": {"schedulerName": "another", **plain}},
                gated,
                pod("placed", "nine", nodeName="t4-4x-pcie-1"),
                pod("greedy", "nine"),
            ):
                await on.client.create(PODS, tree, "default")
            await until(on, "greedy", bool)
            await quiet(on)
            assert [await annotator_events(on, name) for name in ("plain", "gated", "placed")] == [[], [], []]

    asyncio.run(scenario())


def test_a_pod_is_explained_only_after_the_delay() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",), speed=5.0) as on, annotated(on, delay=10.0):
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            made = await on.client.create(PODS, pod("greedy", "nine"), "default")
            await until(on, "greedy", bool)
            assert on.plane.clock.left(made["metadata"]["creationTimestamp"], 10.0) <= 0

    asyncio.run(scenario())


def test_the_delay_starts_when_the_pod_becomes_pending() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",), speed=10.0) as on, annotated(on, delay=10.0):
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("gated", "nine", schedulingGates=[{"name": "wait"}]), "default")
            await quiet(on, 12.0)
            start = on.plane.clock.moment()
            await on.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "default")
            (event,) = await until(on, "gated", bool)
            assert (parse(event["eventTime"]) - start).total_seconds() * 10.0 >= 10.0

    asyncio.run(scenario())


def test_time_without_a_connection_does_not_count() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",), speed=10.0) as on:
            line = Line(on.plane.client(NAME))
            async with annotated(on, line, delay=40.0) as caches:
                await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
                await on.client.create(PODS, pod("greedy", "nine"), "default")
                while caches.trees(PODS).item("default", "greedy") is None:
                    await asyncio.sleep(0.01)
                line.cut()
                await quiet(on, 45.0)
                assert await annotator_events(on, "greedy") == []  # it may have been placed already
                start = on.plane.clock.moment()
                line.reconnect()
                (event,) = await until(on, "greedy", bool)
                assert (parse(event["eventTime"]) - start).total_seconds() * 10.0 >= 40.0

    asyncio.run(scenario())


def test_many_pending_pods_are_explained_in_batches() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on:
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            for number in range(7):
                await on.client.create(PODS, pod(f"greedy-{number}", "nine"), "default")
            async with annotated(on, most=3, every=0.5):
                for number in range(7):
                    await until(on, f"greedy-{number}", bool)
                # Each is explained again after a change.
                await on.client.patch(NODES, "t4-4x-pcie-1", {"spec": {"unschedulable": True}})
                for number in range(7):
                    await until(on, f"greedy-{number}", lambda events: len(events) == 2)

    asyncio.run(scenario())


def test_waiting_for_a_cpu_does_not_delay_the_next_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    class BusyMachine(Clock):
        waited = 0.0

        def seconds(self) -> float:
            return super().seconds() + self.waited

    clock = BusyMachine()

    def explained_slowly(*arguments: Any, **options: Any) -> Explanation:
        clock.waited += 3600.0
        return explain(*arguments, **options)

    monkeypatch.setattr(annotator_program, "explain", explained_slowly)

    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as on, annotated(on, clock=clock):
            await on.client.create(CLAIM_TEMPLATES, template("nine", 9), "default")
            await on.client.create(PODS, pod("greedy", "nine"), "default")
            await until(on, "greedy", bool)
            await reject(on, "greedy")
            await until(on, "greedy", lambda events: SCHEDULER_MESSAGE in events[-1]["message"])

    asyncio.run(scenario())


def test_a_pod_is_explained_with_all_pods_of_its_gang() -> None:
    """Although each batch has only one pod: four of five devices are there."""
    features = Features("1.37", {"GenericWorkload": True})

    async def scenario() -> None:
        async with lab_harness(features, fleet=("t4-4x-pcie",)) as on, annotated(on, features=features, most=1):
            policy = {"schedulingPolicy": {"gang": {"minCount": 5}}}
            await on.client.create(POD_GROUPS, {"metadata": {"name": "train"}, "spec": policy}, "default")
            await on.client.create(CLAIM_TEMPLATES, template("one"), "default")
            for number in range(5):
                member = pod(f"p{number}", "one", schedulingGroup={"podGroupName": "train"})
                await on.client.create(PODS, member, "default")
            for name in ("p0", "p4"):
                await until(on, name, lambda events: events and "4 of the 5 pods that gang" in events[-1]["message"])

    asyncio.run(scenario())
