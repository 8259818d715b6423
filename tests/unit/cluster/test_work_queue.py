"""A key is processed once even if added several times, and again after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.shutdown import Shutdown
from allotment.cluster.work_queue import WorkQueue
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock

CLOCK = IdleClock()


def test_a_key_added_many_times_is_processed_once() -> None:
    async def scenario() -> None:
        done: list[str] = []

        async def work(key: str) -> None:
            done.append(key)

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1))
        for key in "abab":
            queue.add(key)
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0.01)
        assert done == ["a", "b"]
        task.cancel()

    idle.run(scenario())


def test_a_key_added_during_processing_is_processed_again() -> None:
    async def scenario() -> None:
        running: Counter[str] = Counter()
        most = 0
        done = 0

        async def work(key: str) -> None:
            nonlocal most, done
            running[key] += 1
            most = max(most, running[key])
            if not done:
                queue.add(key)
            await asyncio.sleep(0.002)
            running[key] -= 1
            done += 1

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1))
        queue.add("a")
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0.03)
        assert (most, done, len(queue)) == (1, 2, 0)
        task.cancel()

    idle.run(scenario())


def test_failed_keys_are_retried_until_they_succeed() -> None:
    async def scenario() -> None:
        tries = 0

        async def work(key: str) -> None:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise RuntimeError("not yet")

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1))
        task = asyncio.create_task(queue.run())
        queue.add("a")
        await asyncio.sleep(0.1)
        assert tries == 4
        task.cancel()

    idle.run(scenario())


def test_the_earliest_of_several_delays_applies() -> None:
    async def scenario() -> None:
        done: list[str] = []

        async def work(key: str) -> None:
            done.append(key)

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1))
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0)
        queue.add("a", after=60)
        queue.add("a", after=0.005)
        queue.add("a", after=60)
        queue.add("b", after=0.005)
        queue.cancel("b")
        await asyncio.sleep(0.03)
        assert done == ["a"]
        task.cancel()

    idle.run(scenario())


def test_work_can_request_to_be_repeated_later() -> None:
    async def scenario() -> None:
        done = 0

        async def work(key: str) -> float | None:
            nonlocal done
            done += 1
            return 0.001 if done < 3 else None

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1))
        task = asyncio.create_task(queue.run())
        queue.add("a")
        await asyncio.sleep(0.03)
        assert done == 3
        task.cancel()

    idle.run(scenario())


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.integers(1, 4))
def test_every_key_is_processed_and_never_concurrently(keys: list[str], workers: int) -> None:
    async def scenario() -> None:
        running: set[str] = set()
        done: Counter[str] = Counter()

        async def work(key: str) -> None:
            assert key not in running
            assert len(running) < workers
            running.add(key)
            await asyncio.sleep(0)
            running.discard(key)
            done[key] += 1

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1), workers=workers)
        task = asyncio.create_task(queue.run())
        for number, key in enumerate(keys):
            queue.add(key)
            if number % 3 == 0:
                await asyncio.sleep(0)
        while len(queue):
            await asyncio.sleep(0)
        assert set(done) == set(keys)
        task.cancel()

    idle.run(scenario())


async def refused(key: int) -> None:
    raise StatusError({"code": 409})


async def done(key: int) -> None:
    pass


async def soon(key: int) -> float:
    return 0.0


@pytest.mark.parametrize("work", [refused, done, soon])
@pytest.mark.parametrize("keys", [1, 40])
def test_work_that_never_waits_does_not_block_the_event_loop(
    work: Callable[[int], Awaitable[float | None]], keys: int
) -> None:
    """All controllers have such a queue: none of them may hold the event loop, whatever the objects say."""
    most = 10_000

    async def scenario() -> None:
        items = 0

        async def add_more(key: int) -> float | None:
            nonlocal items
            items += 1
            if items < most:
                queue.add(key)
                queue.add((key + 1) % keys)
            return await work(key)

        queue = WorkQueue("test", add_more, clock=CLOCK, random=Random(1), workers=4)
        task = asyncio.create_task(queue.run())
        queue.add(0)
        turns = 0
        while items < most:
            before = items
            await asyncio.sleep(0)
            assert items - before <= 4, "between two turns of the event loop each worker works on one key"
            turns += 1
        assert turns >= most / 4
        task.cancel()

    idle.run(scenario())


def test_stopping_finishes_the_work_in_flight_and_starts_no_more() -> None:
    async def scenario() -> None:
        started, done = [], []
        go_on = asyncio.Event()

        async def work(key: str) -> None:
            started.append(key)
            await go_on.wait()
            done.append(key)

        stopping = Shutdown()
        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1), workers=2)
        for key in "abc":
            queue.add(key)
        task = asyncio.create_task(queue.run(stopping))
        await asyncio.sleep(0.01)
        assert started == ["a", "b"]
        stopping.start()
        queue.add("d")
        await asyncio.sleep(0.01)
        assert not task.done()
        go_on.set()
        await asyncio.wait_for(task, 1)
        assert done == started == ["a", "b"]

    idle.run(scenario())


@pytest.mark.parametrize(
    ("error", "level", "records"),
    [
        (Unreachable("gone"), logging.INFO, 1),
        (StatusError({"code": 503}), logging.WARNING, 1),
        (StatusError({"code": 429}), logging.WARNING, 1),
        (StatusError({"code": 422}), logging.WARNING, 50),
    ],
)
def test_an_error_common_to_all_keys_is_logged_once(
    error: Exception, level: int, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async def work(key: int) -> None:
            raise error

        queue = WorkQueue("test", work, clock=CLOCK, random=Random(1), first_wait=60)
        task = asyncio.create_task(queue.run())
        for key in range(50):
            queue.add(key)
        await asyncio.sleep(0.05)
        task.cancel()

    idle.run(scenario())
    assert [record.levelno for record in caplog.records] == [level] * records
