"""Status conditions (``metav1.Condition``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from allotment.model.features import Features
from allotment.model.meta import Condition
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, duplicate, invalid, not_supported, required, too_long
from allotment.model.validation.gotext import GoNamedString, size
from allotment.model.validation.release import release

REASON_MAX = 1024
MESSAGE_MAX = 32 * 1024
STATUSES = ("False", "True", "Unknown")

_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch


def check_conditions(conditions: Sequence[Condition], path: str, features: Features) -> Errors:
    """Validate conditions: types are unique, all required fields are set."""
    seen: set[str] = set()
    key = ".type" if release(features).repeated_conditions_name_type else ""
    for index, condition in enumerate(conditions):
        item_path = f"{path}[{index}]"
        if condition.type in seen:
            yield duplicate(f"{item_path}{key}", condition.type)
        seen.add(condition.type)
        yield from _check_condition(condition, item_path, requires=not release(features).empty_conditions_are_wrong)


def _check_condition(condition: Condition, path: str, *, requires: bool) -> Errors:
    if requires and not condition.type:
        yield required(f"{path}.type", "is required")
    else:
        yield from names.label_key(condition.type, f"{path}.type")
    if requires and not condition.status:
        yield required(f"{path}.status")
    elif condition.status not in STATUSES:
        yield not_supported(f"{path}.status", GoNamedString(condition.status), STATUSES)
    if condition.observed_generation < 0:
        yield invalid(
            f"{path}.observedGeneration", condition.observed_generation, "must be greater than or equal to zero"
        )
    if not condition.last_transition_time:
        yield required(f"{path}.lastTransitionTime")
    if not condition.reason:
        yield required(f"{path}.reason")
    else:
        if not _is_reason(condition.reason):
            yield invalid(
                f"{path}.reason",
                condition.reason,
                "a condition reason must start with alphabetic character, optionally followed by a string of "
                "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name', "
                " or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation "
                f"is '{_REASON}')",
            )
        if size(condition.reason) > REASON_MAX:
            yield too_long(f"{path}.reason", REASON_MAX)
    if size(condition.message) > MESSAGE_MAX:
        yield too_long(f"{path}.message", MESSAGE_MAX)
