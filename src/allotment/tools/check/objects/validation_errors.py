"""Validation errors of the API server for an object, with the given feature gates and with all gates enabled.

An error that only occurs while a gate is disabled is reported by the rule for gates. Only empty expressions are
compiled here: the rules for CEL check all others and report more detail.
"""

from __future__ import annotations

from allotment.cel.validation_context import validation_context
from allotment.model.decoding import Manifest
from allotment.model.features import Features
from allotment.model.validation.context import ExpressionProblem, ValidationContext
from allotment.model.validation.creation_errors import creation_errors
from allotment.model.validation.errors import FieldError
from allotment.tools.check.bundle import Bundle


class _AllFeatures(Features):
    """A release with all features, also those that it does not have; its texts are those of the release."""

    def enabled(self, gate: str) -> bool:
        return True


def _validation_context(features: Features) -> ValidationContext:
    complete = validation_context(features)

    def check(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
        return () if expression else complete.check_expression(expression, stored=stored)

    return ValidationContext(features, check, complete.check_derived_attribute)


def errors_with_gates(bundle: Bundle, manifest: Manifest) -> list[FieldError]:
    """The reasons why the API server rejects an object, with the feature gates of the settings."""
    return creation_errors(manifest, _validation_context(bundle.features), bundle.namespaces)


def errors_with_all_gates(bundle: Bundle, manifest: Manifest) -> list[FieldError]:
    """The reasons that remain with all feature gates enabled."""
    return creation_errors(manifest, _validation_context(_AllFeatures(bundle.features.kube)), bundle.namespaces)
