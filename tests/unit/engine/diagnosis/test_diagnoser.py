"""Of several groups of nodes, the one where the remedy helps is reported first; equivalent nodes are one group."""

from __future__ import annotations

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.model.meta import ObjectMeta
from allotment.model.resource import ResourceClaim, ResourceClaimStatus
from tests.unit.engine import objects


def test_the_reason_of_the_node_where_the_remedy_helps_comes_first() -> None:
    """Too many devices are an error on both nodes, and a node without devices has no remedy of its own."""
    shared = objects.slice_of(objects.device("gpu-0", shareable=True), node="b")
    inventory = objects.inventory(objects.slice_of(node="a", count=2), shared, nodes=("a", "b"))
    claim = objects.claim(objects.request(40, f'device.attributes["{objects.DRIVER}"].memory == "1"'))
    diagnosis = diagnose(inventory, [claim])
    assert [row.nodes for row in diagnosis.nodes] == [("b",), ("a",)]
    assert [change.node for change in diagnosis.headline.changes] == ["b", "b"]
    assert not diagnosis.nodes[1].refused.changes


def test_a_nearer_remedy_after_which_the_other_node_still_ends_the_attempt_is_none() -> None:
    """The corrected constraint holds for the device of the first node, which is in use, but not for all of the second
    one, where allocationMode All then fails."""
    first = objects.slice_of(objects.device("gpu-0", model="x"), node="a")
    second = objects.slice_of(objects.device("gpu-0", model="x"), objects.device("gpu-1", model="y"), node="b")
    status = ResourceClaimStatus(allocation=objects.holding("gpu-0", pool="a"))
    held = ResourceClaim(metadata=ObjectMeta(name="held", namespace="other"), status=status)
    nodes: list[tuple[str, dict[str, str]]] = [("a", {}), ("b", {})]
    inventory = Inventory.of(
        objects.FEATURES, nodes=nodes, slices=(first, second), classes=(objects.class_of(),), claims=[held]
    )
    diagnosis = diagnose(inventory, [objects.claim(objects.request(0), match=f"{objects.DRIVER}/modle")], [held])
    assert [row.nodes for row in diagnosis.nodes] == [("b",), ("a",)]
    assert [change.remedy for change in diagnosis.headline.changes] == ["constraint"]


def test_nodes_with_different_devices_in_incomplete_pools_are_diagnosed_separately() -> None:
    """The drivers of both nodes are still publishing; only one of them has published the requested model."""
    published = [
        objects.slice_of(objects.device("gpu-0", model=model), node=node, count=2)
        for node, model in (("a", "small"), ("b", "large"), ("c", "large"))
    ]
    inventory = objects.inventory(*published, nodes=("a", "b", "c"))
    claim = objects.claim(objects.request(1, f'device.attributes["{objects.DRIVER}"].model == "large"'))
    diagnosis = diagnose(inventory, [claim])
    assert [row.nodes for row in diagnosis.nodes] == [("b", "c"), ("a",)]
    assert [change.remedy for change in diagnosis.headline.changes] == ["driver"]
