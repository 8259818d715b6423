"""Programs run concurrently; a crashed one is restarted."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client
from allotment.cluster.program import ProgramContext, run, run_queues
from allotment.cluster.recorder import Events
from allotment.cluster.resources import PODS
from allotment.cluster.work_queue import WorkQueue
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient


def context_of(client: MemoryClient) -> ProgramContext:
    clock, random = idle.IdleClock(speed=100), Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    return ProgramContext(
        client_for, Caches(client, clock=clock, random=random), clock, Events(client, clock=clock), random
    )


def test_a_crashed_or_ended_program_is_restarted_without_affecting_others() -> None:
    async def scenario() -> None:
        starts = {"crashes": 0, "ends": 0, "runs": 0}

        async def crashes(context: ProgramContext) -> None:
            starts["crashes"] += 1
            raise RuntimeError("a mistake")

        async def ends(context: ProgramContext) -> None:
            starts["ends"] += 1

        async def runs(context: ProgramContext) -> None:
            starts["runs"] += 1
            await asyncio.Event().wait()

        programs = {"crashes": crashes, "ends": ends, "runs": runs}
        task = asyncio.create_task(run(programs, context_of(MemoryClient())))
        await asyncio.sleep(0.05)
        task.cancel()
        assert starts["crashes"] > 2
        assert starts["ends"] > 2
        assert starts["runs"] == 1

    idle.run(scenario())


def test_a_restarted_program_is_notified_of_each_change_once() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        context = context_of(client)
        pods = context.caches.trees(PODS)
        lives: list[list[str]] = []

        async def program(context: ProgramContext) -> None:
            names: list[str] = []
            lives.append(names)

            def changed(old: CachedItem[object] | None, new: CachedItem[object] | None) -> None:
                names.append(new.name if new else "")

            async def work(key: str) -> None:
                raise AssertionError("there is no work")

            queue: WorkQueue[str] = WorkQueue("none", work, clock=context.clock, random=context.random)
            async with asyncio.timeout(0.02):
                await run_queues([queue], [(pods, changed)])

        task = asyncio.create_task(run({"program": program}, context))
        for number in range(200):
            over = [tuple(names) for names in lives[:-1]]
            client.put(PODS, {"metadata": {"namespace": "ns", "name": str(number)}})
            await asyncio.sleep(0.005)
            assert [tuple(names) for names in lives[: len(over)]] == over
        assert len(lives) > 2
        assert all(names and len(names) == len(set(names)) for names in lives)
        task.cancel()

    idle.run(scenario())


def test_a_faster_clock_shortens_waits_and_keeps_timestamps() -> None:
    async def scenario() -> None:
        clock = idle.IdleClock(speed=100)
        start = asyncio.get_running_loop().time()
        await clock.sleep(1)
        assert asyncio.get_running_loop().time() - start == pytest.approx(0.01)
        assert clock.left(clock.moment(), 50) == 50
        assert clock.left("2026-01-01T00:00:00Z", 10) < 0
        rung = asyncio.Event()
        clock.later(1, rung.set)
        clock.later(0.1, lambda: None).cancel()
        async with asyncio.timeout(1):
            await rung.wait()

    idle.run(scenario())


def test_a_clock_always_advances() -> None:
    with pytest.raises(ValueError, match="speed: expected a positive number, found 0"):
        idle.IdleClock(0)
