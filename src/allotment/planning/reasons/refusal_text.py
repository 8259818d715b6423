"""Texts of the engine's refusals for an instance type: the available and the requested value in one line.

An example: ``L4 has 23034Mi; 24Gi requested``. The values are those of the diagnosis, with common names. Shortfalls are
ranked: too little memory is nearer than another vendor.
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

#: NVIDIA's architectures by age; adjacent ones are near.
_GENERATIONS: Final = ("Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell")
_VENDORS: Final = re.compile(r"^(NVIDIA|AMD Instinct|AMD|Intel) ")
_DRIVER: Final = re.compile(r'driver "([^"]+)"')
_ON_DEVICE: Final = re.compile(r" on device \S+:")
_AT_LEAST: Final = "at least "
#: Codes of refusals due to the value of an attribute or capacity.
_VALUE_CODES: Final = ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity")
#: Ranks of shortfalls, nearest first.
LIMIT, AMOUNT, KIND, CLASS, CONSTRAINT, OTHER, NOTHING = range(7)


class Shortfall(NamedTuple):
    """The reason why a machine type does not fit, with its rank and distance; smaller is nearer."""

    code: str
    text: str
    rank: int
    distance: float = 0.0


def model_of(instance: InstanceType) -> str:
    """The common name of a type's GPU: ``L4``, ``A100-SXM4-40GB``."""
    return short_name(instance.accelerator.product if instance.accelerator is not None else instance.gpu_model)


def short_name(product: str) -> str:
    """A product name without the vendor.

    >>> short_name("NVIDIA A100-SXM4-40GB"), short_name("AMD_Instinct_MI300X_OAM"), short_name("Tesla T4")
    ('A100-SXM4-40GB', 'MI300X OAM', 'Tesla T4')
    """
    return _VENDORS.sub("", product.replace("_", " "))


def shortfall_of(refused: AllocationRefusal, instance: InstanceType, runtime_only: Collection[str]) -> Shortfall:
    """The shortfall of a machine type. ``runtime_only``: attributes that are known only when the machine runs."""
    if not instance.hardware:
        return Shortfall("driver-missing", "it has no GPU", NOTHING, 1.0)
    miss = refused.nearest
    if refused.code == "too-few-devices":
        return _count_shortfall(refused, instance)
    if miss is not None and _is_run_time_only(miss.what, runtime_only):
        return Shortfall("run-time-only", f"{miss.what} is known only after the machine has started", OTHER)
    if refused.code == "driver-missing":
        return _driver_shortfall(refused, instance)
    if miss is not None and refused.code in _VALUE_CODES:
        return _value_shortfall(refused, miss, instance)
    if refused.code == "selector-fails":  # independent of the hardware: fixing the selector is nearest
        return Shortfall(refused.code, _ON_DEVICE.sub(":", refused.summary), AMOUNT)
    rank = CONSTRAINT if refused.code.startswith("constraint") else OTHER
    return Shortfall(refused.code, refused.summary, rank)


def _is_run_time_only(attribute: str, runtime_only: Collection[str]) -> bool:
    return attribute in {name.rpartition("/")[2] for name in runtime_only}


def _count_shortfall(refused: AllocationRefusal, instance: InstanceType) -> Shortfall:
    """The shortfall of the request that finds too few devices."""
    funnel = next((f for f in refused.funnels if f.left() < max(f.wanted, 1)), None)
    if funnel is None:
        return Shortfall(refused.code, refused.summary, AMOUNT, 2.0)
    return Shortfall(refused.code, _counts(funnel, instance), AMOUNT, funnel.wanted / max(funnel.left(), 0.5) - 1)


def _counts(funnel: Funnel, instance: InstanceType) -> str:
    left = funnel.left()
    whole = left == instance.gpus
    have = counted(left, "GPU") if whole else counted(left, "device that matches", "devices that match")
    return f"{have}; {funnel.wanted} requested"


def _driver_shortfall(refused: AllocationRefusal, instance: InstanceType) -> Shortfall:
    match = _DRIVER.search(refused.summary)
    requested = f"{match[1]} requested" if match else refused.summary
    return Shortfall(refused.code, f"{model_of(instance)} uses another driver; {requested}", NOTHING)


def _value_shortfall(refused: AllocationRefusal, miss: NearestMiss, instance: InstanceType) -> Shortfall:
    """The shortfall of a value: the nearest one and the requested one."""
    model = _model(miss, instance)
    actual, requested = _short_value(miss.actual), _short_value(miss.wanted)
    code, name = refused.code, miss.what.rpartition("/")[2]
    mig = instance.accelerator is not None and instance.accelerator.mig
    if name == "type" and requested == "mig":
        return Shortfall(code, f"{model} does not support MIG" if not mig else f"{model} is not in MIG mode", CLASS)
    if name == "profile":
        return Shortfall(code, f"no MIG profile {requested}; has {actual}", KIND, 0.5)
    if name in ("productName", "model"):
        return Shortfall(code, f"has {actual}; {requested} requested", KIND, 1.0)
    if name in ("architecture", "brand", "type"):
        return Shortfall(
            code,
            f"{model} is {actual}; {requested} requested",
            CLASS if name == "type" else KIND,
            _generation_distance(actual, requested),
        )
    distance = _relative_distance(miss.actual, miss.wanted)
    if code != "not-enough-capacity" and _number(miss.wanted):
        requested = f"exactly {requested}"  # the selector compares with ==
    if name == "memory":
        return Shortfall(code, f"{model} has {actual}; {requested} requested", AMOUNT, distance)
    rank = AMOUNT if code == "not-enough-capacity" else KIND
    return Shortfall(code, f"{model} has {name} {actual}; {requested} requested", rank, distance)


def _model(miss: NearestMiss, instance: InstanceType) -> str:
    """The nearest device: the profile if it is a partition, else the GPU model."""
    piece = re.search(r"\b[0-9]+g\.[0-9]+gb\S*", miss.kind)
    return f"{piece[0]} of {model_of(instance)}" if piece else model_of(instance)


def _short_value(text: str) -> str:
    """A value without quotes, "at least" and the vendor."""
    return short_name(text.removeprefix(_AT_LEAST).replace('"', ""))


def _generation_distance(actual: str, requested: str) -> float:
    if actual in _GENERATIONS and requested in _GENERATIONS:
        return float(abs(_GENERATIONS.index(actual) - _GENERATIONS.index(requested)))
    return float(len(_GENERATIONS))


def _relative_distance(actual: str, requested: str) -> float:
    """The difference between the requested and the available amount, as a fraction of the available one."""
    available, requested_number = _number(actual), _number(requested.rpartition(" ")[2])
    return float(abs(requested_number - available) / available) if available and requested_number else 1.0


def _number(text: str) -> Decimal:
    try:
        return Decimal(Quantity.parse(text).nano)
    except QuantityError:
        return Decimal(0)
