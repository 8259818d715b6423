"""The limits of a plan, from the values that a user states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

from allotment.api.choices import require_choice
from allotment.api.plans.catalog import Catalog
from allotment.errors import InputError
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.errors import suggestion
from allotment.fleet.modes import mode_names
from allotment.fleet.profiles import accelerators
from allotment.phrases import split_words
from allotment.planning.limits import CapacityPolicy, PlanLimits


def plan_limits(
    catalog: Catalog,
    *,
    types: Sequence[str] = (),
    exclude_types: Sequence[str] = (),
    zones: Sequence[str] = (),
    capacity_type: CapacityPolicy = "on-demand",
    max_spot: Decimal | float | str | None = None,
    budget: Decimal | float | str | None = None,
    max_machines: int | None = None,
    max_per_type: Mapping[str, int] | Sequence[str] = (),
    modes: Sequence[str] = (),
) -> PlanLimits:
    """Return the limits of a plan; the arguments are those of ``allotment.plan``. Raises InputError."""
    allowed, excluded = split_words(types), split_words(exclude_types)
    most = _max_by_pattern(max_per_type)
    for argument, patterns in (
        ("types", allowed),
        ("exclude_types", excluded),
        ("max_per_type", [pattern for pattern, _ in most]),
    ):
        require_known_types(patterns, catalog.types, argument=argument)
    named_zones = split_words(zones)
    _require_known_zones(named_zones, catalog.types)
    require_choice("capacity_type", capacity_type, CapacityPolicy)
    if max_spot is not None and capacity_type != "cheapest":
        hint = "which allows on-demand and spot machines"
        raise InputError("requires capacity type cheapest", hint, argument="max_spot")
    if max_machines is not None and max_machines < 0:
        raise InputError(f"expected a number >= 0, found {max_machines}", argument="max_machines")
    return PlanLimits(
        providers=catalog.providers,
        types=allowed,
        excluded_types=excluded,
        zones=named_zones,
        capacity=capacity_type,
        spot_share=None if max_spot is None else _share(max_spot),
        budget=None if budget is None else _amount(budget, "30 or 12.5", argument="budget"),
        max_by_pattern=most,
        max_machines=max_machines,
        modes=_known_modes(modes),
    )


def require_known_types(patterns: Iterable[str], catalog: Sequence[InstanceType], *, argument: str) -> None:
    """Check that every pattern matches a type. Raises InputError."""
    keys = [instance_type.key for instance_type in catalog]
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in keys):
            bare = [key for key in keys if fnmatchcase(key.partition("/")[2], pattern)]
            hint = f"include the provider: {bare[0]}" if bare else suggestion(pattern, keys)
            raise InputError(
                f"no type in the catalog matches {pattern!r}",
                hint or "allot catalog lists all types",
                argument=argument,
            )


def _require_known_zones(zones: Iterable[str], catalog: Iterable[InstanceType]) -> None:
    known = {zone for instance_type in catalog for zone in instance_type.zones}
    for zone in zones:
        if known and zone not in known:
            hint = suggestion(zone, sorted(known))
            raise InputError(f"no type in the catalog is available in {zone!r}", hint, argument="zones")


def _max_by_pattern(limits: Mapping[str, int] | Sequence[str]) -> tuple[tuple[str, int], ...]:
    if isinstance(limits, Mapping):
        for number in limits.values():
            if number < 0:
                raise InputError(f"expected a number >= 0, found {number}", argument="max_per_type")
        return tuple(limits.items())
    return tuple(_pattern_and_number(text) for text in split_words(limits))


def _pattern_and_number(text: str) -> tuple[str, int]:
    pattern, equals, number = text.rpartition("=")
    if not equals or not pattern or not number.isdigit():
        raise InputError(f"expected TYPE=N, found {text!r}", "for example aws/p5*=2", argument="max_per_type")
    return pattern, int(number)


def _amount(value: Decimal | float | str, example: str, *, argument: str) -> Decimal:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise InputError(f"expected a number >= 0, found {value!r}", f"for example {example}", argument=argument)
    return amount


def _share(value: Decimal | float | str) -> Decimal:
    """Return ``"50%"`` or 0.5 as a fraction."""
    text = str(value)
    amount = _amount(text.removesuffix("%"), "50% or 0.5", argument="max_spot")
    share = amount / 100 if text.endswith("%") else amount
    if share > 1:
        raise InputError(f"expected at most 100%, found {text!r}", "for example 50% or 0.5", argument="max_spot")
    return share


def _known_modes(modes: Sequence[str]) -> tuple[str, ...]:
    known = sorted({name for accelerator in accelerators().values() for name in mode_names(accelerator)})
    words = split_words(modes)
    for word in words:
        if word.partition("=")[0] not in known:
            hint = suggestion(word, known) or f"known: {', '.join(known)}"
            raise InputError(f"unknown mode {word!r}", hint, argument="modes")
    return words
