"""List, map and message literals at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.cel.evaluation import cost
from allotment.cel.evaluation.library import messages
from allotment.cel.evaluation.steps import COST, Frame, Run, Step
from allotment.cel.evaluation.value_format import show
from allotment.cel.evaluation.values import ABSENT, Failure, ListValue, MapValue, Optional, Value, map_key


def list_literal(steps: Sequence[Step], optional: frozenset[int]) -> Run:
    """``[a, ?b]``; ``optional`` are the positions of elements that may be missing."""
    runs = tuple(step.run for step in steps)

    def run(frame: Frame) -> Value:
        items: list[Value] = []
        try:
            for position, compute in enumerate(runs):
                item = compute(frame)
                if position in optional:
                    if type(item) is not Optional:
                        raise Failure(f"cannot initialize optional list element from non-optional value {show(item)}")
                    item = item.value
                    if item is ABSENT:
                        continue
                items.append(item)
        except Failure:
            frame[COST] += cost.LIST
            raise
        frame[COST] += cost.LIST
        return ListValue(items)

    return run


def map_literal(entries: Sequence[tuple[Step, Step, bool]]) -> Run:
    """``{k: v, ?o: w}`` from (key, value, may be missing); the last of equal keys wins."""
    runs = tuple((key.run, value.run, optional) for key, value, optional in entries)

    def run(frame: Frame) -> Value:
        built: dict[Any, tuple[Value, Value]] = {}
        try:
            for compute_key, compute_value, optional in runs:
                key = compute_key(frame)
                value = compute_value(frame)
                if optional:
                    if type(value) is not Optional:
                        raise Failure(
                            f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}"
                        )
                    value = value.value
                    if value is ABSENT:
                        built.pop(map_key(key), None)
                        continue
                built[map_key(key)] = (key, value)
        except Failure:
            frame[COST] += cost.MAP
            raise
        frame[COST] += cost.MAP
        return MapValue(built)

    return run


def message(name: str, fields: Sequence[tuple[str, Run, bool]]) -> Run:
    """A message literal from (field, value, may be missing)."""

    def run(frame: Frame) -> Value:
        values: dict[str, Value] = {}
        try:
            for field, compute, optional in fields:
                value = compute(frame)
                if optional:
                    if type(value) is not Optional:
                        raise Failure(
                            f"cannot initialize optional entry '{field}' from non-optional value {show(value)}"
                        )
                    value = value.value
                    if value is ABSENT:
                        values.pop(field, None)
                        continue
                values[field] = value
            result = messages.build(name, values)
        except Failure:
            frame[COST] += cost.STRUCT
            raise
        frame[COST] += cost.STRUCT
        return result

    return run
