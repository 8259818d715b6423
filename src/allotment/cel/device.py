"""The ``device`` variable of selectors, converted from a device of a ResourceSlice.

All attributes are converted before an expression runs, so one invalid attribute fails every expression for its device,
even ``true``. A :class:`DeviceInput` converts its device lazily and at most twice: with and without list attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from allotment.cel.evaluation.values import EMPTY_MAP, ListValue, MapValue, Value
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute
from allotment.model.semver import Semver, SemverError

UNSUPPORTED: Final = "unsupported attribute value"


class DeviceVariable:
    """The value of ``device``: attributes and capacity as domain → id → value.

    ``error`` is the error of every evaluation, set if an attribute cannot be converted.
    """

    __slots__ = ("_domains", "_whole", "attributes", "capacity", "driver", "allow_multiple_allocations", "error")

    def __init__(self, driver: str, device: Device, lists: bool) -> None:
        self.driver = driver
        self.allow_multiple_allocations = bool(device.allow_multiple_allocations)
        self.attributes: dict[str, dict[str, Value]] = {}
        self.capacity: dict[str, dict[str, Quantity]] = {}
        self.error: str | None = None
        self._domains: dict[tuple[str, str], MapValue] = {}
        self._whole: MapValue | None = None
        for name, attribute in device.attributes.items():
            try:
                value = attribute_value(attribute, lists)
            except ValueError as error:
                # Of several invalid attributes upstream reports a random one; we report the first in name order.
                bad = f"attribute {name}: {error}"
                if self.error is None or bad < self.error:
                    self.error = bad
                continue
            domain, identifier = split_qualified_name(name, driver)
            self.attributes.setdefault(domain, {})[identifier] = value
        for name, capacity in device.capacity.items():
            domain, identifier = split_qualified_name(name, driver)
            self.capacity.setdefault(domain, {})[identifier] = capacity.value

    def domain(self, kind: str, domain: str) -> MapValue:
        """The values of one domain, empty if unknown; ``kind`` is attributes or capacity."""
        found = self._domains.get((kind, domain))
        if found is None:
            values: dict[str, Value] = (self.attributes if kind == "attributes" else self.capacity).get(domain, {})
            found = MapValue.from_strings(values.items()) if values else EMPTY_MAP
            self._domains[kind, domain] = found
        return found

    def as_map(self) -> MapValue:
        """The variable as a CEL map of its fields. A lookup of an unknown domain gives an empty map."""
        if self._whole is None:
            self._whole = MapValue.from_strings(
                [
                    ("driver", self.driver),
                    ("allowMultipleAllocations", self.allow_multiple_allocations),
                    ("attributes", self._domains_as_map("attributes", self.attributes)),
                    ("capacity", self._domains_as_map("capacity", self.capacity)),
                ]
            )
        return self._whole

    def _domains_as_map(self, kind: str, domains: Iterable[str]) -> MapValue:
        return MapValue.from_strings([(name, self.domain(kind, name)) for name in domains], EMPTY_MAP)

    def path_key(self, path: tuple[str, ...]) -> Hashable:
        """A key for the values at a path of :attr:`Selector.device_paths`: CEL cannot distinguish values of equal
        keys."""
        if path[0] == "driver":
            return self.driver
        if path[0] == "allowMultipleAllocations":
            return self.allow_multiple_allocations
        domains = self.attributes if path[0] == "attributes" else self.capacity
        if len(path) == 1:
            return tuple(sorted((d, _domain_key(values)) for d, values in domains.items()))
        values: dict[str, Value] = domains.get(path[1], {})
        if len(path) == 2:
            return _domain_key(values)
        value = values.get(path[2])
        # Fast path: most attributes are strings, and there are many devices.
        return value if value is None or type(value) is str else value_key(value)


def _domain_key(values: dict[str, Value]) -> tuple[tuple[str, Hashable], ...]:
    return tuple(sorted((name, value_key(value)) for name, value in values.items()))


def value_key(value: Value) -> Hashable:
    """A key for a device's value that distinguishes values which are equal in Python (1 and true, 1 and 1000m)."""
    kind = type(value)
    if isinstance(value, str):
        return value
    if kind is Quantity:
        return kind, value.mantissa, value.scale, value.is_small
    if kind is ListValue:
        return kind, *map(value_key, value.items)
    # Equality of versions ignores build metadata; string() does not.
    return kind, str(value) if kind is Semver else value


def split_qualified_name(name: str, driver: str) -> tuple[str, str]:
    """The domain and identifier of a qualified name; the domain defaults to the driver name."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def attribute_value(attribute: DeviceAttribute, lists: bool) -> Value:
    """An attribute's value; list fields are used only with ``lists``. Raises ValueError with upstream's text."""
    if lists:
        found = _list_value(attribute)
        if found is not None:
            return found
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return _version(attribute.version)
    raise ValueError(UNSUPPORTED)


def _list_value(attribute: DeviceAttribute) -> ListValue | None:
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values is not None:
            return ListValue(list(values))
    if attribute.versions is not None:
        return ListValue([_version(text) for text in attribute.versions])
    return None


def _version(text: str) -> Semver:
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise ValueError(f"parse semantic version: {error}") from None


class DeviceInput:
    """A device and the driver that publishes it, as the input of selectors.

    Inputs are compared by identity. For many devices, share one input per :func:`content_key`: a selector is evaluated
    at most once per input. ``without_lists`` and ``with_lists`` cache the results of :meth:`variable`.
    """

    __slots__ = ("device", "driver", "with_lists", "without_lists")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.device = device
        self.without_lists: DeviceVariable | None = None
        self.with_lists: DeviceVariable | None = None

    def variable(self, lists: bool) -> DeviceVariable:
        """The device variable; ``lists`` is whether list attributes are accepted."""
        if lists:
            if self.with_lists is None:
                self.with_lists = DeviceVariable(self.driver, self.device, True)
            return self.with_lists
        if self.without_lists is None:
            self.without_lists = DeviceVariable(self.driver, self.device, False)
        return self.without_lists

    def __repr__(self) -> str:
        return f"DeviceInput({self.driver!r}, {self.device.name!r})"


def content_key(driver: str, device: Device) -> Hashable:
    """A key for the data that expressions can access; devices with equal keys can share a :class:`DeviceInput`."""
    attributes = tuple(sorted(device.attributes.items(), key=lambda item: item[0]))
    capacity = tuple(sorted((name, value_key(c.value)) for name, c in device.capacity.items()))
    return driver, bool(device.allow_multiple_allocations), attributes, capacity
