"""Small random scenarios that combine all features of the allocator.

They aim at the parts of the search that the engine skips: few kinds of devices, so that many are equal; more requests
than devices, so that it backtracks; several requests and claims that compete; and hazards (selectors that fail, ``All``
under a constraint), which must be hit or missed exactly as by a search through every branch. Half of them are
*crowded*: one pool without hazards, where the engine can skip most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from allotment.engine import Inventory
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
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
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

NODE = "n1"
FEATURES = Features(
    "1.36",
    dict.fromkeys(
        (
            "DRAAdminAccess",
            "DRAConsumableCapacity",
            "DRADeviceBindingConditions",
            "DRADeviceTaints",
            "DRAListTypeAttributes",
            "DRAPartitionableDevices",
            "DRAPrioritizedList",
        ),
        True,
    ),
)

T = TypeVar("T")


class Pick(Protocol):
    """Chooses one of the options; the first is the simplest, and one that is listed twice is twice as likely."""

    def __call__(self, options: Sequence[T], /) -> T: ...


class Scenario(NamedTuple):
    """A node with its devices, and a pod's claims."""

    inventory: Inventory
    claims: tuple[ResourceClaim, ...]


def scenario(pick: Pick) -> Scenario:
    """A random scenario."""
    crowded = pick((False, True))
    slices = _slices(pick, crowded)
    held = [claim for slice_ in slices for d in slice_.spec.devices or () for claim in _holders(pick, slice_, d)]
    inventory = Inventory.of(FEATURES, nodes=[(NODE, {})], slices=slices, classes=_classes(pick), claims=held)
    return Scenario(inventory, tuple(_claim(pick, f"c{i}", crowded) for i in range(pick((1, 1, 1, 2, 2, 3)))))


# --- devices and state
# -------------------------------------------------------------------------------------------------


def _amount(number: int) -> Quantity:
    return Quantity.of_int(number)


def _classes(pick: Pick) -> list[DeviceClass]:
    gpu = _selectors(pick((*["true"] * 7, 'device.driver == "b.io"')))
    return [
        DeviceClass(metadata=ObjectMeta(name="any")),
        DeviceClass(metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(selectors=gpu)),
    ]


def _selectors(*expressions: str) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=e)) for e in expressions)


def _slices(pick: Pick, crowded: bool) -> list[ResourceSlice]:
    """One pool, or two that may have the same name; devices of at most three kinds, and their counters."""
    pools = pick(
        ([("a.io", "p")],)
        if crowded
        else ((("a.io", "p"),), (("a.io", "p"), ("b.io", "p")), (("a.io", "p"), ("a.io", "q")))
    )
    created = []
    sizes = (pick((4, 2, 3, 5, 6, 6)),) if len(pools) == 1 else (pick((2, 1, 3)), pick((2, 1, 3)))
    counted = pick((False, True))
    with_lists = pick((False, True))
    models = [_model(pick, counted, with_lists) for _ in range(pick((1, 2, 2, 3)))]
    for number, ((driver, name), size) in enumerate(zip(pools, sizes, strict=True)):
        pool = ResourcePool(name=name, generation=1, resource_slice_count=2 if counted else 1)
        if pick((*[False] * 29, True)):
            pool = ResourcePool(name=name, generation=1, resource_slice_count=3)
        devices = tuple(_device(pick, f"d{i}", pick(models), with_lists) for i in range(size))
        spec = ResourceSliceSpec(driver=driver, node_name=NODE, pool=pool, devices=devices)
        created.append(ResourceSlice(metadata=ObjectMeta(name=f"s{number}"), spec=spec))
        if counted:
            sets = tuple(
                CounterSet(name=card, counters={c: Counter(value=_amount(pick((4, 3, 2)))) for c in ("m", "n")})
                for card in ("card0", "card1")
            )
            spec = ResourceSliceSpec(driver=driver, node_name=NODE, pool=pool, shared_counters=sets)
            created.append(ResourceSlice(metadata=ObjectMeta(name=f"s{number}-counters"), spec=spec))
    return created


def _model(pick: Pick, counted: bool, with_lists: bool) -> Device:
    """The common properties of devices of one kind."""
    shareable = pick((None, None, True))
    draws: list[DeviceCounterConsumption] = []
    if counted and pick((True, True, False)):
        counters = {"m": Counter(value=_amount(pick((1, 2, 3))))}
        if pick((0, 1)):
            counters["n"] = Counter(value=_amount(pick((1, 2))))
        draws.append(DeviceCounterConsumption(counter_set=pick(("card0", "card0", "card1")), counters=counters))
    taint = DeviceTaint(key="t", value="v", effect=pick(("NoSchedule", "NoExecute", "None")))
    return Device(
        attributes={"kind": DeviceAttribute(string=pick(("x", "y"))), **_attributes(pick, with_lists)},
        capacity=_capacity(pick, bool(shareable)),
        consumes_counters=tuple(draws),
        taints=(taint,) if pick((*[False] * 7, True)) else (),
        allow_multiple_allocations=shareable,
        binding_conditions=("ready",) if pick((False, False, False, False, False, True)) else (),
    )


def _device(pick: Pick, name: str, model: Device, with_lists: bool) -> Device:
    """A device of a kind; some differ in the compared attributes, or in the card whose counters they consume."""
    values: dict[str, object] = {"name": name}
    if pick((False, True)):
        values["attributes"] = {**model.attributes, **_attributes(pick, with_lists)}
    moved = pick((False, True))
    if model.consumes_counters and moved:
        draws = model.consumes_counters[0]
        values["consumes_counters"] = (DeviceCounterConsumption(counter_set="card1", counters=draws.counters),)
    return msgspec.structs.replace(model, **values)


def _attributes(pick: Pick, with_lists: bool) -> dict[str, DeviceAttribute]:
    found = {}
    for name in ("x.io/root", "slot"):
        value = pick((0, 0, 0, 1, 1, 1, 2, 2, 3, None))
        if with_lists and pick((False, True, True)):
            found[name] = DeviceAttribute(ints=pick(((0, 1), (0,), (1, 2), (0, 2), (2, 3), (1, 3))))
        elif value == 3:
            found[name] = DeviceAttribute(string="zero")
        elif value is not None:
            found[name] = DeviceAttribute(int_=value)
    return found


def _capacity(pick: Pick, shareable: bool) -> dict[str, DeviceCapacity]:
    if not shareable:
        return {"memory": DeviceCapacity(value=_amount(pick((4, 8))))} if pick((False, True)) else {}
    policy = pick(
        (
            None,
            None,
            CapacityRequestPolicy(default=_amount(1), valid_values=(_amount(1), _amount(2), _amount(4))),
            CapacityRequestPolicy(
                default=_amount(2), valid_range=CapacityRequestPolicyRange(min=_amount(1), step=_amount(2))
            ),
        )
    )
    amounts = {"memory": DeviceCapacity(value=_amount(pick((4, 5, 8))), request_policy=policy)}
    if pick((False, False, True)):
        policy = CapacityRequestPolicy(default=_amount(0), valid_values=(_amount(0), _amount(1)))
        amounts["cores"] = DeviceCapacity(value=_amount(2), request_policy=policy)
    return amounts if pick((True, True, True, False)) else {}


def _holders(pick: Pick, slice_: ResourceSlice, device: Device) -> list[ResourceClaim]:
    """The claim that the device or a share of it is allocated to, if any."""
    if not pick((*[False] * 7, True)):
        return []
    shared = device.allow_multiple_allocations is True and pick((True, True, True, False))
    consumed = {name: _amount(1) for name in device.capacity} if shared else {}
    result = DeviceRequestAllocationResult(
        request="r",
        driver=slice_.spec.driver,
        pool=slice_.spec.pool.name,
        device=device.name,
        share_id="before" if shared else None,
        consumed_capacity=consumed,
        admin_access=pick((None, None, None, True)),
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    metadata = ObjectMeta(name=f"{slice_.metadata.name}-{device.name}", namespace="other")
    return [ResourceClaim(metadata=metadata, status=ResourceClaimStatus(allocation=allocation))]


# --- claims
# ------------------------------------------------------------------------------------------------------------


def _claim(pick: Pick, name: str, crowded: bool) -> ResourceClaim:
    requests = tuple(_request(pick, f"r{i}", crowded) for i in range(pick((1, 1, 2, 2, 3))))
    constraints = tuple(_constraint(pick, requests) for _ in range(pick((0, 0, 1, 1, 2))))
    devices = DeviceClaim(requests=requests, constraints=constraints)
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="ns"), spec=ResourceClaimSpec(devices=devices))


def _constraint(pick: Pick, requests: tuple[DeviceRequest, ...]) -> DeviceConstraint:
    names = [r.name for r in requests]
    names += [f"{r.name}/{s.name}" for r in requests for s in r.first_available]
    listed = tuple(dict.fromkeys((pick(names), pick(names)))) if pick((False, False, True)) else ()
    attribute = pick(("x.io/root", "x.io/root", "x.io/root", "a.io/slot"))
    if pick((True, False)):
        return DeviceConstraint(requests=listed, match_attribute=attribute)
    return DeviceConstraint(requests=listed, distinct_attribute=attribute)


def _request(pick: Pick, name: str, crowded: bool) -> DeviceRequest:
    def common() -> dict[str, object]:
        all_ = not crowded and pick((*[False] * 9, True))
        amount = pick((None, None, None, None, 1, 2, 3, 6))
        expression = pick(
            (
                *[""] * 8,
                'device.driver == "a.io"',
                'device.attributes["a.io"].kind == "x"',
                'device.attributes["a.io"].?kind.orValue("") == "y"',
                'device.attributes["a.io"].slot == 0',
            )
        )
        return {
            "device_class_name": pick(("any", "any", "gpu")),
            "selectors": _selectors(expression) if expression and not crowded else (),
            "allocation_mode": "All" if all_ else "ExactCount",
            "count": 0 if all_ else pick((1, 1, 1, 1, 2, 2, 3)),
            "tolerations": (DeviceToleration(key="t", operator="Exists"),) if pick((False, False, True)) else (),
            "capacity": CapacityRequirements(requests={"memory": _amount(amount)}) if amount else None,
        }

    if not pick((False, False, False, True)):
        admin = pick((None, None, None, None, None, None, True))
        return DeviceRequest(name=name, exactly=ExactDeviceRequest(admin_access=admin, **common()))  # type: ignore[arg-type]
    subs = tuple(DeviceSubRequest(name=f"s{i}", **common()) for i in range(pick((2, 1, 3))))  # type: ignore[arg-type]
    return DeviceRequest(name=name, first_available=subs)
