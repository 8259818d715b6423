"""What the ResourceSlice API declares about sizes: how large the parts of a device can be, and how a value in an
expression is traced back to such a part. Only the cost estimate asks."""

from __future__ import annotations

from collections.abc import Mapping


class Declared:
    """What the device's type declares about a value: its largest size and what can be reached from it."""

    __slots__ = ("size", "fields", "key", "element", "any_name")

    def __init__(
        self,
        size: int,
        fields: Mapping[str, Declared] | None = None,
        key: Declared | None = None,
        element: Declared | None = None,
        any_name: bool = False,
    ) -> None:
        self.size = size
        self.fields = fields or {}
        self.key = key
        self.element = element
        self.any_name = any_name

    def field(self, name: str) -> Declared | None:
        """The value under a field name; only attribute maps know that every name leads to an attribute."""
        return self.fields.get(name) or (self.element if self.any_name else None)


# Sizes from the ResourceSlice API: 63 for domains and driver names, 32 for ids, 64 for attribute values, 32 attributes
# and capacities together. A quantity has no size.
_ATTRIBUTE_IDS = Declared(32, key=Declared(32), element=Declared(64), any_name=True)
_CAPACITY_IDS = Declared(32, key=Declared(32), element=Declared(0))
DEVICE = Declared(
    0,
    {
        "driver": Declared(63),
        "allowMultipleAllocations": Declared(1),
        "attributes": Declared(32, key=Declared(63), element=_ATTRIBUTE_IDS),
        "capacity": Declared(32, key=Declared(63), element=_CAPACITY_IDS),
    },
)


class Path:
    """How a value is reached from the device: names, ``@keys`` and ``@values``.

    Upstream keeps paths in Go slices and extends them with ``append``, which writes into spare capacity that other
    extensions of the same path share: the last one wins. Which size a loop's key is believed to have depends on it
    (``device.capacity["d"].exists(k, v, …)`` takes ``k`` for a value), so the sharing is modelled: ``names`` is the
    array with its spare places, ``length`` how much of it this path sees.
    """

    __slots__ = ("names", "length", "capacity")

    def __init__(self, names: list[str], length: int, capacity: int) -> None:
        self.names = names
        self.length = length
        self.capacity = capacity

    def then(self, name: str) -> Path:
        """The path one step on."""
        names, length, capacity = self.names, self.length, self.capacity
        if length == capacity:
            return Path([*names[:length], name], length + 1, 2 * capacity)
        if length < len(names):
            names[length] = name
        else:
            names.append(name)
        return Path(names, length + 1, capacity)

    def declared(self) -> Declared | None:
        """What is declared there now."""
        at: Declared | None = DEVICE
        for name in self.names[1 : self.length]:
            if at is None:
                return None
            if name == "@keys":
                at = at.key
            elif name == "@values" or name == "@items":
                at = at.element
            else:
                at = at.field(name)
        return at


def device_path() -> Path:
    """The path of the variable ``device`` itself."""
    return Path(["device"], 1, 1)
