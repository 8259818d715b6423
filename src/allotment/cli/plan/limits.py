"""Parses limits on machines from the command line."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

from allotment.errors import InputError
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.errors import suggestion
from allotment.fleet.modes import mode_names
from allotment.fleet.profiles import accelerators
from allotment.planning.limits import PlanLimits


def limits_of(arguments: Namespace, providers: Sequence[str], catalog: Sequence[InstanceType]) -> PlanLimits:
    """Return the limits of the options. Raises InputError for an invalid one."""
    types, without = _words(arguments.types), _words(arguments.exclude_types)
    most = tuple(_most(text) for text in _words(arguments.max_per_type))
    for option, patterns in (
        ("--types", types),
        ("--exclude-types", without),
        ("--max-per-type", tuple(p for p, _ in most)),
    ):
        known_types(option, patterns, catalog)
    zones = _words(arguments.zones)
    there = {zone for instance_type in catalog for zone in instance_type.zones}
    for zone in zones:
        if there and zone not in there:
            raise InputError(
                f"--zones: no type in the catalog is available in {zone!r}", suggestion(zone, sorted(there))
            )
    share = arguments.max_spot
    if share is not None and arguments.capacity_type != "cheapest":
        raise InputError("--max-spot: requires --capacity-type cheapest", "which allows on-demand and spot machines")
    if arguments.max_machines is not None and arguments.max_machines < 0:
        raise InputError(f"--max-machines: expected a number >= 0, found {arguments.max_machines}")
    return PlanLimits(
        providers=tuple(providers),
        types=types,
        excluded_types=without,
        zones=zones,
        capacity=arguments.capacity_type,
        spot_share=None if share is None else _share(share),
        budget=None if arguments.budget is None else _amount("--budget", arguments.budget, "30 or 12.5"),
        max_by_pattern=most,
        max_machines=arguments.max_machines,
        modes=_modes(arguments.modes),
    )


def _words(options: Iterable[str]) -> tuple[str, ...]:
    return tuple(word.strip() for option in options for word in option.split(",") if word.strip())


def known_types(option: str, patterns: Iterable[str], catalog: Sequence[InstanceType]) -> None:
    """Check that every pattern matches a type. Raises InputError."""
    keys = [instance_type.key for instance_type in catalog]
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in keys):
            bare = [key for key in keys if fnmatchcase(key.partition("/")[2], pattern)]
            hint = f"include the provider: {bare[0]}" if bare else suggestion(pattern, keys)
            raise InputError(
                f"{option}: no type in the catalog matches {pattern!r}", hint or "allot catalog lists all types"
            )


def _most(text: str) -> tuple[str, int]:
    pattern, equals, number = text.rpartition("=")
    if not equals or not pattern or not number.isdigit():
        raise InputError(f"--max-per-type: expected TYPE=N, found {text!r}", "for example aws/p5*=2")
    return pattern, int(number)


def _amount(option: str, text: str, example: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise InputError(f"{option}: expected a number >= 0, found {text!r}", f"for example {example}")
    return amount


def _share(text: str) -> Decimal:
    percent = text.endswith("%")
    amount = _amount("--max-spot", text.removesuffix("%"), "50% or 0.5")
    share = amount / 100 if percent else amount
    if share > 1:
        raise InputError(f"--max-spot: expected at most 100%, found {text!r}", "for example 50% or 0.5")
    return share


def _modes(options: Iterable[str]) -> tuple[str, ...]:
    known = sorted({name for accelerator in accelerators().values() for name in mode_names(accelerator)})
    words = _words(options)
    for word in words:
        if word.partition("=")[0] not in known:
            hint = suggestion(word, known) or f"known: {', '.join(known)}"
            raise InputError(f"--modes: unknown mode {word!r}", hint)
    return words
