"""The decision for a workload, by its requests, its labels and the target."""

from __future__ import annotations

import pytest

from allotment.tools.migrate.target import MigrationStrategy, Target
from tests.unit.tools.migrate.manifests import migrated, only, target, workload
from tests.unit.tools.migrate.trials import in_cluster, node

GPU = {"nvidia.com/gpu": 1}
SHARED = {"nvidia.com/gpu.shared": 1}
MIG = {"nvidia.com/mig-1g.5gb": 1}
MPS = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}


# --- whole GPUs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "outcome"),
    [
        (target("1.36"), "class"),
        (target("1.35"), "leave"),
        (target("1.35", DRAExtendedResource=True), "class"),
        (target("1.36", DRAExtendedResource=False), "leave"),
        (target("1.36", strategy="claims"), "template"),
        (target("1.35", strategy="class"), "leave"),
        (Target(kube="1.33", features=None), "leave"),
        (Target(kube="1.33", features=None, strategy="claims"), "leave"),
    ],
)
def test_gpus_requested_only_by_count(to: Target, outcome: str) -> None:
    assert only(workload(limits=GPU), to=to).decision.outcome == outcome


def test_a_label_that_selects_a_model_leads_to_a_template() -> None:
    workload_ = only(workload(limits=GPU, nodeSelector=A100))
    assert workload_.decision.outcome == "template"
    assert "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB" in workload_.decision.reason


def test_a_label_without_a_device_attribute_leads_to_no_template() -> None:
    workload_ = only(workload(limits=GPU, nodeSelector={"nvidia.com/gpu.count": "8"}))
    assert workload_.decision.outcome == "class"
    assert workload_.labels[0].why == "the manifest stays as it is"


def test_strategy_class_keeps_labels() -> None:
    migration = migrated(workload(limits=GPU, nodeSelector=A100), to=target(strategy="class"))
    assert migration.workloads[0].decision.outcome == "class"
    assert migration.texts == {}


def test_match_attribute_adds_a_constraint_for_several_gpus_only() -> None:
    to = target(same="resource.kubernetes.io/pcieRoot")
    assert only(workload(limits=GPU), to=to).decision.outcome == "class"
    migration = migrated(workload(limits={"nvidia.com/gpu": 2}), to=to)
    assert "- matchAttribute: resource.kubernetes.io/pcieRoot" in migration.new_objects[0].text


def test_a_class_is_added_if_none_has_the_resource_name() -> None:
    amd = migrated(workload(limits={"amd.com/gpu": 2}), to=target(fleet="mi300x-8x-oam"))
    assert amd.workloads[0].decision.outcome == "class"
    assert [device_class.name for device_class in amd.classes] == ["whole.gpu.amd.com"]
    assert "extendedResourceName: amd.com/gpu" in amd.classes[0].text
    existing = migrated(workload(limits={"amd.com/gpu": 2}), to=target(fleet="mi300x-8x-oam/auto"))
    assert existing.classes == ()
    assert existing.workloads[0].decision.needs.classes == ("gpu.amd.com-spx",)


# --- partitions ------------------------------------------------------------------------------------------------------


def test_a_mig_profile_is_requested_by_name() -> None:
    migration = migrated(workload(limits=MIG))
    assert migration.workloads[0].decision.outcome == "template"
    assert 'profile == "1g.5gb"' in migration.new_objects[0].text


def test_strategy_class_adds_a_class_for_a_profile() -> None:
    migration = migrated(workload(limits={"nvidia.com/mig-1g.10gb.me": 1}), to=target(strategy="class"))
    assert migration.texts == {}
    assert [device_class.name for device_class in migration.classes] == ["mig-1g-10gb-me.nvidia.com"]
    assert "extendedResourceName: nvidia.com/mig-1g.10gb.me" in migration.classes[0].text


@pytest.mark.parametrize(
    "selector",
    [
        {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
        {"nvidia.com/mig.config": "all-1g.5gb"},
    ],
)
def test_a_gpu_on_nodes_labelled_as_partitioned_is_a_partition(selector: dict[str, str]) -> None:
    assert 'profile == "1g.5gb"' in migrated(workload(limits=GPU, nodeSelector=selector)).new_objects[0].text


def test_a_container_cannot_name_two_of_three_requests() -> None:
    both = {"name": "a", "image": "i", "resources": {"limits": {**GPU, **MIG}}}
    whole = {"name": "b", "image": "i", "resources": {"limits": GPU}}
    assert only(workload(containers=[both])).decision.outcome == "template"
    assert only(workload(containers=[both, whole])).decision.outcome == "cannot"


# --- shares ----------------------------------------------------------------------------------------------------------


def shared(name: str, pods: int, kind: str = "Deployment", **selector: str) -> str:
    """A workload with shares of GPUs that four pods share with MPS."""
    return workload(kind, name, spec={"replicas": pods}, limits=SHARED, nodeSelector={**MPS, **selector})


def test_pods_of_several_workloads_share_a_gpu_in_order() -> None:
    migration = migrated(shared("a", 2), shared("b", 3), shared("c", 2), shared("d", 1))
    assert [workload_.claim_name for workload_ in migration.workloads] == [
        "shared-gpu",
        "shared-gpu-2",
        "shared-gpu",
        "shared-gpu-2",
    ]


def test_different_workloads_do_not_share_a_claim() -> None:
    migration = migrated(shared("a", 2), shared("b", 2, **A100))
    assert [workload_.claim_name for workload_ in migration.workloads] == ["a-gpu", "b-gpu"]
    assert "defaultPinnedDeviceMemoryLimit: 10240Mi" in migration.new_objects[1].text
    assert "defaultPinnedDeviceMemoryLimit" in migration.new_objects[0].text.partition("#")[2]  # mentioned, not set
    assert migration.workloads[0].decision.needs.driver_gates[0].name == "MPSSupport"


def test_more_pods_than_shares_cannot_be_migrated() -> None:
    workload_ = only(shared("a", 5))
    assert workload_.decision.outcome == "cannot"
    assert "5 shares" in workload_.decision.reason
    assert "2 workloads" in workload_.decision.hint


@pytest.mark.parametrize("pods", [1, 4, 5, 40])
def test_capacity_sharing_gives_every_pod_its_own_claim(pods: int) -> None:
    migration = migrated(shared("a", pods), to=target(fleet="dgx-a100-40gb/shared"))
    assert migration.workloads[0].decision.outcome == "template"
    assert "memory: 10240Mi" in migration.new_objects[0].text


def test_share_capacity_is_requested_by_count() -> None:
    migration = migrated(shared("a", 9), to=target(fleet="dgx-a100-40gb/consumable-shares=4"))
    assert "shares: '1'" in migration.new_objects[0].text


def test_a_daemon_set_of_shares_requires_consumable_capacity() -> None:
    text = workload("DaemonSet", limits=SHARED, nodeSelector=MPS)
    assert only(text).decision.outcome == "cannot"
    assert only(text, to=target(fleet="l4/shared")).decision.outcome == "template"


def test_the_number_of_pods_per_gpu_must_be_specified() -> None:
    text = workload(spec={"replicas": 2}, limits=SHARED)
    unknown = only(text)
    assert unknown.decision.outcome == "cannot"
    assert "--shares" in unknown.decision.hint
    assert only(text, to=target(shares=2)).decision.outcome == "claim"


CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: plugin}
data:
  a: |
    sharing:
      timeSlicing:
        %s
        resources: [{name: nvidia.com/gpu, replicas: 3}]
"""


def test_sharing_is_read_from_the_plugins_config_map() -> None:
    plain, renamed = CONFIG % "failRequestsGreaterThanOne: true", CONFIG % "renameByDefault: true"
    assert only(plain, workload(limits=GPU)).decision.outcome == "claim"
    assert only(renamed, workload(limits=GPU)).decision.outcome == "class"
    assert only(renamed, workload(limits=SHARED)).decision.outcome == "claim"
    # Feature discovery adds a suffix to the product of GPUs that are shared without another resource name.
    assert only(plain, workload(limits=GPU, nodeSelector=A100)).decision.outcome == "template"


def test_a_share_and_a_gpu_in_one_pod_cannot_be_migrated() -> None:
    assert only(workload(limits={**SHARED, **MIG}, nodeSelector=MPS)).decision.outcome == "cannot"


def test_two_containers_with_shares_use_one_gpu() -> None:
    containers = [{"name": name, "image": "i", "resources": {"limits": SHARED}} for name in "ab"]
    migration = migrated(workload(containers=containers, nodeSelector=MPS))
    assert migration.new_objects[0].text.count("deviceClassName") == 1
    assert only(workload(containers=containers, nodeSelector=MPS, spec={"replicas": 3})).decision.outcome == "cannot"


# --- fractions -------------------------------------------------------------------------------------------------------

FRACTION = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}


def test_without_a_cluster_hamis_driver_serves_fractions() -> None:
    text = migrated(workload(limits=FRACTION)).new_objects[0].text
    assert "deviceClassName: hami-core-gpu.project-hami.io" in text
    assert "memory: 3000Mi" in text
    assert "cores: '30'" in text


def test_shared_gpus_of_the_fleet_serve_memory_and_core_limits_are_reported_as_lost() -> None:
    migration = migrated(workload(limits=FRACTION), to=target(fleet="l4/shared"))
    assert "memory: 3000Mi" in migration.new_objects[0].text
    assert "cores:" not in migration.new_objects[0].text
    assert "30% of the cores no longer applies" in migration.workloads[0].decision.reason


def test_a_fleet_without_sharing_cannot_serve_fractions() -> None:
    assert only(workload(limits=FRACTION), to=target(fleet="l4")).decision.outcome == "cannot"


def test_fractions_require_consumable_capacity() -> None:
    assert only(workload(limits=FRACTION), to=target("1.35")).decision.outcome == "leave"


def test_a_percentage_requires_a_model() -> None:
    limits = {"nvidia.com/gpumem-percentage": 50}
    assert only(workload(limits=limits)).decision.outcome == "cannot"
    assert "memory: 20480Mi" in migrated(workload(limits=limits, nodeSelector=A100)).new_objects[0].text


def test_a_part_of_an_intel_gpu_cannot_be_migrated() -> None:
    assert (
        only(workload(limits={"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 200})).decision.outcome == "cannot"
    )


def test_monitoring_is_admin_access() -> None:
    migration = migrated(workload("DaemonSet", limits={"gpu.intel.com/xe_monitoring": 1}))
    assert "adminAccess: true" in migration.new_objects[0].text
    assert migration.workloads[0].decision.needs.admin_namespaces == ("default",)


# --- notes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "word"),
    [
        ("Job", {}, "create it again"),
        ("Deployment", {}, "maxSurge"),
        ("ReplicaSet", {}, "one by one"),
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, "OnDelete"),
    ],
)
def test_a_note_describes_how_a_kind_applies_its_new_template(kind: str, spec: dict[str, object], word: str) -> None:
    assert any(word in note for note in only(workload(kind, spec=spec, limits=MIG)).notes)


@pytest.mark.parametrize("strategy", [{"type": "Recreate"}, {"rollingUpdate": {"maxSurge": 0}}])
def test_a_deployment_without_surge_needs_no_additional_gpu(strategy: dict[str, object]) -> None:
    assert not any("maxSurge" in note for note in only(workload(spec={"strategy": strategy}, limits=MIG)).notes)


def test_kept_labels_are_reported() -> None:
    selector = {"nvidia.com/gpu.count": "8", **A100}
    text = workload(limits={**GPU, "nvidia.com/hostdev": 1}, nodeSelector=selector, schedulerName="volcano")
    notes = " ".join(only(text).notes)
    for word in ("volcano", "nvidia.com/gpu.count=8 stays", "nvidia.com/hostdev"):
        assert word in notes


def test_strategy_single_is_read_from_the_nodes() -> None:
    """``nvidia.com/gpu`` is a MIG device if all GPUs on all nodes that a pod may use have the same partitions."""
    product = "nvidia.com/gpu.product"
    cut = {product: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/mig.strategy": "single", "pool": "small"}
    nodes = [node("n1", cut, nvidia_com_gpu=7), node("n2", {product: "Tesla-T4", "pool": "big"}, nvidia_com_gpu=1)]
    small = in_cluster(workload(limits=GPU, nodeSelector={"pool": "small"}), objects=nodes).workloads[0]
    assert small.decision.outcome == "template"
    assert small.containers[0].requests[0].profile == "1g.5gb"
    for selector in ({"pool": "big"}, {}):
        whole = in_cluster(workload(limits=GPU, nodeSelector=selector), objects=nodes).workloads[0]
        assert whole.containers[0].requests[0].profile == ""


@pytest.mark.parametrize("strategy", ["class", "claims"])
def test_preemption_does_not_free_devices(strategy: MigrationStrategy) -> None:
    workload_ = only(workload(limits=GPU, priorityClassName="high"), to=target(strategy=strategy))
    assert any("priorityClassName high" in note for note in workload_.notes)
