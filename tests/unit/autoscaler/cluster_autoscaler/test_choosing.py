"""Expansion options evaluated by the pods that they serve, and the choice of the expander in a cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.autoscaler.cluster_autoscaler.expander import CheapestExpander
from allotment.autoscaler.cluster_autoscaler.node_groups import NodeGroup, groups_of, parse_nodes
from allotment.autoscaler.cluster_autoscaler.node_templates import GroupTemplates
from allotment.autoscaler.cluster_autoscaler.option_evaluation import (
    EvaluatedOption,
    GroupTemplate,
    best,
    evaluate,
    evaluate_all,
    uid_of,
)
from allotment.cluster.caches import Caches
from allotment.cluster.resources import CLAIM_TEMPLATES, DEVICE_CLASSES, NODES, PODS, SLICES
from allotment.externalgrpc import errors
from allotment.externalgrpc.expander import ExpansionOption
from allotment.fleet.catalog import catalog
from allotment.fleet.device_classes import CLASSES
from allotment.model.features import Features
from allotment.model.trees import Tree, to_tree
from allotment.planning.consolidation.rescheduling import SimulatedCluster
from allotment.planning.limits import PlanLimits
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

FEATURES = Features(kube="1.36")
MEMORY = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('%s')) >= 0"


def group(text: str) -> NodeGroup:
    (found,) = groups_of(catalog(), [parse_nodes(f"0:9:{text}")], PlanLimits(zones=("us-east-1a",)))
    return found


M6I, G4DN, G5, G6 = map(group, ("aws/m6i.xlarge", "aws/g4dn.xlarge", "aws/g5.xlarge", "aws/g6.xlarge"))
SHARED = group("aws/g5.xlarge/consumable-shares=memory")
CLASS_TREES = [
    to_tree(device_class, "resource.k8s.io/v1", "DeviceClass") for vendor in CLASSES.values() for device_class in vendor
]


def node_of(group: NodeGroup, name: str = "next") -> Tree:
    tree = to_tree(group.template(name, "1.36").node, "v1", "Node")
    tree["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return tree


def growth(group: NodeGroup, *, price: Decimal | None = None, known: bool = True) -> GroupTemplate:
    slices = group.template("next", "1.36").slices if known else None
    return GroupTemplate(node_of(group), slices, price if price is not None else group.price)


def pod(name: str, cpu: str = "1", claim: str = "", **spec: Any) -> Tree:
    claims: Tree = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": claim}]} if claim else {}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [container], **claims, **spec},
        "status": {"phase": "Pending"},
    }


def template(name: str, *expressions: str, count: int = 1) -> Tree:
    exactly = {
        "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count,
        "selectors": [{"cel": {"expression": text}} for text in expressions],
    }  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def evaluated(pods: Sequence[Tree], nodes: int, growth: GroupTemplate, *others: Tree) -> EvaluatedOption:
    simulation = SimulatedCluster([*CLASS_TREES, *others, *pods], FEATURES)
    before = simulation.mark()
    found = evaluate(simulation, ExpansionOption("g", nodes, "", tuple(pods)), growth, lambda: True)
    assert simulation.mark() == before
    assert "next-0" not in simulation.nodes
    return found


def test_pods_without_claims_are_placed_by_node_resources() -> None:
    # An m6i.xlarge has less than four cores for pods.
    found = evaluated([pod(f"p{n}", cpu="2") for n in range(3)], 2, growth(M6I))
    assert (found.served, found.pods, found.cost) == (2, 3, 2 * M6I.price)
    assert "default/p2" in found.why
    assert evaluated([pod(f"p{n}", cpu="2") for n in range(3)], 3, growth(M6I)).served == 3


def test_claims_are_allocated_by_the_engine() -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(3)]
    big = template("big", MEMORY % "20Gi")
    assert evaluated(pods, 3, growth(G5), big).served == 3
    assert evaluated(pods, 2, growth(G5), big).served == 2
    assert evaluated(pods, 3, growth(G4DN), big).served == 0


def test_memory_is_what_the_driver_reports() -> None:
    """16Gi of a T4 are 15360Mi to its driver: a paid node that could never serve the pod."""
    found = evaluated([pod("p", claim="t4")], 1, growth(G4DN), template("t4", MEMORY % "16Gi"))
    assert found.served == 0
    assert evaluated([pod("p", claim="t4")], 1, growth(G4DN), template("t4", MEMORY % "15Gi")).served == 1


def test_shares_of_a_gpu_are_counted_by_their_memory() -> None:
    share = template("share")
    share["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "10Gi"}}
    pods = [pod(f"p{n}", cpu="100m", claim="share") for n in range(5)]
    assert evaluated(pods, 1, growth(SHARED), share).served == 2
    assert evaluated(pods, 2, growth(SHARED), share).served == 4


def test_taints_selectors_and_anti_affinity_are_respected() -> None:
    tainted = growth(M6I)
    tainted.node["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    assert evaluated([pod("p")], 1, tainted).served == 0
    assert evaluated([pod("p", tolerations=[{"operator": "Exists"}])], 1, tainted).served == 1
    assert evaluated([pod("p", nodeSelector={"kubernetes.io/arch": "arm64"})], 1, growth(M6I)).served == 0
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    }
    pods = [pod(f"p{n}", cpu="100m", affinity=apart) for n in range(3)]
    for tree in pods:
        tree["metadata"]["labels"] = {"app": "a"}
    assert evaluated(pods, 2, growth(M6I)).served == 2


def test_pods_that_share_a_claim_need_one_node() -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one", "namespace": "default", "uid": "uid-one"},
        "spec": template("x")["spec"]["spec"],
    }
    users = [pod(f"p{n}", cpu="2", resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}]) for n in range(2)]
    # Both need the node with the allocated GPU, which has room for one of them.
    assert evaluated(users, 2, growth(G5), claim).served == 1


def test_unknown_results_are_not_reported_as_results() -> None:
    claims = evaluated([pod("p", claim="big")], 1, growth(G5, known=False), template("big"))
    assert claims.served is None
    assert "devices of its nodes" in str(claims)
    # Pods without claims need no devices.
    assert evaluated([pod("p")], 1, growth(G5, known=False)).served == 1
    simulation = SimulatedCluster([pod("p")], FEATURES)
    assert evaluate(simulation, ExpansionOption("g", 1, "", (pod("p"),)), growth(M6I), lambda: False).served is None
    assert evaluate(simulation, ExpansionOption("g", 1), growth(M6I), lambda: True).served is None


def test_a_missing_claim_template_serves_no_pods() -> None:
    found = evaluated([pod("p", claim="gone")], 1, growth(G5))
    assert found.served == 0
    assert "gone" in found.why


def test_options_that_cannot_be_the_best_are_not_evaluated() -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(3)]
    simulation = SimulatedCluster([*CLASS_TREES, template("big", MEMORY % "20Gi"), *pods], FEATURES)
    options = [
        (ExpansionOption(group_.id, nodes, "", tuple(pods)), growth(group_))
        for group_, nodes in ((G5, 3), (G4DN, 3), (G6, 3), (M6I, 9))
    ]
    found = {option.group: option for option in evaluate_all(simulation, options, lambda: True)}
    # A T4 would cost less but serves no pods; the L4 is evaluated next, and more expensive options are skipped.
    assert {group: option.served for group, option in found.items()} == {G4DN.id: 0, G6.id: 3, G5.id: None, M6I.id: 0}
    assert "even if it served all pods, each would cost 1.0060 USD/h" in str(found[G5.id])
    assert best(tuple(found.values())) == (G6.id,)


@given(st.permutations([(G5, 2), (G6, 3), (G4DN, 1), (M6I, 1)]), st.integers(1, 3))
def test_skipping_options_does_not_change_the_best(groups: list[tuple[NodeGroup, int]], count: int) -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(count)]
    simulation = SimulatedCluster([*CLASS_TREES, template("big", MEMORY % "20Gi"), *pods], FEATURES)
    options = [(ExpansionOption(group_.id, nodes, "", tuple(pods)), growth(group_)) for group_, nodes in groups]
    every = [evaluate(simulation, option, grows, lambda: True) for option, grows in options]
    assert set(best(every)) == set(best(tuple(evaluate_all(simulation, options, lambda: True))))


# --- best options ----------------------------------------------------------------------------------------------------


def of(group: str, served: int | None, cost: str | None, nodes: int = 1) -> EvaluatedOption:
    return EvaluatedOption(group, nodes, 4, served, Decimal(cost) if cost is not None else None)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([of("a", 2, "1"), of("b", 4, "3")], ["a"]),  # 0.50 against 0.75
        ([of("a", 1, "1"), of("b", 4, "3")], ["b"]),  # 1.00 against 0.75
        ([of("a", 2, "1"), of("b", 4, "2")], ["b"]),  # equal cost: the one that serves more
        ([of("a", 2, "1"), of("b", 2, "1")], ["a", "b"]),  # equal: left to the next expander in the chain
        ([of("a", 0, "1"), of("b", 1, "9")], ["b"]),  # an option that serves no pods is excluded
        ([of("a", 4, None), of("b", 1, "9")], ["b"]),  # an unknown price is not zero
        ([of("a", 4, None), of("b", 0, "9")], ["a"]),
        ([of("a", None, "1"), of("b", 1, "9")], ["b"]),  # a determined option precedes an undetermined one
        ([of("a", None, "1"), of("b", 0, "9"), of("c", None, None)], ["a", "c"]),
        ([of("a", 0, "1")], []),
        ([], []),
    ],
)
def test_best_options(options: list[EvaluatedOption], chosen: list[str]) -> None:
    assert list(best(options)) == chosen


choices = st.builds(
    of, st.sampled_from("abcdef"), st.none() | st.integers(0, 5), st.none() | st.integers(1, 50).map(str)
)


@given(st.lists(choices, max_size=6, unique_by=lambda option: option.group))
def test_no_option_that_serves_pods_costs_less_per_pod_than_the_best(options: list[EvaluatedOption]) -> None:
    chosen = best(options)
    by_group = {option.group: option for option in options}
    assert set(chosen) <= set(by_group)
    assert not any(by_group[group].served == 0 for group in chosen)
    if any(option.served != 0 for option in options):
        assert chosen
    prices = [option.each for option in options if option.each is not None]
    if prices:
        assert {by_group[group].each for group in chosen} == {min(prices)}


# --- templates of groups ---------------------------------------------------------------------------------------------


def slices_on(group: NodeGroup, node: str) -> list[Tree]:
    return [to_tree(slice_, "resource.k8s.io/v1", "ResourceSlice") for slice_ in group.template(node, "1.36").slices]


def test_a_group_of_allotment_has_its_template_and_price() -> None:
    found = GroupTemplates([G5], catalog(), (), (), "1.36").of(G5.id, node_of(G5))
    assert found.price == G5.price
    assert found.slices == G5.template("next", "1.36").slices


def test_a_running_node_takes_precedence_over_the_template() -> None:
    alive, published = node_of(G6, "alive"), slices_on(G6, "alive")
    published[0]["spec"]["devices"].clear()
    found = GroupTemplates([G6], catalog(), [alive], published, "1.36").of(G6.id, node_of(G6))
    assert found.slices is not None
    (slice_,) = found.slices
    assert (slice_.spec.node_name, slice_.spec.pool.name, slice_.spec.devices) == ("next", "next", ())


def test_groups_of_other_providers_have_the_catalog_price_and_the_devices_of_a_running_node() -> None:
    node = node_of(G5)
    assert GroupTemplates((), catalog(), (), (), "1.36").of("asg-1", node) == GroupTemplate(node, None, G5.price)
    found = GroupTemplates((), catalog(), [node_of(G5, "alive")], slices_on(G5, "alive"), "1.36").of("asg-1", node)
    assert found.slices is not None
    assert found.slices[0].spec.node_name == "next"


@pytest.mark.parametrize("label", [{"eks.amazonaws.com/capacityType": "SPOT"}, {"karpenter.sh/capacity-type": "spot"}])
def test_spot_capacity_is_recognized_by_its_label(label: dict[str, str]) -> None:
    instance = next(instance for instance in catalog() if instance.price("spot") and not instance.unusable)
    node = {"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": instance.name, **label}}}
    assert GroupTemplates((), catalog(), (), (), "1.36").of("g", node).price == instance.price("spot")


def test_an_unknown_type_has_no_price() -> None:
    node = {"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "x9.huge"}}}
    assert GroupTemplates((), catalog(), (), (), "1.36").of("g", node) == GroupTemplate(node, None, None)


# --- the expander ----------------------------------------------------------------------------------------------------


async def chosen_options(
    options: Sequence[ExpansionOption], nodes: dict[str, Tree], objects: Iterable[tuple[Any, Tree]], **more: Any
) -> Sequence[str]:
    client = MemoryClient()
    for resource, tree in objects:
        await client.create(resource, tree, tree["metadata"].get("namespace", ""))
    caches = Caches(client, clock=IdleClock(), random=Random(1))
    chooser = CheapestExpander(caches, [M6I, G4DN, G5, G6], catalog(), FEATURES, **{"seconds": inf, **more})
    running = asyncio.create_task(caches.run())
    try:
        return await chooser.best_options(options, nodes)
    finally:
        running.cancel()
        await asyncio.wait((running,))


def objects(*pods: Tree) -> list[tuple[Any, Tree]]:
    return [
        *((DEVICE_CLASSES, tree) for tree in CLASS_TREES),
        (CLAIM_TEMPLATES, template("big", MEMORY % "20Gi")),
        (NODES, node_of(G4DN, "there")),
        *((SLICES, tree) for tree in slices_on(G4DN, "there")),
        *((PODS, tree) for tree in pods),
    ]


def options_for(pods: Sequence[Tree], *groups: NodeGroup) -> tuple[list[ExpansionOption], dict[str, Tree]]:
    return [ExpansionOption(group_.id, len(pods), "", tuple(pods)) for group_ in groups], {
        group_.id: node_of(group_) for group_ in groups
    }


def test_the_cheapest_option_that_satisfies_the_claims_is_chosen(caplog: pytest.LogCaptureFixture) -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(2)]
    with caplog.at_level(logging.INFO):
        # A T4 costs less than an L4, and an L4 less than an A10G; a T4 has too little memory.
        assert list(idle.run(chosen_options(*options_for(pods, G4DN, G5, G6), objects(*pods)))) == [G6.id]
    assert f"{G6.id}: 2 nodes serve 2 of 2 pods for 1.6096 USD/h, 0.8048 per pod - chosen" in caplog.text
    assert f"{G4DN.id}: 2 nodes serve 0 of 2 pods" in caplog.text


def test_pods_generated_by_the_autoscaler_are_served() -> None:
    made_up = pod("capacity-buffer-0")
    del made_up["metadata"]["uid"]
    assert uid_of(made_up) == "pod:default/capacity-buffer-0"
    assert list(idle.run(chosen_options(*options_for([made_up], M6I, G5), objects()))) == [M6I.id]


def test_without_time_no_option_is_excluded() -> None:
    options, nodes = options_for([pod("p", claim="big")], G4DN, G5)
    with pytest.raises(errors.UnavailableError, match="not been loaded"):
        idle.run(chosen_options(options, nodes, objects(), seconds=0.0))


def test_an_option_without_a_template_node_is_unknown() -> None:
    options, _ = options_for([pod("p", claim="big")], G4DN, G5)
    assert list(idle.run(chosen_options(options, {}, objects(pod("p", claim="big"))))) == [G4DN.id, G5.id]
