"""Before and after: what fitted fits, on the same kinds of device, or it is said which pod does not and why."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.tools.migrate.simulation.comparison import compare
from allotment.tools.migrate.target import MigrationStrategy
from tests.unit.tools.migrate.manifests import migrated, target, workload
from tests.unit.tools.migrate.trials import in_cluster, node, on_fleet, row, running, t4s, tried

GPU = {"nvidia.com/gpu": 1}
SHARED = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}


def test_nothing_is_compared_without_hardware() -> None:
    assert compare(migrated(workload(limits=GPU))) is None
    assert compare(migrated(workload(limits=GPU), to=target(fleet="l4"))) is not None


def test_a_pod_that_is_lost_is_told_with_its_reason() -> None:
    """With MIG strategy single pieces go by the name of GPUs: where nodes differ, nobody knows which are meant."""
    product = "NVIDIA-A100-SXM4-40GB-MIG-"
    nodes = [
        node(profile.replace(".", "-"), {"nvidia.com/gpu.product": product + profile}, nvidia_com_gpu=3)
        for profile in ("1g.5gb", "2g.10gb")
    ]
    one = row(in_cluster(workload(limits=GPU), objects=nodes))
    assert (one.fitted, one.fit, one.lost) == (1, 0, ("default/web-0",))
    assert str(one.before[0][0]) == "1 1g.5gb of A100-SXM4-40GB"
    assert 'no device has type "gpu"; the devices have "mig"' in one.reason


def test_partitions_that_go_by_the_name_of_gpus_are_asked_for() -> None:
    one = row(on_fleet(workload(limits={"amd.com/gpu": 1}), fleet="mi300x-8x-oam/cpx"))
    assert (one.fitted, one.fit, one.changed) == (1, 1, ())
    assert str(one.after[0][0]) == "1 cpx_nps1 of MI300X OAM"


def test_what_waits_before_and_after_is_no_loss() -> None:
    trial = tried(on_fleet(workload(spec={"replicas": 3}, limits=GPU), fleet="2xl4"))
    (one,) = trial.workloads
    assert (one.pods, one.fitted, one.fit, one.lost) == (3, 2, 2, ())
    assert trial.fine
    assert "nvidia.com/gpu (1 requested, 0 left)" in one.reason_before


def test_one_node_is_the_plugins_or_the_drivers() -> None:
    """Six shares of a GPU that four may share stay with the plugin; the other workload cannot have the same node."""
    crowd = workload(name="crowd", spec={"replicas": 6}, limits=GPU, nodeSelector=SHARED)
    plain = workload("StatefulSet", name="plain", limits=GPU, nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"})
    alone = tried(on_fleet(crowd, plain, fleet="t4-4x-pcie"))
    assert alone.kept == {"t4-4x-pcie-1": ("Deployment default/crowd",)}
    assert [one.fit for one in alone.workloads] == [6, 0]
    assert "keeps its device plugin for Deployment default/crowd" in alone.workloads[1].reason
    apart = tried(on_fleet(crowd, plain, fleet="t4-4x-pcie:2"))
    assert [one.fit for one in apart.workloads] == [6, 1]
    assert apart.moved == ("t4-4x-pcie-2",)


def test_labels_that_a_fleet_does_not_tell_are_taken_as_met() -> None:
    pool = workload(limits=GPU, nodeSelector={"pool": "gpu", "kubernetes.io/arch": "amd64"})
    trial = tried(on_fleet(pool, fleet="l4"))
    assert (trial.workloads[0].fitted, trial.workloads[0].fit) == (1, 1)
    assert trial.assumed == {"pool=gpu": ("Deployment default/web",)}
    arm = workload(limits=GPU, nodeSelector={"kubernetes.io/arch": "arm64"})
    assert row(on_fleet(arm, fleet="l4")).fit == 0


def test_labels_of_clusters_are_what_they_are() -> None:
    pool = workload(limits=GPU, nodeSelector={"pool": "gpu"})
    one = row(in_cluster(pool, objects=[t4s("n1")]))
    assert (one.fitted, one.fit) == (0, 0)
    assert "nodeSelector pool=gpu" in one.reason_before


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_workloads_of_every_kind_are_tried(kind: str) -> None:
    one = row(on_fleet(workload(kind, limits=GPU), fleet="l4", strategy="claims"))
    assert (one.pods, one.fitted, one.fit) == (1, 1, 1)


def test_a_daemon_set_has_pods_on_the_nodes_that_its_labels_choose() -> None:
    """Its labels stay: as claims they would leave a waiting pod on every other node."""
    text = workload("DaemonSet", limits=GPU, nodeSelector={"nvidia.com/gpu.family": "ada-lovelace"})
    one = row(on_fleet(text, fleet="l4:2,t4"))
    assert (one.pods, one.fitted, one.fit) == (2, 2, 2)


def test_two_workloads_of_one_name_are_two() -> None:
    texts = [workload(kind, name="web", limits=GPU) for kind in ("Deployment", "StatefulSet")]
    assert [one.fit for one in tried(on_fleet(*texts, fleet="2xl4", strategy="claims")).workloads] == [1, 1]
    assert sum(one.fit for one in tried(on_fleet(*texts, fleet="l4", strategy="claims")).workloads) == 1


# --- clusters --------------------------------------------------------------------------------------------------------


def test_what_a_driver_would_publish_is_taken_from_labels() -> None:
    trial = tried(
        in_cluster(workload(spec={"replicas": 5}, limits=GPU), objects=[t4s("n1"), t4s("n2")], strategy="claims")
    )
    (one,) = trial.workloads
    assert (one.fitted, one.fit, one.changed) == (5, 5, ())
    assert str(one.after[0][0]) == "1 Tesla T4"
    assert trial.expected == ("n1", "n2")


def test_a_node_that_tells_too_little_is_dark() -> None:
    trial = tried(in_cluster(workload(limits=GPU), objects=[node("n1", nvidia_com_gpu=2)]))
    assert trial.dark == ("n1",)
    assert trial.workloads[0].lost == ("default/web-0",)


def test_pods_that_run_hold_their_gpus() -> None:
    """Those of the workload itself are tried anew; those of others stay as long as no class serves them."""
    cluster = [
        t4s("n1", gpus=2), t4s("n2", gpus=2),
        running("other", "n1", nvidia_com_gpu=1), running("web-5d-x", "n2", ("ReplicaSet", "web-5d"), nvidia_com_gpu=2),
    ]  # fmt: skip
    text = workload(spec={"replicas": 3}, limits=GPU)
    served = tried(in_cluster(text, objects=cluster))
    assert served.others == ("Pod default/other",)
    assert (served.workloads[0].fitted, served.workloads[0].fit, served.kept) == (3, 3, {})
    old = tried(in_cluster(text, objects=cluster, kube="1.35", strategy="claims"))
    assert old.kept == {"n1": ("Pod default/other",)}
    assert (old.workloads[0].fitted, old.workloads[0].fit) == (3, 2)


def test_shares_of_a_cluster_are_what_labels_say() -> None:
    one = row(in_cluster(workload(spec={"replicas": 3}, limits=GPU), objects=[t4s("n1", gpus=1, shared=4)]))
    assert (one.fitted, one.fit, one.outcome) == (3, 3, "claim")
    assert str(one.before[0][0]) == str(one.after[0][0]) == "1 share of Tesla T4"


@given(
    pods=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4),
    nodes=st.integers(1, 3),
    strategy=st.sampled_from(get_args(MigrationStrategy)),
)
def test_counts_place_alike_both_ways(pods: list[tuple[int, int]], nodes: int, strategy: MigrationStrategy) -> None:
    """Whole GPUs by count: first fit by the plugin's counts is first fit by devices."""
    texts = [
        workload(name=f"w{n}", spec={"replicas": replicas}, limits={"nvidia.com/gpu": count})
        for n, (replicas, count) in enumerate(pods)
    ]
    trial = tried(on_fleet(*texts, fleet=f"4xt4:{nodes}", strategy=strategy))
    for one in trial.workloads:
        assert (one.fitted, one.lost, one.changed) == (one.fit, (), ())
