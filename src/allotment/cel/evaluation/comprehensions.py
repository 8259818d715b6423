"""Comprehensions at run time: the loops that macros become.

The checker guarantees the shapes (users cannot write a comprehension themselves), so each shape has its own loop. The
accumulator is a Python variable, may be a failure, and is charged like the variable that it is for upstream. Building a
list or map appends in place: upstream does, and it keeps loops linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from allotment.cel.evaluation.equality import NO_SUCH_OVERLOAD
from allotment.cel.evaluation.library.arithmetic import integer
from allotment.cel.evaluation.library.lists import insert, insert_all
from allotment.cel.evaluation.steps import COST, LIMIT, Frame, Run
from allotment.cel.evaluation.values import (
    ABSENT,
    CostExceeded,
    Failure,
    ListValue,
    MapValue,
    Value,
    go_type,
    no_such_overload,
)

#: The charge for a use of the accumulator, and for ``+``.
_REFERENCE: Final = 1
_ADD: Final = 1


def elements(value: Value) -> Iterable[Value]:
    """What a one-variable comprehension iterates over."""
    kind = type(value)
    if kind is ListValue:
        return value.items
    if kind is MapValue:
        return value.ordered_keys()
    raise Failure(f"got '{go_type(value)}', expected iterable type")


def pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """What a two-variable comprehension iterates over: index and element, or key and value."""
    kind = type(value)
    if kind is ListValue:
        return enumerate(value.items)
    if kind is MapValue:
        return ((key, value.find(key)) for key in value.ordered_keys())
    raise Failure(f"unsupported comprehension range type: {go_type(value)}")


def _begin(frame: Frame, over: Run, two: bool) -> Iterable[Value]:
    value = over(frame)
    if frame[COST] > frame[LIMIT]:
        raise CostExceeded
    return pairs(value) if two else elements(value)


def quantifier(over: Run, slot: int, slot2: int | None, predicate: Run, *, every: bool) -> Run:
    """``all`` (``every``) and ``exists``: stops at the first deciding element and absorbs failures."""
    # Accumulator and condition, then the accumulator again in the step.
    condition = 2 if every else 3
    deciding = not every
    two = slot2 is not None

    def run(frame: Frame) -> Value:
        failed: Failure | None = None
        decided = False
        limit = frame[LIMIT]
        counting = type(frame) is not list
        for item in _begin(frame, over, two):
            if counting:
                for _ in range(condition):
                    frame[COST] += 1
            else:
                frame[COST] += condition
            if decided:
                break
            frame[COST] += _REFERENCE
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            try:
                held = predicate(frame)
            except Failure as failure:
                failed = failed or failure
            else:
                if held is deciding:
                    decided = True
                    failed = None
                elif held is not every and failed is None:
                    failed = Failure(NO_SUCH_OVERLOAD)
            if frame[COST] > limit:
                raise CostExceeded
        frame[COST] += _REFERENCE
        if failed is not None:
            raise failed
        return deciding if decided else every

    return run


def one(over: Run, slot: int, slot2: int | None, predicate: Run) -> Run:
    """``exists_one``: counts to the end; any failure is the result, the last one of the predicate first."""
    two = slot2 is not None

    def run(frame: Frame) -> Value:
        failed: Failure | None = None
        count = 0
        limit = frame[LIMIT]
        for item in _begin(frame, over, two):
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            try:
                held = predicate(frame)
                if held is True:
                    frame[COST] += _REFERENCE
                    frame[COST] += _ADD
                    count += 1
                elif held is not False:
                    raise Failure(NO_SUCH_OVERLOAD)
            except Failure as failure:
                failed = failure
            if frame[COST] > limit:
                raise CostExceeded
        frame[COST] += _REFERENCE
        frame[COST] += 1
        if failed is not None:
            raise failed
        return integer(count) == 1

    return run


#: Adds an element to what is being built: (frame, what is built so far or the failure) -> what is built then.
Accumulate = Callable[[Frame, Value], Value]


def append(compute: Run, literal: int) -> Accumulate:
    """``accumulator + [element]``; ``literal`` is what the list literal costs."""

    def accumulate(frame: Frame, built: Value) -> Value:
        frame[COST] += _REFERENCE
        failed: Failure | None = built if isinstance(built, Failure) else None
        try:
            item = compute(frame)
            if failed is None:
                built.append(item)
        except Failure as failure:
            failed = failed or failure
        frame[COST] += literal
        frame[COST] += _ADD
        return built if failed is None else failed

    return accumulate


def insert_entry(key_slot: int, compute: Run) -> Accumulate:
    """``transformMap``: an entry under the key or index at hand."""

    def accumulate(frame: Frame, built: Value) -> Value:
        frame[COST] += _REFERENCE
        if isinstance(built, Failure):
            return built
        # The key is a variable.
        frame[COST] += _REFERENCE
        try:
            value = compute(frame)
            insert(built, frame[key_slot], value)
        except Failure as failure:
            frame[COST] += 1
            return failure
        frame[COST] += 1
        return built

    return accumulate


def insert_entries(compute: Run) -> Accumulate:
    """``transformMapEntry``: the entries of a map."""

    def accumulate(frame: Frame, built: Value) -> Value:
        frame[COST] += _REFERENCE
        failed: Failure | None = built if isinstance(built, Failure) else None
        try:
            entries = compute(frame)
            if failed is None:
                if type(entries) is not MapValue:
                    raise no_such_overload("cel.@mapInsert", (built, entries))
                insert_all(built, entries)
        except Failure as failure:
            failed = failed or failure
        frame[COST] += 1
        return built if failed is None else failed

    return accumulate


def build(over: Run, slot: int, slot2: int | None, keep: Run | None, accumulate: Accumulate, *, mapping: bool) -> Run:
    """``map``, ``filter``, ``transform…``: builds a list, or a map with ``mapping``, from the elements that ``keep``
    holds for."""
    two = slot2 is not None

    def run(frame: Frame) -> Value:
        items: list[Value] = []
        built: Value = MapValue({}) if mapping else items
        limit = frame[LIMIT]
        for item in _begin(frame, over, two):
            if slot2 is None:
                frame[slot] = item
            else:
                frame[slot], frame[slot2] = item
            if keep is None:
                built = accumulate(frame, built)
            else:
                try:
                    held = keep(frame)
                    if held is True:
                        built = accumulate(frame, built)
                    elif held is not False:
                        raise Failure(NO_SUCH_OVERLOAD)
                except Failure as failure:
                    built = failure
            if frame[COST] > limit:
                raise CostExceeded
        frame[COST] += _REFERENCE
        if isinstance(built, Failure):
            raise built
        return built if mapping else ListValue(items)

    return run


def bind(slot: int, body: Run) -> Run:
    """``cel.bind``: the variable is computed when it is first used, if ever (:func:`bound_variable`)."""

    def run(frame: Frame) -> Value:
        frame[slot] = ABSENT
        return body(frame)

    return run


def bound_variable(slot: int, compute: Run) -> Run:
    """A use of a bound variable, uncharged; a failure is computed once too."""

    def run(frame: Frame) -> Value:
        value = frame[slot]
        if value is ABSENT:
            try:
                value = compute(frame)
            except Failure as failure:
                value = failure
            frame[slot] = value
        if isinstance(value, Failure):
            raise value
        return value

    return run
