"""The time to compute the views of the page: ``python -m bench.screens [NODES]``.

The cluster has nodes with eight GPUs, 5,000 running pods and 5,000 pending ones with nine different requests. Measured
are the groups of pending pods, first and after each of some running pods ended, a remedy that is tried, the map, an
object, and a node that is drained.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from allotment.model.meta import Object
from allotment.model.resource import (
    CELDeviceSelector,
    DeviceClaim,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from allotment.screens.device_map import device_map
from allotment.screens.header import encoded
from allotment.screens.hypothetical_changes import change_of
from allotment.screens.object_page import object_page
from allotment.screens.pending import pending, pending_detail
from allotment.screens.try_change import TryRequest, try_change
from allotment.screens.what_if import WhatIfRequest, what_if
from allotment.watched.view import ClusterView
from bench.changing_cluster import successive_views
from tests.unit.screens.clusters import fleet, pod, template

_NODES: Final = 1000
_PODS: Final = 5000
_REQUESTS: Final = 10
_ENDING: Final = 9
_SERVER: Final = "dgx-a100-40gb"
_LATER: Final = "2026-02-01T00:00:00Z"


def _request(number: int) -> ResourceClaimSpec:
    """A request for memory, which most of the devices do not have."""
    text = f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{40 + number}Gi")) >= 0'
    exactly = ExactDeviceRequest(
        device_class_name="gpu.nvidia.com", allocation_mode="ExactCount", count=1,
        selectors=(DeviceSelector(cel=CELDeviceSelector(expression=text)),),
    )  # fmt: skip
    return ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),)))


def pods_on_nodes(nodes: int) -> Iterator[Object]:
    specs = [_request(number) for number in range(_REQUESTS)]
    yield from fleet(f"{_SERVER}:{nodes}")
    yield from (template(f"t{number}", spec) for number, spec in enumerate(specs))
    for number in range(min(_PODS, nodes * 8)):
        yield from _running(number)
    for number in range(_PODS):
        of = number % (_REQUESTS - 1) + 1
        owner = f"ReplicaSet/w{of}"
        yield from pod(f"wait-{number}", of=f"t{of}", spec=specs[of], owner=owner, created=_LATER)


def _running(number: int) -> Sequence[Object]:
    node, device = divmod(number, 8)
    return pod(f"run-{number}", f"gpu-{device}", node=f"{_SERVER}-{node + 1}", of="t0", owner="Job/run")


def _try_first(cluster: ClusterView) -> None:
    group = pending(cluster).groups[0]
    remedy = next(each for each in pending_detail(cluster, group.id).remedies if each.is_tryable)
    try_change(cluster, TryRequest(group=group.id, remedy=remedy.id))


def measure(nodes: int) -> Iterator[str]:
    """Yield a line for each view, each with wall and processor time."""
    views = successive_views(pods_on_nodes(nodes), (_running(number * 7) for number in range(_ENDING)))
    cluster = next(views)
    gc.collect()
    gc.freeze()
    drained = WhatIfRequest((change_of(f"drain:{_SERVER}-1"),))
    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        (f"pending, {_PODS:,} of {2 * _PODS:,} pods, {_REQUESTS - 1} requests", lambda: pending(cluster)),
        ("try a remedy", lambda: _try_first(cluster)),
        ("try it again", lambda: _try_first(cluster)),
        ("report on devices", lambda: cluster.free),
        ("map", lambda: device_map(cluster)),
        ("map as JSON", lambda: encoded(device_map(cluster))),
        ("page of a pod", lambda: object_page(cluster, "pod", "ml", "wait-0")),
        ("drain a node", lambda: what_if(cluster, drained)),
    )
    for name, step in steps:
        yield f"{name}: {_times([_spent(step)])}"
    yield f"pending after a pod ended: {_times([_spent(partial(pending, later)) for later in views])}"


def _spent(step: Callable[[], object]) -> tuple[float, float]:
    """The seconds that a step takes, and its processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - wall, time.process_time() - processor


def _times(spent: Sequence[tuple[float, float]]) -> str:
    """The medians of wall and processor time."""
    wall, processor = (sorted(each)[len(spent) // 2] * 1000 for each in zip(*spent, strict=True))
    return f"{wall:.0f} ms, {processor:.0f} ms of processor time"


def main(words: list[str]) -> int:
    """Print the lines."""
    nodes = int(words[0]) if words else _NODES
    for line in measure(nodes):
        print(f"{nodes:,} nodes x 8: {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
