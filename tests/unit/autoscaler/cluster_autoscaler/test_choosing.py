"""Options judged by the pods that they really serve, and the expander's answer over a cluster's caches."""

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
    uid_of,
)
from allotment.autoscaler.cluster_autoscaler.option_evaluation import evaluate_all as judged_all
from allotment.cluster.caches import Caches
from allotment.cluster.resources import CLAIM_TEMPLATES, DEVICE_CLASSES, NODES, PODS, SLICES
from allotment.externalgrpc import errors
from allotment.externalgrpc.expander import ExpansionOption
from allotment.fleet.catalog import catalog
from allotment.fleet.device_classes import CLASSES
from allotment.model.features import Features
from allotment.model.trees import Tree, to_tree
from allotment.tools.plan.consolidation.rescheduling import SimulatedCluster
from allotment.tools.plan.limits import PlanLimits
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
CLASS_TREES = [to_tree(one, "resource.k8s.io/v1", "DeviceClass") for vendor in CLASSES.values() for one in vendor]


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


def judged(pods: Sequence[Tree], nodes: int, growth: GroupTemplate, *others: Tree) -> EvaluatedOption:
    house = SimulatedCluster([*CLASS_TREES, *others, *pods], FEATURES)
    before = house.mark()
    found = evaluate(house, ExpansionOption("g", nodes, "", tuple(pods)), growth, lambda: True)
    assert house.mark() == before
    assert "next-0" not in house.nodes
    return found


def test_pods_without_claims_are_served_by_room() -> None:
    # An m6i.xlarge has less than four cores for pods.
    found = judged([pod(f"p{n}", cpu="2") for n in range(3)], 2, growth(M6I))
    assert (found.served, found.pods, found.cost) == (2, 3, 2 * M6I.price)
    assert "default/p2" in found.why
    assert judged([pod(f"p{n}", cpu="2") for n in range(3)], 3, growth(M6I)).served == 3


def test_claims_are_allocated_by_the_engine() -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(3)]
    big = template("big", MEMORY % "20Gi")
    assert judged(pods, 3, growth(G5), big).served == 3
    assert judged(pods, 2, growth(G5), big).served == 2
    assert judged(pods, 3, growth(G4DN), big).served == 0


def test_memory_is_what_the_driver_reports() -> None:
    """16Gi of a T4 are 15360Mi to its driver: a paid node that could never serve the pod."""
    found = judged([pod("p", claim="t4")], 1, growth(G4DN), template("t4", MEMORY % "16Gi"))
    assert found.served == 0
    assert judged([pod("p", claim="t4")], 1, growth(G4DN), template("t4", MEMORY % "15Gi")).served == 1


def test_shares_of_a_gpu_are_counted_by_their_memory() -> None:
    share = template("share")
    share["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "10Gi"}}
    pods = [pod(f"p{n}", cpu="100m", claim="share") for n in range(5)]
    assert judged(pods, 1, growth(SHARED), share).served == 2
    assert judged(pods, 2, growth(SHARED), share).served == 4


def test_taints_selectors_and_neighbours_count() -> None:
    tainted = growth(M6I)
    tainted.node["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    assert judged([pod("p")], 1, tainted).served == 0
    assert judged([pod("p", tolerations=[{"operator": "Exists"}])], 1, tainted).served == 1
    assert judged([pod("p", nodeSelector={"kubernetes.io/arch": "arm64"})], 1, growth(M6I)).served == 0
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    }
    pods = [pod(f"p{n}", cpu="100m", affinity=apart) for n in range(3)]
    for one in pods:
        one["metadata"]["labels"] = {"app": "a"}
    assert judged(pods, 2, growth(M6I)).served == 2


def test_a_named_claim_holds_its_pods_together() -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one", "namespace": "default", "uid": "uid-one"},
        "spec": template("x")["spec"]["spec"],
    }
    users = [pod(f"p{n}", cpu="2", resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}]) for n in range(2)]
    # Both need the one GPU's node, and it has room for one of them.
    assert judged(users, 2, growth(G5), claim).served == 1


def test_what_cannot_be_told_is_not_told() -> None:
    claims = judged([pod("p", claim="big")], 1, growth(G5, known=False), template("big"))
    assert claims.served is None
    assert "devices of its nodes" in str(claims)
    # Without claims nobody needs to know.
    assert judged([pod("p")], 1, growth(G5, known=False)).served == 1
    house = SimulatedCluster([pod("p")], FEATURES)
    assert evaluate(house, ExpansionOption("g", 1, "", (pod("p"),)), growth(M6I), lambda: False).served is None
    assert evaluate(house, ExpansionOption("g", 1), growth(M6I), lambda: True).served is None


def test_a_template_that_is_missing_serves_nobody() -> None:
    found = judged([pod("p", claim="gone")], 1, growth(G5))
    assert found.served == 0
    assert "gone" in found.why


def test_what_cannot_be_the_best_any_more_is_not_tried() -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(3)]
    house = SimulatedCluster([*CLASS_TREES, template("big", MEMORY % "20Gi"), *pods], FEATURES)
    options = [
        (ExpansionOption(one.id, nodes, "", tuple(pods)), growth(one))
        for one, nodes in ((G5, 3), (G4DN, 3), (G6, 3), (M6I, 9))
    ]
    found = {one.group: one for one in judged_all(house, options, lambda: True)}
    # A T4 would cost less, and serves none; so the L4 is tried, and what must cost more is not.
    assert {group: one.served for group, one in found.items()} == {G4DN.id: 0, G6.id: 3, G5.id: None, M6I.id: 0}
    assert "even if all pods were served, each would cost 1.0060" in str(found[G5.id])
    assert best(tuple(found.values())) == (G6.id,)


@given(st.permutations([(G5, 2), (G6, 3), (G4DN, 1), (M6I, 1)]), st.integers(1, 3))
def test_leaving_out_changes_nothing(groups: list[tuple[NodeGroup, int]], count: int) -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(count)]
    house = SimulatedCluster([*CLASS_TREES, template("big", MEMORY % "20Gi"), *pods], FEATURES)
    options = [(ExpansionOption(one.id, nodes, "", tuple(pods)), growth(one)) for one, nodes in groups]
    every = [evaluate(house, option, grows, lambda: True) for option, grows in options]
    assert set(best(every)) == set(best(tuple(judged_all(house, options, lambda: True))))


# --- the best --------------------------------------------------------------------------------------------------------


def of(group: str, served: int | None, cost: str | None, nodes: int = 1) -> EvaluatedOption:
    return EvaluatedOption(group, nodes, 4, served, Decimal(cost) if cost is not None else None)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([of("a", 2, "1"), of("b", 4, "3")], ["a"]),  # 0.50 against 0.75
        ([of("a", 1, "1"), of("b", 4, "3")], ["b"]),  # 1.00 against 0.75
        ([of("a", 2, "1"), of("b", 4, "2")], ["b"]),  # the same: who serves more
        ([of("a", 2, "1"), of("b", 2, "1")], ["a", "b"]),  # all the same: whoever comes next in the chain says
        ([of("a", 0, "1"), of("b", 1, "9")], ["b"]),  # what serves nobody is out, however cheap
        ([of("a", 4, None), of("b", 1, "9")], ["b"]),  # a price that is not known is not zero
        ([of("a", 4, None), of("b", 0, "9")], ["a"]),
        ([of("a", None, "1"), of("b", 1, "9")], ["b"]),  # what is sure comes before what is not
        ([of("a", None, "1"), of("b", 0, "9"), of("c", None, None)], ["a", "c"]),
        ([of("a", 0, "1")], []),
        ([], []),
    ],
)
def test_the_best(options: list[EvaluatedOption], chosen: list[str]) -> None:
    assert list(best(options)) == chosen


choices = st.builds(
    of, st.sampled_from("abcdef"), st.none() | st.integers(0, 5), st.none() | st.integers(1, 50).map(str)
)


@given(st.lists(choices, max_size=6, unique_by=lambda one: one.group))
def test_nothing_that_serves_is_cheaper_by_pod_than_the_best(options: list[EvaluatedOption]) -> None:
    chosen = best(options)
    by_group = {one.group: one for one in options}
    assert set(chosen) <= set(by_group)
    assert not any(by_group[group].served == 0 for group in chosen)
    if any(one.served != 0 for one in options):
        assert chosen
    prices = [one.each for one in options if one.each is not None]
    if prices:
        assert {by_group[group].each for group in chosen} == {min(prices)}


# --- what a group grows by -------------------------------------------------------------------------------------------


def slices_on(group: NodeGroup, node: str) -> list[Tree]:
    return [to_tree(one, "resource.k8s.io/v1", "ResourceSlice") for one in group.template(node, "1.36").slices]


def test_a_group_of_ours_has_its_template_and_its_price() -> None:
    found = GroupTemplates([G5], catalog(), (), (), "1.36").of(G5.id, node_of(G5))
    assert found.price == G5.price
    assert found.slices == G5.template("next", "1.36").slices


def test_a_node_that_is_alive_is_the_truth() -> None:
    alive, published = node_of(G6, "alive"), slices_on(G6, "alive")
    published[0]["spec"]["devices"].clear()
    found = GroupTemplates([G6], catalog(), [alive], published, "1.36").of(G6.id, node_of(G6))
    assert found.slices is not None
    (one,) = found.slices
    assert (one.spec.node_name, one.spec.pool.name, one.spec.devices) == ("next", "next", ())


def test_groups_of_other_clouds_have_the_catalogues_price_and_a_living_nodes_devices() -> None:
    theirs = node_of(G5)
    assert GroupTemplates((), catalog(), (), (), "1.36").of("asg-1", theirs) == GroupTemplate(theirs, None, G5.price)
    found = GroupTemplates((), catalog(), [node_of(G5, "alive")], slices_on(G5, "alive"), "1.36").of("asg-1", theirs)
    assert found.slices is not None
    assert found.slices[0].spec.node_name == "next"


@pytest.mark.parametrize("label", [{"eks.amazonaws.com/capacityType": "SPOT"}, {"karpenter.sh/capacity-type": "spot"}])
def test_spot_is_known_by_its_label(label: dict[str, str]) -> None:
    instance = next(one for one in catalog() if one.price("spot") and not one.unusable)
    node = {"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": instance.name, **label}}}
    assert GroupTemplates((), catalog(), (), (), "1.36").of("g", node).price == instance.price("spot")


def test_a_type_that_nobody_knows_has_no_price() -> None:
    node = {"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "x9.huge"}}}
    assert GroupTemplates((), catalog(), (), (), "1.36").of("g", node) == GroupTemplate(node, None, None)


# --- over a cluster --------------------------------------------------------------------------------------------------


async def asked(
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
    return [ExpansionOption(one.id, len(pods), "", tuple(pods)) for one in groups], {
        one.id: node_of(one) for one in groups
    }


def test_the_cheapest_that_serves_the_claims(caplog: pytest.LogCaptureFixture) -> None:
    pods = [pod(f"p{n}", claim="big") for n in range(2)]
    with caplog.at_level(logging.INFO):
        # A T4 costs less than an L4, and an L4 less than an A10G; a T4 has too little memory.
        assert list(idle.run(asked(*options_for(pods, G4DN, G5, G6), objects(*pods)))) == [G6.id]
    assert f"{G6.id}: 2 nodes serve 2 of 2 pods for 1.6096 USD/h, 0.8048 for each pod - chosen" in caplog.text
    assert f"{G4DN.id}: 2 nodes serve 0 of 2 pods" in caplog.text


def test_pods_that_only_the_autoscaler_knows_are_served_too() -> None:
    made_up = pod("capacity-buffer-0")
    del made_up["metadata"]["uid"]
    assert uid_of(made_up) == "pod:default/capacity-buffer-0"
    assert list(idle.run(asked(*options_for([made_up], M6I, G5), objects()))) == [M6I.id]


def test_no_time_keeps_all_options() -> None:
    options, nodes = options_for([pod("p", claim="big")], G4DN, G5)
    with pytest.raises(errors.UnavailableError, match="not been read"):
        idle.run(asked(options, nodes, objects(), seconds=0.0))


def test_an_option_without_a_node_cannot_be_told() -> None:
    options, _ = options_for([pod("p", claim="big")], G4DN, G5)
    assert list(idle.run(asked(options, {}, objects(pod("p", claim="big"))))) == [G4DN.id, G5.id]
