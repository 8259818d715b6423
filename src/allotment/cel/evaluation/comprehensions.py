"""Evaluation of comprehensions, the loops that macros expand to.

Only macros create comprehensions, so each shape has its own loop. The accumulator is a Python variable that can hold an
error; it is charged like upstream's variable. Lists and maps are built in place, as upstream does, so loops are linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from allotment.cel.evaluation.equality import NO_SUCH_OVERLOAD
from allotment.cel.evaluation.library.arithmetic import checked_int64
from allotment.cel.evaluation.library.lists import insert, insert_all
from allotment.cel.evaluation.steps import COST, LIMIT, Frame, Run
from allotment.cel.evaluation.values import (
    ABSENT,
    CelError,
    CostLimitExceeded,
    ListValue,
    MapValue,
    Value,
    go_type,
    no_such_overload,
)

#: The costs of a reference to the accumulator, and of ``+``.
_REFERENCE_COST: Final = 1
_ADD_COST: Final = 1


def elements(value: Value) -> Iterable[Value]:
    """The values that a one-variable comprehension iterates over."""
    kind = type(value)
    if kind is ListValue:
        return value.items
    if kind is MapValue:
        return value.ordered_keys()
    raise CelError(f"got '{go_type(value)}', expected iterable type")


def pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """The pairs that a two-variable comprehension iterates over: index and element, or key and value."""
    kind = type(value)
    if kind is ListValue:
        return enumerate(value.items)
    if kind is MapValue:
        return ((key, value.find(key)) for key in value.ordered_keys())
    raise CelError(f"unsupported comprehension range type: {go_type(value)}")


def _iterate(frame: Frame, over: Run, two_variables: bool) -> Iterable[Value]:
    value = over(frame)
    if frame[COST] > frame[LIMIT]:
        raise CostLimitExceeded
    return pairs(value) if two_variables else elements(value)


def quantifier(over: Run, slot: int, slot2: int | None, predicate: Run, *, every: bool) -> Run:
    """``all`` (``every``) and ``exists``: stops at the first deciding element and absorbs errors."""
    # Accumulator and condition, then the accumulator again in the step.
    condition_cost = 2 if every else 3
    deciding = not every
    two_variables = slot2 is not None

    def run(frame: Frame) -> Value:
        failed: CelError | None = None
        decided = False
        limit = frame[LIMIT]
        counting = type(frame) is not list
        for item in _iterate(frame, over, two_variables):
            if counting:
                for _ in range(condition_cost):
                    frame[COST] += 1
            else:
                frame[COST] += condition_cost
            if decided:
                break
            frame[COST] += _REFERENCE_COST
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            try:
                selected = predicate(frame)
            except CelError as failure:
                failed = failed or failure
            else:
                if selected is deciding:
                    decided = True
                    failed = None
                elif selected is not every and failed is None:
                    failed = CelError(NO_SUCH_OVERLOAD)
            if frame[COST] > limit:
                raise CostLimitExceeded
        frame[COST] += _REFERENCE_COST
        if failed is not None:
            raise failed
        return deciding if decided else every

    return run


def exists_one(over: Run, slot: int, slot2: int | None, predicate: Run) -> Run:
    """``exists_one``: visits all elements; the last error of the predicate, if any, is the result."""
    two_variables = slot2 is not None

    def run(frame: Frame) -> Value:
        failed: CelError | None = None
        count = 0
        limit = frame[LIMIT]
        for item in _iterate(frame, over, two_variables):
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            try:
                selected = predicate(frame)
                if selected is True:
                    frame[COST] += _REFERENCE_COST
                    frame[COST] += _ADD_COST
                    count += 1
                elif selected is not False:
                    raise CelError(NO_SUCH_OVERLOAD)
            except CelError as failure:
                failed = failure
            if frame[COST] > limit:
                raise CostLimitExceeded
        frame[COST] += _REFERENCE_COST
        frame[COST] += 1
        if failed is not None:
            raise failed
        return checked_int64(count) == 1

    return run


#: Adds an element to the accumulator: (frame, collection or error) -> new collection or error.
Accumulate = Callable[[Frame, Value], Value]


def append_element(compute: Run, literal: int) -> Accumulate:
    """``accumulator + [element]``; ``literal`` is the cost of the list literal."""

    def accumulate(frame: Frame, built: Value) -> Value:
        frame[COST] += _REFERENCE_COST
        failed: CelError | None = built if isinstance(built, CelError) else None
        try:
            item = compute(frame)
            if failed is None:
                built.append(item)
        except CelError as failure:
            failed = failed or failure
        frame[COST] += literal
        frame[COST] += _ADD_COST
        return built if failed is None else failed

    return accumulate


def insert_entry(key_slot: int, compute: Run) -> Accumulate:
    """``transformMap``: inserts an entry under the current key or index."""

    def accumulate(frame: Frame, built: Value) -> Value:
        frame[COST] += _REFERENCE_COST
        if isinstance(built, CelError):
            return built
        # The reference to the key variable.
        frame[COST] += _REFERENCE_COST
        try:
            value = compute(frame)
            insert(built, frame[key_slot], value)
        except CelError as failure:
            frame[COST] += 1
            return failure
        frame[COST] += 1
        return built

    return accumulate


def insert_entries(compute: Run) -> Accumulate:
    """``transformMapEntry``: inserts the entries of a map."""

    def accumulate(frame: Frame, built: Value) -> Value:
        frame[COST] += _REFERENCE_COST
        failed: CelError | None = built if isinstance(built, CelError) else None
        try:
            entries = compute(frame)
            if failed is None:
                if type(entries) is not MapValue:
                    raise no_such_overload("cel.@mapInsert", (built, entries))
                insert_all(built, entries)
        except CelError as failure:
            failed = failed or failure
        frame[COST] += 1
        return built if failed is None else failed

    return accumulate


def build_collection(
    over: Run, slot: int, slot2: int | None, keep: Run | None, accumulate: Accumulate, *, mapping: bool
) -> Run:
    """``map``, ``filter``, ``transform…``: builds a list, or with ``mapping`` a map, from the elements for which
    ``keep`` is true."""
    two_variables = slot2 is not None

    def run(frame: Frame) -> Value:
        items: list[Value] = []
        built: Value = MapValue({}) if mapping else items
        limit = frame[LIMIT]
        for item in _iterate(frame, over, two_variables):
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            if keep is None:
                built = accumulate(frame, built)
            else:
                try:
                    selected = keep(frame)
                    if selected is True:
                        built = accumulate(frame, built)
                    elif selected is not False:
                        raise CelError(NO_SUCH_OVERLOAD)
                except CelError as failure:
                    built = failure
            if frame[COST] > limit:
                raise CostLimitExceeded
        frame[COST] += _REFERENCE_COST
        if isinstance(built, CelError):
            raise built
        return built if mapping else ListValue(items)

    return run


def bind(slot: int, body: Run) -> Run:
    """``cel.bind``: the variable is computed on first use (:func:`bound_variable`)."""

    def run(frame: Frame) -> Value:
        frame[slot] = ABSENT
        return body(frame)

    return run


def bound_variable(slot: int, compute: Run) -> Run:
    """A reference to a bound variable, without cost; an error is computed only once too."""

    def run(frame: Frame) -> Value:
        value = frame[slot]
        if value is ABSENT:
            try:
                value = compute(frame)
            except CelError as failure:
                value = failure
            frame[slot] = value
        if isinstance(value, CelError):
            raise value
        return value

    return run
