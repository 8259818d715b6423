"""What a plan is told to rest on."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from allotment.fleet.catalog import catalog
from tests.unit.tools.plan.demands import claim_template, instance, node, make_plan, pod, request

L4 = instance("l4", "l4", 1, "1")


def test_prices_of_a_day_and_of_a_year_are_told_apart() -> None:
    types = (replace(L4, as_of="2026"), replace(instance("t4", "t4", 1, "9", cpus=20), as_of="2026-08-03"))
    found = make_plan([claim_template("any", request()), pod("a", template="any", cpu="3"), pod("b", cpu="18")], types)
    assert found.notes == ("prices as of 2026-08-03, some of an unknown day in 2026",)


def test_a_disk_that_is_estimated_matters_to_those_who_ask_for_it() -> None:
    asking = pod("a", requests={"ephemeral-storage": "1Gi"})
    (note,) = [one for one in make_plan([asking], (L4,)).notes if "ephemeral" in one]
    assert note.startswith("ephemeral-storage that cloud/l4 has for pods is estimated")
    for values, type in (([pod("a")], L4), ([asking], replace(L4, disk_gib=Decimal(9)))):
        assert not any("ephemeral" in one for one in make_plan(values, (type,)).notes)


def test_who_must_be_there_to_set_a_label() -> None:
    label = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    values = [claim_template("any", request()), pod("a", template="any", nodeSelector=label)]
    told = "nvidia.com/gpu.product: a node has it only where GPU feature discovery sets it"
    assert told in make_plan(values, catalog()).notes
    there = node("n", labels=label)
    assert told not in make_plan([pod("a", nodeSelector=label), there], catalog()).notes
