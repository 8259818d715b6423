"""A feasible allocation whose search reaches any practical step limit before it finds the solution.

A GPU has 28 partitions that consume two counters, and eight of them are requested. Twenty are *wide*: each consumes
1000 of both counters together, in different proportions. The last eight are *slim*: each consumes 999. The counters are
sufficient for exactly the eight slim ones, which are the only solution. Each counter alone is sufficient for eight
others, so the counting bounds do not prove infeasibility, and the search tries combinations of the wide ones first.
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


def gpu_slices(node: str) -> tuple[ResourceSlice, ResourceSlice]:
    """The two slices of a node's pool: counters and partitions."""
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


def devices_without_counters(node: str, count: int = SLIM) -> ResourceSlice:
    """A slice with the requested number of devices without counters, where the first try is the solution."""
    return slice_of(*(device(f"gpu-{number}") for number in range(count)), node=node)


def claim_for_eight(*expressions: str, name: str = "c", namespace: str = "default") -> ResourceClaim:
    """A claim for eight devices."""
    requests = (request(SLIM, *expressions),)
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )


def _counters(compute: int, memory: int) -> dict[str, Counter]:
    amounts = {"compute": compute, "memory": memory}
    return {name: Counter(value=Quantity.parse(str(amount))) for name, amount in amounts.items()}
