"""Differences between Kubernetes releases in validation, one flag each.

What a release lacks altogether is not a flag: its fields are unknown there, and declared rules have tables of their
own.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from allotment.model.features import Features


class ValidationRelease(NamedTuple):
    """The behavior of a release."""

    default_has_path: bool
    """From 1.37: a default outside of a capacity's range is an error of the default; until 1.36 of the bound."""
    ranges_are_safe: bool
    """From 1.37: steps are positive, and the bounds of a range with steps are int64 numbers and not negative."""
    keeps_capacity: bool
    """From 1.37: the unchanged capacity of a device is not checked again."""
    keeps_expressions: bool
    """From 1.37: a stored expression is not compiled again."""
    checks_result_tolerations: bool
    """From 1.37: the tolerations of an allocation are checked."""
    repeated_conditions_name_type: bool
    """Until 1.36: two conditions of one type are an error of the type; from 1.37 of the condition."""
    empty_conditions_are_wrong: bool
    """Until 1.36: an empty type or status of a condition is a wrong one; from 1.37 it is missing."""
    declared_rules_are_last: bool
    """From 1.37: declared rules join the errors of a kind and those of any object's metadata; until 1.36 the former."""


@cache
def release(features: Features) -> ValidationRelease:
    """The behavior of the release that ``features`` describes."""
    since_1_37 = features.since("1.37")
    return ValidationRelease(
        default_has_path=since_1_37,
        ranges_are_safe=since_1_37,
        keeps_capacity=since_1_37,
        keeps_expressions=since_1_37,
        checks_result_tolerations=since_1_37,
        repeated_conditions_name_type=not since_1_37,
        empty_conditions_are_wrong=not since_1_37,
        declared_rules_are_last=since_1_37,
    )
