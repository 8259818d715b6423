"""Rules for shape and version, for objects that a cluster of the given release rejects."""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.shape import (
    flat_request,
    fragment,
    gate_off,
    given_twice,
    key_operator_values,
    no_such_kind,
    old_version,
    other_release,
    pod_claim_source,
    refused,
    request_without_name,
    slice_without_pool,
    slices_contradict,
    unknown_field,
    untyped_value,
    wrong_type,
)

SHAPE_RULES: Final[tuple[Rule, ...]] = (
    old_version.RULE,
    flat_request.RULE,
    pod_claim_source.RULE,
    key_operator_values.RULE,
    request_without_name.RULE,
    unknown_field.RULE,
    no_such_kind.RULE,
    wrong_type.RULE,
    refused.RULE,
    gate_off.RULE,
    slice_without_pool.RULE,
    untyped_value.RULE,
    given_twice.RULE,
    fragment.RULE,
    slices_contradict.RULE,
    other_release.RULE,
)
