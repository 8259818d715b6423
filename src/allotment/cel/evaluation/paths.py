"""Evaluation of variables and selections from them: ``device.attributes["d"].name``, ``x[i].?f``, ``has(e.f)``.

Paths are cel-go's attributes. Upstream resolves a variable with all its selections in one step, and charges 1 for the
path and 1 for each selection made; a selection from the result of a call starts a new path. The consequences are
visible in costs (the charge for a missing key; ``c ? a : b`` passes selections on to its branches without charging for
their paths), so paths are planned as upstream does. Common paths from ``device`` are then replaced by a lookup.
"""

from __future__ import annotations

from typing import Final

from allotment.cel.evaluation import specializations
from allotment.cel.evaluation.library.network import CIDR, IP
from allotment.cel.evaluation.library.url import URL
from allotment.cel.evaluation.steps import COST, Frame, PlanStep, Run
from allotment.cel.evaluation.value_format import go_format
from allotment.cel.evaluation.values import (
    ABSENT,
    NONE,
    CelError,
    CostLimitExceeded,
    ListValue,
    MapValue,
    Optional,
    QuantityPointer,
    TypeValue,
    Uint,
    Value,
    go_type,
    type_name,
)
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

_KEY_TYPES: Final = frozenset({str, int, Uint, bool, float})
_GO_NATIVE_TYPES: Final[dict[type, str]] = {
    Quantity: "*resource.Quantity", QuantityPointer: "*resource.Quantity", Semver: "semver.Version",
    IP: "netip.Addr", CIDR: "netip.Prefix", URL: "*url.URL",
}  # fmt: skip


# --- one selection -----------------------------------------------------------------------------------------------


def check_key(key: Value) -> None:
    """Raises CelError for a value that cannot be a key or index."""
    if type(key) not in _KEY_TYPES:
        raise CelError(f"invalid qualifier type: {go_type(key)}")


def _index(values: ListValue, key: Value) -> int:
    """The position in a list that a key denotes; -1 if it is out of range."""
    kind = type(key)
    if kind is int:
        position = key
    elif (kind is Uint and key < 2**63) or (kind is float and abs(key) < 2.0**63 and key == int(key)):
        position = int(key)
    elif kind is float or kind is Uint:
        raise CelError(f"unsupported index value {go_format(key)} in list")
    else:
        raise CelError(f"unsupported index type '{type_name(key)}' in list")
    return position if 0 <= position < values.size else -1


def select(value: Value, key: Value) -> Value:
    """``value[key]``"""
    kind = type(value)
    if kind is MapValue:
        found = value.find(key)
        if found is not ABSENT:
            return found
    elif kind is ListValue:
        position = _index(value, key)
        if position >= 0:
            return value.at(position)
        raise CelError(f"index out of bounds: {go_format(key)}")
    elif kind is CelError:
        raise value
    raise CelError(f"no such key: {go_format(key)}")


def select_if_present(value: Value, key: Value) -> Value:
    """``value[key]``, ABSENT if it does not exist."""
    kind = type(value)
    if kind is MapValue:
        return value.find(key)
    if kind is ListValue:
        position = _index(value, key)
        return value.at(position) if position >= 0 else ABSENT
    if kind is CelError:
        raise value
    return ABSENT


def convert_via_native(value: Value) -> Value:
    """The content of an optional after conversion to a native Go value and back.

    Upstream does this whenever the value of a variable or a branch of ``?:`` is an optional. Kubernetes values have no
    such conversion and become errors.
    """
    kind = type(value)
    go_name = _GO_NATIVE_TYPES.get(kind)
    if go_name is not None:
        return CelError(f"unsupported conversion to ref.Val: ({go_name}){value}")
    if kind is CelError:
        # An error of an earlier conversion cannot be converted either.
        return CelError(f"unsupported conversion to ref.Val: (*errors.errorString){value}")
    if kind is TypeValue:
        return value.name
    if kind is Optional:
        return None if value.value is ABSENT else convert_via_native(value.value)
    return value


def rewrap_optional(value: Value) -> Value:
    """A value of a variable or branch: upstream unwraps an optional and wraps it again."""
    if type(value) is Optional and value.value is not ABSENT:
        return Optional(convert_via_native(value.value))
    return value


# --- paths -------------------------------------------------------------------------------------------------------


class Qualifier:
    """One selection of a path, by a constant ``key`` or a computed one. ``test_only`` is for ``has``."""

    __slots__ = ("compute", "key", "optional", "test_only")

    def __init__(self, key: Value, compute: Run | None = None, optional: bool = False, test_only: bool = False) -> None:
        self.key = key
        self.compute = compute
        self.optional = optional
        self.test_only = test_only


class SelectionPath(PlanStep):
    """A root and the selections from it. ``resolve`` gives the value without the charge for the path; ``run`` charges
    it.

    The planner extends paths while it ascends the tree, so their closures are created on first use.
    """

    __slots__ = ("_resolve", "_run", "fuse", "is_device", "plain_root", "root", "selections")

    def __init__(self, root: Run, *, is_device: bool = False, plain_root: bool = False, fuse: bool = True) -> None:
        self.root = root
        self.is_device = is_device
        #: The root is a variable that cannot hold an optional.
        self.plain_root = plain_root
        self.fuse = fuse
        self.selections: list[Qualifier] = []
        self._run: Run | None = None
        self._resolve: Run | None = None

    def extended(self, selection: Qualifier) -> PlanStep:
        """Adds a selection."""
        self.selections.append(selection)
        self._run = self._resolve = None
        return self

    @property
    def device_keys(self) -> tuple[str, ...] | None:
        """The keys of a path from ``device`` if all are constant and required; None for other paths."""
        if self.fuse and self.is_device and all(map(_is_constant_name, self.selections)):
            return tuple(selection.key for selection in self.selections)
        return None

    @property
    def resolve(self) -> Run:
        """The value, without the charge for the path."""
        if self._resolve is None:
            self._resolve = _resolver(self)
        return self._resolve

    @property
    def run(self) -> Run:  # type: ignore[override]  # created on first use: most paths get extended
        """The value, charged."""
        if self._run is None:
            self._run = _runner(self)
        return self._run


class ConditionalPath(PlanStep):
    """``condition ? truthy : falsy``: selections are added to both branches; the conditional itself has no cost.

    A branch ``has(…)`` gives the value its path resolves to, which is an optional if an optional was selected from.
    """

    __slots__ = ("_resolve", "condition", "falsy", "is_presence_test", "truthy")

    def __init__(
        self, condition: Run, truthy: SelectionPath | ConditionalPath, falsy: SelectionPath | ConditionalPath
    ) -> None:
        self.condition = condition
        self.truthy = truthy
        self.falsy = falsy
        #: Whether the conditional is the operand of ``has``.
        self.is_presence_test = False
        self._resolve: Run | None = None

    def extended(self, selection: Qualifier) -> PlanStep:
        """Adds a selection to both branches."""
        self.truthy.extended(selection)
        self.falsy.extended(selection)
        self.is_presence_test = selection.test_only
        self._resolve = None
        return self

    @property
    def resolve(self) -> Run:
        """The value of the branch that the condition selects."""
        if self._resolve is None:
            self._resolve = _conditional(self.condition, self.truthy.resolve, self.falsy.resolve)
        return self._resolve

    @property
    def run(self) -> Run:  # type: ignore[override]  # created on first use: most paths get extended
        """The value; a bool for ``has`` of a conditional."""
        if self.is_presence_test:
            return _with_refund(_as_presence(self.resolve))
        return self.resolve


def _conditional(condition: Run, truthy: Run, falsy: Run) -> Run:
    def run(frame: Frame) -> Value:
        decided = condition(frame)
        if decided is True:
            return truthy(frame)
        if decided is False:
            return falsy(frame)
        raise CelError("no such overload")

    return run


def _as_presence(resolve: Run) -> Run:
    def run(frame: Frame) -> Value:
        found = resolve(frame)
        return found.value is not ABSENT if type(found) is Optional else found

    return run


def _with_refund(compute: Run) -> Run:
    """``has`` refunds the charge for a path, even for a conditional, which does not make it; below zero upstream's
    counter wraps around and exceeds every limit."""

    def run(frame: Frame) -> Value:
        try:
            return compute(frame)
        finally:
            if frame[COST] < 1:
                raise CostLimitExceeded(2**64 - 1)
            frame[COST] -= 1

    return run


def _runner(path: SelectionPath) -> Run:
    if path.selections and path.selections[-1].test_only:
        # ``has`` refunds the charge for the path.
        short = _fast_presence_test(path) if path.fuse else None
        return _as_presence(path.resolve) if short is None else short
    if path.fuse:
        short = _fast_path(path, 1)
        if short is not None:
            return short
    resolve = path.resolve

    def run(frame: Frame) -> Value:
        try:
            value = resolve(frame)
        except CelError:
            frame[COST] += 1
            raise
        frame[COST] += 1
        return value

    return run


def _resolver(path: SelectionPath) -> Run:
    if path.fuse:
        short = _fast_path(path, 0)
        if short is not None:
            return short
    root = path.root
    selections = tuple(path.selections)
    if path.fuse and path.is_device and len(selections) > 2 and all(map(_is_constant_name, selections[:2])):
        # Start at the domain, whose lookup cannot fail.
        kind, domain = selections[0].key, selections[1].key
        if kind in ("attributes", "capacity"):
            start = specializations.value_at((kind, domain), 0)
            assert start is not None
            root = start
            selections = selections[2:]

    def resolve(frame: Frame) -> Value:
        value = root(frame)
        optional = False
        if type(value) is Optional:
            if value.value is ABSENT:
                return value
            value = convert_via_native(value.value)
            optional = True
        for selection in selections:
            optional = optional or selection.optional
            if optional:
                value = _advance_optional(frame, value, selection)
                if value is ABSENT:
                    return NONE
            else:
                value = _advance(frame, value, selection)
        return Optional(value) if optional else value

    return resolve


def _advance(frame: Frame, value: Value, selection: Qualifier) -> Value:
    # Charged even if it fails.
    key = selection.key
    if selection.compute is not None:
        try:
            key = selection.compute(frame)
            check_key(key)
        except CelError:
            frame[COST] += 1
            raise
    frame[COST] += 1
    if selection.test_only:
        return select_if_present(value, key) is not ABSENT
    return select(value, key)


def _advance_optional(frame: Frame, value: Value, selection: Qualifier) -> Value:
    # Charged only if the key exists.
    key = selection.key
    if selection.compute is not None:
        key = selection.compute(frame)
        check_key(key)
    found = select_if_present(value, key)
    if found is not ABSENT:
        frame[COST] += 1
    return found


# --- fast paths --------------------------------------------------------------------------------------------------


def _is_constant_name(selection: Qualifier) -> bool:
    return type(selection.key) is str and not (selection.compute or selection.optional or selection.test_only)


def _fast_path(path: SelectionPath, charge: int) -> Run | None:
    """A closure for a common form of path, which charges ``charge`` for the path; None for other paths."""
    keys = path.device_keys
    if keys is not None:
        return specializations.value_at(keys, charge)
    if not path.plain_root or path.selections:
        return None
    root = path.root
    if not charge:
        return root

    def variable(frame: Frame) -> Value:
        frame[COST] += 1
        return root(frame)

    return variable


def _fast_presence_test(path: SelectionPath) -> Run | None:
    selections = path.selections
    if not path.is_device or len(selections) != 3 or not all(map(_is_constant_name, selections[:2])):
        return None
    kind, domain, name = (s.key for s in selections)
    return specializations.is_present(kind, domain, name) if kind in ("attributes", "capacity") else None
