"""Maximum sizes that an API declares for the parts of a value, such as a device, for cost estimates.

A :class:`DeclaredPath` links a value in an expression to its declared type.
"""

from __future__ import annotations

from collections.abc import Mapping


class DeclaredType:
    """The declared type of a value: its maximum size, and the types of its fields, keys and elements."""

    __slots__ = ("max_size", "fields", "key", "element", "any_field")

    def __init__(
        self,
        max_size: int,
        fields: Mapping[str, DeclaredType] | None = None,
        key: DeclaredType | None = None,
        element: DeclaredType | None = None,
        any_field: bool = False,
    ) -> None:
        self.max_size = max_size
        self.fields = fields or {}
        self.key = key
        self.element = element
        self.any_field = any_field

    def field(self, name: str) -> DeclaredType | None:
        """The type of a field. Any field name selects an element of an attribute map."""
        return self.fields.get(name) or (self.element if self.any_field else None)


# Sizes from the ResourceSlice API: 63 for domains and driver names, 32 for ids, 64 for attribute values, 32 attributes
# and capacities together. A quantity has no size.
_ATTRIBUTE_IDS = DeclaredType(32, key=DeclaredType(32), element=DeclaredType(64), any_field=True)
_CAPACITY_IDS = DeclaredType(32, key=DeclaredType(32), element=DeclaredType(0))
DEVICE = DeclaredType(
    0,
    {
        "driver": DeclaredType(63),
        "allowMultipleAllocations": DeclaredType(1),
        "attributes": DeclaredType(32, key=DeclaredType(63), element=_ATTRIBUTE_IDS),
        "capacity": DeclaredType(32, key=DeclaredType(63), element=_CAPACITY_IDS),
    },
)


class DeclaredPath:
    """The path of a value from a variable: the variable, then field names, ``@keys`` and ``@values``.

    ``root``: the declared type of the variable.

    Upstream stores paths in Go slices and extends them with ``append``, which writes into spare capacity that other
    extensions of the same path share: the last one wins. The assumed size of a loop's key depends on that
    (``device.capacity["d"].exists(k, v, …)`` treats ``k`` as a value), so it is reproduced: ``names`` is the shared
    array, ``length`` the length of the slice.
    """

    __slots__ = ("root", "names", "length", "capacity")

    def __init__(self, root: DeclaredType, names: list[str], length: int, capacity: int) -> None:
        self.root = root
        self.names = names
        self.length = length
        self.capacity = capacity

    def child(self, name: str) -> DeclaredPath:
        """The path with one more name."""
        names, length, capacity = self.names, self.length, self.capacity
        if length == capacity:
            return DeclaredPath(self.root, [*names[:length], name], length + 1, 2 * capacity)
        if length < len(names):
            names[length] = name
        else:
            names.append(name)
        return DeclaredPath(self.root, names, length + 1, capacity)

    def declared_type(self) -> DeclaredType | None:
        """The declared type at the path."""
        at: DeclaredType | None = self.root
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


def variable_path(root: DeclaredType, name: str) -> DeclaredPath:
    """The path of a variable itself. ``root``: its declared type."""
    return DeclaredPath(root, [name], 1, 1)
