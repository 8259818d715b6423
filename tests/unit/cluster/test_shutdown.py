"""Whoever is to stop is told once, and whatever waits for something else is woken."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.shutdown import NEVER, Stopping
from tests.unit.cluster import idle


async def _soon() -> None:
    await asyncio.sleep(0)


async def _never() -> None:
    await asyncio.Event().wait()


async def _fails() -> None:
    raise RuntimeError("a mistake")


def test_who_waits_for_something_is_woken_when_it_begins() -> None:
    async def story() -> None:
        stopping = Stopping()
        waiting = asyncio.create_task(stopping.unless(_never()))
        ending = asyncio.create_task(stopping.wait())
        await asyncio.sleep(0)
        assert await stopping.unless(_soon())
        assert not waiting.done()
        stopping.begin()
        assert await waiting is False
        await ending
        assert not await stopping.unless(_soon()), "it has begun: nothing is waited for any more"
        await stopping.wait()

    idle.run(story())


def test_what_fails_is_told_to_who_waits() -> None:
    with pytest.raises(RuntimeError, match="a mistake"):
        idle.run(NEVER.unless(_fails()))


def test_nobody_is_told_after_it_went() -> None:
    stopping = Stopping()
    told: list[str] = []
    with stopping.telling(lambda: told.append("inside")):
        pass
    stopping.begin()
    assert told == []
