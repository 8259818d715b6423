"""The pre-flight: what must hold before the new manifests are applied, as far as what was given tells it."""

from __future__ import annotations

import re

import pytest

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.core import Namespace
from allotment.model.meta import Object, ObjectMeta
from allotment.model.serialization import to_yaml
from allotment.model.workloads import DaemonSet
from allotment.tools.migrate.preflight.check import Check
from allotment.tools.migrate.preflight.checks import checks_of
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.simulation.comparison import compare
from allotment.tools.migrate.target import Target
from tests.unit.tools.migrate.manifests import migrated, target, workload
from tests.unit.tools.migrate.trials import in_cluster, on_fleet, running, t4s

GPU = {"nvidia.com/gpu": 1}
PRODUCT = {"nvidia.com/gpu.product": "Tesla-T4"}


def checks(migration: Migration) -> tuple[Check, ...]:
    return checks_of(migration, compare(migration))


def one(migration: Migration, title: str) -> Check:
    found = [check for check in checks(migration) if title in check.title]
    assert len(found) == 1, [check.title for check in checks(migration)]
    return found[0]


def driven(*names: str) -> list[Object]:
    """Slices and classes as the driver on these nodes has them."""
    cluster = cluster_of(parse_fleet([",".join(f"{name}=4xt4" for name in names)]))
    return [*cluster.slices, *cluster.classes]


# --- Kubernetes and drivers ------------------------------------------------------------------------------------------


def test_an_old_kubernetes_is_to_be_upgraded() -> None:
    migration = migrated(workload(limits=GPU), to=target("1.36"))
    assert one(migration, "Kubernetes 1.36").state == "ok"
    migration = migrated(workload(limits=GPU), to=Target(kube="1.31", features=None))
    assert one(migration, "Kubernetes 1.31").state == "to do"


def test_gates_that_are_on_by_default_are_fine() -> None:
    assert one(migrated(workload(limits=GPU)), "DRAExtendedResource").state == "ok"
    early = migrated(workload(limits=GPU), to=target("1.35", DRAExtendedResource=True))
    assert one(early, "DRAExtendedResource").state == "cannot tell"
    assert "kube-scheduler" in one(early, "DRAExtendedResource").text


def test_the_driver_is_installed_where_its_slices_are() -> None:
    text = workload(limits=GPU, nodeSelector=PRODUCT)
    assert one(on_fleet(text, fleet="t4"), "driver gpu.nvidia.com").state == "cannot tell"
    bare = one(in_cluster(text, objects=[t4s("n1")]), "driver gpu.nvidia.com")
    assert bare.state == "to do"
    assert any("gpuResourcesEnabledOverride=true" in line for line in bare.commands)
    some = one(in_cluster(text, objects=[t4s("n1"), t4s("n2"), *driven("n1")]), "driver gpu.nvidia.com")
    assert (some.state, "none for n2" in some.text) == ("to do", True)
    both = [*driven("n1"), t4s("n1", gpus=0)]
    assert one(in_cluster(text, objects=both), "driver gpu.nvidia.com").state == "ok"


@pytest.mark.parametrize(
    ("limits", "driver"), [({"amd.com/gpu": 1}, "gpu.amd.com"), ({"gpu.intel.com/xe": 1}, "gpu.intel.com")]
)
def test_every_vendor_has_a_driver(limits: dict[str, int], driver: str) -> None:
    check = one(migrated(workload(limits=limits)), "driver ")
    assert check.title == f"driver {driver}"
    assert any("helm" in line for line in check.commands)


# --- the greatest danger ---------------------------------------------------------------------------------------------


def test_a_node_with_both_systems_is_a_danger_now() -> None:
    check = one(in_cluster(workload(limits=GPU), objects=[t4s("n1"), *driven("n1")]), "the same GPU twice")
    assert (check.state, check.danger) == ("to do", True)
    assert "n1" in check.text
    assert any("nvidia.com/gpu.deploy.device-plugin=false" in line for line in check.commands)


def test_nodes_move_one_by_one() -> None:
    check = one(in_cluster(workload(limits=GPU), objects=[t4s("n1"), t4s("n2")]), "the same GPU twice")
    assert (check.state, check.danger) == ("to do", False)
    assert "n1, n2" in check.text


def test_where_no_plugin_runs_nothing_is_given_twice() -> None:
    assert one(in_cluster(workload(limits=GPU), objects=[*driven("n1")]), "the same GPU twice").state == "ok"


def test_a_plugin_of_its_own_is_told_by_name() -> None:
    plugin = DaemonSet(metadata=ObjectMeta(name="nvidia-device-plugin-daemonset", namespace="kube-system"))
    check = one(in_cluster(workload(limits=GPU), objects=[t4s("n1"), plugin]), "the same GPU twice")
    assert any("patch daemonset nvidia-device-plugin-daemonset" in line for line in check.commands)


def test_pods_of_others_must_go_before_their_node_moves() -> None:
    cluster = [t4s("n1"), running("other", "n1", nvidia_com_gpu=1)]
    assert "Pod default/other" in one(in_cluster(workload(limits=GPU), objects=cluster), "pods outside the files").text


# --- what the manifests need -----------------------------------------------------------------------------------------

SHARED = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}


def test_mps_needs_a_gate_of_the_driver() -> None:
    check = one(migrated(workload(limits={"nvidia.com/gpu.shared": 1}, nodeSelector=SHARED)), "driver gate")
    assert (check.title, "Deployment default/web" in check.text) == ("driver gate MPSSupport", True)
    assert any("featureGates.MPSSupport=true" in line for line in check.commands)


def test_dynamic_mig_needs_a_gate_of_the_driver() -> None:
    migration = on_fleet(workload(limits={"nvidia.com/mig-1g.5gb": 1}), fleet="dgx-a100-40gb/dynamic-mig")
    assert one(migration, "driver gate DynamicMIG").state == "cannot tell"


def test_mig_devices_must_be_cut() -> None:
    text = workload(limits={"nvidia.com/mig-1g.5gb": 1})
    assert one(migrated(text), "MIG 1g.5gb").state == "cannot tell"
    assert one(in_cluster(text, objects=[t4s("n1"), *driven("n1")]), "MIG 1g.5gb").state == "to do"
    cut = cluster_of(parse_fleet(["dgx-a100-40gb/static-mig=1g.5gb:7"]))
    assert one(in_cluster(text, objects=[*cut.nodes, *cut.slices, *cut.classes]), "MIG 1g.5gb").state == "ok"


def test_admin_access_needs_a_label() -> None:
    text = workload("DaemonSet", limits={"gpu.intel.com/xe_monitoring": 1})
    assert one(migrated(text), "admin access").commands == (
        "kubectl label namespace default resource.kubernetes.io/admin-access=true",
    )
    labels = {"resource.kubernetes.io/admin-access": "true"}
    there = Namespace(metadata=ObjectMeta(name="default", labels=labels))
    assert one(in_cluster(text, objects=[there]), "admin access").state == "ok"


def quota(**hard: int) -> str:
    named = {key.replace("__", "/").replace("_", "."): str(value) for key, value in hard.items()}
    tree = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": named}}
    return to_yaml([tree])


def test_quotas_of_the_old_name_are_told() -> None:
    text = workload(limits=GPU, nodeSelector=PRODUCT)
    check = one(migrated(text, quota(requests_nvidia_com__gpu=4)), "quotas")
    assert (check.state, "gpu.nvidia.com.deviceclass.resource.k8s.io/devices" in check.text) == ("to do", True)
    done = {"requests_nvidia_com__gpu": 4, "gpu_nvidia_com_deviceclass_resource_k8s_io__devices": 4}
    assert one(migrated(text, quota(**done)), "quotas").state == "cannot tell"
    served = [check for check in checks(migrated(workload(limits=GPU))) if check.title == "quotas"]
    assert served == []  # the pods still request the old name


def test_what_a_chart_renders_is_changed_in_the_chart() -> None:
    text = workload(limits=GPU, nodeSelector=PRODUCT).replace(
        "  name: web\n", "  name: web\n  labels: {helm.sh/chart: app-1.2}\n", 1
    )
    assert "app-1.2" in one(migrated(text), "Helm").text


def test_autoscalers_of_the_files_are_told() -> None:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": spec,
    }
    check = one(migrated(workload(limits=GPU, nodeSelector=PRODUCT), to_yaml([scaler])), "metrics by pod")
    assert ("HorizontalPodAutoscaler h" in check.text, check.usual) == (True, False)


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fleet", ["", "t4-4x-pcie", "dgx-a100-40gb/dynamic-mig"])
def test_every_check_says_what_to_do(fleet: str) -> None:
    texts = [
        workload(name="a", limits=GPU, nodeSelector=PRODUCT),
        workload(name="b", limits={"nvidia.com/mig-1g.5gb": 1}),
    ]
    found = checks(on_fleet(*texts, fleet=fleet) if fleet else migrated(*texts))
    assert found
    for check in found:
        assert check.text.endswith((".", "?"))
        if check.state == "to do":
            assert check.commands or check.look or check.title in ("Helm", "Argo CD", "quotas")
        if check.state == "cannot tell":
            assert check.look


def test_nothing_is_checked_where_nothing_is_asked() -> None:
    assert checks(migrated(workload(limits={"cpu": 1}))) == ()


def test_commands_go_on_only_after_a_backslash() -> None:
    """A line that is not the beginning of a command follows one that ends with a backslash."""
    migration = migrated(workload(limits=GPU, nodeSelector=PRODUCT), workload(name="b", limits={"amd.com/gpu": 1}))
    for check in checks(migration):
        for before, line in zip(("", *check.commands), check.commands, strict=False):
            assert before.endswith("\\") or re.match(r"(kubectl|helm|#) ", line), (before, line)
