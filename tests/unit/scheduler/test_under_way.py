"""What was begun is waited for; what goes on for ever is called off."""

from __future__ import annotations

import asyncio

import pytest

from allotment.scheduler.program import UnderWay
from tests.unit.cluster import idle


async def _for_ever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("for ever")


def test_work_ends_before_what_goes_on_beside_it() -> None:
    async def scenario() -> list[str]:
        ended: list[str] = []
        under_way = UnderWay()

        async def work() -> None:
            await asyncio.sleep(0.01)
            ended.append("first")
            under_way.start(more(), "more")

        async def more() -> None:
            await asyncio.sleep(0.01)
            ended.append("what came of it")

        async with under_way.going(_for_ever(ended)):
            under_way.start(work(), "work")
            ended.append("nothing more is begun")
        return ended

    assert idle.run(scenario()) == ["nothing more is begun", "first", "what came of it", "for ever"]


def test_work_that_crashes_ends_everything() -> None:
    async def scenario() -> None:
        under_way = UnderWay()

        async def work() -> None:
            raise ZeroDivisionError

        ended: list[str] = []

        async def begin() -> None:
            async with under_way.going(_for_ever(ended)):
                under_way.start(work(), "work")
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as caught:
            await begin()
        assert caught.group_contains(ZeroDivisionError)
        assert ended == ["for ever"]

    idle.run(scenario())
