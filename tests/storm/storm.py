"""Cycle after cycle: start, compare with what was acknowledged, load, kill. At the end, peace, and a last look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.storm import checks
from tests.storm.ledger import Ledger
from tests.storm.load import Worker, prepare
from tests.storm.process import LabProcess

_PEACE_SECONDS = 60.0


class Broken(Exception):
    """The lab did not keep its word; says how, and with which seed."""


class Outcome(NamedTuple):
    """What was done and seen."""

    cycles: int
    acknowledged: int
    unanswered: int
    slowest_start: float
    settled_after: float


async def storm(
    folder: Path, *, cycles: int, seed: int, workers: int = 8, longest: float = 1.5, fleet: str = "dgx-a100-40gb:4",
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:  # fmt: skip
    """Run it. Raises Broken."""
    random = Random(seed)
    ledger = Ledger()
    crew = [Worker(number, ledger, Random(random.getrandbits(64))) for number in range(workers)]
    lab = LabProcess(folder, fleet)
    slowest = 0.0
    try:
        for cycle in range(1, cycles + 1):
            started = lab.start()
            slowest = max(slowest, started)
            await _compared(lab, ledger, crew, seed, cycle)
            await prepare(lab.url)
            seconds = random.uniform(0.0, longest)
            await _loaded(lab, crew, seconds)
            say(f"cycle {cycle}: ready in {started:.2f} s, killed after {seconds:.2f} s, {ledger.acknowledged} writes")
        slowest = max(slowest, lab.start())
        await _compared(lab, ledger, crew, seed, cycles + 1)
        settled = await _at_peace(lab, seed)
        if lab.stop() != 0:
            raise Broken(f"it did not stop cleanly:\n{lab.tail()}")
        if lab.crashed():
            raise Broken(f"seed {seed}: something in it crashed: see {lab.log}\n{lab.crashed()}")
    except BaseException:
        lab.kill()
        raise
    return Outcome(cycles, ledger.acknowledged, ledger.unanswered, slowest, settled)


async def _compared(lab: LabProcess, ledger: Ledger, crew: list[Worker], seed: int, cycle: int) -> None:
    world = await checks.look(lab.url)
    found = world.found()
    wrong = [*ledger.compared(found), *checks.doubly_allocated(world)]
    if wrong:
        raise Broken(f"seed {seed}, cycle {cycle}:\n" + "\n".join(wrong))
    ledger.settle(found)
    for worker in crew:
        worker.resume(found)


async def _loaded(lab: LabProcess, crew: list[Worker], seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        for worker in crew:
            group.create_task(worker.run(lab.url))
        await asyncio.sleep(seconds)
        lab.kill()


async def _at_peace(lab: LabProcess, seed: int) -> float:
    """Wait until nothing is left to do; returns how long that took."""
    began = time.monotonic()
    while True:
        world = await checks.look(lab.url)
        wrong = list(checks.doubly_allocated(world))
        if wrong:
            raise Broken(f"seed {seed}, at the end:\n" + "\n".join(wrong))
        waiting = list(checks.unsettled(world))
        if not waiting:
            return time.monotonic() - began
        if time.monotonic() - began > _PEACE_SECONDS:
            raise Broken(f"seed {seed}, not settled after {_PEACE_SECONDS:g} s:\n" + "\n".join(waiting))
        await asyncio.sleep(0.2)
