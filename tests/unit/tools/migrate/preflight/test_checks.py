"""The pre-flight checks report unmet requirements of the new manifests, as far as the input shows them."""

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


def check_of(migration: Migration, title: str) -> Check:
    found = [check for check in checks(migration) if title in check.title]
    assert len(found) == 1, [check.title for check in checks(migration)]
    return found[0]


def driven(*names: str) -> list[Object]:
    """Slices and classes of a driver on these nodes."""
    cluster = cluster_of(parse_fleet([",".join(f"{name}=4xt4" for name in names)]))
    return [*cluster.slices, *cluster.classes]


# --- Kubernetes and drivers ------------------------------------------------------------------------------------------


def test_an_old_kubernetes_must_be_upgraded() -> None:
    migration = migrated(workload(limits=GPU), to=target("1.36"))
    assert check_of(migration, "Kubernetes 1.36").state == "ok"
    migration = migrated(workload(limits=GPU), to=Target(kube="1.31", features=None))
    assert check_of(migration, "Kubernetes 1.31").state == "to do"


def test_gates_on_by_default_pass() -> None:
    assert check_of(migrated(workload(limits=GPU)), "DRAExtendedResource").state == "ok"
    early = migrated(workload(limits=GPU), to=target("1.35", DRAExtendedResource=True))
    assert check_of(early, "DRAExtendedResource").state == "cannot tell"
    assert "kube-scheduler" in check_of(early, "DRAExtendedResource").text


def test_a_driver_is_installed_on_nodes_with_its_slices() -> None:
    text = workload(limits=GPU, nodeSelector=PRODUCT)
    assert check_of(on_fleet(text, fleet="t4"), "driver gpu.nvidia.com").state == "cannot tell"
    bare = check_of(in_cluster(text, objects=[t4s("n1")]), "driver gpu.nvidia.com")
    assert bare.state == "to do"
    assert any("gpuResourcesEnabledOverride=true" in line for line in bare.commands)
    some = check_of(in_cluster(text, objects=[t4s("n1"), t4s("n2"), *driven("n1")]), "driver gpu.nvidia.com")
    assert (some.state, "none for n2" in some.text) == ("to do", True)
    both = [*driven("n1"), t4s("n1", gpus=0)]
    assert check_of(in_cluster(text, objects=both), "driver gpu.nvidia.com").state == "ok"


@pytest.mark.parametrize(
    ("limits", "driver"), [({"amd.com/gpu": 1}, "gpu.amd.com"), ({"gpu.intel.com/xe": 1}, "gpu.intel.com")]
)
def test_every_vendor_has_a_driver(limits: dict[str, int], driver: str) -> None:
    check = check_of(migrated(workload(limits=limits)), "driver ")
    assert check.title == f"driver {driver}"
    assert any("helm" in line for line in check.commands)


# --- double allocation -----------------------------------------------------------------------------------------------


def test_a_node_with_plugin_and_driver_is_an_immediate_danger() -> None:
    check = check_of(in_cluster(workload(limits=GPU), objects=[t4s("n1"), *driven("n1")]), "double allocation")
    assert (check.state, check.danger) == ("to do", True)
    assert "n1" in check.text
    assert any("nvidia.com/gpu.deploy.device-plugin=false" in line for line in check.commands)


def test_nodes_are_migrated_one_by_one() -> None:
    check = check_of(in_cluster(workload(limits=GPU), objects=[t4s("n1"), t4s("n2")]), "double allocation")
    assert (check.state, check.danger) == ("to do", False)
    assert "n1, n2" in check.text


def test_without_a_plugin_no_gpu_is_allocated_twice() -> None:
    assert check_of(in_cluster(workload(limits=GPU), objects=[*driven("n1")]), "double allocation").state == "ok"


def test_a_plugin_without_an_operator_is_named() -> None:
    plugin = DaemonSet(metadata=ObjectMeta(name="nvidia-device-plugin-daemonset", namespace="kube-system"))
    check = check_of(in_cluster(workload(limits=GPU), objects=[t4s("n1"), plugin]), "double allocation")
    assert any("patch daemonset nvidia-device-plugin-daemonset" in line for line in check.commands)


def test_pods_outside_the_files_must_leave_a_node_before_it_moves() -> None:
    cluster = [t4s("n1"), running("other", "n1", nvidia_com_gpu=1)]
    assert (
        "Pod default/other"
        in check_of(in_cluster(workload(limits=GPU), objects=cluster), "pods outside the files").text
    )


# --- requirements of the manifests -----------------------------------------------------------------------------------

SHARED = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}


def test_mps_requires_a_driver_gate() -> None:
    check = check_of(migrated(workload(limits={"nvidia.com/gpu.shared": 1}, nodeSelector=SHARED)), "driver gate")
    assert (check.title, "Deployment default/web" in check.text) == ("driver gate MPSSupport", True)
    assert any("featureGates.MPSSupport=true" in line for line in check.commands)


def test_dynamic_mig_requires_a_driver_gate() -> None:
    migration = on_fleet(workload(limits={"nvidia.com/mig-1g.5gb": 1}), fleet="dgx-a100-40gb/dynamic-mig")
    assert check_of(migration, "driver gate DynamicMIG").state == "cannot tell"


def test_gpus_must_be_partitioned_for_mig_requests() -> None:
    text = workload(limits={"nvidia.com/mig-1g.5gb": 1})
    assert check_of(migrated(text), "MIG 1g.5gb").state == "cannot tell"
    assert check_of(in_cluster(text, objects=[t4s("n1"), *driven("n1")]), "MIG 1g.5gb").state == "to do"
    cut = cluster_of(parse_fleet(["dgx-a100-40gb/static-mig=1g.5gb:7"]))
    assert check_of(in_cluster(text, objects=[*cut.nodes, *cut.slices, *cut.classes]), "MIG 1g.5gb").state == "ok"


def test_admin_access_requires_a_label() -> None:
    text = workload("DaemonSet", limits={"gpu.intel.com/xe_monitoring": 1})
    assert check_of(migrated(text), "admin access").commands == (
        "kubectl label namespace default resource.kubernetes.io/admin-access=true",
    )
    labels = {"resource.kubernetes.io/admin-access": "true"}
    there = Namespace(metadata=ObjectMeta(name="default", labels=labels))
    assert check_of(in_cluster(text, objects=[there]), "admin access").state == "ok"


def quota(**hard: int) -> str:
    named = {key.replace("__", "/").replace("_", "."): str(value) for key, value in hard.items()}
    tree = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": named}}
    return to_yaml([tree])


def test_quotas_of_the_old_name_are_reported() -> None:
    text = workload(limits=GPU, nodeSelector=PRODUCT)
    check = check_of(migrated(text, quota(requests_nvidia_com__gpu=4)), "quotas")
    assert (check.state, "gpu.nvidia.com.deviceclass.resource.k8s.io/devices" in check.text) == ("to do", True)
    done = {"requests_nvidia_com__gpu": 4, "gpu_nvidia_com_deviceclass_resource_k8s_io__devices": 4}
    assert check_of(migrated(text, quota(**done)), "quotas").state == "cannot tell"
    served = [check for check in checks(migrated(workload(limits=GPU))) if check.title == "quotas"]
    assert served == []  # the pods still request the old name


def test_rendered_manifests_must_be_changed_in_the_chart() -> None:
    text = workload(limits=GPU, nodeSelector=PRODUCT).replace(
        "  name: web\n", "  name: web\n  labels: {helm.sh/chart: app-1.2}\n", 1
    )
    assert "app-1.2" in check_of(migrated(text), "Helm").text


def test_autoscalers_in_the_files_are_reported() -> None:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": spec,
    }
    check = check_of(migrated(workload(limits=GPU, nodeSelector=PRODUCT), to_yaml([scaler])), "per-pod metrics")
    assert ("HorizontalPodAutoscaler h" in check.text, check.routine) == (True, False)


# --- all checks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fleet", ["", "t4-4x-pcie", "dgx-a100-40gb/dynamic-mig"])
def test_every_check_has_a_command_or_an_instruction(fleet: str) -> None:
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


def test_without_requests_nothing_is_checked() -> None:
    assert checks(migrated(workload(limits={"cpu": 1}))) == ()


def test_only_a_backslash_continues_a_command() -> None:
    """Every line starts a command, or follows a line that ends with a backslash."""
    migration = migrated(workload(limits=GPU, nodeSelector=PRODUCT), workload(name="b", limits={"amd.com/gpu": 1}))
    for check in checks(migration):
        for before, line in zip(("", *check.commands), check.commands, strict=False):
            assert before.endswith("\\") or re.match(r"(kubectl|helm|#) ", line), (before, line)
