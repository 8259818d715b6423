"""Small random scenarios that combine all features of the allocator.

They aim at the parts of the search that the engine skips: few kinds of devices, so that many are equal; more requests
than devices, so that it backtracks; several requests and claims that compete; and hazards (selectors that fail, ``All``
under a constraint), which must be hit or missed exactly as by a search through every branch. Half of them are
*crowded*: one pool without hazards, where the engine can skip most.

Scenarios of 1.37 also use what is new there: derived attributes, compatibility groups, skipped node operations and
fractional capacity; in a few, one of these gates is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from allotment.engine import Inventory
from allotment.engine.cluster.node_selection import NodeFacts
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
    DeviceDerivedAttribute,
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
_GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAListTypeAttributes",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
)
#: Gates that are new in 1.37, or were not passed to the allocator before.
_NEW_GATES = (
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAFractionalCapacityRange",
    "DRAOptionalNodeOperations",
)
FEATURES = Features("1.36", dict.fromkeys(_GATES, True))

T = TypeVar("T")


class Pick(Protocol):
    """Chooses one of the options; the first is the simplest, and one that is listed twice is twice as likely."""

    def __call__(self, options: Sequence[T], /) -> T: ...


class Scenario(NamedTuple):
    """A node with its devices, and a pod's claims."""

    features: Features
    node: NodeFacts
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    held: tuple[ResourceClaim, ...]
    """Allocated claims of other pods."""
    claims: tuple[ResourceClaim, ...]

    @property
    def inventory(self) -> Inventory:
        """The cluster state in a new inventory."""
        return Inventory.of(
            self.features, nodes=[self.node], slices=self.slices, classes=self.classes, claims=self.held
        )


def scenario(pick: Pick) -> Scenario:
    """A random scenario of 1.36."""
    crowded = pick((False, True))
    slices = _slices(pick, crowded, ())
    held = [claim for slice_ in slices for d in slice_.spec.devices or () for claim in _holders(pick, slice_, d)]
    classes = _classes(pick)
    claims = tuple(_claim(pick, f"c{i}", crowded, ()) for i in range(pick((1, 1, 1, 2, 2, 3))))
    return Scenario(FEATURES, NodeFacts(NODE), tuple(slices), tuple(classes), tuple(held), claims)


def scenario_of_1_37(pick: Pick) -> Scenario:
    """A random scenario of 1.37, which uses one to four of the features that are new there."""
    crowded = pick((False, True))
    new = tuple(gate for gate in _NEW_GATES if pick((False, True, True)))
    if pick((False, True)):
        new = new[: pick((1, 2))]
    off = pick((*[None] * 7, *_NEW_GATES, "DRAListTypeAttributes"))
    gates = {gate: gate != off for gate in (*_GATES, *_NEW_GATES)}
    declared = pick(((), ("DRAOptionalNodeOperations",), ("DRAOptionalNodeOperations",)))
    slices = _slices(pick, crowded, new)
    held = [claim for slice_ in slices for d in slice_.spec.devices or () for claim in _holders(pick, slice_, d)]
    return Scenario(
        Features("1.37", gates),
        NodeFacts(NODE, {}, frozenset(declared)),
        tuple(slices),
        tuple(_classes(pick)),
        tuple(held),
        tuple(_claim(pick, f"c{i}", crowded, new) for i in range(pick((1, 1, 1, 1, 2)))),
    )


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


def _slices(pick: Pick, crowded: bool, new: tuple[str, ...]) -> list[ResourceSlice]:
    """One pool, or two that may have the same name; devices of at most three kinds, and their counters."""
    pools = pick(
        ([("a.io", "p")],)
        if crowded
        else ((("a.io", "p"),), (("a.io", "p"), ("b.io", "p")), (("a.io", "p"), ("a.io", "q")))
    )
    created = []
    sizes = (pick((4, 2, 3, 5, 6, 6)),) if len(pools) == 1 else (pick((2, 1, 3)), pick((2, 1, 3)))
    grouped = "DRADeviceCompatibilityGroups" in new
    counted = grouped or pick((False, True))
    with_lists = pick((False, True))
    models = [_model(pick, counted, with_lists, new) for _ in range(pick((1, 2, 2, 3)))]
    for number, ((driver, name), size) in enumerate(zip(pools, sizes, strict=True)):
        pool = ResourcePool(name=name, generation=1, resource_slice_count=2 if counted else 1)
        if pick((*[False] * 29, True)):
            pool = ResourcePool(name=name, generation=1, resource_slice_count=3)
        devices = tuple(_device(pick, f"d{i}", pick(models), with_lists, grouped) for i in range(size))
        skipped = "DRAOptionalNodeOperations" in new and pick((False, True))
        operations = pick((("*",), ("NodePrepareResources", "NodeUnprepareResources"))) if skipped else ()
        spec = ResourceSliceSpec(
            driver=driver, node_name=NODE, pool=pool, devices=devices, skip_node_operations=operations
        )
        created.append(ResourceSlice(metadata=ObjectMeta(name=f"s{number}"), spec=spec))
        if counted:
            sets = tuple(
                CounterSet(
                    name=card, counters={c: Counter(value=_amount(pick((4, 3, 2)) + 2 * grouped)) for c in ("m", "n")}
                )
                for card in ("card0", "card1")
            )
            spec = ResourceSliceSpec(driver=driver, node_name=NODE, pool=pool, shared_counters=sets)
            created.append(ResourceSlice(metadata=ObjectMeta(name=f"s{number}-counters"), spec=spec))
    return created


def _groups(pick: Pick) -> tuple[str, ...]:
    options: Sequence[tuple[str, ...]] = (("a",), ("a",), ("b",), ("a", "b"), ("b", "c"), ())
    return pick(options)


def _model(pick: Pick, counted: bool, with_lists: bool, new: tuple[str, ...]) -> Device:
    """The common properties of devices of one kind."""
    shareable = pick((None, None, True))
    draws: list[DeviceCounterConsumption] = []
    if counted and pick((True, True, False)):
        counters = {"m": Counter(value=_amount(pick((1, 2, 3))))}
        if pick((0, 1)):
            counters["n"] = Counter(value=_amount(pick((1, 2))))
        groups: tuple[str, ...] = _groups(pick) if "DRADeviceCompatibilityGroups" in new else ()
        draws.append(
            DeviceCounterConsumption(
                counter_set=pick(("card0", "card0", "card1")), counters=counters, compatibility_groups=groups
            )
        )
        in_both = pick((False, False, True)) if groups else False
        if in_both:
            other = "card1" if draws[0].counter_set == "card0" else "card0"
            counters = {"n": Counter(value=_amount(1))}
            draws.append(
                DeviceCounterConsumption(counter_set=other, counters=counters, compatibility_groups=_groups(pick))
            )
    taint = DeviceTaint(key="t", value="v", effect=pick(("NoSchedule", "NoExecute", "None")))
    return Device(
        attributes={"kind": DeviceAttribute(string=pick(("x", "y"))), **_attributes(pick, with_lists)},
        capacity=_capacity(pick, bool(shareable), "DRAFractionalCapacityRange" in new),
        consumes_counters=tuple(draws),
        taints=(taint,) if pick((*[False] * 7, True)) else (),
        allow_multiple_allocations=shareable,
        binding_conditions=("ready",) if pick((False, False, False, False, False, True)) else (),
    )


def _device(pick: Pick, name: str, model: Device, with_lists: bool, grouped: bool = False) -> Device:
    """A device of a kind; some differ in the compared attributes, or in the card whose counters they consume."""
    values: dict[str, object] = {"name": name}
    if pick((False, True)):
        values["attributes"] = {**model.attributes, **_attributes(pick, with_lists)}
    moved = pick((False, True))
    if model.consumes_counters and moved:
        draws = model.consumes_counters[0]
        groups = _groups(pick) if grouped else ()
        values["consumes_counters"] = (
            DeviceCounterConsumption(counter_set="card1", counters=draws.counters, compatibility_groups=groups),
        )
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


def _fractions(pick: Pick) -> dict[str, DeviceCapacity]:
    """A shareable capacity in thousandths; some policies cannot represent every request."""
    low, step = pick((("250m", "250m"), ("500m", "100m"), ("1", "500m"), ("1500m", "1"), ("0", "333m"), ("1", "500u")))
    policy = CapacityRequestPolicy(
        default=Quantity.parse(low),
        valid_range=CapacityRequestPolicyRange(
            min=Quantity.parse(low),
            max=pick((None, Quantity.parse("2500m"), _amount(4))),
            step=pick((None, Quantity.parse(step), Quantity.parse(step), Quantity.parse(step))),
        ),
    )
    value = Quantity.parse(pick(("2", "3500m", "4", "6")))
    amounts = {"memory": DeviceCapacity(value=value, request_policy=policy)}
    if pick((*[False] * 9, True)):
        amounts["cores"] = DeviceCapacity(value=_amount(2), request_policy=CapacityRequestPolicy(default=_amount(-1)))
    return amounts


def _capacity(pick: Pick, shareable: bool, fractions: bool) -> dict[str, DeviceCapacity]:
    if fractions and pick((True, True, False)):
        return _fractions(pick)
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


def _claim(pick: Pick, name: str, crowded: bool, new: tuple[str, ...]) -> ResourceClaim:
    requests = tuple(_request(pick, f"r{i}", crowded, new) for i in range(pick((1, 1, 2) if new else (1, 1, 2, 2, 3))))
    derived = "DRADerivedAttributes" in new
    constraints = tuple(
        _constraint(pick, requests, derived) for _ in range(pick((1, 2) if derived else (0, 0, 1, 1, 2)))
    )
    devices = DeviceClaim(requests=requests, constraints=constraints)
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="ns"), spec=ResourceClaimSpec(devices=devices))


def _constraint(pick: Pick, requests: tuple[DeviceRequest, ...], derived: bool) -> DeviceConstraint:
    names = [r.name for r in requests]
    names += [f"{r.name}/{s.name}" for r in requests for s in r.first_available]
    listed = tuple(dict.fromkeys((pick(names), pick(names)))) if pick((False, False, True)) else ()
    attribute = pick(("x.io/root", "x.io/root", "x.io/root", "a.io/slot", *[_VIRTUAL] * 2 * derived))
    if pick((True, False)):
        return DeviceConstraint(requests=listed, match_attribute=attribute)
    return DeviceConstraint(requests=listed, distinct_attribute=attribute)


#: An attribute that only requests define.
_VIRTUAL = "y.io/virtual"
#: Expressions of derived attributes for all drivers; the attributes that the first ones read may be missing.
_SOUND = (
    'device.attributes["x.io"].?root.orValue(7)',
    'device.attributes["a.io"].?slot.orValue(0)',
    'device.attributes["a.io"].?kind.orValue("y")',
    "device.driver",
    "device.allowMultipleAllocations",
    '[device.driver, device.attributes["a.io"].?kind.orValue("y")]',
    '"kind" in device.attributes["a.io"] ? [1, 2] : [2, 3]',
    'semver("1.2.3")',
    "3",
)
_UNSOUND = (
    'device.attributes["a.io"].slot',
    'device.attributes["x.io"].root',
    'device.attributes["a.io"].kind + "/x"',
    "[]",
    "dyn(1.5)",
    "[dyn(1), dyn(true)]",
    "1.5",
    "noSuchVariable",
)


def _derived(pick: Pick, crowded: bool) -> tuple[DeviceDerivedAttribute, ...]:
    if pick((*[False] * 5, True)):
        return ()
    names = pick(((_VIRTUAL,), (_VIRTUAL, "x.io/root"), ("x.io/root",), ("a.io/slot",), (_VIRTUAL, "a.io/slot")))
    expressions = _SOUND if crowded else (*_SOUND * 3, *_UNSOUND)
    return tuple(DeviceDerivedAttribute(name=name, expression=pick(expressions)) for name in names)


def _request(pick: Pick, name: str, crowded: bool, new: tuple[str, ...]) -> DeviceRequest:
    def common() -> dict[str, object]:
        all_ = not crowded and pick((*[False] * 9, True))
        wanted = pick((*[None] * 6, 1, 2) if new else (None, None, None, None, 1, 2, 3, 6))
        amount = _amount(wanted) if wanted else None
        if "DRAFractionalCapacityRange" in new and pick((False, False, True)):
            amounts: tuple[str, ...] = ("100m", "250m", "700m", "1250m", "2", "1")
            if not crowded:
                amounts = (*amounts * 3, "100u", "-1", "9223372036854775808")
            amount = Quantity.parse(pick(amounts))
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
            "capacity": CapacityRequirements(requests={"memory": amount}) if amount else None,
            "derived_attributes": _derived(pick, crowded) if "DRADerivedAttributes" in new else (),
        }

    if not pick((False, False, False, True)):
        admin = pick((None, None, None, None, None, None, True))
        return DeviceRequest(name=name, exactly=ExactDeviceRequest(admin_access=admin, **common()))  # type: ignore[arg-type]
    subs = tuple(DeviceSubRequest(name=f"s{i}", **common()) for i in range(pick((2, 1, 3))))  # type: ignore[arg-type]
    return DeviceRequest(name=name, first_available=subs)
