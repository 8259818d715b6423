"""In cycles: start the lab, compare it with the acknowledged writes, load it, kill it; at the end wait until it
settles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.storm import checks
from tests.storm.ledger import Ledger
from tests.storm.load import Worker, create_objects
from tests.storm.process import LabProcess

_SETTLE_SECONDS = 60.0


class InvariantViolated(Exception):
    """Raised when the lab broke an invariant; says which, and with which seed."""


class Outcome(NamedTuple):
    """The outcome of a storm."""

    cycles: int
    acknowledged: int
    unanswered: int
    slowest_start: float
    settled_after: float


async def storm(
    folder: Path, *, cycles: int, seed: int, workers: int = 8, longest: float = 1.5, fleet: str = "dgx-a100-40gb:4",
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:  # fmt: skip
    """Run the storm. Raises Broken."""
    random = Random(seed)
    ledger = Ledger()
    workers_ = [Worker(number, ledger, Random(random.getrandbits(64))) for number in range(workers)]
    lab = LabProcess(folder, fleet)
    slowest = 0.0
    try:
        for cycle in range(1, cycles + 1):
            started = lab.start()
            slowest = max(slowest, started)
            await _check(lab, ledger, workers_, seed, cycle)
            await create_objects(lab.url)
            seconds = random.uniform(0.0, longest)
            await _load(lab, workers_, seconds)
            say(f"cycle {cycle}: ready in {started:.2f} s, killed after {seconds:.2f} s, {ledger.acknowledged} writes")
        slowest = max(slowest, lab.start())
        await _check(lab, ledger, workers_, seed, cycles + 1)
        settled = await _wait_until_settled(lab, seed)
        if lab.stop() != 0:
            raise InvariantViolated(f"it did not stop cleanly:\n{lab.tail()}")
        if lab.first_traceback():
            raise InvariantViolated(f"seed {seed}: something in it crashed: see {lab.log}\n{lab.first_traceback()}")
    except BaseException:
        lab.kill()
        raise
    return Outcome(cycles, ledger.acknowledged, ledger.unanswered, slowest, settled)


async def _check(lab: LabProcess, ledger: Ledger, workers_: list[Worker], seed: int, cycle: int) -> None:
    objects = await checks.read_objects(lab.url)
    found = objects.found()
    wrong = [*ledger.compare(found), *checks.doubly_allocated(objects)]
    if wrong:
        raise InvariantViolated(f"seed {seed}, cycle {cycle}:\n" + "\n".join(wrong))
    ledger.settle(found)
    for worker in workers_:
        worker.resume(found)


async def _load(lab: LabProcess, workers_: list[Worker], seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        for worker in workers_:
            group.create_task(worker.run(lab.url))
        await asyncio.sleep(seconds)
        lab.kill()


async def _wait_until_settled(lab: LabProcess, seed: int) -> float:
    """Wait until nothing is pending; return how long that took."""
    start = time.monotonic()
    while True:
        objects = await checks.read_objects(lab.url)
        wrong = list(checks.doubly_allocated(objects))
        if wrong:
            raise InvariantViolated(f"seed {seed}, at the end:\n" + "\n".join(wrong))
        waiting = list(checks.pending_work(objects))
        if not waiting:
            return time.monotonic() - start
        if time.monotonic() - start > _SETTLE_SECONDS:
            raise InvariantViolated(f"seed {seed}, not settled after {_SETTLE_SECONDS:g} s:\n" + "\n".join(waiting))
        await asyncio.sleep(0.2)
