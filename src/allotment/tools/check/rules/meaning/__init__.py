"""Rules for valid objects that do not do what their author intends."""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.meaning import (
    admin_access_label,
    all_devices,
    capacity_equality,
    claim_not_given,
    claim_unused,
    class_selects_nothing,
    device_plugin_too,
    match_and_distinct,
    more_than_any_server,
    no_such_namespace,
    no_such_request,
    node_name,
    other_namespace,
    shared_by_replicas,
    sharing_alone,
    template_edited,
    toleration_evicted,
    too_many_pods,
    unsatisfiable_constraint,
)

MEANING_RULES: Final[tuple[Rule, ...]] = (
    all_devices.RULE,
    capacity_equality.RULE,
    unsatisfiable_constraint.RULE,
    no_such_request.RULE,
    claim_not_given.RULE,
    other_namespace.RULE,
    shared_by_replicas.RULE,
    sharing_alone.RULE,
    admin_access_label.RULE,
    node_name.RULE,
    claim_unused.RULE,
    more_than_any_server.RULE,
    template_edited.RULE,
    match_and_distinct.RULE,
    toleration_evicted.RULE,
    device_plugin_too.RULE,
    too_many_pods.RULE,
    class_selects_nothing.RULE,
    no_such_namespace.RULE,
)
