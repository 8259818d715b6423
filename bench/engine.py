"""Allotment's side of the benchmark: ``python -m bench.engine FILE…`` prints one JSON line per case, as upstream's side
does."""

from __future__ import annotations

import gc
import itertools
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Aborted
from allotment.engine.placement import NotPlaced, Placed
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from bench.measurement import Measurement, dump

Claims = tuple[ResourceClaim, ...]


class Node(msgspec.Struct):
    """The fields of a node that the benchmark needs."""

    metadata: ObjectMeta


class Case(msgspec.Struct, rename="camel"):
    """Pods that arrive one after the other, all with the same claims."""

    name: str
    series: str
    pods: int
    claims: tuple[ResourceClaim, ...]
    background: tuple[ResourceClaim, ...]
    limit_seconds: float


class Cluster(msgspec.Struct):
    """One line of the input."""

    nodes: list[Node]
    classes: list[DeviceClass]
    slices: list[ResourceSlice]
    cases: list[Case]


def quantity(kind: type, value: Any) -> Any:
    """Decode a quantity for msgspec."""
    if kind is Quantity:
        return Quantity.parse(value)
    raise TypeError(kind)


_DECODER = msgspec.json.Decoder(Cluster, dec_hook=quantity)


def decode(line: bytes) -> Cluster:
    """Decode a cluster from one line of input."""
    return _DECODER.decode(line)


def inventory_of(cluster: Cluster) -> Inventory:
    """The engine's state for a cluster without allocations, with every node evaluated."""
    inventory = Inventory.of(
        Features(kube="1.36"),
        nodes=[(node.metadata.name, node.metadata.labels) for node in cluster.nodes],
        slices=cluster.slices,
        classes=cluster.classes,
    )
    for node in inventory.nodes:
        inventory.view(node)
    return inventory


def _pod(claims: Claims, name: str) -> Claims:
    """A pod's own claims, named as the controller would."""
    return tuple(
        msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, name=f"{name}-{claim.metadata.name}")
        )
        for claim in claims
    )


class CaseRun:
    """A case in progress."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._allocator = Allocator(inventory)
        self._start = 0

    def place(self, claims: Claims) -> Placed | NotPlaced:
        """Find the first node that fits, from a rotating start, and record the allocation there."""
        answer = self._allocator.place(claims, self._start)
        if isinstance(answer, Placed):
            self._start = answer.index + 1
            for claim, result in zip(claims, answer.results, strict=True):
                self._inventory.allocate(ObjectKey(claim.metadata.namespace, claim.metadata.name), result)
        elif isinstance(answer, Aborted):
            raise RuntimeError(answer.text)
        return answer


def run(inventory: Inventory, case: Case) -> Measurement:
    """Place the pods of a case one after the other."""
    side = CaseRun(inventory)
    measured = Measurement(case.name, [])
    end = perf_counter() + case.limit_seconds
    for number in range(case.pods):
        if case.series:
            # Nothing is cached: the search is measured here.
            side = CaseRun(inventory)
        if case.background:
            side.place(_pod(case.background, f"other-{number}"))
        claims = _pod(case.claims, f"pod-{number}")
        begin = perf_counter()
        if begin > end:
            break
        answer = side.place(claims)
        measured.seconds.append(perf_counter() - begin)
        placed: list[str] = []
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
                    # The loaded objects stay, so the garbage collector need not scan them repeatedly.
                    gc.collect()
                    gc.freeze()
                    print(dump(run(inventory, case)))
                    gc.unfreeze()


if __name__ == "__main__":
    main(sys.argv[1:])
