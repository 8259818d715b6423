"""A refusal of the engine as one short line about a machine: what it has, and what was asked.

``L4 has 23034Mi, 24Gi asked``. The figures are those of the diagnosis; what is added is only how people call it.
``nearness`` orders misses: one that a little more memory would mend comes before one of another vendor.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Final, NamedTuple

from allotment.engine.refusal import AllocationRefusal, Funnel, NearestMiss
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.quantity import Quantity, QuantityError
from allotment.phrases import counted

#: NVIDIA's architectures by age; neighbours are near.
_GENERATIONS: Final = ("Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell")
_VENDORS: Final = re.compile(r"^(NVIDIA|AMD Instinct|AMD|Intel) ")
_DRIVER: Final = re.compile(r'driver "([^"]+)"')
_ON_DEVICE: Final = re.compile(r" on device \S+:")
_AT_LEAST: Final = "at least "
#: Refusals because of a value that a device has.
_VALUE_CODES: Final = ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity")
#: Ranks of misses, nearest first.
LIMIT, AMOUNT, KIND, CLASS, CONSTRAINT, OTHER, NOTHING = range(7)


class Shortfall(NamedTuple):
    """What is in the way of a machine, and how far it is from serving; smaller is nearer."""

    code: str
    text: str
    rank: int
    distance: float = 0.0


def model_of(instance: InstanceType) -> str:
    """How people call a type's GPU: ``L4``, ``A100-SXM4-40GB``."""
    return short_name(instance.accelerator.product if instance.accelerator is not None else instance.gpu_model)


def short_name(product: str) -> str:
    """A product's name without its vendor's.

    >>> short_name("NVIDIA A100-SXM4-40GB"), short_name("AMD_Instinct_MI300X_OAM"), short_name("Tesla T4")
    ('A100-SXM4-40GB', 'MI300X OAM', 'Tesla T4')
    """
    return _VENDORS.sub("", product.replace("_", " "))


def shortfall_of(refused: AllocationRefusal, instance: InstanceType, runtime_only: Collection[str]) -> Shortfall:
    """What keeps claims from a machine, in its own words. ``runtime_only``: attributes that nobody knows before."""
    if not instance.hardware:
        return Shortfall("driver-missing", "it has no GPU", NOTHING, 1.0)
    miss = refused.nearest
    if refused.code == "too-few-devices":
        return _count_shortfall(refused, instance)
    if miss is not None and _is_run_time_only(miss.what, runtime_only):
        return Shortfall("run-time-only", f"{miss.what} is known only once it runs", OTHER)
    if refused.code == "driver-missing":
        return _driver_shortfall(refused, instance)
    if miss is not None and refused.code in _VALUE_CODES:
        return _value_shortfall(refused, miss, instance)
    if refused.code == "selector-fails":  # no hardware is at fault: nothing is nearer than to write it otherwise
        return Shortfall(refused.code, _ON_DEVICE.sub(":", refused.summary), AMOUNT)
    rank = CONSTRAINT if refused.code.startswith("constraint") else OTHER
    return Shortfall(refused.code, refused.summary, rank)


def _is_run_time_only(what: str, runtime_only: Collection[str]) -> bool:
    return what in {name.rpartition("/")[2] for name in runtime_only}


def _count_shortfall(refused: AllocationRefusal, instance: InstanceType) -> Shortfall:
    """The funnel that ends with too few."""
    funnel = next((f for f in refused.funnels if f.left() < max(f.wanted, 1)), None)
    if funnel is None:
        return Shortfall(refused.code, refused.summary, AMOUNT, 2.0)
    return Shortfall(refused.code, _counts(funnel, instance), AMOUNT, funnel.wanted / max(funnel.left(), 0.5) - 1)


def _counts(funnel: Funnel, instance: InstanceType) -> str:
    left = funnel.left()
    whole = left == instance.gpus
    have = counted(left, "GPU") if whole else counted(left, "device that matches", "devices that match")
    return f"{have}, {funnel.wanted} asked"


def _driver_shortfall(refused: AllocationRefusal, instance: InstanceType) -> Shortfall:
    match = _DRIVER.search(refused.summary)
    requested = f"{match[1]} asked" if match else refused.summary
    return Shortfall(refused.code, f"{model_of(instance)} has another driver, {requested}", NOTHING)


def _value_shortfall(refused: AllocationRefusal, miss: NearestMiss, instance: InstanceType) -> Shortfall:
    """The value that came nearest, and the one that was asked."""
    model = _model(miss, instance)
    actual, requested = _short_value(miss.actual), _short_value(miss.wanted)
    code, what = refused.code, miss.what.rpartition("/")[2]
    mig = instance.accelerator is not None and instance.accelerator.mig
    if what == "type" and requested == "mig":
        return Shortfall(code, f"{model} has no MIG" if not mig else f"{model} is not cut by MIG", CLASS)
    if what == "profile":
        return Shortfall(code, f"no MIG profile {requested}: has {actual}", KIND, 0.5)
    if what in ("productName", "model"):
        return Shortfall(code, f"it has {actual}, {requested} asked", KIND, 1.0)
    if what in ("architecture", "brand", "type"):
        return Shortfall(
            code, f"{model} is {actual}, {requested} asked", CLASS if what == "type" else KIND, _generation_distance(actual, requested)
        )
    distance = _relative_distance(miss.actual, miss.wanted)
    if code != "not-enough-capacity" and _number(miss.wanted):
        requested = f"exactly {requested}"  # a selector that says == and not "at least"
    if what == "memory":
        return Shortfall(code, f"{model} has {actual}, {requested} asked", AMOUNT, distance)
    rank = AMOUNT if code == "not-enough-capacity" else KIND
    return Shortfall(code, f"{model} has {what} {actual}, {requested} asked", rank, distance)


def _model(miss: NearestMiss, instance: InstanceType) -> str:
    """The device that came nearest, where it is a piece; else the GPU."""
    piece = re.search(r"\b[0-9]+g\.[0-9]+gb\S*", miss.kind)
    return f"{piece[0]} of {model_of(instance)}" if piece else model_of(instance)


def _short_value(text: str) -> str:
    """A value without the quotes and the words that an ordinary reader adds himself."""
    return short_name(text.removeprefix(_AT_LEAST).replace('"', ""))


def _generation_distance(actual: str, requested: str) -> float:
    if actual in _GENERATIONS and requested in _GENERATIONS:
        return float(abs(_GENERATIONS.index(actual) - _GENERATIONS.index(requested)))
    return float(len(_GENERATIONS))


def _relative_distance(actual: str, requested: str) -> float:
    """By which fraction of what there is the wish exceeds it, or falls short of it."""
    available, requested_number = _number(actual), _number(requested.rpartition(" ")[2])
    return float(abs(requested_number - available) / available) if available and requested_number else 1.0


def _number(text: str) -> Decimal:
    try:
        return Decimal(Quantity.parse(text).nano)
    except QuantityError:
        return Decimal(0)
