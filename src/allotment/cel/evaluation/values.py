"""CEL's values and errors at run time.

Python types represent null (``None``), ``bool``, ``int`` (CEL int), ``float`` (double), ``str`` and ``bytes``. Other
values have a class here, in :mod:`allotment.model` (Quantity, Semver) or in their library (``net.IP`` and the like),
with ``cel_type`` (the name that ``type(x)`` prints) and ``go_type`` (the Go type in upstream's error texts). Values are
immutable. Code compares ``type(x)``, because ``bool`` and :class:`Uint` are subclasses of ``int``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

Value: TypeAlias = Any
"""Any CEL value."""

COST_LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class EvaluationError(Exception):
    """Raised when the evaluation of an expression fails; ``str(error)`` is upstream's text."""


class CelError(EvaluationError):
    """A CEL error, which ``&&``, ``||`` and the quantifiers can absorb."""


class EvaluationAborted(EvaluationError):
    """Ends the whole evaluation and cannot be absorbed: an exceeded cost limit, or a panic upstream."""


class CostLimitExceeded(EvaluationAborted):
    """The runtime cost limit is exceeded; ``cost`` is the cost counted so far, if known."""

    def __init__(self, cost: int | None = None) -> None:
        super().__init__(COST_LIMIT_EXCEEDED)
        self.cost = cost


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()
    cel_type: ClassVar = "uint"
    go_type: ClassVar = "types.Uint"


class QuantityPointer(Quantity):
    """The result of ``add`` and ``sub``. Upstream returns a pointer, which compares differently from a value."""

    __slots__ = ()

    @staticmethod
    def from_quantity(quantity: Quantity) -> QuantityPointer:
        """The same quantity, marked as the result of arithmetic."""
        return QuantityPointer(quantity.mantissa, quantity.scale, quantity.is_small, quantity.format)


class Duration:
    """A duration in nanoseconds, in the range of int64."""

    __slots__ = ("ns",)
    cel_type: ClassVar = "google.protobuf.Duration"
    go_type: ClassVar = "types.Duration"

    def __init__(self, ns: int) -> None:
        self.ns = ns


class Timestamp:
    """An instant in nanoseconds since 1970, and the UTC offset of its original text in seconds."""

    __slots__ = ("ns", "offset")
    cel_type: ClassVar = "google.protobuf.Timestamp"
    go_type: ClassVar = "types.Timestamp"

    def __init__(self, ns: int, offset: int = 0) -> None:
        self.ns = ns
        self.offset = offset


class TypeValue:
    """A type as a value; it has no parameters."""

    __slots__ = ("name",)
    cel_type: ClassVar = "type"
    go_type: ClassVar = "*types.Type"

    def __init__(self, name: str) -> None:
        self.name = name


class _Absent:
    __slots__ = ()


ABSENT: Final = _Absent()
"""The content of an empty optional, and the result of a lookup without a match."""


class Optional:
    """An optional value; ``value`` is ABSENT for none, and can be a :class:`CelError` (see
    ``paths.rewrap_optional``)."""

    __slots__ = ("value",)
    cel_type: ClassVar = "optional_type"
    go_type: ClassVar = "*types.Optional"

    def __init__(self, value: Value) -> None:
        self.value = value


NONE: Final = Optional(ABSENT)


class ListValue:
    """A list.

    A concatenation ``left + right`` is stored as such, as upstream does, and copied on first access to its elements, so
    a chain of doublings is cheap. ``is_concatenation`` marks these lists, for which upstream has another equality.
    ``weight`` caches :func:`weight`.
    """

    __slots__ = ("_items", "_left", "_right", "is_concatenation", "size", "weight")
    cel_type: ClassVar = "list"
    go_type: ClassVar = "*types.baseList"

    #: Longer concatenations are never copied: visiting that many elements exceeds the cost limit.
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
        """``left + right``; if one side is empty, the other one itself."""
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
        """The element at an index, which must be in range, without copying the list."""
        part = self
        while part._items is None:
            left, right = part._left, part._right
            if left is None or right is None:  # Another evaluation has copied the elements in the meantime.
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
    """The key of a value in :class:`MapValue`; it distinguishes values that are equal in Python (1, true, 1u, 1.0)."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is Uint:
        return ("uint", int(value))
    if kind is bool:
        return ("bool", value)
    if kind is float:
        # NaN equals nothing, so every NaN is a distinct key and no lookup finds it.
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
        # A pointer upstream, and a new one for every quantity that an expression creates.
        return ("quantity", object())
    go_key = getattr(value, "go_key", None)
    # Lists, maps, optionals: pointers upstream, which are equal only to themselves.
    return ("identity", id(value)) if go_key is None else (value.cel_type, go_key())


class MapValue:
    """A map. ``entries`` is keyed by :func:`map_key` and holds (key, value) pairs.

    ``default`` is the result of a lookup of a missing key (for the domains of a device), ABSENT if there is none.
    ``string_keys_only`` marks the maps of a device, in which only strings are looked up.
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
        """A map of a device from (name, value) pairs."""
        return MapValue({name: (name, value) for name, value in values}, default, True)

    def find(self, key: Value) -> Value:
        """The value of a key, else ``default``. As upstream, a number also finds equal keys of other numeric types."""
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
        """``key in map``, without regard to ``default``."""
        if self.default is ABSENT:
            return self.find(key) is not ABSENT
        return type(key) is str and key in self.entries

    def ordered_keys(self) -> list[Value]:
        """The keys in iteration order: sorted, while upstream's order is random."""
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

# --- type names --------------------------------------------------------------------------------------------------

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
    """The Go type of a value, as in some of upstream's error texts."""
    if type(value) is ListValue and value.is_concatenation:
        return "*types.concatList"
    if type(value) is MapValue and value.default is not ABSENT:
        return "cel.mapper"
    name = _GO_TYPES.get(type(value))
    return value.go_type if name is None else name


def no_such_overload(function: str, arguments: Iterable[Value]) -> CelError:
    """The error of a call whose arguments match no overload at run time."""
    return CelError(f"no such overload: {function}({', '.join(type_name(a) for a in arguments)})")


# --- sizes -------------------------------------------------------------------------------------------------------


def size(value: Value) -> int:
    """The size from which costs are computed: code points, bytes or elements; 1 for values without a size."""
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
    """The number of values that a traversal of ``value`` visits; shared parts count each time.

    Upstream charges little for comparing or formatting values that contain the same part many times; the work limit
    uses this number.
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
