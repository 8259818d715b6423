"""The values of a driver's devices: Kubernetes' types, or plain ``str``, ``int``, ``bool`` and ``"16Gi"``.

The framework converts plain values after each discovery. A value that Kubernetes has no type for is a mistake in the
driver, not in the hardware: it is reported with the device before anything is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import repr as shortened
from typing import Any, Final, TypeAlias, TypeVar, cast

from msgspec.structs import astuple, replace

from allotment.drivers.driver import AttributeValue, DevicePool
from allotment.model.quantity import Quantity, QuantityError
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

CapacityValue: TypeAlias = DeviceCapacity | Quantity | str | int

_ATTRIBUTE: Final = "str, int, bool, a sequence of one of these, or DeviceAttribute"
_QUANTITY: Final = 'a quantity such as "16Gi"'
#: The fields of DeviceAttribute for one value and for several, by the type of a value.
_FIELDS: Final[Mapping[type, tuple[str, str]]] = {
    bool: ("bool_", "bools"),  # before int: True is an int
    int: ("int_", "ints"),
    str: ("string", "strings"),
}
_TYPES: Final[Mapping[str, type]] = {"bool_": bool, "int_": int, "string": str, "version": str}
_LIST_TYPES: Final[Mapping[str, type]] = {"bools": bool, "ints": int, "strings": str, "versions": str}
#: The types of the fields of an attribute with one value.
_SINGLE: Final = frozenset(
    tuple(_TYPES[each] if each == field else type(None) for each in DeviceAttribute.__struct_fields__)
    for field in _TYPES
)
_INT64: Final = range(-(2**63), 2**63)

T = TypeVar("T")


class InvalidDevice(TypeError):
    """Raised for values of types that devices cannot have; the text names the device, the value and what to use."""


class _Unexpected(Exception):
    """Raised for one value, by functions that do not know its place."""

    def __init__(self, expected: str, found: object) -> None:
        super().__init__(f"expected {expected}, found {_described(found)}")


def device(
    name: str, *, attributes: Mapping[str, AttributeValue] = {}, capacity: Mapping[str, CapacityValue] = {},
    taints: Sequence[DeviceTaint] = (), consumes_counters: Sequence[DeviceCounterConsumption] = (),
    allow_multiple_allocations: bool = False,
) -> Device:  # fmt: skip
    """Return a device from plain values. Raises InvalidDevice.

    Text is a string attribute; a version is ``DeviceAttribute(version="1.2.3")``.

    >>> fpga = device("fpga-0", attributes={"family": "Stratix", "lanes": 16}, capacity={"memory": "16Gi"})
    >>> fpga.attributes["lanes"].int_, str(fpga.capacity["memory"].value)
    (16, '16Gi')
    """
    where = _device_name(name)
    return Device(
        name=name,
        attributes=_converted(attributes, _attribute, where, "attribute"),
        capacity=_converted(capacity, _capacity, where, "capacity"),
        consumes_counters=_consumptions(consumes_counters, where),
        taints=tuple(_items(taints, DeviceTaint, f"{where}: taints", "a sequence of DeviceTaint")),
        allow_multiple_allocations=allow_multiple_allocations or None,
    )


def attributes_of(device: str, values: Mapping[str, AttributeValue]) -> Mapping[str, DeviceAttribute]:
    """Return the attributes of a device, plain values converted. Raises InvalidDevice."""
    return _converted(values, _attribute, _device_name(device), "attribute")


def pools_of(discovered: object) -> tuple[DevicePool, ...]:
    """Return the pools that a driver discovered, plain values converted. Devices without any stay the same objects.

    Raises InvalidDevice.
    """
    return tuple(map(_pool, _items(discovered, DevicePool, "discover()", "a sequence of DevicePool")))


# --- pools and devices ------------------------------------------------------------------------------------------------


def _pool(pool: DevicePool) -> DevicePool:
    where = f"pool {pool.name!r}" if pool.name else "pool"
    groups = _items(pool.groups, Sequence, f"{where}: groups", "a sequence of groups of devices")
    devices = [_items(group, Device, f"{where}: groups", "a sequence of Device") for group in groups]
    counter_sets = _items(pool.counter_sets, CounterSet, f"{where}: counter_sets", "a sequence of CounterSet")
    return pool._replace(
        groups=tuple(tuple(map(_device, group)) for group in devices),
        counter_sets=tuple(map(_counter_set, counter_sets)),
    )


def _device(device: Device) -> Device:
    where = _device_name(device.name)
    changes = {
        "attributes": _converted(device.attributes, _attribute, where, "attribute"),
        "capacity": _converted(device.capacity, _capacity, where, "capacity"),
        "consumes_counters": _consumptions(device.consumes_counters, where),
    }
    changes = {field: value for field, value in changes.items() if value is not getattr(device, field)}
    return replace(device, **changes) if changes else device


def _device_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidDevice(f"name of a device: expected str, found {_described(name)}")
    return f"device {name!r}"


def _consumptions(values: Any, where: str) -> tuple[DeviceCounterConsumption, ...]:
    consumptions = _items(
        values, DeviceCounterConsumption, f"{where}: consumes_counters", "a sequence of DeviceCounterConsumption"
    )
    result = tuple(_with_counters(each, where) for each in consumptions)
    same = isinstance(values, tuple) and all(new is old for new, old in zip(result, values, strict=True))
    return values if same else result


def _counter_set(counter_set: CounterSet) -> CounterSet:
    return _with_counters(counter_set, f"counter set {counter_set.name!r}")


C = TypeVar("C", CounterSet, DeviceCounterConsumption)


def _with_counters(owner: C, where: str) -> C:
    counters = _converted(owner.counters, _counter, where, "counter")
    return owner if counters is owner.counters else replace(owner, counters=counters)


# --- values -----------------------------------------------------------------------------------------------------------


def _attribute(value: Any) -> DeviceAttribute:
    if isinstance(value, DeviceAttribute):
        return _checked(value)
    if kind := _type_of([value]):
        return DeviceAttribute(**{_FIELDS[kind][0]: value})
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray) and (kind := _type_of(value)):
        values: Any = tuple(value)
        return DeviceAttribute(**{_FIELDS[kind][1]: values})
    raise _Unexpected(_ATTRIBUTE, value)


def _checked(attribute: DeviceAttribute) -> DeviceAttribute:
    """Return the attribute. Raises _Unexpected if a field has another type than its annotation."""
    number = attribute.int_
    if tuple(map(type, astuple(attribute))) in _SINGLE and (number is None or number in _INT64):
        return attribute  # nearly all attributes: the fleets of a lab have many
    for field, kind in _TYPES.items():
        value = getattr(attribute, field)
        if value is not None and _type_of([value]) is not kind:
            raise _Unexpected(f"{kind.__name__} in DeviceAttribute.{field}", value)
    for field, kind in _LIST_TYPES.items():
        values = getattr(attribute, field)
        if values and not (isinstance(values, tuple) and _type_of(values) is kind):
            raise _Unexpected(f"a tuple of {kind.__name__} in DeviceAttribute.{field}", values)
    return attribute


def _type_of(values: Iterable[object]) -> type | None:
    """The type that all values have: bool, int or str; None for no values, other types and mixed ones.

    Raises _Unexpected for an integer that JSON numbers of Kubernetes cannot hold.
    """
    kinds = {next((kind for kind in _FIELDS if isinstance(value, kind)), None) for value in values}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is int:
        for value in values:
            if value not in _INT64:
                raise _Unexpected("an integer of at most 64 bits", value)
    return kind


def _capacity(value: object) -> DeviceCapacity:
    if not isinstance(value, DeviceCapacity):
        return DeviceCapacity(value=_quantity(value))
    quantity, policy = _quantity(value.value), value.request_policy
    if quantity is value.value and policy is None:
        return value
    return DeviceCapacity(value=quantity, request_policy=_request_policy(policy))


def _counter(value: object) -> Counter:
    if not isinstance(value, Counter):
        return Counter(value=_quantity(value))
    quantity = _quantity(value.value)
    return value if quantity is value.value else Counter(value=quantity)


def _request_policy(policy: object) -> CapacityRequestPolicy | None:
    if policy is None:
        return None
    if not isinstance(policy, CapacityRequestPolicy):
        raise _Unexpected("CapacityRequestPolicy", policy)
    limits = policy.valid_range
    if limits is not None:
        limits = CapacityRequestPolicyRange(
            min=_optional(limits.min), max=_optional(limits.max), step=_optional(limits.step)
        )
    values = tuple(map(_quantity, policy.valid_values))
    return CapacityRequestPolicy(default=_optional(policy.default), valid_values=values, valid_range=limits)


def _optional(value: object) -> Quantity | None:
    return None if value is None else _quantity(value)


def _quantity(value: object) -> Quantity:
    if isinstance(value, Quantity):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity.of_int(value)
    if isinstance(value, str):
        try:
            return Quantity.parse(value)
        except QuantityError:
            pass  # the text of the error is a regular expression
    raise _Unexpected(_QUANTITY, value)


# --- collections ------------------------------------------------------------------------------------------------------


def _converted(values: Any, convert: Callable[[Any], T], where: str, noun: str) -> dict[str, T]:
    """Return the mapping with all values converted; the same object if none was changed."""
    if not isinstance(values, Mapping):
        raise InvalidDevice(f"{where}: {noun}: expected a mapping of names to values, found {_described(values)}")
    result: dict[str, T] = {}
    same = isinstance(values, dict)
    for name, value in values.items():
        if not isinstance(name, str):
            raise InvalidDevice(f"{where}: {noun}: expected str as name, found {_described(name)}")
        try:
            result[name] = new = convert(value)
        except _Unexpected as error:
            raise InvalidDevice(f"{where}: {noun} {name!r}: {error}") from None
        same = same and new is value
    return cast("dict[str, T]", values) if same else result


def _items(values: Any, kind: type, where: str, expected: str) -> Sequence[Any]:
    """Return the sequence. Raises InvalidDevice for another type, and for items of another type."""
    if not isinstance(values, Sequence) or isinstance(values, str | DevicePool):  # a pool is a tuple, too
        raise InvalidDevice(f"{where}: expected {expected}, found {_described(values)}")
    for value in values:
        if not isinstance(value, kind):
            raise InvalidDevice(f"{where}: expected {expected}, found {_described(value)}")
    return values


def _described(value: object) -> str:
    """A value in a message: ``float 1.5``, ``'16 GB'``; of objects only the type.

    >>> _described([1, "a"]), _described(None)
    ("list [1, 'a']", 'None')
    """
    if value is None or isinstance(value, str):
        return shortened(value)
    name = type(value).__name__
    is_plain = isinstance(value, int | float | bytes | dict | list | tuple) and not isinstance(value, DevicePool)
    return f"{name} {shortened(value)}" if is_plain else name
