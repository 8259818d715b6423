"""Programs run beside each other; one that crashes is started again."""

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


def test_a_program_that_crashes_or_ends_is_started_again_and_the_others_never_notice() -> None:
    async def story() -> None:
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

    idle.run(story())


def test_a_program_that_was_started_again_is_told_each_change_once() -> None:
    async def story() -> None:
        client = MemoryClient()
        context = context_of(client)
        pods = context.caches.trees(PODS)
        lives: list[list[str]] = []

        async def program(context: ProgramContext) -> None:
            told: list[str] = []
            lives.append(told)

            def changed(old: CachedItem[object] | None, new: CachedItem[object] | None) -> None:
                told.append(new.name if new else "")

            async def work(key: str) -> None:
                raise AssertionError("there is no work")

            queue: WorkQueue[str] = WorkQueue("none", work, clock=context.clock, random=context.random)
            async with asyncio.timeout(0.02):
                await run_queues([queue], [(pods, changed)])

        task = asyncio.create_task(run({"program": program}, context))
        for number in range(200):
            over = [tuple(told) for told in lives[:-1]]
            client.put(PODS, {"metadata": {"namespace": "ns", "name": str(number)}})
            await asyncio.sleep(0.005)
            assert [tuple(told) for told in lives[: len(over)]] == over
        assert len(lives) > 2
        assert all(told and len(told) == len(set(told)) for told in lives)
        task.cancel()

    idle.run(story())


def test_a_clock_that_runs_faster_waits_less_and_still_stamps_true() -> None:
    async def story() -> None:
        clock = idle.IdleClock(speed=100)
        began = asyncio.get_running_loop().time()
        await clock.sleep(1)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.01)
        assert clock.left(clock.moment(), 50) == 50
        assert clock.left("2026-01-01T00:00:00Z", 10) < 0
        rung = asyncio.Event()
        clock.later(1, rung.set)
        clock.later(0.1, lambda: None).cancel()
        async with asyncio.timeout(1):
            await rung.wait()

    idle.run(story())


def test_a_clock_does_not_stand_still() -> None:
    with pytest.raises(ValueError, match="speed: expected a positive number, found 0"):
        idle.IdleClock(0)
