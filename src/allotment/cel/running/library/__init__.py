"""The functions of CEL at run time, keyed by overload id; one module per library.

``OVERLOADS`` are called only with arguments of their declared types (the planner guards them) except for those in
``UNGUARDED``; ``SINGLETONS`` are keyed by function name, take anything and complain themselves. Both raise
:class:`~allotment.cel.running.values.Failure`. What a call costs is the business of :mod:`allotment.cel.running.cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.cel.running.library import (
    arithmetic,
    conversions,
    formats,
    lists,
    network,
    optionals,
    quantities,
    strings,
    time_fields,
    url,
)
from allotment.cel.running.values import Value

OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    **conversions.OVERLOADS, **time_fields.OVERLOADS, **strings.OVERLOADS, **lists.OVERLOADS, **optionals.OVERLOADS,
    **quantities.OVERLOADS, **network.OVERLOADS, **url.OVERLOADS, **formats.OVERLOADS,
}  # fmt: skip

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {
    **arithmetic.SINGLETONS, **conversions.SINGLETONS, **strings.SINGLETONS, **lists.SINGLETONS,
}  # fmt: skip

UNGUARDED: Final = strings.UNGUARDED | lists.UNGUARDED
