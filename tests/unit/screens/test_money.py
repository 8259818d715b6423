"""Costs: prices of the catalog, parts of claims, and the plan of ``allot plan``."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

import allotment
from allotment.api.plans.catalog import read_catalog_files
from allotment.api.plans.instance_types import find_type
from allotment.fleet.catalog.labels import INSTANCE_TYPE
from allotment.model.core import Node
from allotment.model.meta import Object
from allotment.screens.money import money
from tests.unit.screens.clusters import fleet, pod, request, template, view

TYPE = "g4dn.12xlarge"


def priced(*objects: Object) -> tuple[Object, ...]:
    """The objects, with nodes of a type of the catalog."""
    return tuple(
        replace(each, metadata=replace(each.metadata, labels={**each.metadata.labels, INSTANCE_TYPE: TYPE}))
        if isinstance(each, Node)
        else each
        for each in objects
    )


def price() -> Decimal:
    found = find_type(read_catalog_files(()).types, f"aws/{TYPE}").price("on-demand")
    assert found is not None
    return found


def test_a_node_costs_what_the_catalog_says() -> None:
    screen = money(view(*priced(*fleet("t4-4x-pcie:2")), template(), *pod("a", "gpu-0", node="t4-4x-pcie-1")))
    assert screen.per_hour == round(float(price()) * 2, 4)
    assert screen.allocated == round(float(price()) / 4, 4)
    assert screen.idle == round(float(price()) * 7 / 4, 4)
    assert (screen.nodes_priced, screen.unpriced) == (2, ())


def test_the_parts_of_namespaces_and_workloads() -> None:
    users = (
        *pod("web-0", "gpu-0", "gpu-1", node="t4-4x-pcie-1", owner="StatefulSet/web"),
        *pod("b", "gpu-2", node="t4-4x-pcie-1", namespace="research"),
    )
    screen = money(view(*priced(*fleet("t4-4x-pcie")), *users))
    assert [(each.name, each.devices) for each in screen.by_namespace] == [("ml", 2), ("research", 1)]
    assert screen.by_namespace[0].per_hour == round(float(price()) / 2, 4)
    assert [each.name for each in screen.by_workload] == ["StatefulSet ml/web", "ResourceClaim research/b-gpu-x1"]
    assert [(each.name, each.devices) for each in screen.by_product] == [("Tesla T4", 4)]


def test_products_without_a_price_are_named() -> None:
    screen = money(view(*fleet("t4-4x-pcie"), *pod("a", "gpu-0", node="t4-4x-pcie-1")))
    assert (screen.per_hour, screen.unpriced, screen.nodes_unpriced) == (0.0, ("Tesla T4",), 1)
    assert screen.by_namespace[0].per_hour is None
    assert (screen.devices_held, screen.devices_free) == (1, 3)


def test_a_catalog_of_ones_own_states_the_price_of_described_hardware(tmp_path: Path) -> None:
    cluster = view(*fleet("t4-4x-pcie:2"))
    assert money(cluster).unpriced_types == ("t4-4x-pcie",)
    own = tmp_path / "own.csv"
    own.write_text("provider,instance_type,gpu_count,gpu,on_demand_usd_per_hour\nown,t4-4x-pcie,4,t4,2.5\n")
    screen = money(cluster, catalog=[str(own)])
    assert (screen.per_hour, screen.unpriced_types, screen.devices_free) == (5.0, (), 8)


def test_the_plan_is_that_of_allot_plan() -> None:
    big = request(9)
    cluster = view(*fleet("t4-4x-pcie"), template(), template("big", big), *pod("a"), *pod("b", of="big", spec=big))
    expected = allotment.plan(cluster=cluster.cluster)
    screen = money(cluster, with_plan=True)
    assert screen.plan is not None
    assert screen.plan.verdict == expected.verdict
    assert screen.plan.usd_per_hour == str(expected.total)
    assert [(each.pod, each.code) for each in screen.plan.unserved] == [
        (str(each.pod), each.code) for each in expected.unserved
    ]
    assert money(cluster).plan is None
