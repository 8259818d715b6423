"""Counts the nodes, pods and claims of a running lab, and the pending ones, in one line; follows their changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from allotment.apiserver.storage.store import Change, Store
from allotment.model.trees import Tree
from allotment.phrases import counted

_PODS, _NODES, _CLAIMS = "pods", "nodes", "resourceclaims.resource.k8s.io"
#: Seconds between two reports: a readable rate, as counting thousands of pods takes time.
_PAUSE_SECONDS = 0.5


class Overview(NamedTuple):
    """Numbers of objects. ``unscheduled``: pods without a node; ``waiting``: claims without devices."""

    nodes: int = 0
    running: int = 0
    starting: int = 0
    unscheduled: int = 0
    ended: int = 0
    allocated: int = 0
    waiting: int = 0

    @staticmethod
    def of(store: Store) -> Overview:
        """Count the objects of a store."""
        pods = Counter(_state(entry.tree) for entry in store.list(_PODS))
        claims = Counter(bool((entry.tree.get("status") or {}).get("allocation")) for entry in store.list(_CLAIMS))
        return Overview(
            len(store.list(_NODES)), pods["running"], pods["starting"], pods["homeless"], pods["ended"], claims[True],
            claims[False],
        )  # fmt: skip

    def __str__(self) -> str:
        """One line.

        >>> print(Overview(nodes=3, running=2, unscheduled=1, allocated=2, waiting=1))
        3 nodes; pods: 2 running, 1 without a node; claims: 2 allocated, 1 waiting
        """
        pods = _amounts(
            (self.running, "running"), (self.starting, "starting"), (self.unscheduled, "without a node"),
            (self.ended, "ended"),
        )  # fmt: skip
        claims = _amounts((self.allocated, "allocated"), (self.waiting, "waiting"))
        return f"{counted(self.nodes, 'node')}; pods: {pods}; claims: {claims}"


def _state(pod: Tree) -> str:
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return "ended"
    if phase == "Running":
        return "running"
    return "starting" if pod["spec"].get("nodeName") else "homeless"


def _amounts(*amounts: tuple[int, str]) -> str:
    return ", ".join(f"{amount} {word}" for amount, word in amounts if amount) or "none"


@contextmanager
def report_changes(store: Store, show: Callable[[Overview], None]) -> Iterator[None]:
    """Call ``show`` now and after changes, at a limited rate."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    last = Overview.of(store)
    show(last)

    def look() -> None:
        nonlocal timer, last
        timer = None
        now = Overview.of(store)
        if now != last:
            last = now
            show(now)

    def changed(change: Change) -> None:
        nonlocal timer
        if timer is None:
            timer = loop.call_later(_PAUSE_SECONDS, look)

    stops = [store.subscribe(bucket, changed) for bucket in (_PODS, _NODES, _CLAIMS)]
    try:
        yield
    finally:
        for stop in stops:
            stop()
        if timer is not None:
            timer.cancel()
