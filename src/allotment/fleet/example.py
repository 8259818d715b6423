"""Devices of Kubernetes' example drivers, for trying the features of the device API without hardware.

``gpu.example.com``: GPUs of 80Gi; whole or partitioned, exclusive or shared, with optional binding conditions.
``net.example.com``: network cards whose bandwidth several claims share by their requested amounts. ``cpu.example.com``:
the processors of NUMA nodes, mapped to the node's cpu resource (alpha in 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from allotment.fleet.identity import name_uuid
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
    NodeAllocatableResourceMapping,
)

Groups = tuple[tuple[Device, ...], ...]


def offerings(node: str, gpus: int, mode: ExampleMode) -> tuple[tuple[str, Groups, tuple[CounterSet, ...]], ...]:
    """Return drivers, devices and counter sets of a node: GPUs, and the mode's network cards and processors."""
    found = [(GPU_DRIVER, *gpu_offering(node, gpus, mode))]
    if mode.nics:
        found.append((NET_DRIVER, nic_groups(node, mode.nics), ()))
    if mode.numa:
        found.append((CPU_DRIVER, cpu_groups(mode.numa), ()))
    return tuple(found)


def _attributes(profile: str, node: str, index: int) -> dict[str, DeviceAttribute]:
    """Return the attributes of a device; they are stable for a node."""
    identity = name_uuid(f"{node}/{profile}/{index}")
    return {
        "index": DeviceAttribute(int_=index),
        "uuid": DeviceAttribute(string=f"{profile}-{identity}"),
        "model": DeviceAttribute(string=f"LATEST-{profile.upper()}-MODEL"),
        "driverVersion": DeviceAttribute(version="1.0.0"),
    }


# --- gpu.example.com --------------------------------------------------------------------------------------------------

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
    attributes = _attributes("gpu", node, index)
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


# --- net.example.com --------------------------------------------------------------------------------------------------

NET_DRIVER: Final = "net.example.com"

_BANDWIDTH: Final = DeviceCapacity(
    value=Quantity.parse("100G"),
    request_policy=CapacityRequestPolicy(
        default=Quantity.parse("1G"),
        valid_range=CapacityRequestPolicyRange(
            min=Quantity.parse("100M"), max=Quantity.parse("100G"), step=Quantity.parse("1M")
        ),
    ),
)
#: Every claim uses one virtual function, regardless of its requested amount.
_FUNCTIONS: Final = DeviceCapacity(
    value=Quantity.parse("100"),
    request_policy=CapacityRequestPolicy(default=Quantity.parse("1"), valid_values=(Quantity.parse("1"),)),
)


def nic_groups(node: str, nics: int) -> tuple[tuple[Device, ...], ...]:
    """A node's network cards."""
    return (tuple(_nic(node, index) for index in range(nics)),)


def _nic(node: str, index: int) -> Device:
    return Device(
        name=f"nic-{index}",
        attributes=_attributes("net", node, index),
        capacity={"vfs": _FUNCTIONS, "ingressBandwidth": _BANDWIDTH, "egressBandwidth": _BANDWIDTH},
        allow_multiple_allocations=True,
    )


# --- cpu.example.com --------------------------------------------------------------------------------------------------

CPU_DRIVER: Final = "cpu.example.com"
#: Contains the driver's name, so that two cpu drivers on a node do not conflict.
CPU_CAPACITY: Final = f"{CPU_DRIVER}/cpu"
#: Number of processors of a NUMA node.
_CPUS: Final = 4


def cpu_groups(numa_nodes: int) -> tuple[tuple[Device, ...], ...]:
    """Return one group with a device for each NUMA node."""
    return (tuple(_numa(index) for index in range(numa_nodes)),)


def _numa(index: int) -> Device:
    return Device(
        name=f"numa-{index}",
        attributes={"numaNodeID": DeviceAttribute(int_=index)},
        capacity={CPU_CAPACITY: DeviceCapacity(value=Quantity.of_int(_CPUS))},
        allow_multiple_allocations=True,
        node_allocatable_resource_mappings={"cpu": NodeAllocatableResourceMapping(capacity_key=CPU_CAPACITY)},
    )
