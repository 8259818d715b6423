"""A refusal of the engine as one short line about a machine: what it has, and what was asked.

``L4 has 23034Mi, 24Gi asked``. The figures are those of the diagnosis; what is added is only how people call it.
``nearness`` orders misses: one that a little more memory would mend comes before one of another vendor.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Final, NamedTuple

from allotment.engine.refusal import Funnel, Miss, Refused
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
_VALUES: Final = ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity")
#: Ranks of misses, nearest first.
LIMIT, AMOUNT, KIND, CLASS, CONSTRAINT, OTHER, NOTHING = range(7)


class Phrase(NamedTuple):
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


def phrase(refused: Refused, instance: InstanceType, runtime_only: Collection[str]) -> Phrase:
    """What keeps claims from a machine, in its own words. ``runtime_only``: attributes that nobody knows before."""
    if not instance.hardware:
        return Phrase("driver-missing", "it has no GPU", NOTHING, 1.0)
    miss = refused.nearest
    if refused.code == "too-few-devices":
        return _too_few(refused, instance)
    if miss is not None and _runtime(miss.what, runtime_only):
        return Phrase("run-time-only", f"{miss.what} is known only once it runs", OTHER)
    if refused.code == "driver-missing":
        return _driver(refused, instance)
    if miss is not None and refused.code in _VALUES:
        return _missed(refused, miss, instance)
    if refused.code == "selector-fails":  # no hardware is at fault: nothing is nearer than to write it otherwise
        return Phrase(refused.code, _ON_DEVICE.sub(":", refused.summary), AMOUNT)
    rank = CONSTRAINT if refused.code.startswith("constraint") else OTHER
    return Phrase(refused.code, refused.summary, rank)


def _runtime(what: str, runtime_only: Collection[str]) -> bool:
    return what in {name.rpartition("/")[2] for name in runtime_only}


def _too_few(refused: Refused, instance: InstanceType) -> Phrase:
    """The funnel that ends with too few."""
    short = next((f for f in refused.funnels if f.left() < max(f.wanted, 1)), None)
    if short is None:
        return Phrase(refused.code, refused.summary, AMOUNT, 2.0)
    return Phrase(refused.code, _counts(short, instance), AMOUNT, short.wanted / max(short.left(), 0.5) - 1)


def _counts(funnel: Funnel, instance: InstanceType) -> str:
    left = funnel.left()
    whole = left == instance.gpus
    have = counted(left, "GPU") if whole else counted(left, "device that matches", "devices that match")
    return f"{have}, {funnel.wanted} asked"


def _driver(refused: Refused, instance: InstanceType) -> Phrase:
    found = _DRIVER.search(refused.summary)
    asked = f"{found[1]} asked" if found else refused.summary
    return Phrase(refused.code, f"{model_of(instance)} has another driver, {asked}", NOTHING)


def _missed(refused: Refused, miss: Miss, instance: InstanceType) -> Phrase:
    """The value that came nearest, and the one that was asked."""
    model = _model(miss, instance)
    actual, wanted = _plain(miss.actual), _plain(miss.wanted)
    code, what = refused.code, miss.what.rpartition("/")[2]
    mig = instance.accelerator is not None and instance.accelerator.mig
    if what == "type" and wanted == "mig":
        return Phrase(code, f"{model} has no MIG" if not mig else f"{model} is not cut by MIG", CLASS)
    if what == "profile":
        return Phrase(code, f"no MIG profile {wanted}: has {actual}", KIND, 0.5)
    if what in ("productName", "model"):
        return Phrase(code, f"it has {actual}, {wanted} asked", KIND, 1.0)
    if what in ("architecture", "brand", "type"):
        return Phrase(
            code, f"{model} is {actual}, {wanted} asked", CLASS if what == "type" else KIND, _apart(actual, wanted)
        )
    distance = _short_by(miss.actual, miss.wanted)
    if code != "not-enough-capacity" and _number(miss.wanted):
        wanted = f"exactly {wanted}"  # a selector that says == and not "at least"
    if what == "memory":
        return Phrase(code, f"{model} has {actual}, {wanted} asked", AMOUNT, distance)
    rank = AMOUNT if code == "not-enough-capacity" else KIND
    return Phrase(code, f"{model} has {what} {actual}, {wanted} asked", rank, distance)


def _model(miss: Miss, instance: InstanceType) -> str:
    """The device that came nearest, where it is a piece; else the GPU."""
    piece = re.search(r"\b[0-9]+g\.[0-9]+gb\S*", miss.kind)
    return f"{piece[0]} of {model_of(instance)}" if piece else model_of(instance)


def _plain(text: str) -> str:
    """A value without the quotes and the words that an ordinary reader adds himself."""
    return short_name(text.removeprefix(_AT_LEAST).replace('"', ""))


def _apart(actual: str, wanted: str) -> float:
    if actual in _GENERATIONS and wanted in _GENERATIONS:
        return float(abs(_GENERATIONS.index(actual) - _GENERATIONS.index(wanted)))
    return float(len(_GENERATIONS))


def _short_by(actual: str, wanted: str) -> float:
    """By which fraction of what there is the wish exceeds it, or falls short of it."""
    has, asks = _number(actual), _number(wanted.rpartition(" ")[2])
    return float(abs(asks - has) / has) if has and asks else 1.0


def _number(text: str) -> Decimal:
    try:
        return Decimal(Quantity.parse(text).nano)
    except QuantityError:
        return Decimal(0)
