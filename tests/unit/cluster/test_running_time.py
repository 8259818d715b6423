"""Running time counts what a process could use, and not what its clock says."""

from __future__ import annotations

import asyncio
import logging

import pytest

from allotment.cluster.running_time import RunningTime
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock


@pytest.mark.parametrize(("speed", "step"), [(0.5, 0.5), (1, 1), (20, 5), (1000, 100)])
def test_a_pause_counts_for_no_more_than_a_step(speed: float, step: float) -> None:
    async def story() -> None:
        time = RunningTime(IdleClock(speed))
        task = asyncio.create_task(time.run())
        await asyncio.sleep(100)
        assert time.seconds() == pytest.approx(100 * speed)
        await asyncio.sleep(0.03)
        before = time.seconds()
        idle.stand_still(3600)
        assert before < time.seconds() <= before + step
        await asyncio.sleep(100)
        assert time.seconds() <= before + step + 100 * speed
        task.cancel()

    idle.run(story())


@pytest.mark.parametrize(("pause", "lines"), [(2, 0), (50, 1)])
def test_a_long_pause_is_logged(pause: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        time = RunningTime(IdleClock())
        task = asyncio.create_task(time.run())
        await asyncio.sleep(10)
        idle.stand_still(pause)
        await asyncio.sleep(10)
        task.cancel()

    caplog.set_level(logging.INFO)
    idle.run(story())
    assert len(caplog.records) == lines
    assert all("did not run for 50 s" in record.message for record in caplog.records)
