"""Plain values in a driver's devices, and values that Kubernetes has no type for."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.drivers.device_values import InvalidDevice, device, pools_of
from allotment.drivers.driver import DevicePool
from allotment.fleet import cluster_of, parse_fleet
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
    DeviceTaint,
)

GIB = Quantity.parse("1Gi")
ATTRIBUTE = "str, int, bool, a sequence of one of these, or DeviceAttribute"
LARGE = f"attribute 'size': expected an integer of at most 64 bits, found int {2**63}"


def untyped(**fields: Any) -> Device:
    """A device as a driver without type checks creates it."""
    return Device(**{"name": "fpga-0", **fields})


def converted(found: Device) -> Device:
    """The device as it is published."""
    ((group,),) = [pool.groups for pool in pools_of([DevicePool([[found]])])]
    (published,) = group
    return published


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        ("Stratix", DeviceAttribute(string="Stratix")),
        ("1.2.3", DeviceAttribute(string="1.2.3")),
        (16, DeviceAttribute(int_=16)),
        (-(2**63), DeviceAttribute(int_=-(2**63))),
        (True, DeviceAttribute(bool_=True)),
        (["a", "b"], DeviceAttribute(strings=("a", "b"))),
        ((1, 2), DeviceAttribute(ints=(1, 2))),
        ([True, False], DeviceAttribute(bools=(True, False))),
        (DeviceAttribute(version="1.2.3"), DeviceAttribute(version="1.2.3")),
        (DeviceAttribute(versions=("1.2.3",)), DeviceAttribute(versions=("1.2.3",))),
    ],
)
def test_plain_values_become_attributes(value: Any, attribute: DeviceAttribute) -> None:
    assert device("fpga-0", attributes={"a": value}).attributes == {"a": attribute}
    assert converted(untyped(attributes={"a": value})).attributes == {"a": attribute}


@pytest.mark.parametrize("value", ["1Gi", 2**30, GIB, DeviceCapacity(value=GIB)])
def test_plain_values_become_quantities(value: Any) -> None:
    assert device("fpga-0", capacity={"memory": value}).capacity == {"memory": DeviceCapacity(value=GIB)}
    assert converted(untyped(capacity={"memory": value})).capacity == {"memory": DeviceCapacity(value=GIB)}


def test_quantities_in_kubernetes_types_can_be_plain() -> None:
    limits: Any = {"min": "1Gi", "step": 2**30}
    policy: Any = {"default": "1Gi", "valid_values": ["1Gi"], "valid_range": CapacityRequestPolicyRange(**limits)}
    shared: Any = {"value": "1Gi", "request_policy": CapacityRequestPolicy(**policy)}
    assert converted(untyped(capacity={"memory": DeviceCapacity(**shared)})).capacity["memory"] == DeviceCapacity(
        value=GIB,
        request_policy=CapacityRequestPolicy(
            default=GIB, valid_values=(GIB,), valid_range=CapacityRequestPolicyRange(min=GIB, step=GIB)
        ),
    )


def test_counters_can_be_plain() -> None:
    plain: Any = {"memory": "1Gi", "logic": Counter(value=GIB)}
    consumed = DeviceCounterConsumption(counter_set="board", counters=plain)
    fpga = device("fpga-0", consumes_counters=[consumed])
    ((groups, counter_sets, *_),) = pools_of([DevicePool([[fpga]], [CounterSet(name="board", counters=plain)])])
    counters = {"memory": Counter(value=GIB), "logic": Counter(value=GIB)}
    assert counter_sets == (CounterSet(name="board", counters=counters),)
    assert groups[0][0].consumes_counters == (DeviceCounterConsumption(counter_set="board", counters=counters),)


def test_other_fields_of_a_device_can_be_set() -> None:
    taint = DeviceTaint(key="example.com/repair", effect="NoSchedule")
    assert device("fpga-0", taints=[taint], allow_multiple_allocations=True) == Device(
        name="fpga-0", taints=(taint,), allow_multiple_allocations=True
    )
    assert device("fpga-0") == Device(name="fpga-0")


@pytest.mark.parametrize("hardware", ["dgx-a100-40gb", "dgx-a100-40gb/dynamic-mig", "mi300x"])
def test_devices_of_kubernetes_types_stay_the_same_objects(hardware: str) -> None:
    slices = cluster_of(parse_fleet([hardware]), "1.36").slices
    devices = [each for slice_ in slices for each in slice_.spec.devices or ()]
    assert devices
    assert all(converted(each) is each for each in devices)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"clock": 1.5}, f"attribute 'clock': expected {ATTRIBUTE}, found float 1.5"),
        ({"clock": None}, f"attribute 'clock': expected {ATTRIBUTE}, found None"),
        ({"id": b"a"}, f"attribute 'id': expected {ATTRIBUTE}, found bytes b'a'"),
        ({"id": {"string": "a"}}, f"attribute 'id': expected {ATTRIBUTE}, found dict {{'string': 'a'}}"),
        ({"id": object()}, f"attribute 'id': expected {ATTRIBUTE}, found object"),
        ({"ports": []}, f"attribute 'ports': expected {ATTRIBUTE}, found list []"),
        ({"ports": [1, "a"]}, f"attribute 'ports': expected {ATTRIBUTE}, found list [1, 'a']"),
        ({"ports": [1, True]}, f"attribute 'ports': expected {ATTRIBUTE}, found list [1, True]"),
        ({"size": 2**63}, LARGE),
        ({"size": DeviceAttribute(int_=2**63)}, LARGE),
        ({5: "a"}, "attribute: expected str as name, found int 5"),
        (["a"], "attribute: expected a mapping of names to values, found list ['a']"),
    ],
)  # fmt: skip
def test_an_attribute_of_a_wrong_type_is_rejected(attributes: Any, message: str) -> None:
    with pytest.raises(InvalidDevice) as error:
        device("fpga-0", attributes=attributes)
    assert str(error.value) == f"device 'fpga-0': {message}"
    with pytest.raises(InvalidDevice) as error:
        pools_of([DevicePool([[untyped(attributes=attributes)]])])
    assert str(error.value) == f"device 'fpga-0': {message}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"string": 5}, "expected str in DeviceAttribute.string, found int 5"),
        ({"version": 1.2}, "expected str in DeviceAttribute.version, found float 1.2"),
        ({"int_": True}, "expected int in DeviceAttribute.int_, found bool True"),
        ({"strings": ["a"]}, "expected a tuple of str in DeviceAttribute.strings, found list ['a']"),
        ({"ints": ("a",)}, "expected a tuple of int in DeviceAttribute.ints, found tuple ('a',)"),
    ],
)
def test_a_field_of_an_attribute_of_a_wrong_type_is_rejected(fields: Any, message: str) -> None:
    with pytest.raises(InvalidDevice) as error:
        device("fpga-0", attributes={"a": DeviceAttribute(**fields)})
    assert str(error.value) == f"device 'fpga-0': attribute 'a': {message}"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("16 GB", "'16 GB'"),
        ("", "''"),
        (1.5, "float 1.5"),
        (True, "bool True"),
        (None, "None"),
        (DeviceCapacity(value="16 GB"), "'16 GB'"),  # type: ignore[arg-type]
        (DeviceCapacity(request_policy=CapacityRequestPolicy(default=1.5)), "float 1.5"),  # type: ignore[arg-type]
    ],
)
def test_a_capacity_that_is_no_quantity_is_rejected(value: Any, found: str) -> None:
    with pytest.raises(InvalidDevice) as error:
        converted(untyped(capacity={"memory": value}))
    expected = f"""device 'fpga-0': capacity 'memory': expected a quantity such as "16Gi", found {found}"""
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("discovered", "message"),
    [
        (None, "discover(): expected a sequence of DevicePool, found None"),
        (DevicePool([]), "discover(): expected a sequence of DevicePool, found DevicePool"),
        ([[Device(name="a")]], "discover(): expected a sequence of DevicePool, found list "),
        ([DevicePool([Device(name="a")])], "pool: groups: expected a sequence of groups of devices, found Device"),  # type: ignore[list-item]
        ([DevicePool([["fpga-0"]], name="p")], "pool 'p': groups: expected a sequence of Device, found 'fpga-0'"),  # type: ignore[list-item]
        ([DevicePool(iter(()))], "pool: groups: expected a sequence of groups of devices, found tuple_iterator"),  # type: ignore[arg-type]
        ([DevicePool([[untyped(name=5)]])], "name of a device: expected str, found int 5"),
        (
            [DevicePool([], [CounterSet(name="board", counters={"memory": 1.5})])],  # type: ignore[dict-item]
            """counter set 'board': counter 'memory': expected a quantity such as "16Gi", found float 1.5""",
        ),
    ],
)
def test_pools_of_wrong_types_are_rejected(discovered: Any, message: str) -> None:
    with pytest.raises(InvalidDevice) as error:
        pools_of(discovered)
    assert str(error.value).startswith(message)
