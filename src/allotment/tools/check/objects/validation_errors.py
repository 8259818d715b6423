"""What the API server's validation says to each object, with the gates as they are and with all of them on.

An error that is there only while a gate is off is the gate's doing, and told by the rule for gates. Expressions are
compiled only where there is none: the rules for CEL look at the others, and say more.
"""

from __future__ import annotations

from typing import Final

from allotment.cel.validation_context import validation_context
from allotment.model.decoding import Manifest
from allotment.model.features import GATES, RELEASES, Features
from allotment.model.validation.context import Context, ExpressionProblem
from allotment.model.validation.creation_errors import refusals
from allotment.model.validation.errors import FieldError
from allotment.tools.check.bundle import Bundle

_ALL_ON: Final = Features(RELEASES[-1], dict.fromkeys(GATES, True))


def _context(features: Features) -> Context:
    compiler = validation_context(features).check_expression

    def check(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
        return () if expression else compiler(expression, stored=stored)

    return Context(features, check)


def refused_for(bundle: Bundle, manifest: Manifest) -> list[FieldError]:
    """What the release with its gates refuses an object for."""
    return refusals(manifest, _context(bundle.features), bundle.namespaces)


def refused_anyway(bundle: Bundle, manifest: Manifest) -> list[FieldError]:
    """What would be refused with every gate on."""
    return refusals(manifest, _context(_ALL_ON), bundle.namespaces)
