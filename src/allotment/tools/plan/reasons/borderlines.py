"""Claims near a figure of memory that is not certain, or that cloud and driver tell differently.

A cloud says 16384 MiB of a T4, whose driver publishes 15360. Plans go by the driver; where nobody has seen what it
publishes, the smaller of the figures that are known is taken, and an answer that hangs on it is borderline.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from allotment.cel import CompileError, compile_selector
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.quantity import Quantity

_MIB: Final = 1 << 20
#: How far the driver's own figure was seen to be from the others.
_UNSURE: Final = Fraction(5, 100)


def thresholds(expressions: Iterable[str], features: Features) -> tuple[Quantity, ...]:
    """Amounts of memory that selectors compare with."""
    found: list[Quantity] = []
    for expression in expressions:
        try:
            program = compile_selector(expression, features)
        except CompileError:
            continue
        for conjunct in program.conjuncts:
            comparison = conjunct.comparison
            if comparison is not None and comparison.path[0] == "capacity" and comparison.path[-1] == "memory":
                found += [one for one in _amounts(comparison.literal) if isinstance(one, Quantity)]
    return tuple(found)


def _amounts(literal: object) -> tuple[object, ...]:
    return literal if isinstance(literal, tuple) else (literal,)


def is_borderline(instance: InstanceType, wanted: Iterable[Quantity]) -> bool:
    """Whether a threshold is so near to a figure that is not the driver's own that it may be on its other side."""
    if not instance.memory_bound or instance.accelerator is None:
        return False
    known = instance.accelerator.memory_mib * _MIB
    most = max(known, _cloud(instance) or 0)
    low, high = known * (1 - _UNSURE), most * (1 + _UNSURE)
    return any(low <= Fraction(one.nano, 10**9) <= high for one in wanted)


def told_otherwise(instance: InstanceType, wanted: Iterable[Quantity]) -> str:
    """What the cloud says of the GPU's memory, where a claim would be answered otherwise by it; else empty."""
    cloud = _cloud(instance)
    if cloud is None or instance.accelerator is None or instance.memory_bound:
        return ""
    low, high = sorted((cloud, instance.accelerator.memory_mib * _MIB))
    between = any(low < Fraction(one.nano, 10**9) <= high for one in wanted)
    return f"the cloud says {cloud // _MIB}Mi" if between else ""


def _cloud(instance: InstanceType) -> int | None:
    return None if instance.gpu_memory_gib is None else int(instance.gpu_memory_gib * 1024) * _MIB
