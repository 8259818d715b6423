"""In cycles: start the lab, compare it with the acknowledged writes and events, load it, kill it; at the end wait until
it settles.

A third of the kills is at a random time. The others are at the moment when a client gets an answer, or an event of a
watch; then the disk is slow, so that a write that is not on the disk at that moment is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

from aiohttp import ClientSession, ClientTimeout

from tests.storm import checks
from tests.storm.lab_program import DISK_SECONDS, FAULT, HISTORY
from tests.storm.ledger import Ledger
from tests.storm.load import PATHS, Worker, WrongAnswer, create_objects
from tests.storm.mirror import Mirror
from tests.storm.process import LabProcess

Moment = Literal["time", "answer", "event"]

_SETTLE_SECONDS: Final = 60.0
#: Seconds of a write to the slow disk.
_SLOW: Final = 0.02
#: Seconds after which a lab is killed that does not answer.
_KILL_TIMEOUT: Final = 5.0
#: Revisions in the history of the lab: few, so that the log is merged during a storm.
_HISTORY: Final = 300


class InvariantViolated(Exception):
    """Raised when the lab broke an invariant; says which, and with which seed."""


class Outcome(NamedTuple):
    """The outcome of a storm."""

    cycles: int
    acknowledged: int
    unanswered: int
    events: int
    slowest_start: float
    settled_after: float


class _Trigger:
    """Kills the lab at the next moment of a kind."""

    def __init__(self, lab: LabProcess) -> None:
        self._lab = lab
        self._armed: Moment | None = None
        self._fired = asyncio.Event()

    def reached(self, moment: Moment) -> None:
        """Kill the lab if this is the moment."""
        if self._armed == moment:
            self._armed = None
            self._lab.kill()
            self._fired.set()

    async def kill(self, moment: Moment) -> None:
        """Kill the lab at the next such moment; after some seconds in any case."""
        self._fired.clear()
        self._armed = moment
        self.reached("time")
        try:
            await asyncio.wait_for(self._fired.wait(), _KILL_TIMEOUT)
        except TimeoutError:
            self._armed = "time"
            self.reached("time")


async def storm(
    folder: Path, *, cycles: int, seed: int, workers: int = 8, longest: float = 1.5, fleet: str = "dgx-a100-40gb:4",
    fault: str = "", settle_seconds: float = _SETTLE_SECONDS, say: Callable[[str], None] = lambda line: None,
) -> Outcome:  # fmt: skip
    """Run the storm. ``fault``: one of :mod:`tests.storm.faults` to plant. Raises InvariantViolated."""
    random = Random(seed)
    ledger = Ledger()
    lab = LabProcess(folder, fleet, module="tests.storm.lab_program")
    trigger = _Trigger(lab)
    workers_ = [
        Worker(number, ledger, Random(random.getrandbits(64)), lambda: trigger.reached("answer"))
        for number in range(workers)
    ]
    mirrors = [
        Mirror(bucket, PATHS[bucket], lambda: trigger.reached("event"))
        for bucket in ("pods", "resourceclaims", "configmaps")
    ]
    common = {FAULT: fault, HISTORY: str(_HISTORY)}
    slowest = 0.0
    try:
        for cycle in range(1, cycles + 1):
            moment: Moment = random.choice(("time", "answer", "event"))
            seconds = random.uniform(0.0, longest)
            started = lab.start({**common, DISK_SECONDS: "0" if moment == "time" else str(_SLOW)})
            slowest = max(slowest, started)
            where = f"seed {seed}, cycle {cycle}"
            await _check(lab, ledger, workers_, mirrors, where)
            await create_objects(lab.url)
            await _load(lab, workers_, mirrors, cycle, where, partial(_later, trigger, moment, seconds))
            say(
                f"cycle {cycle}: ready in {started:.2f} s, killed after {seconds:.2f} s, at {moment}; "
                f"{ledger.acknowledged} writes"
            )
        slowest = max(slowest, lab.start(common))
        where = f"seed {seed}, at the end"
        await _check(lab, ledger, workers_, mirrors, where)
        settled = await _wait_until_settled(lab, seed, settle_seconds)
        await _load(lab, [], mirrors, cycles + 1, where, partial(_stop, lab))
        if lab.first_traceback():
            raise InvariantViolated(f"seed {seed}: something in it crashed: see {lab.log}\n{lab.first_traceback()}")
    except BaseException:
        lab.kill()
        raise
    events = sum(mirror.events for mirror in mirrors)
    return Outcome(cycles, ledger.acknowledged, ledger.unanswered, events, slowest, settled)


async def _later(trigger: _Trigger, moment: Moment, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await trigger.kill(moment)


async def _stop(lab: LabProcess) -> None:
    if await asyncio.to_thread(lab.stop) != 0:
        raise WrongAnswer(f"it did not stop cleanly:\n{lab.tail()}")


async def _check(
    lab: LabProcess, ledger: Ledger, workers_: Sequence[Worker], mirrors: Sequence[Mirror], where: str
) -> None:
    objects = await checks.read_objects(lab.url)
    found = objects.found()
    wrong = [*ledger.compare(found), *checks.doubly_allocated(objects)]
    if objects.revision < ledger.revision:
        wrong.append(f"revision {ledger.revision} was acknowledged, and the last one is {objects.revision}")
    wrong.extend(
        f"an event of revision {mirror.revision} was sent, and the last one is {objects.revision}"
        for mirror in mirrors
        if objects.revision < mirror.revision
    )
    _raise(wrong, where)
    ledger.settle(found)
    for worker in workers_:
        worker.resume(found)


async def _load(
    lab: LabProcess, workers_: Sequence[Worker], mirrors: Sequence[Mirror], number: int, where: str,
    end: Callable[[], Awaitable[None]],
) -> None:  # fmt: skip
    """Compare the mirrors, then write until ``end`` has ended the lab."""
    try:
        async with ClientSession(lab.url, timeout=ClientTimeout(total=30)) as client, asyncio.TaskGroup() as group:
            for mirror in mirrors:
                group.create_task(mirror.follow(client))
            for mirror in mirrors:
                mirror.errors += await mirror.differences(client, number)
            if not any(mirror.errors for mirror in mirrors):
                for worker in workers_:
                    group.create_task(worker.run(lab.url))
            await end()
    except* WrongAnswer as errors:
        raise InvariantViolated(f"{where}:\n{errors.exceptions[0]}") from None
    _raise([error for mirror in mirrors for error in mirror.errors], where)


def _raise(wrong: Sequence[str], where: str) -> None:
    if wrong:
        raise InvariantViolated(f"{where}:\n" + "\n".join(wrong[:20]))


async def _wait_until_settled(lab: LabProcess, seed: int, seconds: float) -> float:
    """Wait until nothing is pending; return how long that took."""
    start = time.monotonic()
    while True:
        objects = await checks.read_objects(lab.url)
        _raise(list(checks.doubly_allocated(objects)), f"seed {seed}, at the end")
        waiting = list(checks.pending_work(objects))
        if not waiting:
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            raise InvariantViolated(f"seed {seed}, not settled after {seconds:g} s:\n" + "\n".join(waiting))
        await asyncio.sleep(0.2)
