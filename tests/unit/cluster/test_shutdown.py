"""A shutdown calls its callbacks once and cancels waiting tasks."""

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


def test_a_waiting_task_is_cancelled_on_shutdown() -> None:
    async def scenario() -> None:
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

    idle.run(scenario())


def test_an_error_is_raised_in_the_waiting_task() -> None:
    with pytest.raises(RuntimeError, match="a mistake"):
        idle.run(NEVER.run_until_shutdown(_fails()))


def test_a_removed_callback_is_not_called() -> None:
    stopping = Shutdown()
    called: list[str] = []
    with stopping.callback(lambda: called.append("inside")):
        pass
    stopping.start()
    assert called == []
