"""What a trace asks for, by shape: thousands of pods are a few hundred shapes, and all work is done once per shape."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allotment.tools.replay.trace import TraceNode, TracePod


class PodShape(NamedTuple):
    """What equal pods ask; see `TracePod`."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str] = frozenset()
    app: str = ""
    per_node: int | None = None

    @property
    def amount(self) -> int:
        """Thousandths of GPUs altogether."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Workload:
    """The shapes of a trace, the shape of each pod by number, and how many pods there are of each."""

    shapes: tuple[PodShape, ...]
    shape_of: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def amount(self) -> int:
        """Thousandths of GPUs that all pods ask for."""
        return sum(shape.amount * count for shape, count in zip(self.shapes, self.counts, strict=True))


def workload_of(pods: Sequence[TracePod]) -> Workload:
    """The shapes of these pods, in the order in which they first come."""
    numbers: dict[PodShape, int] = {}
    shape_of: list[int] = []
    for pod in pods:
        app = pod.app if pod.per_node is not None else ""
        shape = PodShape(pod.cpu_milli, pod.memory_mib, pod.gpus, pod.gpu_milli, frozenset(pod.models), app, pod.per_node)
        shape_of.append(numbers.setdefault(shape, len(numbers)))
    counts = [0] * len(numbers)
    for number in shape_of:
        counts[number] += 1
    return Workload(tuple(numbers), tuple(shape_of), tuple(counts))


class PodEvent(NamedTuple):
    """A pod comes or goes. ``pod`` is its number; what goes has come before."""

    pod: int
    arrives: bool = True


def random_arrivals(workload: Workload, capacity: int, share: float, seed: int) -> tuple[tuple[PodEvent, ...], tuple[int, ...]]:
    """The pods of a trace in an order of chance, and pods drawn from it again until ``share`` of the GPUs is asked for.

    As the runs of Weng et al. (ATC 2023) were made. ``capacity`` is in thousandths of GPUs. Nothing goes. Returned with
    the shape of each pod, for there are more than in the trace.
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
    """The pods of a trace as they came and went, until the last has come.

    One without a time was there from the start, or stays to the end. At one moment pods go before others come, as they
    do on a machine that is given on.
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
    """Thousandths of GPUs of all nodes."""
    return 1000 * sum(node.gpus for node in nodes)
