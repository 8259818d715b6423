"""Implementations of CEL's functions, keyed by overload id; one module per library.

The planner guards ``OVERLOADS`` so that they are called only with arguments of their declared types, except for those
in ``UNGUARDED``. ``SINGLETONS`` are keyed by function name and check the types of their arguments themselves. Both
raise :class:`~allotment.cel.evaluation.values.CelError`. Costs are in :mod:`allotment.cel.evaluation.cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.cel.evaluation.library import (
    arithmetic,
    authorizer,
    conversions,
    lists,
    named_formats,
    network,
    optionals,
    quantities,
    strings,
    time_fields,
    url,
)
from allotment.cel.evaluation.values import Value

OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    **conversions.OVERLOADS, **time_fields.OVERLOADS, **strings.OVERLOADS, **lists.OVERLOADS, **optionals.OVERLOADS,
    **quantities.OVERLOADS, **network.OVERLOADS, **url.OVERLOADS, **named_formats.OVERLOADS,
    **authorizer.OVERLOADS,
}  # fmt: skip

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {
    **arithmetic.SINGLETONS, **conversions.SINGLETONS, **strings.SINGLETONS, **lists.SINGLETONS,
}  # fmt: skip

UNGUARDED: Final = strings.UNGUARDED | lists.UNGUARDED
