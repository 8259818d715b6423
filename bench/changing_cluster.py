"""A server of the page in a process of its own, over a cluster in memory whose claims get and lose devices."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from multiprocessing import Process, Queue
from pathlib import Path
from typing import Any, Final, NamedTuple

from allotment.api.clusters.source import ClusterOrigin
from allotment.model.core import Node
from allotment.model.meta import Object, ObjectMeta
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from allotment.model.server_facts import ServerFacts
from allotment.model.trees import to_tree
from allotment.watched.builder import Changes, ClusterIdentity, ConnectionState, ViewBuilder
from allotment.watched.cluster import WatchedCluster
from allotment.watched.keyed_objects import packed
from allotment.watched.kinds import KINDS
from allotment.watched.view import ClusterView
from allotment.web.options import WebOptions
from allotment.web.server import serve
from tests.unit.screens.clusters import fleet, pod, request, template

TOKEN: Final = "bench"
_BY_TYPE: Final = {kind.type: kind for kind in KINDS}
_FACTS: Final = ServerFacts(version="v1.37.0", served={"resourceslices": ("v1",), "devicetaintrules": ("v1",)})
_NUMBERS: Final = itertools.count(1)
_NAMESPACES: Final = ("research", "assistants", "vision", "notebooks", "speech", "search")
_FOUR: Final = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
_PENDING: Final = 20


def busy_fleet(*machines: str) -> Iterator[Object]:
    """Described machines, on each of which two pods hold four GPUs and one, and pending pods with two causes."""
    objects = fleet(*machines)
    yield from objects
    yield from (template("gpu", namespace=namespace) for namespace in _NAMESPACES)
    nodes = [each.metadata.name for each in objects if isinstance(each, Node)]
    whole = {each.spec.pool.name for each in objects if isinstance(each, ResourceSlice) and _has_whole(each)}
    for number, node in enumerate(nodes):
        namespace = _NAMESPACES[number % len(_NAMESPACES)]
        owner = f"StatefulSet/w{number % 97}"
        if node in whole:
            yield from pod(f"train-{number}", *_FOUR, node=node, owner=owner, namespace=namespace)
            yield from pod(f"serve-{number}", "gpu-4", node=node, owner=owner, namespace=namespace)
    for number in range(_PENDING):
        spec = request(9 if number % 2 else 1, "gpu.nvidia.com" if number % 2 else "gpu.nvidia.con")
        yield from pod(f"wait-{number}", spec=spec, owner=f"StatefulSet/wait{number % 2}", namespace=_NAMESPACES[0])


def _has_whole(value: ResourceSlice) -> bool:
    return any(device.name == "gpu-7" for device in value.spec.devices or ())


def successive_views(objects: Iterable[Object], ending: Iterable[Iterable[Object]] = ()) -> Iterator[ClusterView]:
    """The view of a cluster, and one after each deletion of some of its objects."""
    builder = ViewBuilder(ClusterIdentity(ClusterOrigin("cluster"), "bench", "cluster"))
    deletions = (dict.fromkeys(_changes(values)) for values in ending)
    for changes in chain((_changes(objects),), deletions):
        view = builder.next(changes, ConnectionState(facts=_FACTS))
        assert view is not None
        yield view


class ServedCluster(NamedTuple):
    """``first_view``: the seconds that it took. ``megabytes``: resident before it. ``times``: when each change arrived,
    in seconds since 1970."""

    url: str
    process: int
    first_view: float
    megabytes: float
    times: Queue[float]


@contextmanager
def served(objects: Callable[[], Iterable[Object]], per_second: float) -> Iterator[ServedCluster]:
    """Serve a cluster with a number of changes per second (0: none)."""
    report: Queue[Any] = Queue()
    times: Queue[float] = Queue()
    written: Queue[Changes] = Queue()
    process = Process(target=_serve, args=(written, per_second, report, times))
    process.start()
    # The server has only what it reads, as if from a network.
    Process(target=_write, args=(objects, written)).start()
    assert process.pid is not None
    try:
        # In this order: the memory, the address, and the first view, which the server does not wait for.
        megabytes, url, first_view = report.get(), report.get(), report.get()
        yield ServedCluster(url.partition("/?")[0], process.pid, first_view, megabytes, times)
    finally:
        process.terminate()
        process.join()


def resident(process: int) -> float:
    """The resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _write(objects: Callable[[], Iterable[Object]], written: Queue[Changes]) -> None:
    written.put(_changes(objects()))


def _serve(written: Queue[Changes], per_second: float, report: Queue[Any], times: Queue[float]) -> None:
    feed = _ChangingCluster(written.get(), per_second, report, times)
    gc.collect()
    report.put(resident(os.getpid()))
    asyncio.run(serve(WatchedCluster(feed.first, feed), WebOptions(token=TOKEN), report.put))


def _changes(values: Iterable[Object]) -> Changes:
    """Return objects as the watches of a cluster report them."""
    found = {}
    for value in values:
        tree = to_tree(value, "v1", type(value).__name__)
        number = next(_NUMBERS)
        tree["metadata"] |= {"uid": tree["metadata"].get("uid") or f"u{number}", "resourceVersion": str(number)}
        found[_BY_TYPE[type(value)], value.key] = packed(tree)
    return found


def _change(number: int, nodes: list[str]) -> Changes:
    """A claim that appears with a device (an even number), or the deletion of the one before."""
    pair = number // 2
    metadata = ObjectMeta(name=f"c{pair}", namespace=_NAMESPACES[pair % len(_NAMESPACES)])
    device = f"gpu-{5 + pair % 3}"
    result = DeviceRequestAllocationResult(
        request="gpu", driver="gpu.nvidia.com", pool=nodes[pair * 7 % len(nodes)], device=device
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    claim = ResourceClaim(metadata=metadata, status=ResourceClaimStatus(allocation=allocation))
    return {key: None if number % 2 else item for key, item in _changes((claim,)).items()}


class _ChangingCluster:
    """Builds views as a feed of a running cluster does."""

    def __init__(self, first: Changes, per_second: float, report: Queue[Any], times: Queue[float]) -> None:
        self._per_second, self._report, self._times = per_second, report, times
        self._builder = ViewBuilder(ClusterIdentity(ClusterOrigin("cluster"), "bench", "cluster"))
        self._first = first
        self.first = self._builder.first("connecting")

    async def run(self, watched: WatchedCluster) -> None:
        with ThreadPoolExecutor(1) as worker:
            begin = time.perf_counter()
            await self._publish(watched, worker, self._first)
            self._first = {}
            self._report.put(time.perf_counter() - begin)
            # Claims get the devices of the nodes that publish whole GPUs.
            reports = watched.view().free.nodes
            nodes = [each.node for each in reports if any(device.device == "gpu-7" for device in each.devices)]
            number, start, spent = 0, time.perf_counter(), 0.0
            while self._per_second:
                await asyncio.sleep(max(0.05, 2 * spent, 1 / self._per_second))
                due = int((time.perf_counter() - start) * self._per_second)
                if due == number:
                    continue
                self._times.put(time.time())
                begin = time.perf_counter()
                await self._publish(
                    watched,
                    worker,
                    dict(change for each in range(number, due) for change in _change(each, nodes).items()),
                )
                number, spent = due, time.perf_counter() - begin
            await asyncio.Event().wait()

    async def _publish(self, watched: WatchedCluster, worker: ThreadPoolExecutor, changed: Changes) -> None:
        loop, connection = asyncio.get_running_loop(), ConnectionState(facts=_FACTS)
        view = await loop.run_in_executor(worker, self._builder.next, changed, connection)
        if view is not None:
            watched.publish(view)
