"""Who was promised a place has it in every later plan."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.core import Pod
from allotment.model.meta import Object
from allotment.tools.plan.placement.nominations import place_nominated_pods
from tests.unit.tools.plan.demands import FEATURES, claim, claim_template, instance, node, make_plan, pod, request
from tests.unit.tools.plan.running_cluster import anti_affinity

CATALOG = (instance("t4", "t4", 1, "0.5"), instance("a10g", "a10g", 1, "1.0"))
AMPERE = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'


def existing_nodes(**fleet: str) -> list[Object]:
    """Nodes with their slices."""
    cluster = cluster_of(parse_fleet([f"{name}={form}" for name, form in fleet.items()]))
    return [*map(node, fleet), *cluster.slices, *cluster.classes]


def nominated(node: str, one: Pod) -> Pod:
    return replace(one, status=replace(one.status, nominated_node_name=node))


def test_a_place_that_was_promised_goes_to_nobody_else() -> None:
    """Without the promise the older pod would take the device, and a new machine be bought for the other one."""
    found = existing_nodes(old="a10g")
    values = [
        *found, claim_template("any", request()), claim_template("ampere", request(AMPERE)),
        pod("newcomer", template="any"), nominated("old", pod("promised", template="ampere")),
    ]  # fmt: skip
    kept = place_nominated_pods(values, FEATURES)
    assert [(seat.pod.name, seat.node) for seat in kept.placements] == [("promised", "old")]
    assert [device.device for device in kept.placements[0].claims[0].devices] == ["gpu-0"]
    plan = make_plan(kept.objects, CATALOG)
    assert [machine.instance for machine in plan.machines] == ["cloud/t4"]
    assert [seat.pod.name for machine in plan.machines for seat in machine.seats] == ["newcomer"]
    assert plan.existing == ()


def test_a_promise_that_cannot_be_kept_binds_nobody() -> None:
    found = existing_nodes(old="t4")
    values = [*found, claim_template("ampere", request(AMPERE)), nominated("old", pod("promised", template="ampere")),
              nominated("nowhere", pod("other", template="ampere"))]  # fmt: skip
    kept = place_nominated_pods(values, FEATURES)
    assert kept.placements == ()
    assert kept.objects == values


def test_a_claim_that_is_shared_stays_where_its_promised_user_is() -> None:
    found = existing_nodes(a="a10g", b="a10g")
    values = [*found, claim("shared", request()), pod("also", claim="shared"), nominated("b", pod("first", claim="shared"))]
    kept = place_nominated_pods(values, FEATURES)
    assert [seat.pod.name for seat in kept.placements] == ["first"]
    plan = make_plan(kept.objects, CATALOG)
    assert [(seat.pod.name, seat.node) for seat in plan.existing] == [("also", "b")]


def test_without_promises_nothing_is_changed() -> None:
    values: list[Object] = [claim_template("any", request()), pod("newcomer", template="any")]
    assert place_nominated_pods(values, FEATURES) == (values, ())


def test_who_must_be_near_another_that_was_promised_a_place_behind_it_keeps_its_own() -> None:
    near = {"podAffinity": anti_affinity({"app": "db"})["podAntiAffinity"]}
    values: list[Object] = [
        node("old"),
        nominated("old", pod("web", affinity=near)),
        nominated("old", pod("db", labels={"app": "db"})),
    ]
    kept = place_nominated_pods(values, FEATURES)
    assert sorted(seat.pod.name for seat in kept.placements) == ["db", "web"]
