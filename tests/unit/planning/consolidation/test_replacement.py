"""Consolidation with replacement: nodes are replaced by cheaper ones, and every proposal is feasible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet.catalog import catalog
from allotment.fleet.catalog.instance_type import InstanceType, Template
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceSlice
from allotment.model.trees import read_value, to_tree
from allotment.planning.consolidation.disruption import (
    ConsolidationPolicy,
    DisruptionBudget,
    EvictionBudgets,
    allowed_removals,
    pods_to_move,
)
from allotment.planning.consolidation.movable_pods import MovablePod
from allotment.planning.consolidation.rescheduling import PodTarget, SimulatedCluster
from allotment.planning.consolidation.search import Consolidation, OwnedNode, ReplacementOptions, consolidate
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine, ProvisioningPlan, UnservedPod
from tests.unit.planning.running_cluster import (
    FEATURES,
    NoDevicesError,
    RunningCluster,
    anti_affinity,
    node_names,
    request,
    spread,
    step_limit,
)

ANY = ConsolidationPolicy(budgets=(DisruptionBudget(nodes="100%"),))
#: Any type: only the node and the slices of a template are used.
ANY_TYPE = catalog()[0]
#: Offered machines: hardware and price.
OFFERS = {"one": ("1xt4", "0.5"), "four": ("4xt4", "1.8"), "pieces": ("1xa100-40gb/static-mig=1g.5gb:7", "3")}


def planner(*kinds: str) -> Callable[..., ProvisioningPlan]:
    """A plan function that returns machines of these kinds without checking that the pods fit."""

    def plan(
        values: Iterable[Object], types: Sequence[InstanceType], limits: PlanLimits, features: Features, *,
        keep_going: Callable[[], bool],
    ) -> ProvisioningPlan:  # fmt: skip
        pods = [value for value in values if isinstance(value, Pod) and not value.spec.node_name]
        machines = []
        for number, kind in enumerate(kinds):
            form, price = OFFERS[kind]
            machines.append(
                PlannedMachine(
                    node=f"new-{number}", instance=f"shop/{kind}", form=form, zone="a", capacity_type="on-demand",
                    usd_per_hour=Decimal(price),
                )
            )  # fmt: skip
        if not machines:
            key = ObjectKey("default", pods[0].metadata.name)
            return ProvisioningPlan(
                unserved=(UnservedPod(pod=key, owner="", code="never", text="no machines are offered"),)
            )
        return ProvisioningPlan(
            machines=tuple(machines), total=sum((machine.usd_per_hour for machine in machines), Decimal(0))
        )

    return plan


def template_of_machine(machine: PlannedMachine, /) -> Template:
    """The template of an offered machine."""
    cluster = RunningCluster()
    node = cluster.node(machine.node, machine.form, cpu="8", zone=machine.zone)
    slices = tuple(read_value(tree, ResourceSlice) for tree in cluster.objects if tree["kind"] == "ResourceSlice")
    return Template(ANY_TYPE, machine.form, read_value(node, Node), slices, frozenset())


def consolidated(
    cluster: RunningCluster, prices: dict[str, str], *kinds: str, policy: ConsolidationPolicy = ANY, steps: int = 10_000
) -> Consolidation:
    """The consolidation of these nodes, with machines of these kinds as the replacement."""
    owned = [OwnedNode(node=node, instance="aws/any", usd_per_hour=Decimal(price)) for node, price in prices.items()]
    replacing = ReplacementOptions(planner(*kinds), (), PlanLimits(), template_of_machine)
    return consolidate(
        cluster.objects, owned, policy, FEATURES, keep_going=step_limit(steps), replacing=replacing if kinds else None
    )


def cluster_of_gpus(**nodes: str) -> RunningCluster:
    """A cluster of nodes by hardware, each with one pod on one GPU."""
    cluster = RunningCluster()
    gpu = cluster.template("gpu")
    for name, hardware in nodes.items():
        cluster.node(name, hardware)
        cluster.pod(f"on-{name}", name, template=gpu)
    return cluster


def test_one_large_node_is_replaced_by_a_small_one() -> None:
    found = consolidated(cluster_of_gpus(big="8xt4"), {"big": "4"}, "one")
    assert node_names(found.remove) == ["big"]
    assert [machine.instance for machine in found.add] == ["shop/one"]
    assert [(move.pod.name, move.target) for move in found.moves] == [("on-big", "new-0")]
    assert found.saves == Decimal("3.5")
    assert found.remove[0].reason == "Underutilized"


def test_one_node_is_replaced_by_many() -> None:
    cluster = cluster_of_gpus(big="8xt4")
    cluster.pod("second", "big", template=next(t for t in cluster.objects if t["kind"] == "ResourceClaimTemplate"))
    found = consolidated(cluster, {"big": "4"}, "one", "one")
    assert node_names(found.remove) == ["big"]
    assert {move.target for move in found.moves} == {"new-0", "new-1"}
    assert found.saves == Decimal(3)


def test_many_nodes_are_replaced_by_one() -> None:
    nodes = dict.fromkeys(("a", "b", "c"), "1xt4")
    found = consolidated(cluster_of_gpus(**nodes), dict.fromkeys(nodes, "1"), "four")
    assert node_names(found.remove) == ["a", "b", "c"]
    assert {move.target for move in found.moves} == {"new-0"}
    assert found.saves == Decimal("1.2")


def test_an_infeasible_plan_is_rejected() -> None:
    found = consolidated(cluster_of_gpus(a="1xa100-40gb"), {"a": "9"}, "pieces")
    assert found.remove == ()
    assert "cannot allocate all claims" in found.stays[0].text


def test_a_small_relative_saving_is_not_proposed() -> None:
    found = consolidated(cluster_of_gpus(a="2xt4"), {"a": "0.55"}, "one")
    assert found.remove == ()
    assert "other machines for its pods would cost 0.5 USD/h" in found.stays[0].text


def test_unused_planned_machines_are_dropped() -> None:
    found = consolidated(cluster_of_gpus(a="2xt4"), {"a": "9"}, "one", "one", "four")
    assert len(found.add) == 1


# --- random clusters ---------------------------------------------------------------------------------------------

HARDWARE = ("", "1xt4", "2xt4", "1xa100-40gb/static-mig=1g.5gb:3", "1xl4/consumable-shares=memory")


@st.composite
def clusters(draw: st.DrawFn) -> tuple[RunningCluster, dict[str, str]]:
    """Random nodes with as many pods as fit."""
    cluster = RunningCluster()
    templates = [
        None,
        cluster.template("gpu"),
        cluster.template("piece", request(class_name="mig.nvidia.com")),
        cluster.template("share", request(capacity={"requests": {"memory": "4Gi"}})),
    ]
    count = draw(st.integers(2, 5))
    prices = {}
    for number in range(count):
        name = f"n{number}"
        cluster.node(name, draw(st.sampled_from(HARDWARE)), cpu="4", zone=draw(st.sampled_from("ab")))
        prices[name] = draw(st.sampled_from(["0.1", "1", "4"]))
    used: dict[str, int] = {}
    cluster.claim("shared")
    affinities: dict[str, dict[str, Any]] = {
        "apart": {"affinity": anti_affinity({"app": "apart"})},
        "even": {"topologySpreadConstraints": spread({"app": "even"})},
        "any": {},
    }
    for number in range(draw(st.integers(0, 7))):
        node = f"n{draw(st.integers(0, count - 1))}"
        cpu = draw(st.sampled_from([500, 1000, 2000]))
        if used.get(node, 0) + cpu > 4000:
            continue
        app = draw(st.sampled_from(sorted(affinities)))
        before = len(cluster.objects)
        try:
            cluster.pod(
                f"p{number}",
                node,
                template=draw(st.sampled_from(templates)),
                claim=draw(st.sampled_from(["", "", "", "shared"])),
                cpu=f"{cpu}m",
                owner=draw(st.sampled_from(["ReplicaSet"] * 5 + ["DaemonSet", ""])),
                labels={"app": app},
                **affinities[app],
            )
            used[node] = used.get(node, 0) + cpu
        except NoDevicesError:
            del cluster.objects[before:]
    if draw(st.booleans()):
        cluster.disruption_budget("pdb", {"app": "any"}, maxUnavailable=draw(st.integers(0, 2)))
    return cluster, prices


@given(clusters(), st.sampled_from(["100%", "50%", "1"]), st.sampled_from([(), ("one",), ("four",), ("one", "pieces")]))
def test_every_moved_pod_has_a_feasible_target(
    cluster_and_prices: tuple[RunningCluster, dict[str, str]], nodes: str, kinds: tuple[str, ...]
) -> None:
    cluster, prices = cluster_and_prices
    policy = ConsolidationPolicy(budgets=(DisruptionBudget(nodes=nodes),))
    found = consolidated(cluster, prices, *kinds, policy=policy, steps=200)
    removed = node_names(found.remove)
    # Every owned node is reported once.
    assert sorted(removed + node_names(found.stays)) == sorted(prices)
    assert len(removed) <= allowed_removals(policy, "Underutilized", len(prices), 0)
    # The saving is the difference in cost.
    spent = sum((machine.usd_per_hour for machine in found.add), Decimal(0))
    assert found.saves == sum((Decimal(prices[node]) for node in removed), Decimal(0)) - spent
    assert found.saves > 0 or not removed
    # Exactly the pods of removed nodes are moved, to nodes that remain or are added.
    cluster_state = SimulatedCluster(cluster.objects, FEATURES)
    leaving = [pod for node in removed for pod in pods_to_move(cluster_state, node)]
    assert sorted(move.pod for move in found.moves) == sorted(pod.key for pod in leaving)
    eviction_budgets = EvictionBudgets(
        [t for t in cluster.objects if t["kind"] == "PodDisruptionBudget"], cluster_state.pods.values()
    )
    gone: list[MovablePod] = []
    for node in removed:
        assert eviction_budgets.violation(gone, pods_to_move(cluster_state, node)) == ""
        gone += pods_to_move(cluster_state, node)
    remaining = (prices.keys() - set(removed)) | {machine.node for machine in found.add}
    assert {move.target for move in found.moves} <= remaining
    # In a new simulation without the removed nodes, every pod gets its target and no device is allocated twice.
    _check_in_new_simulation(cluster, removed, found)


def _check_in_new_simulation(cluster: RunningCluster, removed: Sequence[str], found: Consolidation) -> None:
    gone = set(removed)
    fresh = SimulatedCluster(cluster.objects, FEATURES)
    for machine in found.add:
        template = template_of_machine(machine)
        fresh.add_node(to_tree(template.node, "v1", "Node"), template.slices)
    for node in removed:
        fresh.cordon(node)
    leaving = [pod for node in removed for pod in pods_to_move(fresh, node)]
    for pod in leaving:
        fresh.evict(pod)
    only = fresh.inventory.node_mask(node for node in fresh.nodes if node not in gone)
    targets = {move.pod: move for move in found.moves}
    users: Counter[tuple[str, str]] = Counter()
    for pod in sorted(leaving, key=lambda pod: pod.order):
        place = fresh.place(pod, only)
        assert isinstance(place, PodTarget), place
        assert place.node == targets[pod.key].target
    for claim in fresh.claims.values():
        for result in claim.allocation.devices.results if claim.allocation is not None else ():
            if not result.consumed_capacity:
                users[result.pool, result.device] += 1
    assert all(count == 1 for count in users.values())
    for cached in fresh.machines:
        assert cached.name in gone or all(amount >= 0 for amount in cached.free.values())
