"""When the cycle collector has its turn."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from allotment.cluster import gc_tuning
from allotment.cluster.gc_pause import gc_paused
from allotment.cluster.gc_tuning import GcState, collect_when_idle
from tests.unit.cluster import idle


@pytest.mark.parametrize(
    ("look", "due"),
    [
        (GcState(new=0, busy=0, since_all=60), False),
        (GcState(new=100_000, busy=0, since_all=60), True),
        (GcState(new=100_000, busy=0.5, since_all=60), False),
        (GcState(new=5_000_000, busy=1, since_all=60), True),
        (GcState(new=0, busy=0, since_all=5000), True),
        (GcState(new=0, busy=1, since_all=5000), False),
        (GcState(new=0, busy=0, since_all=60, grown=True), True),
        (GcState(new=0, busy=0.5, since_all=60, grown=True), False),
    ],
)
def test_collection_waits_for_idle_time_up_to_a_limit(look: GcState, due: bool) -> None:
    assert look.due == due


def test_the_old_generation_is_collected_only_when_idle() -> None:
    assert GcState(0, 0, 5000).all_due
    assert not GcState(5_000_000, 1, 5000).all_due


def test_cycles_are_collected_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_tuning, "_EVERY", 0.01)
    monkeypatch.setattr(gc_tuning, "_SOME", 1000)
    monkeypatch.setattr(gc_tuning, "_QUIET", 1000.0)

    async def scenario() -> None:
        task = asyncio.create_task(collect_when_idle())
        await asyncio.sleep(0)
        assert not gc.isenabled()
        for _ in range(2000):
            cycle: list[object] = []
            cycle.append(cycle)
        del cycle
        assert gc.get_count()[0] > 1000
        async with asyncio.timeout(50):
            while gc.get_count()[0] > 1000:
                await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0

    asyncio.run(scenario())


def test_old_cycles_are_collected_after_much_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as of connections that were open, and frozen, at an earlier collection."""
    resident = 100 << 20
    monkeypatch.setattr("time.process_time", lambda: 0.0)
    monkeypatch.setattr(gc_tuning, "_resident", lambda: resident)

    async def scenario() -> None:
        nonlocal resident
        cycle = Cycle()
        cycle.itself = cycle
        gone = weakref.ref(cycle)
        task = asyncio.create_task(collect_when_idle())
        await asyncio.sleep(5)
        del cycle
        resident = 120 << 20
        await asyncio.sleep(5)
        assert gone() is not None
        resident = 140 << 20
        await asyncio.sleep(5)
        assert gone() is None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    idle.run(scenario())


class Cycle:
    """An object that refers to itself."""

    itself: Cycle


def test_no_collection_runs_during_startup() -> None:
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_memory_is_returned_when_idle_after_work(monkeypatch: pytest.MonkeyPatch) -> None:
    used = 0.0
    returned: list[float] = []
    monkeypatch.setattr("time.process_time", lambda: used)
    monkeypatch.setattr(gc_tuning, "_return_memory", lambda: returned.append(used))
    monkeypatch.setattr(gc_tuning, "_resident", lambda: 0)

    async def scenario() -> None:
        nonlocal used
        task = asyncio.create_task(collect_when_idle())
        await asyncio.sleep(5)
        for seconds in (0.5, 1.5, 1.9, 2.5):
            used = seconds
            await asyncio.sleep(5)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    idle.run(scenario())
    assert returned == [1.5, 2.5]


def test_memory_is_returned_when_idle_after_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many connections that do nothing use memory, but hardly any time."""
    resident = 70 << 20
    returned: list[int] = []
    monkeypatch.setattr("time.process_time", lambda: 0.0)
    monkeypatch.setattr(gc_tuning, "_return_memory", lambda: returned.append(resident >> 20))
    monkeypatch.setattr(gc_tuning, "_resident", lambda: resident)

    async def scenario() -> None:
        nonlocal resident
        task = asyncio.create_task(collect_when_idle())
        for mebibytes in (70, 80, 90, 100, 80, 120):
            resident = mebibytes << 20
            await asyncio.sleep(5)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    idle.run(scenario())
    assert returned == [90, 120]


def test_the_memory_of_the_c_library_can_be_returned() -> None:
    gc_tuning._return_memory()
