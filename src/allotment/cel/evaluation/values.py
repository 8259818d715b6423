"""CEL's values at run time, and the errors that evaluation gives.

Where Python has the value, Python's is used: ``None`` null, ``bool``, ``int`` (CEL int), ``float`` (double), ``str``,
``bytes``. Everything else has a class here, in :mod:`allotment.model` (Quantity, Semver) or in its library (``net.IP``
and the like), each with ``cel_type`` (the name that ``type(x)`` prints) and ``go_type`` (what upstream's error texts
print for it). Values are immutable; code asks for the class with ``type(x)``, because ``bool`` and :class:`Uint` are
``int`` to ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

Value: TypeAlias = Any
"""Any value of CEL. The static checker has seen the expression; at run time dyn can hold all of them."""

COST_LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class EvaluationError(Exception):
    """Raised when an expression gives an error for a device; ``str(error)`` is upstream's text."""


class CelError(EvaluationError):
    """An error in the sense of CEL: a value that ``&&``, ``||`` and the quantifiers can absorb."""


class EvaluationAborted(EvaluationError):
    """An end of the whole evaluation that nothing absorbs: the cost limit, or what makes upstream panic."""


class CostLimitExceeded(EvaluationAborted):
    """The runtime cost limit; ``cost`` is what had been counted when it was hit, where that is known."""

    def __init__(self, cost: int | None = None) -> None:
        super().__init__(COST_LIMIT_EXCEEDED)
        self.cost = cost


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()
    cel_type: ClassVar = "uint"
    go_type: ClassVar = "types.Uint"


class QuantityPointer(Quantity):
    """What ``add`` and ``sub`` give. Upstream returns a pointer there and compares pointers otherwise than values
    , so the two must be told apart."""

    __slots__ = ()

    @staticmethod
    def from_quantity(quantity: Quantity) -> QuantityPointer:
        """The same amount, marked as the result of arithmetic."""
        return QuantityPointer(quantity.mantissa, quantity.scale, quantity.is_small, quantity.format)


class Duration:
    """A span of time in nanoseconds, in the range of int64."""

    __slots__ = ("ns",)
    cel_type: ClassVar = "google.protobuf.Duration"
    go_type: ClassVar = "types.Duration"

    def __init__(self, ns: int) -> None:
        self.ns = ns


class Timestamp:
    """An instant in nanoseconds since 1970 and the offset from UTC, in seconds, that it was written with."""

    __slots__ = ("ns", "offset")
    cel_type: ClassVar = "google.protobuf.Timestamp"
    go_type: ClassVar = "types.Timestamp"

    def __init__(self, ns: int, offset: int = 0) -> None:
        self.ns = ns
        self.offset = offset


class TypeValue:
    """A type as a value, without parameters."""

    __slots__ = ("name",)
    cel_type: ClassVar = "type"
    go_type: ClassVar = "*types.Type"

    def __init__(self, name: str) -> None:
        self.name = name


class _Absent:
    __slots__ = ()


ABSENT: Final = _Absent()
"""What an empty optional holds, and what a failed lookup gives."""


class Optional:
    """An optional value; ``value`` is ABSENT for none, and can be a :class:`Failure` (see ``paths.rewrapped``)."""

    __slots__ = ("value",)
    cel_type: ClassVar = "optional_type"
    go_type: ClassVar = "*types.Optional"

    def __init__(self, value: Value) -> None:
        self.value = value


NONE: Final = Optional(ABSENT)


class ListValue:
    """A list.

    ``left + right`` is not copied but remembered, as upstream does, and laid out when first read: a chain of doublings
    costs next to nothing until somebody looks. ``joined`` marks such lists, whose equality upstream computes
    otherwise. ``weight`` caches the number of values below it, see :func:`weight`.
    """

    __slots__ = ("_items", "_left", "_right", "is_concatenation", "size", "weight")
    cel_type: ClassVar = "list"
    go_type: ClassVar = "*types.baseList"

    #: More elements than this are never laid out: no sum of costs below the limit can pay for looking at them.
    MAX_ELEMENTS: ClassVar = 1 << 22

    def __init__(self, items: Sequence[Value]) -> None:
        self._items: Sequence[Value] | None = items
        self._left: ListValue | None = None
        self._right: ListValue | None = None
        self.is_concatenation = False
        self.size = len(items)
        self.weight = 0

    @staticmethod
    def concat(left: ListValue, right: ListValue) -> ListValue:
        """``left + right``; an empty side gives the other as it is."""
        if not left.size:
            return right
        if not right.size:
            return left
        joined = ListValue([])
        joined._items = None
        joined._left = left
        joined._right = right
        joined.is_concatenation = True
        joined.size = left.size + right.size
        return joined

    @property
    def items(self) -> Sequence[Value]:
        """The elements."""
        items = self._items
        return self._materialize() if items is None else items

    def _materialize(self) -> Sequence[Value]:
        if self.size > self.MAX_ELEMENTS:
            raise CostLimitExceeded
        items: list[Value] = []
        stack: list[ListValue] = [self]
        while stack:
            part = stack.pop()
            if part._items is not None:
                items.extend(part._items)
            elif part._left is not None and part._right is not None:
                stack.append(part._right)
                stack.append(part._left)
        self._items = items
        self._left = self._right = None
        return items

    def at(self, index: int) -> Value:
        """The element at an index that is in range, without laying the list out."""
        part = self
        while part._items is None:
            left, right = part._left, part._right
            if left is None or right is None:  # Another evaluation has laid it out meanwhile.
                break
            if index < left.size:
                part = left
            else:
                index -= left.size
                part = right
        return part.items[index]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Value]:
        return iter(self.items)


EMPTY_LIST: Final = ListValue([])

_UNHASHABLE: Final = frozenset({bytes, Semver})

Key: TypeAlias = "str | int | bytes | None | tuple[str, object]"


def map_key(value: Value) -> Key:
    """A value as a key of :class:`MapValue`: what Python would confuse (1, true, 1u, 1.0) is kept apart."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is Uint:
        return ("uint", int(value))
    if kind is bool:
        return ("bool", value)
    if kind is float:
        # NaN equals nothing, so every NaN is a key of its own that is never found.
        return ("double", value if value == value else object())
    if kind is TypeValue:
        return ("type", value.name)
    if kind is Duration:
        return ("duration", value.ns)
    if kind is Timestamp:
        return ("timestamp", (value.ns, value.offset))
    if kind in _UNHASHABLE or getattr(kind, "go_unhashable", False):
        raise EvaluationAborted(f"internal error: runtime error: hash of unhashable type {go_type(value)}")
    if isinstance(value, Quantity):
        # A pointer upstream, and a fresh one for every quantity that an expression makes.
        return ("quantity", object())
    go_key = getattr(value, "go_key", None)
    # Lists, maps, optionals: pointers that are equal only to themselves.
    return ("identity", id(value)) if go_key is None else (value.cel_type, go_key())


class MapValue:
    """A map. ``entries`` is keyed by :func:`map_key` and holds (key, value) pairs.

    ``fallback`` is what a lookup gives for a missing key (the domains of a device), ABSENT for nothing.
    ``strings_only`` marks a device's own maps, which only strings can be looked up in.
    """

    __slots__ = ("entries", "default", "string_keys_only", "weight", "_sorted")
    cel_type: ClassVar = "map"
    go_type: ClassVar = "*types.baseMap"

    def __init__(
        self, entries: dict[Key, tuple[Value, Value]], default: Value = ABSENT, string_keys_only: bool = False
    ) -> None:
        self.entries = entries
        self.default = default
        self.string_keys_only = string_keys_only
        self.weight = 0
        self._sorted: list[Value] | None = None

    @staticmethod
    def from_strings(values: Iterable[tuple[str, Value]], default: Value = ABSENT) -> MapValue:
        """A device's map, from its (name, value) pairs."""
        return MapValue({name: (name, value) for name, value in values}, default, True)

    def find(self, key: Value) -> Value:
        """The value under a key, ABSENT when there is none. Numbers of other types are tried as upstream does."""
        kind = type(key)
        if kind is str:
            found = self.entries.get(key)
            return self.default if found is None else found[1]
        if self.string_keys_only or not self.entries:
            return self.default
        found = self.entries.get(map_key(key))
        if found is not None:
            return found[1]
        if kind is float:
            if key == key and abs(key) != float("inf") and key == int(key):
                if -(2**63) < key < 2**63:
                    found = self.entries.get(int(key))
                if found is None and 0 <= key < 2**64:
                    found = self.entries.get(("uint", int(key)))
        elif kind is int:
            if key >= 0:
                found = self.entries.get(("uint", key))
        elif kind is Uint and key < 2**63:
            found = self.entries.get(int(key))
        return self.default if found is None else found[1]

    def contains_key(self, key: Value) -> bool:
        """``key in map``: a fallback does not count."""
        if self.default is ABSENT:
            return self.find(key) is not ABSENT
        return type(key) is str and key in self.entries

    def ordered_keys(self) -> list[Value]:
        """The keys in the order of iteration: sorted, where upstream's order is chance."""
        ordered = self._sorted
        if ordered is None:
            ordered = sorted((key for key, _ in self.entries.values()), key=_key_order)
            self._sorted = ordered
        return ordered

    def __len__(self) -> int:
        return len(self.entries)


def _key_order(key: Value) -> tuple[str, Any]:
    kind = type(key)
    if kind in _SORTABLE_TYPES:
        return _TYPE_NAMES[kind], key
    return type_name(key), 0


EMPTY_MAP: Final = MapValue({}, string_keys_only=True)

# --- names of types ----------------------------------------------------------------------------------------------

_TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "null_type", bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes",
    Quantity: "kubernetes.Quantity", QuantityPointer: "kubernetes.Quantity", Semver: "kubernetes.Semver",
}  # fmt: skip
_GO_TYPES: Final[dict[type, str]] = {
    type(None): "types.Null", bool: "types.Bool", int: "types.Int", float: "types.Double", str: "types.String",
    bytes: "types.Bytes", Quantity: "cel.Quantity", QuantityPointer: "*cel.Quantity", Semver: "cel.Semver",
}  # fmt: skip
_SCALAR_TYPES: Final = frozenset({int, Uint, float, bool, type(None)})
_SORTABLE_TYPES: Final = frozenset({str, int, float, bool, bytes})


def type_name(value: Value) -> str:
    """The name of a value's type, as ``type(value)`` prints it."""
    name = _TYPE_NAMES.get(type(value))
    return value.cel_type if name is None else name


def go_type(value: Value) -> str:
    """The Go type of a value, which a few of upstream's error texts name."""
    if type(value) is ListValue and value.is_concatenation:
        return "*types.concatList"
    if type(value) is MapValue and value.default is not ABSENT:
        return "cel.mapper"
    name = _GO_TYPES.get(type(value))
    return value.go_type if name is None else name


def no_such_overload(function: str, arguments: Iterable[Value]) -> CelError:
    """The error of a call whose arguments fit no overload at run time."""
    return CelError(f"no such overload: {function}({', '.join(type_name(a) for a in arguments)})")


# --- sizes -------------------------------------------------------------------------------------------------------


def size(value: Value) -> int:
    """The size that costs are computed from: code points, bytes, elements, and 1 for what has no size."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is ListValue:
        return value.size
    if kind is MapValue:
        return len(value.entries)
    if kind is Optional:
        return 1 if value.value is ABSENT else size(value.value)
    sized = getattr(value, "cel_size", None)
    return 1 if sized is None else sized


def weight(value: Value) -> int:
    """How many values a traversal of ``value`` would visit; shared parts count each time.

    Upstream charges little for comparing or printing values that contain one another many times over; this is the
    figure by which our engine bounds that work.
    """
    kind = type(value)
    if kind is ListValue:
        if not value.weight:
            value.weight = 1 + value.size
            if value.size <= ListValue.MAX_ELEMENTS and not {type(item) for item in value.items} <= _SCALAR_TYPES:
                value.weight = 1
                for item in value.items:
                    value.weight += weight(item)
        return value.weight
    if kind is MapValue:
        if not value.weight:
            total = 1
            for key, item in value.entries.values():
                total += weight(key) + weight(item)
            value.weight = total
        return value.weight
    if kind is str or kind is bytes:
        return 1 + len(value) // 16
    if kind is Optional and value.value is not ABSENT:
        return 1 + weight(value.value)
    return 1
