"""``x in [constants]`` as a set lookup, as upstream plans it: then it costs nothing beyond ``x``.

The set holds the elements and their exact twins of the other number types, so that 1, 1u and 1.0 find each other.
"""

from __future__ import annotations

from typing import Final

from allotment.cel.evaluation.steps import Frame, Run
from allotment.cel.evaluation.values import ABSENT, Key, ListValue, Uint, Value, map_key

_HASHED: Final = frozenset({bool, int, Uint, float, str})


def membership(compute: Run, constants: ListValue) -> Run | Value:
    """The lookup; ABSENT when the list is empty (the answer is always false, and nothing is evaluated); None when the
    elements are of types that cannot be looked up."""
    if not constants.size:
        return ABSENT
    if any(type(item) not in _HASHED for item in constants.items):
        return None
    keys: set[Key] = set()
    for item in constants.items:
        keys.update(_twins(item))
    found = frozenset(keys)

    def run(frame: Frame) -> Value:
        value = compute(frame)
        return (value if type(value) is str else map_key(value)) in found

    return run


def _twins(value: Value) -> list[Key]:
    kind = type(value)
    twins = [map_key(value)]
    if kind is float:
        if -(2.0**63) < value < 2.0**63 and value == int(value):
            twins.append(int(value))
        if 0 <= value < 2.0**64 and value == int(value):
            twins.append(("uint", int(value)))
    elif kind is int:
        twins.append(("double", float(value)))
        if value >= 0:
            twins.append(("uint", value))
    elif kind is Uint:
        twins.append(("double", float(value)))
        if value < 2**63:
            twins.append(int(value))
    return twins
