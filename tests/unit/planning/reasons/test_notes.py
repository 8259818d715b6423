"""Notes of a plan on estimates, prices and labels."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from allotment.fleet.catalog import catalog
from tests.unit.planning.demands import claim_template, instance, make_plan, node, pod, request

L4 = instance("l4", "l4", 1, "1")


def test_prices_of_a_day_and_of_a_year_are_distinguished() -> None:
    types = (replace(L4, as_of="2026"), replace(instance("t4", "t4", 1, "9", cpus=20), as_of="2026-08-03"))
    found = make_plan([claim_template("any", request()), pod("a", template="any", cpu="3"), pod("b", cpu="18")], types)
    assert found.notes == ("prices as of 2026-08-03; some prices from an unknown day in 2026",)


def test_an_estimated_disk_is_noted_if_a_pod_requests_ephemeral_storage() -> None:
    requesting = pod("a", requests={"ephemeral-storage": "1Gi"})
    (note,) = [note for note in make_plan([requesting], (L4,)).notes if "ephemeral" in note]
    assert note.startswith("the allocatable ephemeral-storage of cloud/l4 is estimated")
    for values, type in (([pod("a")], L4), ([requesting], replace(L4, disk_gib=Decimal(9)))):
        assert not any("ephemeral" in note for note in make_plan(values, (type,)).notes)


def test_the_component_that_sets_a_selected_label_is_noted() -> None:
    label = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    values = [claim_template("any", request()), pod("a", template="any", nodeSelector=label)]
    note = "nvidia.com/gpu.product: only GPU feature discovery sets it on nodes"
    assert note in make_plan(values, catalog()).notes
    existing = node("n", labels=label)
    assert note not in make_plan([pod("a", nodeSelector=label), existing], catalog()).notes
