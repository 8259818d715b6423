"""Our side of the benchmark: ``python -m bench.ours FILE…`` prints one JSON line per case, as upstream's side does."""

from __future__ import annotations

import gc
import itertools
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from allotment.engine.allocator import Allocator
from allotment.engine.inventory import Inventory
from allotment.engine.outcome import Aborted
from allotment.engine.placement import Placed
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from bench.measured import Measured, dump


class Node(msgspec.Struct):
    """As much of a node as matters here."""

    metadata: ObjectMeta


class Case(msgspec.Struct, rename="camel"):
    """Pods that arrive one after the other, all with the same claims."""

    name: str
    pods: int
    claims: tuple[ResourceClaim, ...]
    limit_seconds: float


class Cluster(msgspec.Struct):
    """One line of the input."""

    nodes: list[Node]
    classes: list[DeviceClass]
    slices: list[ResourceSlice]
    cases: list[Case]


def _quantity(kind: type, value: Any) -> Any:
    if kind is Quantity:
        return Quantity.parse(value)
    raise TypeError(kind)


_DECODER = msgspec.json.Decoder(Cluster, dec_hook=_quantity)


def decode(line: bytes) -> Cluster:
    """A cluster from one line of input."""
    return _DECODER.decode(line)


def inventory_of(cluster: Cluster) -> Inventory:
    """The engine's state for a cluster in which nothing is allocated."""
    return Inventory.of(
        Features(kube="1.36"),
        nodes=[(node.metadata.name, node.metadata.labels) for node in cluster.nodes],
        slices=cluster.slices,
        classes=cluster.classes,
    )


def _pod(case: Case, number: int) -> tuple[ResourceClaim, ...]:
    """A pod's own claims, named as the controller would."""
    return tuple(
        msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, name=f"pod-{number}-{claim.metadata.name}")
        )
        for claim in case.claims
    )


def run(inventory: Inventory, case: Case) -> Measured:
    """Place the pods: first node that fits, from a rotating start; book what was allocated."""
    allocator = Allocator(inventory)
    measured = Measured(case.name, [])
    pods = [_pod(case, number) for number in range(case.pods)]
    start, end = 0, perf_counter() + case.limit_seconds
    for claims in pods:
        begin = perf_counter()
        if begin > end:
            break
        placed: list[str] = []
        answer = allocator.place(claims, start)
        if isinstance(answer, Aborted):
            raise RuntimeError(f"{case.name}: {answer.text}")
        if isinstance(answer, Placed):
            start = answer.place + 1
            for claim, result in zip(claims, answer.results, strict=True):
                inventory.allocate(ObjectKey(claim.metadata.namespace, claim.metadata.name), result)
        measured.seconds.append(perf_counter() - begin)
        if isinstance(answer, Placed):
            devices = itertools.chain.from_iterable(result.devices.results for result in answer.results)
            placed = [answer.node, *(f"{d.driver}/{d.pool}/{d.device}" for d in devices)]
        measured.placed.append(placed)
    return measured


def main(paths: list[str]) -> None:
    """Run every case of the files."""
    for path in paths:
        with Path(path).open("rb") as lines:
            for line in lines:
                cluster = decode(line)
                for case in cluster.cases:
                    inventory = inventory_of(cluster)
                    # What was loaded stays; the collector need not walk it again and again.
                    gc.collect()
                    gc.freeze()
                    print(dump(run(inventory, case)))
                    gc.unfreeze()


if __name__ == "__main__":
    main(sys.argv[1:])
