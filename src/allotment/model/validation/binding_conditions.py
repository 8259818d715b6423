"""Binding conditions of devices and of allocation results (KEP-5007): both lists are set or neither."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.model.validation import names
from allotment.model.validation.errors import Errors, duplicate, invalid
from allotment.model.validation.lists import check_list, duplicates

CONDITIONS_MAX = 4


def binding_conditions(conditions: Sequence[str], failures: Sequence[str], path: str) -> Errors:
    """Validate ``bindingConditions`` and ``bindingFailureConditions`` of one device."""
    condition_path, failure_path = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    yield from check_list(conditions, CONDITIONS_MAX, names.label_key, condition_path)
    yield from check_list(failures, CONDITIONS_MAX, names.label_key, failure_path)
    yield from duplicates(conditions, condition_path)
    seen: set[str] = set()
    for index, failure in enumerate(failures):
        if failure in seen:
            yield duplicate(f"{failure_path}[{index}]", failure)
        seen.add(failure)
        if failure in conditions:
            yield invalid(
                f"{failure_path}[{index}]", failure, "bindingFailureConditions must not overlap with bindingConditions"
            )
    if failures and not conditions:
        yield invalid(condition_path, None, "bindingConditions are required to use bindingFailureConditions")
    if conditions and not failures:
        yield invalid(failure_path, None, "bindingFailureConditions are required to use bindingConditions")
