"""Nominated pods keep their node in later plans."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.core import Pod
from allotment.model.meta import Object
from allotment.planning.placement.nominations import place_nominated_pods
from tests.unit.planning.demands import FEATURES, claim, claim_template, instance, make_plan, node, pod, request
from tests.unit.planning.running_cluster import anti_affinity

CATALOG = (instance("t4", "t4", 1, "0.5"), instance("a10g", "a10g", 1, "1.0"))
AMPERE = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'


def existing_nodes(**fleet: str) -> list[Object]:
    """Existing nodes with their slices."""
    cluster = cluster_of(parse_fleet([f"{name}={form}" for name, form in fleet.items()]))
    return [*map(node, fleet), *cluster.slices, *cluster.classes]


def nominated(node: str, value: Pod) -> Pod:
    return replace(value, status=replace(value.status, nominated_node_name=node))


def test_a_nominated_pod_keeps_its_node_and_device() -> None:
    """Without the nomination, the older pod would get the device, and the other one a new machine."""
    found = existing_nodes(old="a10g")
    values = [
        *found, claim_template("any", request()), claim_template("ampere", request(AMPERE)),
        pod("newcomer", template="any"), nominated("old", pod("nominated", template="ampere")),
    ]  # fmt: skip
    kept = place_nominated_pods(values, FEATURES)
    assert [(placement.pod.name, placement.node) for placement in kept.placements] == [("nominated", "old")]
    assert [device.device for device in kept.placements[0].claims[0].devices] == ["gpu-0"]
    plan = make_plan(kept.objects, CATALOG)
    assert [machine.instance for machine in plan.machines] == ["cloud/t4"]
    assert [placement.pod.name for machine in plan.machines for placement in machine.placements] == ["newcomer"]
    assert plan.existing == ()


def test_a_nomination_that_no_longer_fits_is_ignored() -> None:
    found = existing_nodes(old="t4")
    values = [*found, claim_template("ampere", request(AMPERE)), nominated("old", pod("nominated", template="ampere")),
              nominated("nowhere", pod("other", template="ampere"))]  # fmt: skip
    kept = place_nominated_pods(values, FEATURES)
    assert kept.placements == ()
    assert kept.objects == values


def test_a_shared_claim_is_allocated_on_the_node_of_its_nominated_pod() -> None:
    found = existing_nodes(a="a10g", b="a10g")
    values = [
        *found,
        claim("shared", request()),
        pod("also", claim="shared"),
        nominated("b", pod("first", claim="shared")),
    ]
    kept = place_nominated_pods(values, FEATURES)
    assert [placement.pod.name for placement in kept.placements] == ["first"]
    plan = make_plan(kept.objects, CATALOG)
    assert [(placement.pod.name, placement.node) for placement in plan.existing] == [("also", "b")]


def test_without_nominations_the_objects_are_unchanged() -> None:
    values: list[Object] = [claim_template("any", request()), pod("newcomer", template="any")]
    assert place_nominated_pods(values, FEATURES) == (values, ())


def test_a_nominated_pod_with_affinity_to_a_later_nominated_pod_keeps_its_node() -> None:
    near = {"podAffinity": anti_affinity({"app": "db"})["podAntiAffinity"]}
    values: list[Object] = [
        node("old"),
        nominated("old", pod("web", affinity=near)),
        nominated("old", pod("db", labels={"app": "db"})),
    ]
    kept = place_nominated_pods(values, FEATURES)
    assert sorted(placement.pod.name for placement in kept.placements) == ["db", "web"]
