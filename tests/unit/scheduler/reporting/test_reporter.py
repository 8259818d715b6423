"""The order of status reports, and the share of time they take."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.queue import EquivalenceGroup
from allotment.scheduler.reporting.reporter import StatusReporter
from allotment.scheduler.reporting.verdict import Verdict
from tests.unit.cluster import idle
from tests.unit.scheduler.machines import requirements_of, tree_of
from tests.unit.scheduler.world import SchedulingClient, context_of


class RecordingReporter(StatusReporter):
    """Records the pods it would report; each takes ``takes`` seconds."""

    def __init__(self, *, busy: bool = False, takes: float = 0.0) -> None:
        client = SchedulingClient()
        context = context_of(client, speed=50)
        nothing = cast(Any, None)
        super().__init__(client, nothing, nothing, nothing, context.clock, nothing, nothing, busy=lambda: busy)
        self.reported: list[str] = []
        self.times: list[float] = []
        self._takes = takes

    async def _report_group(self, group: EquivalenceGroup) -> bool:
        for uid in group.pods:
            self.reported.append(uid)
            self._reported[uid] = ("Unschedulable", "", 0.0)
        self.times.append(asyncio.get_running_loop().time())
        self._spent += self._takes
        return False


def _group(name: str) -> EquivalenceGroup:
    group = EquivalenceGroup(name, 0)
    pod = QueuedPod(tree_of(name), requirements_of())
    group.pods[pod.uid] = pod
    group.verdict = Verdict("Unschedulable", "0/1 nodes are available.")
    return group


async def _run_until(reporter: RecordingReporter, count: int) -> None:
    task = asyncio.create_task(reporter.run())
    async with asyncio.timeout(5):
        while len(reporter.reported) < count:
            await asyncio.sleep(0.001)
    task.cancel()


def test_pods_without_a_report_come_first() -> None:
    async def scenario() -> None:
        reporter = RecordingReporter()
        reporter.report(old := _group("old"))
        await _run_until(reporter, 1)
        for group in (old, _group("new"), _group("newer")):
            reporter.report(group)
        await _run_until(reporter, 4)
        assert reporter.reported == ["old", "new", "newer", "old"]

    idle.run(scenario())


def test_pauses_are_longer_while_pods_are_being_scheduled() -> None:
    async def between(busy: bool) -> float:
        reporter = RecordingReporter(busy=busy, takes=0.05)
        reporter.report(_group("a"))
        reporter.report(_group("b"))
        await _run_until(reporter, 2)
        return reporter.times[1] - reporter.times[0]

    assert idle.run(between(busy=False)) >= 0.05
    assert idle.run(between(busy=True)) >= 0.15
