"""Derived attributes of requests (1.37, gate DRADerivedAttributes).

The format of names, the number of attributes per request, and that both fields are set, are declared rules. Here: that
a constraint uses each attribute, unique names, and the expressions with their cost over the whole claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.model.resource import DeviceConstraint, DeviceDerivedAttribute
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, forbidden, invalid, too_long
from allotment.model.validation.gotext import GoNamedString, size
from allotment.model.validation.lists import check_set
from allotment.model.validation.selectors import EXPRESSION_MAX, expression_errors

#: The limit on the estimated cost of all derived attributes of a claim.
CLAIM_COST_MAX: Final = 1_000_000


class DerivedAttributes:
    """Validates the derived attributes of one claim, request by request, and adds up their costs."""

    def __init__(self, constraints: Sequence[DeviceConstraint], context: ValidationContext) -> None:
        self._context = context
        self._cost = 0
        # Of which attributes constraints name a request, a subrequest ("request/subrequest"), or all ("").
        self._used: set[tuple[str, str]] = set()
        for constraint in constraints:
            # If both are set, the first one counts.
            name = constraint.match_attribute
            name = constraint.distinct_attribute if name is None else name
            if name is not None:
                self._used.update((target, name) for target in constraint.requests or ("",))

    def check(self, attributes: Sequence[DeviceDerivedAttribute], path: str, request: str) -> Errors:
        """Validate the attributes of a request, or of a subrequest ``request/subrequest``."""
        targets = {"", request, request.partition("/")[0]}

        def check_one(attribute: DeviceDerivedAttribute, item_path: str) -> Errors:
            if attribute.name and not any((target, attribute.name) in self._used for target in targets):
                yield invalid(
                    f"{item_path}.name",
                    GoNamedString(attribute.name),
                    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this "
                    "request",
                )
            if attribute.expression:
                yield from self._expression(attribute.expression, f"{item_path}.expression")

        return check_set(attributes, None, check_one, lambda attribute: attribute.name, path)

    def _expression(self, expression: str, path: str) -> Errors:
        if size(expression) > EXPRESSION_MAX:
            yield too_long(path, EXPRESSION_MAX)  # not compiled
            return
        problems, cost = self._context.check_derived_attribute(expression)
        self._cost += cost
        yield from expression_errors(expression, problems, path)

    def total_cost(self, path: str) -> Errors:
        """Validate the sum of the costs of all checked attributes; ``path``: of the claim's devices."""
        if self._cost > CLAIM_COST_MAX:
            yield forbidden(
                path, "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
            )
