"""Selects instance types: the packaged catalog, files of ``--catalog``, patterns and filters."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from allotment.cli.output.console import width_of
from allotment.cli.output.errors import describe
from allotment.errors import InputError, InvalidManifests
from allotment.fleet import Accelerator, accelerators
from allotment.fleet.catalog import CatalogProblem, InstanceType, catalog, merged, read_catalog
from allotment.fleet.errors import suggestion
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity, QuantityError

Test = Callable[[InstanceType], bool]

_MEMORY = re.compile(r"\s*(?:>=|at least)?\s*([^\s<>=]+)\s*")
_WORD = re.compile(r"[a-z0-9]+")


class Opened(NamedTuple):
    """A catalog, and the errors of rows that were ignored."""

    types: tuple[InstanceType, ...]
    problems: tuple[CatalogProblem, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()

    def complain(self) -> int:
        """Report the errors on standard error and return the exit code; valid rows are used nevertheless."""
        if not self.problems:
            return 0
        described = describe(InvalidManifests(self.problems, dict(self.texts).get), width_of(sys.stderr))
        assert described is not None
        sys.stderr.write("".join(f"{line}\n" for line in described.lines))
        return 1


def opened(files: Sequence[str]) -> Opened:
    """Return the packaged catalog, extended by the user's files in their order."""
    types = catalog()
    problems: list[CatalogProblem] = []
    texts: list[tuple[str, str]] = []
    for file in files:
        if "." not in file and "/" not in file and not Path(file).exists():
            raise InputError(
                f"--catalog: file not found: {file!r}",
                f"to select a provider, omit --catalog: allot catalog list {file}",
            )
        try:
            text = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(
                f"{file}: expected a CSV file in UTF-8", "`allot catalog list -o csv` shows the format"
            ) from None
        rows, wrong = read_catalog(text, file)
        types = merged(types, rows)
        problems += wrong
        texts.append((file, text))
    return Opened(types, tuple(problems), tuple(texts))


def one_of(types: Iterable[InstanceType], name: str) -> InstanceType:
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


def chosen(types: Iterable[InstanceType], arguments: Namespace) -> list[InstanceType]:
    """Return the types that the arguments select, in the catalog's order."""
    listed = list(types)
    tests = list(_tests(listed, arguments))
    return [instance_type for instance_type in listed if all(test(instance_type) for test in tests)]


def products_named(text: str) -> tuple[str, ...]:
    """Return the products whose names contain every word of the text, or none if it is empty."""
    words = set(_WORD.findall(text.lower()))
    return tuple(model.product for model in accelerators().values() if words and words <= _words(model))


def by_reason(names: Iterable[tuple[str, str]]) -> list[str]:
    """Return one line per reason, with its names: ``its price is unknown: aws/p5e.48xlarge, …``."""
    listed: dict[str, list[str]] = {}
    for name, reason in names:
        if reason:
            listed.setdefault(reason, []).append(name)
    return [f"{reason}: {', '.join(those)}" for reason, those in listed.items()]


def price_of(instance: InstanceType, *, spot: bool) -> Decimal | None:
    """Return the price to show and sort by."""
    return instance.price("spot" if spot else "on-demand")


def _tests(types: list[InstanceType], arguments: Namespace) -> Iterator[Test]:
    providers = [name for text in arguments.provider for name in text.split(",") if name]
    known = list(dict.fromkeys(instance_type.provider for instance_type in types))
    for name in providers:
        if name not in known:
            raise InputError(f"unknown provider {name!r}", suggestion(name, known) or f"known: {', '.join(known)}")
    if providers:
        yield lambda instance_type: instance_type.provider in providers
    if arguments.patterns:
        for pattern in arguments.patterns:
            if not any(_named(instance_type, pattern) for instance_type in types):
                hint = (
                    suggestion(pattern, [instance_type.key for instance_type in types])
                    or "`allot catalog list --all` lists all types"
                )
                raise InputError(f"no instance type name contains {pattern!r}", hint)
        yield lambda instance_type: any(_named(instance_type, pattern) for pattern in arguments.patterns)
    if arguments.gpu:
        yield _gpu(arguments.gpu)
    if arguments.gpus is not None:
        if arguments.gpus < 0:
            raise InputError(f"--gpus: expected a number >= 0, found {arguments.gpus}")
        yield lambda instance_type: instance_type.gpus >= arguments.gpus
    if arguments.memory:
        least = _amount(arguments.memory)
        yield (
            lambda instance_type: (
                instance_type.accelerator is not None
                and Quantity.binary(instance_type.accelerator.memory_mib * MIB) >= least
            )
        )
    if arguments.mig:
        yield lambda instance_type: instance_type.accelerator is not None and instance_type.accelerator.mig is not None
    if arguments.max_price is not None:
        most = _usd(arguments.max_price)
        yield (
            lambda instance_type: (price := price_of(instance_type, spot=arguments.spot)) is not None and price <= most
        )
    if arguments.spot:
        yield lambda instance_type: instance_type.price("spot") is not None


def _named(instance: InstanceType, pattern: str) -> bool:
    key = instance.key.lower()
    wanted = pattern.lower()
    return fnmatchcase(key, wanted) if any(sign in wanted for sign in "*?[") else wanted in key


def _gpu(text: str) -> Test:
    """Return the products whose names contain every word of the text. Raises InputError."""
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
        raise InputError(f"--memory: expected an amount such as '>=24Gi', found {text!r}") from None


def _usd(text: str) -> Decimal:
    try:
        value = Decimal(text)
        if value > 0 and value.is_finite():
            return value
    except InvalidOperation:
        pass
    raise InputError(f"--max-price: expected USD per hour > 0, found {text!r}")
