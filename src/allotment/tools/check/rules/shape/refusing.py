"""What the API server's validation says to each object, with the gates as they are and with all of them on.

An error that is there only while a gate is off is the gate's doing, and told by the rule for gates. Expressions are not
compiled here: the rules for CEL do that, and say more.
"""

from __future__ import annotations

from typing import Final

from allotment.model.decoding import Manifest
from allotment.model.features import GATES, RELEASES, Features
from allotment.model.validation.context import Context, ExpressionProblem
from allotment.model.validation.errors import FieldError
from allotment.model.validation.refusals import refusals
from allotment.tools.check.bundle import Bundle

_ALL_ON: Final = Features(RELEASES[-1], dict.fromkeys(GATES, True))


def _unread(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
    return ()


def refused_for(bundle: Bundle, manifest: Manifest) -> list[FieldError]:
    """What the release with its gates refuses an object for."""
    return refusals(manifest, Context(bundle.features, _unread), bundle.namespaces)


def refused_anyway(bundle: Bundle, manifest: Manifest) -> list[FieldError]:
    """What would be refused with every gate on."""
    return refusals(manifest, Context(_ALL_ON, _unread), bundle.namespaces)
