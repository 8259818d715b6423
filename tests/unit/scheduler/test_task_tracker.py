"""Started tasks are awaited; background tasks are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from allotment.scheduler.program import TaskTracker
from tests.unit.cluster import idle


async def _background(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("background")


def test_tasks_finish_before_the_background_is_cancelled() -> None:
    async def scenario() -> list[str]:
        ended: list[str] = []
        tasks = TaskTracker()

        async def work() -> None:
            await asyncio.sleep(0.01)
            ended.append("first")
            tasks.start(more(), "more")

        async def more() -> None:
            await asyncio.sleep(0.01)
            ended.append("follow-up")

        async with tasks.running(_background(ended)):
            tasks.start(work(), "work")
            ended.append("body")
        return ended

    assert idle.run(scenario()) == ["body", "first", "follow-up", "background"]


def test_a_failing_task_cancels_everything() -> None:
    async def scenario() -> None:
        tasks = TaskTracker()

        async def work() -> None:
            raise ZeroDivisionError

        ended: list[str] = []

        async def run() -> None:
            async with tasks.running(_background(ended)):
                tasks.start(work(), "work")
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as caught:
            await run()
        assert caught.group_contains(ZeroDivisionError)
        assert ended == ["background"]

    idle.run(scenario())
