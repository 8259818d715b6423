"""Constraints between the devices of a claim."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.model.resource import DeviceConstraint
from allotment.model.validation.context import Context
from allotment.model.validation.errors import Errors, required
from allotment.model.validation.lists import check_list
from allotment.model.validation.qualified_names import fully_qualified_name
from allotment.model.validation.requests import RequestNames, references

CONSTRAINTS_MAX = 32


def constraints(values: Sequence[DeviceConstraint], path: str, known: RequestNames, context: Context) -> Errors:
    """At most 32 constraints, each naming an attribute."""
    return check_list(values, CONSTRAINTS_MAX, lambda value, at: _constraint(value, at, known, context), path)


def _constraint(constraint: DeviceConstraint, path: str, known: RequestNames, context: Context) -> Errors:
    yield from references(constraint.requests, f"{path}.requests", known)
    # Both set: accepted, and only the first counts, there as in the allocator.
    if constraint.match_attribute is not None:
        yield from fully_qualified_name(constraint.match_attribute, f"{path}.matchAttribute")
    elif constraint.distinct_attribute is not None:
        yield from fully_qualified_name(constraint.distinct_attribute, f"{path}.distinctAttribute")
    elif context.features.enabled("DRAConsumableCapacity"):
        # The end of the text is upstream's mistake; the recorded answers have it.
        yield required(
            path, 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
    else:
        yield required(f"{path}.matchAttribute")
