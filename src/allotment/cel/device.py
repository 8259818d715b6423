"""From a device of the model to the ``device`` variable.

All attributes are converted before an expression runs, so one bad attribute fails every expression for its device,
even ``true``. Conversion is done once per :class:`DeviceInput`, lazily, for each of the two ways in which list
attributes can be treated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from allotment.cel.evaluation.values import EMPTY_MAP, ListValue, MapValue, Value
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute
from allotment.model.semver import Semver, SemverError

UNSUPPORTED: Final = "unsupported attribute value"


class Bound:
    """A device as expressions see it: attributes and capacity as domain → id → value.

    ``problem`` is the error that every evaluation gives when an attribute cannot be converted.
    """

    __slots__ = ("_domains", "_whole", "attributes", "capacity", "driver", "multiple", "problem")

    def __init__(self, driver: str, device: Device, lists: bool) -> None:
        self.driver = driver
        self.multiple = bool(device.allow_multiple_allocations)
        self.attributes: dict[str, dict[str, Value]] = {}
        self.capacity: dict[str, dict[str, Quantity]] = {}
        self.problem: str | None = None
        self._domains: dict[tuple[str, str], MapValue] = {}
        self._whole: MapValue | None = None
        for name, attribute in device.attributes.items():
            try:
                value = attribute_value(attribute, lists)
            except ValueError as error:
                # With several bad ones upstream names one by chance; we name the first by name.
                bad = f"attribute {name}: {error}"
                if self.problem is None or bad < self.problem:
                    self.problem = bad
                continue
            domain, identifier = split_name(name, driver)
            self.attributes.setdefault(domain, {})[identifier] = value
        for name, capacity in device.capacity.items():
            domain, identifier = split_name(name, driver)
            self.capacity.setdefault(domain, {})[identifier] = capacity.value

    def domain(self, kind: str, domain: str) -> MapValue:
        """The values of one domain, empty when there is none; ``kind`` is attributes or capacity."""
        found = self._domains.get((kind, domain))
        if found is None:
            values: dict[str, Value] = (self.attributes if kind == "attributes" else self.capacity).get(domain, {})
            found = MapValue.of_strings(values.items()) if values else EMPTY_MAP
            self._domains[kind, domain] = found
        return found

    def whole(self) -> MapValue:
        """The ``device`` variable as a value: a map of its fields. Domains that do not exist are empty maps."""
        if self._whole is None:
            self._whole = MapValue.of_strings(
                [
                    ("driver", self.driver),
                    ("allowMultipleAllocations", self.multiple),
                    ("attributes", self._domain_map("attributes", self.attributes)),
                    ("capacity", self._domain_map("capacity", self.capacity)),
                ]
            )
        return self._whole

    def _domain_map(self, kind: str, domains: Iterable[str]) -> MapValue:
        return MapValue.of_strings([(name, self.domain(kind, name)) for name in domains], EMPTY_MAP)

    def key(self, path: tuple[str, ...]) -> Hashable:
        """What stands at a path of :attr:`Selector.reads`, as a key: equal keys cannot be told apart by CEL."""
        if path[0] == "driver":
            return self.driver
        if path[0] == "allowMultipleAllocations":
            return self.multiple
        domains = self.attributes if path[0] == "attributes" else self.capacity
        if len(path) == 1:
            return tuple(sorted((d, _domain_key(values)) for d, values in domains.items()))
        values: dict[str, Value] = domains.get(path[1], {})
        if len(path) == 2:
            return _domain_key(values)
        value = values.get(path[2])
        # A string stands for itself: most attributes are strings, and there are many devices.
        return value if value is None or type(value) is str else value_key(value)


def _domain_key(values: dict[str, Value]) -> tuple[tuple[str, Hashable], ...]:
    return tuple(sorted((name, value_key(value)) for name, value in values.items()))


def value_key(value: Value) -> Hashable:
    """A device's value as a key that keeps apart what Python would take for equal (1 and true, 1 and 1000m)."""
    kind = type(value)
    if isinstance(value, str):
        return value
    if kind is Quantity:
        return kind, value.mantissa, value.scale, value.is_small
    if kind is ListValue:
        return kind, *map(value_key, value.items)
    # A version's equality leaves out its build metadata, which string() does not.
    return kind, str(value) if kind is Semver else value


def split_name(name: str, driver: str) -> tuple[str, str]:
    """The domain and identifier of a qualified name; without a domain it is the driver's."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def attribute_value(attribute: DeviceAttribute, lists: bool) -> Value:
    """An attribute's value; list fields count only with ``lists``. Raises ValueError with upstream's text."""
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
    """A device and the driver that publishes it, ready for selectors.

    Compared by identity: whoever has many devices should keep one input per distinct content (:func:`content_key`
    tells), because a selector is evaluated once per distinct input at most. ``plain`` and ``listed`` are what
    :meth:`bound` has made so far.
    """

    __slots__ = ("device", "driver", "listed", "plain")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.device = device
        self.plain: Bound | None = None
        self.listed: Bound | None = None

    def bound(self, lists: bool) -> Bound:
        """The device variable; ``lists`` says whether list attributes are accepted."""
        if lists:
            if self.listed is None:
                self.listed = Bound(self.driver, self.device, True)
            return self.listed
        if self.plain is None:
            self.plain = Bound(self.driver, self.device, False)
        return self.plain

    def __repr__(self) -> str:
        return f"DeviceInput({self.driver!r}, {self.device.name!r})"


def content_key(driver: str, device: Device) -> Hashable:
    """A key of what expressions can see of a device; devices with equal keys may share a :class:`DeviceInput`."""
    attributes = tuple(sorted(device.attributes.items(), key=lambda item: item[0]))
    capacity = tuple(sorted((name, value_key(c.value)) for name, c in device.capacity.items()))
    return driver, bool(device.allow_multiple_allocations), attributes, capacity
