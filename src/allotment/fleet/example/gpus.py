"""``gpu.example.com``: GPUs of 80Gi; whole or partitioned, exclusive or shared, with optional binding conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from allotment.fleet.example.attributes import facts
from allotment.fleet.modes import ExampleMode
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
)

GPU_DRIVER: Final = "gpu.example.com"
#: Binding condition that the scheduler waits for before it binds a pod to the GPU (KEP-5007).
READY: Final = "BindingConditions"
FAILED: Final = "BindingFailureConditions"

_MEMORY: Final = Quantity.parse("80Gi")
_COMPUTE: Final = Quantity.parse("100")
_STEPS: Final = {"memory": Quantity.parse("1Gi"), "compute": Quantity.parse("1")}
_WHOLE: Final = {"memory": _MEMORY, "compute": _COMPUTE}


def gpu_offering(
    node: str, gpus: int, mode: ExampleMode
) -> tuple[tuple[tuple[Device, ...], ...], tuple[CounterSet, ...]]:
    """Return a node's GPUs, each with its partitions as a group, and the counter sets of the partitions."""
    groups = tuple(tuple(_gpu(node, index, mode)) for index in range(gpus))
    if not mode.partitions:
        return (tuple(device for group in groups for device in group),), ()
    sets = (CounterSet(name=_set(index), counters=_counters(_WHOLE)) for index in range(gpus))
    return groups, tuple(sets)


def _gpu(node: str, index: int, mode: ExampleMode) -> Iterator[Device]:
    attributes = facts("gpu", node, index)
    if not mode.partitions:
        yield _device(f"gpu-{index}", attributes, _WHOLE, mode)
        return
    attributes["partitionable"] = DeviceAttribute(bool_=True)
    part = {
        "memory": Quantity.binary(_MEMORY.as_integer() // mode.partitions),
        "compute": Quantity.of_int(_COMPUTE.as_integer() // mode.partitions),
    }
    for number in range(mode.partitions):
        own = attributes | {"partition": DeviceAttribute(int_=number)}
        yield _device(f"gpu-{index}-partition-{number}", own, part, mode, index)
    yield _device(f"gpu-{index}-full", attributes | {"full": DeviceAttribute(bool_=True)}, _WHOLE, mode, index)


def _device(
    name: str, attributes: Mapping[str, DeviceAttribute], amounts: Mapping[str, Quantity], mode: ExampleMode,
    gpu: int | None = None,
) -> Device:  # fmt: skip
    taken = DeviceCounterConsumption(counter_set=_set(gpu), counters=_counters(amounts)) if gpu is not None else None
    return Device(
        name=name,
        attributes=dict(attributes),
        capacity={key: _capacity(key, value, mode.shared) for key, value in amounts.items()},
        consumes_counters=(taken,) if taken is not None else (),
        binding_conditions=(READY,) if mode.binding else (),
        binding_failure_conditions=(FAILED,) if mode.binding else (),
        allow_multiple_allocations=True if mode.shared else None,
    )


def _capacity(name: str, value: Quantity, shared: bool) -> DeviceCapacity:
    if not shared:
        return DeviceCapacity(value=value)
    # A claim without a requested amount gets all of it.
    steps = CapacityRequestPolicyRange(min=_STEPS[name], step=_STEPS[name], max=value)
    return DeviceCapacity(value=value, request_policy=CapacityRequestPolicy(default=value, valid_range=steps))


def _set(gpu: int) -> str:
    return f"gpu-{gpu}-counters"


def _counters(amounts: Mapping[str, Quantity]) -> dict[str, Counter]:
    return {name: Counter(value=value) for name, value in amounts.items()}
