"""Consolidation of small clusters: the removed nodes, and the reasons for kept ones."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from allotment.planning.consolidation.disruption import ConsolidationPolicy, DisruptionBudget
from allotment.planning.consolidation.search import Consolidation, OwnedNode, consolidate
from tests.unit.planning.running_cluster import (
    FEATURES,
    RunningCluster,
    anti_affinity,
    node_names,
    request,
    spread,
    step_limit,
)

ANY = ConsolidationPolicy(budgets=(DisruptionBudget(nodes="100%"),))


def consolidated(
    cluster: RunningCluster, *nodes: str, price: str = "1", policy: ConsolidationPolicy = ANY, **more: Any
) -> Consolidation:
    """The consolidation of these nodes."""
    owned = [OwnedNode(node=node, instance="aws/any", usd_per_hour=Decimal(price)) for node in nodes]
    return consolidate(cluster.objects, owned, policy, FEATURES, keep_going=step_limit(), **more)


def kept_code(found: Consolidation, node: str) -> str:
    """The code of the reason why a node is kept."""
    return next(kept.code for kept in found.stays if kept.node == node)


@pytest.fixture
def cluster() -> RunningCluster:
    return RunningCluster()


def test_a_node_with_only_daemon_pods_is_removed(cluster: RunningCluster) -> None:
    cluster.node("a")
    cluster.pod("daemon", "a", owner="DaemonSet")
    found = consolidated(cluster, "a")
    assert [(removal.node, removal.reason) for removal in found.remove] == [("a", "Empty")]
    assert found.saves == Decimal(1)
    assert found.moves == ()


def test_a_pod_moves_to_a_node_with_a_device_for_its_claim(cluster: RunningCluster) -> None:
    gpu = cluster.template("gpu")
    for name in ("a", "b", "c"):
        cluster.node(name, "1xt4" if name != "c" else "")
    cluster.pod("worker", "a", template=gpu)
    found = consolidated(cluster, "a")
    assert node_names(found.remove) == ["a"]
    (move,) = found.moves
    assert (move.pod.name, move.source, move.target) == ("worker", "a", "b")
    assert [device.pool for claim in move.claims for device in claim.devices] == ["b"]


def test_a_node_is_kept_if_its_pod_finds_no_device_elsewhere(cluster: RunningCluster) -> None:
    gpu = cluster.template("gpu")
    cluster.node("a", "1xt4")
    cluster.node("b", "1xt4")
    cluster.pod("worker", "a", template=gpu)
    cluster.pod("other", "b", template=gpu)
    found = consolidated(cluster, "a", "b")
    assert found.remove == ()
    assert kept_code(found, "a") == kept_code(found, "b") == "no-place"
    assert "cannot allocate all claims" in found.stays[0].text


def test_only_one_of_two_half_empty_nodes_is_removed(cluster: RunningCluster) -> None:
    for name in ("a", "b"):
        cluster.node(name, cpu="4")
        cluster.pod(f"on-{name}", name, cpu="2")
    found = consolidated(cluster, "a", "b")
    assert len(found.remove) == 1
    assert found.moves[0].target not in node_names(found.remove)


def test_two_of_three_nodes_are_removed_if_all_pods_fit_on_one(cluster: RunningCluster) -> None:
    for name in ("a", "b", "c"):
        cluster.node(name, cpu="4")
        cluster.pod(f"on-{name}", name, cpu="1")
    found = consolidated(cluster, "a", "b", "c")
    assert len(found.remove) == 2
    assert {move.target for move in found.moves} == {"a", "b", "c"} - set(node_names(found.remove))


def test_mig_partitions_are_used_as_targets(cluster: RunningCluster) -> None:
    piece = cluster.template("piece", request(class_name="mig.nvidia.com"))
    for name in ("a", "b"):
        cluster.node(name, "1xa100-40gb/static-mig=1g.5gb:2")
        cluster.pod(f"on-{name}", name, template=piece)
    found = consolidated(cluster, "a", "b")
    assert len(found.remove) == 1
    (move,) = found.moves
    (device,) = [device for claim in move.claims for device in claim.devices]
    assert device.pool == move.target
    cluster.pod("third", "b", template=piece)
    cluster.pod("fourth", "a", template=piece)
    assert consolidated(cluster, "a", "b").remove == ()


def test_a_shared_claim_moves_with_all_its_pods(cluster: RunningCluster) -> None:
    cluster.claim("shared")
    cluster.node("a", "1xt4")
    cluster.node("b", "1xt4")
    cluster.pod("one", "a", claim="shared")
    cluster.pod("two", "a", claim="shared")
    found = consolidated(cluster, "a")
    assert [move.target for move in found.moves] == ["b", "b"]
    assert {device.pool for move in found.moves for claim in move.claims for device in claim.devices} == {"b"}


def test_a_claim_with_another_consumer_keeps_its_node(cluster: RunningCluster) -> None:
    cluster.claim("shared")
    cluster.node("a", "1xt4")
    cluster.node("b", "1xt4")
    cluster.pod("one", "a", claim="shared")
    claim = next(tree for tree in cluster.objects if tree["metadata"]["name"] == "shared")
    claim["status"]["reservedFor"].append({"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "train"})
    found = consolidated(cluster, "a")
    assert found.remove == ()
    assert kept_code(found, "a") == "claim-in-use"


def test_pods_with_anti_affinity_keep_their_nodes(cluster: RunningCluster) -> None:
    for name in ("a", "b"):
        cluster.node(name)
        cluster.pod(f"on-{name}", name, labels={"app": "db"}, affinity=anti_affinity({"app": "db"}))
    found = consolidated(cluster, "a", "b")
    assert found.remove == ()
    assert "anti-affinity" in found.stays[0].text


def test_topology_spread_over_zones_is_respected(cluster: RunningCluster) -> None:
    for number, zone in enumerate("aabb"):
        cluster.node(f"n{number}", zone=zone)
    rules = spread({"app": "web"}, "topology.kubernetes.io/zone")
    for node in ("n0", "n2"):
        cluster.pod(f"on-{node}", node, labels={"app": "web"}, topologySpreadConstraints=rules)
    found = consolidated(cluster, "n0")
    assert [move.target for move in found.moves] == ["n1"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"owner": ""}, "bare-pod"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "do-not-disrupt"),
        ({"annotations": {"allotment.dev/do-not-disrupt": "true"}}, "do-not-disrupt"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "do-not-disrupt"),
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "none"}}]}, "not-known"),
    ],
)
def test_pods_that_must_not_be_moved_keep_their_node(
    cluster: RunningCluster, change: dict[str, Any], code: str
) -> None:
    cluster.node("a")
    cluster.node("b")
    cluster.pod("one", "a", **change)
    found = consolidated(cluster, "a")
    assert found.remove == ()
    assert kept_code(found, "a") == code


def test_bare_pods_and_local_storage_can_be_allowed(cluster: RunningCluster) -> None:
    cluster.node("a")
    cluster.node("b")
    cluster.pod("one", "a", owner="", volumes=[{"name": "scratch", "emptyDir": {}}])
    found = consolidated(cluster, "a", policy=ConsolidationPolicy(budgets=ANY.budgets, bare_pods=True))
    assert found.moves[0].notes == ("the data in volume scratch is lost",)
    found = consolidated(
        cluster, "a", policy=ConsolidationPolicy(budgets=ANY.budgets, bare_pods=True, local_storage=False)
    )
    assert kept_code(found, "a") == "local-storage"


def test_nodes_can_be_excluded_from_consolidation(cluster: RunningCluster) -> None:
    cluster.node("a")["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "true"
    cluster.node("b")["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    cluster.node("c")
    found = consolidated(cluster, "a", "b", "c", kept={"c": "created 10s ago"})
    assert {kept.node: kept.code for kept in found.stays} == {
        "a": "do-not-disrupt", "b": "not-ready", "c": "kept",
    }  # fmt: skip


def test_pods_move_only_within_the_zone_of_their_volumes(cluster: RunningCluster) -> None:
    for name, zone in (("a", "x"), ("b", "y"), ("c", "x")):
        cluster.node(name, zone=zone)
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["x"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    cluster.objects += [
        {"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required": terms}}},
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"volumeName": "pv"},
        },
    ]
    cluster.pod("one", "a", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    assert [move.target for move in consolidated(cluster, "a").moves] == ["c"]


def test_pod_disruption_budgets_are_respected(cluster: RunningCluster) -> None:
    for name in ("a", "b", "c"):
        cluster.node(name)
        cluster.pod(f"on-{name}", name, labels={"app": "web"})
    cluster.disruption_budget("web", {"app": "web"}, minAvailable=2)
    found = consolidated(cluster, "a", "b", "c")
    assert len(found.moves) == 1
    assert {kept.code for kept in found.stays} == {"pdb"}


def test_pods_of_one_node_can_be_evicted_one_by_one(cluster: RunningCluster) -> None:
    for name in ("a", "b"):
        cluster.node(name)
    for name in ("one", "two"):
        cluster.pod(name, "a", labels={"app": "web"})
    budget = cluster.disruption_budget("web", {"app": "web"}, minAvailable=1)
    assert [move.pod.name for move in consolidated(cluster, "a").moves] == ["one", "two"]
    budget["spec"]["minAvailable"] = 2
    assert kept_code(consolidated(cluster, "a"), "a") == "pdb"


def test_the_status_of_a_disruption_budget_takes_precedence(cluster: RunningCluster) -> None:
    cluster.node("a")
    cluster.node("b")
    cluster.pod("one", "a", labels={"app": "web"})
    budget = cluster.disruption_budget("web", {"app": "web"}, minAvailable="0%")
    assert len(consolidated(cluster, "a").remove) == 1
    budget["status"] = {"observedGeneration": 1, "disruptionsAllowed": 0}
    assert kept_code(consolidated(cluster, "a"), "a") == "pdb"


def test_a_pod_with_two_budgets_is_never_evicted(cluster: RunningCluster) -> None:
    cluster.node("a")
    cluster.node("b")
    cluster.pod("one", "a", labels={"app": "web"})
    for name in ("x", "y"):
        cluster.disruption_budget(name, {"app": "web"}, minAvailable=0)
    assert kept_code(consolidated(cluster, "a"), "a") == "pdb"


@pytest.mark.parametrize(
    ("budgets", "gone"),
    [
        ((DisruptionBudget(nodes="1"),), 1),
        ((DisruptionBudget(nodes="50%"),), 2),
        ((DisruptionBudget(nodes="34%"), DisruptionBudget(nodes="0", reasons=("Underutilized",))), 2),
        ((DisruptionBudget(nodes="0"),), 0),
        ((), 4),
    ],
)
def test_budgets_limit_the_number_of_removed_nodes(
    cluster: RunningCluster, budgets: Sequence[DisruptionBudget], gone: int
) -> None:
    for name in "abcd":
        cluster.node(name)
    found = consolidated(cluster, *"abcd", policy=ConsolidationPolicy(budgets=tuple(budgets)))
    assert len(found.remove) == gone
    assert len(found.stays) == 4 - gone


def test_pending_pods_are_placed_first(cluster: RunningCluster) -> None:
    gpu = cluster.template("gpu")
    cluster.node("a", "1xt4")
    cluster.node("b", "1xt4")
    cluster.pod("worker", "a", template=gpu)
    cluster.pod("coming", template=gpu)
    found = consolidated(cluster, "a", "b")
    assert found.remove == ()
    assert kept_code(found, "b") == "pod-coming"


def test_a_saving_below_the_minimum_moves_no_pods(cluster: RunningCluster) -> None:
    cluster.node("a")
    cluster.node("b")
    cluster.node("c")
    cluster.pod("one", "a")
    found = consolidated(cluster, "a", "c", price="0.001")
    assert node_names(found.remove) == ["c"]
    assert kept_code(found, "a") == "too-little"


def test_an_unknown_price_counts_as_zero(cluster: RunningCluster) -> None:
    cluster.node("a")
    found = consolidate(
        cluster.objects,
        [OwnedNode(node="a", instance="x/y", usd_per_hour=None)],
        ANY,
        FEATURES,
        keep_going=step_limit(),
    )
    assert node_names(found.remove) == ["a"]
    assert found.saves == 0
    assert "a" in found.notes[0]


def test_without_time_no_pods_are_moved(cluster: RunningCluster) -> None:
    cluster.node("a")
    cluster.node("b")
    cluster.pod("one", "a")
    owned = [OwnedNode(node="a", instance="x/y", usd_per_hour=Decimal(1))]
    found = consolidate(cluster.objects, owned, ANY, FEATURES, keep_going=step_limit(0))
    assert found.remove == ()
    assert kept_code(found, "a") == "time"


def test_pending_pods_that_depend_on_others_are_placed_first(cluster: RunningCluster) -> None:
    """The first pod needs the zone of the second, which has a node there without capacity for both."""
    cluster.node("empty")
    cluster.node("db", cpu="1")
    near = {"podAffinity": anti_affinity({"app": "db"}, "topology.kubernetes.io/zone")["podAntiAffinity"]}
    cluster.pod("web", affinity=near, priority=1)
    cluster.pod("db", labels={"app": "db"}, nodeSelector={"kubernetes.io/hostname": "db"})
    found = consolidated(cluster, "empty")
    assert found.remove == ()
    assert kept_code(found, "empty") == "pod-coming"
