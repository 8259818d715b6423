"""The nearest type is reported for pods that no type fits."""

from __future__ import annotations

from allotment.model.meta import Object
from allotment.planning.limits import PlanLimits
from allotment.planning.reasons.type_verdicts import with_nearest_types
from tests.unit.planning.demands import FEATURES, claim_template, instance, make_plan, pod, request

CATALOG = (instance("t4", "t4", 1, "0.5"), instance("a10g", "a10g", 1, "1.0"))
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'


def test_the_nearest_type_and_its_shortfall_are_in_the_text() -> None:
    values: list[Object] = [
        claim_template("huge", request(MEMORY.format("400Gi"))), claim_template("any", request()),
        pod("never", template="huge"), pod("served", template="any"),
    ]  # fmt: skip
    found = with_nearest_types(make_plan(values, CATALOG), values, CATALOG, PlanLimits(), FEATURES)
    (unserved,) = found.unserved
    assert unserved.pod.name == "never"
    assert unserved.nearest == ("cloud/a10g",)
    assert unserved.text.endswith("nearest type is cloud/a10g: A10G has 23028Mi; 400Gi requested")
    assert [machine.instance for machine in found.machines] == ["cloud/t4"]


def test_a_plan_without_unserved_pods_is_unchanged() -> None:
    values: list[Object] = [claim_template("any", request()), pod("served", template="any")]
    plan = make_plan(values, CATALOG)
    assert with_nearest_types(plan, values, CATALOG, PlanLimits(), FEATURES) is plan
