"""Selects instance types of a catalog by name, provider, GPU, memory and price."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

from allotment.errors import InputError
from allotment.fleet import Accelerator, accelerators
from allotment.fleet.catalog import InstanceType
from allotment.fleet.errors import suggestion
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity, QuantityError
from allotment.phrases import split_words

_Test = Callable[[InstanceType], bool]

_MEMORY = re.compile(r"\s*(?:>=|at least)?\s*([^\s<>=]+)\s*")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFilter:
    """The instance types to select; an unset field allows all of them.

    ``patterns``: parts of the name (``aws``, ``g5.xlarge``, ``gcp/a2-*``), of which one has to match. ``gpu``: words of
    the model, or ``none``. ``gpus``: minimum number. ``memory``: minimum of each GPU (``24Gi``), as its driver reports
    it. ``max_price``: USD per hour. ``spot``: only types with a spot price, which ``max_price`` then limits.
    """

    patterns: Sequence[str] = ()
    providers: Sequence[str] = ()
    gpu: str = ""
    gpus: int | None = None
    memory: str = ""
    mig: bool = False
    max_price: Decimal | float | str | None = None
    spot: bool = False

    def select(self, types: Iterable[InstanceType]) -> list[InstanceType]:
        """Return the selected types in their order. Raises InputError."""
        listed = list(types)
        tests = list(self._tests(listed))
        return [instance_type for instance_type in listed if all(test(instance_type) for test in tests)]

    def price(self, instance: InstanceType) -> Decimal | None:
        """Return the price to show and sort by."""
        return instance.price("spot" if self.spot else "on-demand")

    def sorted(self, types: Iterable[InstanceType]) -> list[InstanceType]:
        """Return the selected types, the cheapest first. Raises InputError."""
        return sorted(self.select(types), key=lambda each: (self.price(each) or Decimal("Infinity"), each.key))

    def _tests(self, types: list[InstanceType]) -> Iterator[_Test]:
        providers = split_words(self.providers)
        known = list(dict.fromkeys(instance_type.provider for instance_type in types))
        for name in providers:
            if name not in known:
                raise InputError(f"unknown provider {name!r}", suggestion(name, known) or f"known: {', '.join(known)}")
        if providers:
            yield lambda instance_type: instance_type.provider in providers
        patterns = (self.patterns,) if isinstance(self.patterns, str) else self.patterns
        if patterns:
            for pattern in patterns:
                if not any(_is_named(instance_type, pattern) for instance_type in types):
                    hint = suggestion(pattern, [instance_type.key for instance_type in types])
                    raise InputError(
                        f"no instance type name contains {pattern!r}",
                        hint or "`allot catalog list --all` lists all types",
                    )
            yield lambda instance_type: any(_is_named(instance_type, pattern) for pattern in patterns)
        if self.gpu:
            yield _gpu_test(self.gpu)
        if (gpus := self.gpus) is not None:
            if gpus < 0:
                raise InputError(f"expected a number >= 0, found {gpus}", argument="gpus")
            yield lambda instance_type: instance_type.gpus >= gpus
        if self.memory:
            least = _amount(self.memory)
            yield (
                lambda instance_type: (
                    instance_type.accelerator is not None
                    and Quantity.binary(instance_type.accelerator.memory_mib * MIB) >= least
                )
            )
        if self.mig:
            yield lambda instance: instance.accelerator is not None and instance.accelerator.mig is not None
        if self.max_price is not None:
            most = _usd(self.max_price)
            yield lambda instance_type: (price := self.price(instance_type)) is not None and price <= most
        if self.spot:
            yield lambda instance_type: instance_type.price("spot") is not None


def find_type(types: Iterable[InstanceType], name: str) -> InstanceType:
    """Return the type ``aws/p5.48xlarge``, or ``p5.48xlarge`` if only one provider has it. Raises InputError."""
    listed = list(types)
    found = [instance_type for instance_type in listed if name == instance_type.key] or [
        instance_type for instance_type in listed if name == instance_type.name
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"{name} is offered by several providers",
            f"use {' or '.join(instance_type.key for instance_type in found)}",
        )
    hint = (
        suggestion(name, [instance_type.key for instance_type in listed])
        or "`allot catalog list --all` lists all known types"
    )
    raise InputError(f"unknown instance type {name!r}", hint)


def products_named(text: str) -> tuple[str, ...]:
    """Return the products whose names contain every word of the text, or none if it is empty."""
    words = set(_WORD.findall(text.lower()))
    return tuple(model.product for model in accelerators().values() if words and words <= _words(model))


def _is_named(instance: InstanceType, pattern: str) -> bool:
    key = instance.key.lower()
    wanted = pattern.lower()
    return fnmatchcase(key, wanted) if any(sign in wanted for sign in "*?[") else wanted in key


def _gpu_test(text: str) -> _Test:
    """Return the test for products whose names contain every word of the text. Raises InputError."""
    if text == "none":
        return lambda instance_type: not instance_type.gpus and not instance_type.gpu_fraction
    words = set(_WORD.findall(text.lower()))
    if not any(words <= _words(model) for model in accelerators().values()):
        names = [name for model in accelerators().values() for name in model.aliases]
        raise InputError(f"unknown GPU {text!r}", suggestion(text, names) or "`allot fleet list` lists all known GPUs")
    return lambda instance_type: instance_type.accelerator is not None and words <= _words(instance_type.accelerator)


def _words(model: Accelerator) -> set[str]:
    return set(_WORD.findall(" ".join((model.id, model.product, *model.aliases)).lower()))


def _amount(text: str) -> Quantity:
    found = _MEMORY.fullmatch(text)
    try:
        return Quantity.parse(found[1] if found else text)
    except QuantityError:
        raise InputError(f"expected an amount such as '>=24Gi', found {text!r}", argument="memory") from None


def _usd(price: Decimal | float | str) -> Decimal:
    try:
        value = Decimal(str(price))
        if value > 0 and value.is_finite():
            return value
    except InvalidOperation:
        pass
    raise InputError(f"expected USD per hour > 0, found {price!r}", argument="max_price")
