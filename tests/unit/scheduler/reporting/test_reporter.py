"""In which order pods are told why they wait, and how much of the time it takes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.queue import Group
from allotment.scheduler.reporting.reporter import Teller
from allotment.scheduler.reporting.verdict import Verdict
from tests.unit.cluster import idle
from tests.unit.scheduler.machines import demand, tree_of
from tests.unit.scheduler.world import SchedulingClient, context_of


class Noting(Teller):
    """Notes whom it would tell; each takes some time."""

    def __init__(self, *, busy: bool = False, takes: float = 0.0) -> None:
        client = SchedulingClient()
        context = context_of(client, speed=50)
        nothing = cast(Any, None)
        super().__init__(client, nothing, nothing, context.clock, nothing, nothing, busy=lambda: busy)
        self.noted: list[str] = []
        self.times: list[float] = []
        self._takes = takes

    async def _tell_group(self, group: Group) -> bool:
        for uid in group.pods:
            self.noted.append(uid)
            self._told[uid] = ("Unschedulable", "", 0.0)
        self.times.append(asyncio.get_running_loop().time())
        self._spent += self._takes
        return False


def _group(name: str) -> Group:
    group = Group(name, 0)
    pod = WaitingPod(tree_of(name), demand())
    group.pods[pod.uid] = pod
    group.verdict = Verdict("Unschedulable", "0/1 nodes are available.")
    return group


async def _told(teller: Noting, count: int) -> None:
    task = asyncio.create_task(teller.run())
    async with asyncio.timeout(5):
        while len(teller.noted) < count:
            await asyncio.sleep(0.001)
    task.cancel()


def test_those_who_have_heard_nothing_come_first() -> None:
    async def story() -> None:
        teller = Noting()
        teller.tell(old := _group("old"))
        await _told(teller, 1)
        for group in (old, _group("new"), _group("newer")):
            teller.tell(group)
        await _told(teller, 4)
        assert teller.noted == ["old", "new", "newer", "old"]

    idle.run(story())


def test_the_rest_is_longer_while_pods_are_placed() -> None:
    async def between(busy: bool) -> float:
        teller = Noting(busy=busy, takes=0.05)
        teller.tell(_group("a"))
        teller.tell(_group("b"))
        await _told(teller, 2)
        return teller.times[1] - teller.times[0]

    assert idle.run(between(busy=False)) >= 0.05
    assert idle.run(between(busy=True)) >= 0.15
