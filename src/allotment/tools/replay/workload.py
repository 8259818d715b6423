"""The workload of a trace by pod shape: thousands of pods have a few hundred shapes, which are processed once each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allotment.tools.replay.trace import TraceNode, TracePod


class PodShape(NamedTuple):
    """The requirements of identical pods; see `TracePod`."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str] = frozenset()
    app: str = ""
    per_node: int | None = None

    @property
    def amount(self) -> int:
        """The total GPU request in thousandths."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Workload:
    """The shapes of a trace, the shape number of each pod, and the number of pods by shape."""

    shapes: tuple[PodShape, ...]
    shape_of: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def amount(self) -> int:
        """The total GPU request of all pods in thousandths."""
        return sum(shape.amount * count for shape, count in zip(self.shapes, self.counts, strict=True))


def workload_of(pods: Sequence[TracePod]) -> Workload:
    """The workload of these pods; shapes are in the order of first appearance."""
    numbers: dict[PodShape, int] = {}
    shape_of: list[int] = []
    for pod in pods:
        app = pod.app if pod.per_node is not None else ""
        shape = PodShape(
            pod.cpu_milli, pod.memory_mib, pod.gpus, pod.gpu_milli, frozenset(pod.models), app, pod.per_node
        )
        shape_of.append(numbers.setdefault(shape, len(numbers)))
    counts = [0] * len(numbers)
    for number in shape_of:
        counts[number] += 1
    return Workload(tuple(numbers), tuple(shape_of), tuple(counts))


class PodEvent(NamedTuple):
    """The arrival or departure of a pod. ``pod``: its number; a departure follows its arrival."""

    pod: int
    arrives: bool = True


def random_arrivals(
    workload: Workload, capacity: int, share: float, seed: int
) -> tuple[tuple[PodEvent, ...], tuple[int, ...]]:
    """The arrivals of all pods in random order, with repeated random pods until ``share`` of the GPUs is requested.

    Like the runs of Weng et al. (ATC 2023), without departures. ``capacity``: in thousandths of GPUs. Also returns the
    shape number of each arriving pod, as there are more than in the trace.
    """
    random_ = random.Random(seed)
    shapes = list(workload.shape_of)
    requested = workload.amount
    target = share * capacity
    while requested < target and workload.amount:
        repeated = workload.shape_of[random_.randrange(len(workload.shape_of))]
        shapes.append(repeated)
        requested += workload.shapes[repeated].amount
    random_.shuffle(shapes)
    return tuple(PodEvent(number) for number in range(len(shapes))), tuple(shapes)


def events_by_time(pods: Sequence[TracePod]) -> tuple[PodEvent, ...]:
    """Arrivals and departures by the times in the trace, until the last arrival.

    A pod without a creation time arrives at the start; one without a deletion time never departs. At equal times,
    departures come before arrivals, so that their capacity can be reused.
    """
    events: list[tuple[float, int, int]] = []
    for number, pod in enumerate(pods):
        start = pod.created if pod.created is not None else 0.0
        events.append((start, 1, number))
        if pod.deleted is not None:
            events.append((max(pod.deleted, start), 0 if pod.deleted > start else 2, number))
    events.sort()
    while events and events[-1][1] != 1:
        events.pop()
    return tuple(PodEvent(number, order == 1) for _, order, number in events)


def capacity_of(nodes: Sequence[TraceNode]) -> int:
    """The number of GPUs of all nodes in thousandths."""
    return 1000 * sum(node.gpus for node in nodes)
