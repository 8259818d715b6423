"""Derived attributes (1.37, gate DRADerivedAttributes): CEL expressions whose value for a device is an attribute.

The environment is that of selectors; the result is a bool, int, string or version, or a list of one of them. A result
of unknown type (``dyn``) is checked when it is evaluated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, TypeAlias

from allotment.cel.checking import types
from allotment.cel.checking.environment import Environment, environment
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.device import DeviceInput
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.values import (
    ABSENT,
    Duration,
    EvaluationError,
    ListValue,
    MapValue,
    Optional,
    QuantityPointer,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    go_type,
)
from allotment.cel.selector import COST_LIMIT, CompiledExpression, compile_checked, run_plan
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceAttribute
from allotment.model.semver import Semver

_ELEMENTS: Final = (types.BOOL, types.INT, types.STRING, types.SEMVER, types.ANY, types.DYN)

#: The Go types of values that cannot become attributes, as in upstream's error texts.
_GO_TYPES: Final[dict[type, str]] = {
    float: "float64",
    Uint: "uint64",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
    Duration: "time.Duration",
    Timestamp: "time.Time",
    MapValue: "map[ref.Val]ref.Val",
    Quantity: "*resource.Quantity",
    QuantityPointer: "*resource.Quantity",
}

_Scalar: TypeAlias = "bool | int | str | Semver"
#: CEL's names of the element types, as in upstream's error texts.
_NAMES: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "semver"}


def compile_derived_attribute(
    expression: str, features: Features, *, env: Literal["stored", "new"] = "stored"
) -> DerivedAttribute:
    """Compiles the expression of a derived attribute. Raises CompileError with upstream's whole text.

    ``env`` is ``new`` to validate a new expression, ``stored`` for one that is already in use.
    """
    lists = env == "stored" or features.enabled("DRAListTypeAttributes")
    return _compile(expression, environment(features, env), lists)


@lru_cache(maxsize=4096)
def _compile(expression: str, env: Environment, lists: bool) -> DerivedAttribute:
    checked = compile_checked(expression, env)
    _require_attribute_type(checked.output_type, lists)
    return DerivedAttribute(checked)


def _require_attribute_type(result: Type, lists: bool) -> None:
    """Raises CompileError unless a result of this type can be an attribute; ``lists``: or a list of attributes."""
    if result in _ELEMENTS or (lists and result.kind is TypeKind.LIST and result.params[0] in _ELEMENTS):
        return
    alternative = " or a list of these scalars" if lists else ""
    raise CompileError(
        f"must evaluate to a primitive scalar (string, integer, boolean, semver){alternative}, not {result}"
    )


class DerivedAttribute(CompiledExpression):
    """The compiled expression of a derived attribute.

    >>> from allotment.model.resource import Device
    >>> derived = compile_derived_attribute('device.driver + "/x"', Features(kube="1.37"))
    >>> derived.evaluate(DeviceInput("gpu.example.com", Device(name="gpu-0"))).string
    'gpu.example.com/x'
    """

    def evaluate(self, device: DeviceInput) -> DeviceAttribute:
        """The value for a device. Raises EvaluationError, which aborts the allocation attempt upstream."""
        bound = device.variable(self.checked.environment.list_attributes)
        if bound.error is not None:
            raise EvaluationError(bound.error)
        evaluation = run_plan(self.checked, self._plan, bound, (), COST_LIMIT)
        if evaluation.error is not None:
            raise evaluation.error
        return as_attribute(evaluation.value)


def as_attribute(value: Value) -> DeviceAttribute:
    """Converts a CEL value to an attribute. Raises EvaluationError for a value that no attribute can hold.

    An empty list becomes an empty list of strings, which satisfies no constraint.
    """
    scalar = _scalar(value)
    if scalar is not None:
        return _of_scalar(scalar)
    inner = _unwrapped(value)
    if type(inner) is not ListValue or inner is not value:
        raise EvaluationError(f"unsupported CEL return type: {_go_type(inner)}")
    if not inner.size:
        return DeviceAttribute(strings=())
    first = _scalar(inner.at(0))
    if first is None:
        raise EvaluationError(f"unsupported list element type: {_go_type(_unwrapped(inner.at(0)))}")
    scalars: list[_Scalar] = []
    for index, element in enumerate(inner.items):
        item = _scalar(element)
        if item is None or type(item) is not type(first):
            found = _go_type(_unwrapped(element))
            raise EvaluationError(f"expected list element at index {index} to be {_NAMES[type(first)]}, got {found}")
        scalars.append(item)
    return _of_list(type(first), scalars)


def _of_scalar(value: _Scalar) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(bool_=value)
    if isinstance(value, int):
        return DeviceAttribute(int_=value)
    return DeviceAttribute(string=value) if isinstance(value, str) else DeviceAttribute(version=str(value))


def _of_list(kind: type, values: list[_Scalar]) -> DeviceAttribute:
    if kind is bool:
        return DeviceAttribute(bools=tuple(bool(value) for value in values))
    if kind is int:
        return DeviceAttribute(ints=tuple(value for value in values if isinstance(value, int)))
    texts = tuple(map(str, values))
    return DeviceAttribute(strings=texts) if kind is str else DeviceAttribute(versions=texts)


def _unwrapped(value: Value) -> Value:
    """The value that cel-go's ``Value()`` returns: optionals give their content, types their name."""
    while type(value) is Optional:
        value = value.value
    return value.name if type(value) is TypeValue else value


def _scalar(value: Value) -> _Scalar | None:
    inner = _unwrapped(value)
    if type(inner) in _NAMES:
        scalar: _Scalar = inner
        return scalar
    return None


def _go_type(value: Value) -> str:
    if value is ABSENT:
        return "<nil>"
    if type(value) in (str, bool, int, Semver):
        return {str: "string", bool: "bool", int: "int64", Semver: "semver.Version"}[type(value)]
    if type(value) is ListValue:
        return "[]ref.Val"
    return _GO_TYPES.get(type(value)) or go_type(value)
