"""What came nearest, for pods that no type can ever serve: the one thing that they want to hear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.pending_pods.demand import demand_of
from allotment.tools.plan.reasons.type_verdicts import choices
from allotment.tools.plan.report import Plan, TypeVerdict

#: Groups of equal pods that are told; finding it takes a tenth of a second for each.
_GROUPS: Final = 5


def with_nearest(
    plan: Plan, values: Iterable[Object], catalog: Sequence[InstanceType], limits: Limits, features: Features
) -> Plan:
    """The plan, with the nearest type and its miss in the words for pods that no type serves."""
    never = {one.pod for one in plan.unserved if one.code == "never" and not one.nearest}
    if not never:
        return plan
    alone = [value for value in values if not isinstance(value, Pod) or value.key in never]
    nearest: dict[ObjectKey, TypeVerdict] = {
        pod: choice.verdicts[0]
        for choice in choices(demand_of(alone, features), catalog, limits, features, _GROUPS)
        if choice.verdicts and choice.verdicts[0].code
        for pod in choice.pods
    }
    return replace(
        plan,
        unserved=tuple(
            replace(one, text=f"{one.text}; nearest is {found.instance}: {found.text}", nearest=(found.instance,))
            if (found := nearest.get(one.pod)) is not None
            else one
            for one in plan.unserved
        ),
    )
