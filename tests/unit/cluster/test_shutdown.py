"""Whoever is to stop is told once, and whatever waits for something else is woken."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.shutdown import NEVER, Shutdown
from tests.unit.cluster import idle


async def _soon() -> None:
    await asyncio.sleep(0)


async def _never() -> None:
    await asyncio.Event().wait()


async def _fails() -> None:
    raise RuntimeError("a mistake")


def test_who_waits_for_something_is_woken_when_it_begins() -> None:
    async def story() -> None:
        stopping = Shutdown()
        waiting = asyncio.create_task(stopping.run_until_shutdown(_never()))
        ending = asyncio.create_task(stopping.wait())
        await asyncio.sleep(0)
        assert await stopping.run_until_shutdown(_soon())
        assert not waiting.done()
        stopping.start()
        assert await waiting is False
        await ending
        assert not await stopping.run_until_shutdown(_soon()), "it has begun: nothing is waited for any more"
        await stopping.wait()

    idle.run(story())


def test_what_fails_is_told_to_who_waits() -> None:
    with pytest.raises(RuntimeError, match="a mistake"):
        idle.run(NEVER.run_until_shutdown(_fails()))


def test_nobody_is_told_after_it_went() -> None:
    stopping = Shutdown()
    told: list[str] = []
    with stopping.callback(lambda: told.append("inside")):
        pass
    stopping.start()
    assert told == []
