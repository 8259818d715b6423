"""Taints of new nodes, as listed in a catalog."""

from __future__ import annotations

from dataclasses import replace

from allotment.fleet.catalog import merged, read_catalog
from allotment.fleet.catalog.csv_format import to_csv
from allotment.model.core import Taint
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.reasons.type_verdicts import group_verdicts
from tests.unit.planning.demands import FEATURES, claim_template, instance, make_plan, planned_types, pod, request

GKE = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
TAINTED = replace(instance("tainted", "t4", 1, "0.5"), taints=(GKE,))
PLAIN = instance("plain", "t4", 1, "0.9")


def test_pods_without_a_toleration_get_another_type() -> None:
    values = [claim_template("any", request()), pod("a", template="any")]
    assert planned_types(make_plan(values, (TAINTED, PLAIN))) == ["cloud/plain"]
    (unserved,) = make_plan(values, (TAINTED,)).unserved
    assert unserved.code == "never"
    assert "nvidia.com/gpu" in unserved.text
    (group,) = group_verdicts(read_demand(values, FEATURES), (TAINTED, PLAIN), PlanLimits(), FEATURES)
    assert {verdict.instance: verdict.text for verdict in group.verdicts} == {
        "cloud/plain": "", "cloud/tainted": "taint nvidia.com/gpu=present is not tolerated",
    }  # fmt: skip


def test_pods_with_a_toleration_get_the_tainted_type() -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    values = [claim_template("any", request()), pod("a", template="any", tolerations=tolerations)]
    (machine,) = make_plan(values, (TAINTED, PLAIN)).machines
    assert (machine.instance, machine.taints) == ("cloud/tainted", (GKE,))


def test_taints_are_read_from_a_catalog() -> None:
    text = "provider,instance_type,taints\ngcp,g2-standard-4,nvidia.com/gpu=present:NoSchedule example.com/x:NoExecute"
    (instance,), problems = read_catalog(text, "own.csv")
    assert not problems
    assert instance.taints == (GKE, Taint(key="example.com/x", effect="NoExecute"))
    assert read_catalog(to_csv((instance,)), "own.csv")[0][0].taints == instance.taints
    (over,) = merged((replace(instance, taints=()),), (instance,))
    assert over.taints == instance.taints
    (problem,) = read_catalog(text.replace(":NoExecute", ":Never"), "own.csv")[1]
    assert "taints: expected key=value:Effect" in problem.message
