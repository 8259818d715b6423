"""Constructors for the objects in tests of the engine."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.engine import Inventory
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.node_selectors import NodeSelector
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
FEATURES = Features("1.36")


def attributes(**values: int | bool | str) -> dict[str, DeviceAttribute]:
    """Attributes by bare name; ``root`` is the standard attribute pcieRoot."""
    made = {}
    for name, value in values.items():
        if isinstance(value, bool):
            attribute = DeviceAttribute(bool_=value)
        elif isinstance(value, int):
            attribute = DeviceAttribute(int_=value)
        else:
            attribute = DeviceAttribute(string=value)
        made[ROOT if name == "root" else name] = attribute
    return made


def device(
    name: str,
    memory: str = "",
    draws: Mapping[str, str] | None = None,
    taints: tuple[DeviceTaint, ...] = (),
    shareable: bool = False,
    binds_to_node: bool = False,
    binding_conditions: tuple[str, ...] = (),
    **values: int | bool | str,
) -> Device:
    """A device; ``draws`` are amounts of memory by counter set."""
    return Device(
        name=name,
        attributes=attributes(**values),
        capacity={"memory": DeviceCapacity(value=Quantity.parse(memory))} if memory else {},
        consumes_counters=tuple(
            DeviceCounterConsumption(counter_set=name, counters={"memory": Counter(value=Quantity.parse(amount))})
            for name, amount in (draws or {}).items()
        ),
        taints=taints,
        allow_multiple_allocations=True if shareable else None,
        binds_to_node=True if binds_to_node else None,
        binding_conditions=binding_conditions,
        binding_failure_conditions=binding_conditions and ("failed",),
    )


def slice_of(
    *devices: Device,
    node: str | None = "n1",
    pool: str = "",
    name: str = "",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    all_nodes: bool = False,
    selector: NodeSelector | None = None,
    per_device: bool = False,
    counters: Mapping[str, str] | None = None,
) -> ResourceSlice:
    """A slice of the pool named after its node; ``counters`` are memory amounts by counter set."""
    local = not (all_nodes or selector or per_device)
    return ResourceSlice(
        metadata=ObjectMeta(name=name or f"{driver}-{pool or node}"),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=ResourcePool(name=pool or node or "shared", generation=generation, resource_slice_count=count),
            node_name=node if local else None,
            all_nodes=True if all_nodes else None,
            node_selector=selector,
            per_device_node_selection=True if per_device else None,
            devices=devices or None,
            shared_counters=tuple(
                CounterSet(name=name, counters={"memory": Counter(value=Quantity.parse(amount))})
                for name, amount in counters.items()
            )
            if counters
            else None,
        ),
    )


def selectors(*expressions: str) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=e)) for e in expressions)


def class_of(*expressions: str, name: str = "gpu") -> DeviceClass:
    """A class with these selectors."""
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(selectors=selectors(*expressions)))


def request(
    count: int = 1,
    *expressions: str,
    name: str = "r",
    class_name: str = "gpu",
    memory: str = "",
    admin: bool = False,
    tolerations: tuple[DeviceToleration, ...] = (),
) -> DeviceRequest:
    """A request for ``count`` devices; 0 means all."""
    return DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(
            device_class_name=class_name,
            selectors=selectors(*expressions),
            allocation_mode="ExactCount" if count else "All",
            count=count,
            admin_access=True if admin else None,
            tolerations=tolerations,
            capacity=CapacityRequirements(requests={"memory": Quantity.parse(memory)}) if memory else None,
        ),
    )


def first_of(*options: tuple[int, str], name: str = "r") -> DeviceRequest:
    """A prioritized list; options are a count (0 means all) and a selector (empty for none), named a, b, c, …"""
    return DeviceRequest(
        name=name,
        first_available=tuple(
            DeviceSubRequest(
                name=chr(ord("a") + i),
                device_class_name="gpu",
                selectors=selectors(expression) if expression else (),
                allocation_mode="ExactCount" if count else "All",
                count=count,
            )
            for i, (count, expression) in enumerate(options)
        ),
    )


def claim(*requests: DeviceRequest, name: str = "c", match: str = "", distinct: str = "") -> ResourceClaim:
    """A claim with these requests, whose devices match or are distinct in an attribute."""
    constraints = []
    if match:
        constraints.append(DeviceConstraint(match_attribute=match))
    if distinct:
        constraints.append(DeviceConstraint(distinct_attribute=distinct))
    devices = DeviceClaim(requests=requests, constraints=tuple(constraints))
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="default"), spec=ResourceClaimSpec(devices=devices))


def key(claim: ResourceClaim) -> ObjectKey:
    """The claim's name."""
    return ObjectKey(claim.metadata.namespace, claim.metadata.name)


def inventory(
    *slices: ResourceSlice,
    nodes: tuple[str, ...] = ("n1",),
    classes: tuple[DeviceClass, ...] = (class_of(),),
    features: Features = FEATURES,
    labels: Mapping[str, str] | None = None,
) -> Inventory:
    """An inventory; every node has these labels."""
    return Inventory.of(features, nodes=[(node, labels or {}) for node in nodes], slices=slices, classes=classes)


def holding(*devices: str, pool: str = "n1", share_id: str | None = None, memory: str = "") -> AllocationResult:
    """The allocation of another claim."""
    results = tuple(
        DeviceRequestAllocationResult(
            request="r",
            driver=DRIVER,
            pool=pool,
            device=name,
            share_id=share_id,
            consumed_capacity={"memory": Quantity.parse(memory)} if memory else {},
        )
        for name in devices
    )
    return AllocationResult(devices=DeviceAllocationResult(results=results))


def devices_of(results: tuple[AllocationResult, ...]) -> list[list[str]]:
    """The names of the allocated devices, per claim."""
    return [[result.device for result in allocation.devices.results] for allocation in results]
