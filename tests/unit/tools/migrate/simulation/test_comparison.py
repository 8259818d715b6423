"""Pods that fit before fit after, on the same kinds of device; otherwise the result names the pod and the reason."""

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


def test_without_hardware_nothing_is_compared() -> None:
    assert compare(migrated(workload(limits=GPU))) is None
    assert compare(migrated(workload(limits=GPU), to=target(fleet="l4"))) is not None


def test_a_lost_pod_is_reported_with_its_reason() -> None:
    """With MIG strategy single, partitions have the resource name of GPUs; if nodes differ, the profile is unknown."""
    product = "NVIDIA-A100-SXM4-40GB-MIG-"
    nodes = [
        node(profile.replace(".", "-"), {"nvidia.com/gpu.product": product + profile}, nvidia_com_gpu=3)
        for profile in ("1g.5gb", "2g.10gb")
    ]
    compared = row(in_cluster(workload(limits=GPU), objects=nodes))
    assert (compared.fitted, compared.fit, compared.lost) == (1, 0, ("default/web-0",))
    assert str(compared.before[0][0]) == "1 1g.5gb of A100-SXM4-40GB"
    assert 'no device has type "gpu"; the devices have "mig"' in compared.reason


def test_partitions_with_the_resource_name_of_gpus_are_requested() -> None:
    compared = row(on_fleet(workload(limits={"amd.com/gpu": 1}), fleet="mi300x-8x-oam/cpx"))
    assert (compared.fitted, compared.fit, compared.changed) == (1, 1, ())
    assert str(compared.after[0][0]) == "1 cpx_nps1 of MI300X OAM"


def test_a_pod_pending_before_and_after_is_not_lost() -> None:
    trial = tried(on_fleet(workload(spec={"replicas": 3}, limits=GPU), fleet="2xl4"))
    (compared,) = trial.workloads
    assert (compared.pods, compared.fitted, compared.fit, compared.lost) == (3, 2, 2, ())
    assert trial.fine
    assert "nvidia.com/gpu (1 requested, 0 left)" in compared.reason_before


def test_a_node_runs_the_plugin_or_the_driver() -> None:
    """Six pods on GPUs that four pods share stay with the plugin; the other workload cannot use the same node."""
    sharing = workload(name="sharing", spec={"replicas": 6}, limits=GPU, nodeSelector=SHARED)
    plain = workload("StatefulSet", name="plain", limits=GPU, nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"})
    one_node = tried(on_fleet(sharing, plain, fleet="t4-4x-pcie"))
    assert one_node.kept == {"t4-4x-pcie-1": ("Deployment default/sharing",)}
    assert [compared.fit for compared in one_node.workloads] == [6, 0]
    assert "keeps its device plugin for Deployment default/sharing" in one_node.workloads[1].reason
    two_nodes = tried(on_fleet(sharing, plain, fleet="t4-4x-pcie:2"))
    assert [compared.fit for compared in two_nodes.workloads] == [6, 1]
    assert two_nodes.moved == ("t4-4x-pcie-2",)


def test_labels_unknown_for_a_fleet_are_assumed_to_match() -> None:
    pool = workload(limits=GPU, nodeSelector={"pool": "gpu", "kubernetes.io/arch": "amd64"})
    trial = tried(on_fleet(pool, fleet="l4"))
    assert (trial.workloads[0].fitted, trial.workloads[0].fit) == (1, 1)
    assert trial.assumed == {"pool=gpu": ("Deployment default/web",)}
    arm = workload(limits=GPU, nodeSelector={"kubernetes.io/arch": "arm64"})
    assert row(on_fleet(arm, fleet="l4")).fit == 0


def test_labels_of_clusters_are_not_assumed() -> None:
    pool = workload(limits=GPU, nodeSelector={"pool": "gpu"})
    compared = row(in_cluster(pool, objects=[t4s("n1")]))
    assert (compared.fitted, compared.fit) == (0, 0)
    assert "nodeSelector pool=gpu" in compared.reason_before


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_workloads_of_every_kind_are_simulated(kind: str) -> None:
    compared = row(on_fleet(workload(kind, limits=GPU), fleet="l4", strategy="claims"))
    assert (compared.pods, compared.fitted, compared.fit) == (1, 1, 1)


def test_a_daemon_set_has_pods_on_the_nodes_that_its_labels_select() -> None:
    """Its labels are kept: converted to claims, they would leave a pending pod on every other node."""
    text = workload("DaemonSet", limits=GPU, nodeSelector={"nvidia.com/gpu.family": "ada-lovelace"})
    compared = row(on_fleet(text, fleet="l4:2,t4"))
    assert (compared.pods, compared.fitted, compared.fit) == (2, 2, 2)


def test_workloads_with_the_same_name_are_distinct() -> None:
    texts = [workload(kind, name="web", limits=GPU) for kind in ("Deployment", "StatefulSet")]
    assert [compared.fit for compared in tried(on_fleet(*texts, fleet="2xl4", strategy="claims")).workloads] == [1, 1]
    assert sum(compared.fit for compared in tried(on_fleet(*texts, fleet="l4", strategy="claims")).workloads) == 1


# --- clusters --------------------------------------------------------------------------------------------------------


def test_expected_slices_are_derived_from_labels() -> None:
    trial = tried(
        in_cluster(workload(spec={"replicas": 5}, limits=GPU), objects=[t4s("n1"), t4s("n2")], strategy="claims")
    )
    (compared,) = trial.workloads
    assert (compared.fitted, compared.fit, compared.changed) == (5, 5, ())
    assert str(compared.after[0][0]) == "1 Tesla T4"
    assert trial.expected == ("n1", "n2")


def test_a_node_with_insufficient_labels_is_dark() -> None:
    trial = tried(in_cluster(workload(limits=GPU), objects=[node("n1", nvidia_com_gpu=2)]))
    assert trial.dark == ("n1",)
    assert trial.workloads[0].lost == ("default/web-0",)


def test_running_pods_keep_their_gpus() -> None:
    """Pods of the workload itself are placed again; other pods stay unless a class serves them."""
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


def test_shares_in_a_cluster_are_read_from_labels() -> None:
    compared = row(in_cluster(workload(spec={"replicas": 3}, limits=GPU), objects=[t4s("n1", gpus=1, shared=4)]))
    assert (compared.fitted, compared.fit, compared.outcome) == (3, 3, "claim")
    assert str(compared.before[0][0]) == str(compared.after[0][0]) == "1 share of Tesla T4"


@given(
    pods=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4),
    nodes=st.integers(1, 3),
    strategy=st.sampled_from(get_args(MigrationStrategy)),
)
def test_whole_gpus_are_placed_equally_before_and_after(
    pods: list[tuple[int, int]], nodes: int, strategy: MigrationStrategy
) -> None:
    """For whole GPUs by count, first fit by the plugin's counts equals first fit by devices."""
    texts = [
        workload(name=f"w{n}", spec={"replicas": replicas}, limits={"nvidia.com/gpu": count})
        for n, (replicas, count) in enumerate(pods)
    ]
    trial = tried(on_fleet(*texts, fleet=f"4xt4:{nodes}", strategy=strategy))
    for compared in trial.workloads:
        assert (compared.fitted, compared.lost, compared.changed) == (compared.fit, (), ())
