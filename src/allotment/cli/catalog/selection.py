"""The filters of ``allot catalog``, and reasons with the names of the types that they apply to."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from allotment.api.plans.instance_types import TypeFilter


def filter_of(arguments: Namespace) -> TypeFilter:
    """Return the filter of the options."""
    return TypeFilter(
        patterns=arguments.patterns,
        providers=arguments.provider,
        gpu=arguments.gpu or "",
        gpus=arguments.gpus,
        memory=arguments.memory or "",
        mig=arguments.mig,
        max_price=arguments.max_price,
        spot=arguments.spot,
    )


def by_reason(names: Iterable[tuple[str, str]]) -> list[str]:
    """Return one line per reason, with its names: ``its price is unknown: aws/p5e.48xlarge, …``."""
    listed: dict[str, list[str]] = {}
    for name, reason in names:
        if reason:
            listed.setdefault(reason, []).append(name)
    return [f"{reason}: {', '.join(those)}" for reason, those in listed.items()]
