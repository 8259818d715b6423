"""An allocation that is possible, and whose search reaches any practical step limit before it finds it.

A card has 28 partitions that draw on two counters, and eight of them are requested. Twenty are *wide*: each draws 1000
of both counters together, in proportions that all differ. The last eight are *slim*: each draws 999. The counters hold
what the eight slim ones draw and no more, so these are the only solution. Each counter alone could hold eight others,
so counting refutes nothing, and the search, which begins with the wide ones, goes through their combinations.
"""

from __future__ import annotations

from typing import Final

from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceCounterConsumption,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from tests.unit.engine.objects import DRIVER, device, request, slice_of

WIDE: Final = 20
SLIM: Final = 8
ONLY_SLIM: Final = f'device.attributes["{DRIVER}"].slim'


def card(node: str) -> tuple[ResourceSlice, ResourceSlice]:
    """The pool of a node: its counters and its partitions."""
    wide = [400 + 37 * i * i % 199 for i in range(WIDE)]
    slim = [492 + 3 * i for i in range(SLIM)]
    draws = [*((compute, 1000 - compute) for compute in wide), *((compute, 999 - compute) for compute in slim)]
    partitions = tuple(
        Device(
            name=f"part-{number:02}",
            attributes={"slim": DeviceAttribute(bool_=number >= WIDE)},
            consumes_counters=(DeviceCounterConsumption(counter_set="card", counters=_counters(compute, memory)),),
        )
        for number, (compute, memory) in enumerate(draws)
    )
    whole = CounterSet(name="card", counters=_counters(sum(slim), 999 * SLIM - sum(slim)))

    pool = ResourcePool(name=node, generation=1, resource_slice_count=2)
    counters = ResourceSliceSpec(driver=DRIVER, pool=pool, node_name=node, shared_counters=(whole,))
    devices = ResourceSliceSpec(driver=DRIVER, pool=pool, node_name=node, devices=partitions)
    return (
        ResourceSlice(metadata=ObjectMeta(name=f"{node}-counters"), spec=counters),
        ResourceSlice(metadata=ObjectMeta(name=f"{node}-partitions"), spec=devices),
    )


def plain(node: str, count: int = SLIM) -> ResourceSlice:
    """As many devices as are requested, without counters: the first try is the solution."""
    return slice_of(*(device(f"gpu-{number}") for number in range(count)), node=node)


def eight(*expressions: str, name: str = "c", namespace: str = "default") -> ResourceClaim:
    """The claim."""
    requests = (request(SLIM, *expressions),)
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )


def _counters(compute: int, memory: int) -> dict[str, Counter]:
    amounts = {"compute": compute, "memory": memory}
    return {name: Counter(value=Quantity.parse(str(amount))) for name, amount in amounts.items()}
