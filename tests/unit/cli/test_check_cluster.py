"""``allot check`` with devices: hardware, a snapshot, a running cluster. The rules are the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import allotment
from tests.unit.cli.conftest import Allot

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: training
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        selectors:
        - cel:
            expression: device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("30Gi")) >= 0
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80G}
  resourceClaims: [{name: gpu, resourceClaimName: training}]
  containers: [{name: app, image: pause, resources: {claims: [{name: gpu}]}}]
"""
SMALL = CLAIM.replace("30Gi", "10Gi")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("large.yaml").write_text(CLAIM)
    Path("small.yaml").write_text(SMALL)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_hardware_without_the_labels_that_pods_require_is_reported(allot: Allot) -> None:
    Path("pod.yaml").write_text(POD)
    assert allot("check", "small.yaml", "pod.yaml").out.splitlines()[-1] == (
        "Fits on no known hardware with the nodeSelector and affinity of the pods; without them on t4 "
        "(to test your own hardware, use --fleet SPEC)."
    )


@pytest.mark.usefixtures("folder")
def test_fit_on_hardware_is_reported(allot: Allot) -> None:
    assert allot("check", "large.yaml").out == (
        "The object in 1 file is fine.\nFits on: rtx-pro-4500 (to test your own hardware, use --fleet SPEC).\n"
    )
    assert allot("check", "large.yaml", "--fleet", "dgx-a100-40gb") == (
        0,
        "The object in 1 file is fine, and fits on dgx-a100-40gb.\n",
        "",
    )


@pytest.mark.usefixtures("folder")
def test_permanently_pending_pod_is_a_finding(allot: Allot) -> None:
    ran = allot("check", "large.yaml", "--fleet", "t4-4x-pcie", "-o", "concise")
    assert ran.code == 1
    assert ran.out.startswith("large.yaml:13:25 P501 [?] ResourceClaim default/training stays pending: ")
    assert "fine" not in ran.out


@pytest.mark.usefixtures("folder")
def test_without_simulation_no_fit_is_reported(allot: Allot) -> None:
    ran = allot("check", "large.yaml", "--fleet", "t4-4x-pcie", "--ignore", "P")
    assert ran == (0, "The object in 1 file is fine.\n", "")


@pytest.mark.usefixtures("folder")
def test_a_snapshot_can_replace_a_cluster(allot: Allot) -> None:
    Path("cluster.yaml").write_text(allot("fleet", "slices", "t4-4x-pcie", "--all").out)
    assert allot("check", "small.yaml", "--cluster", "cluster.yaml").out == (
        "The object in 1 file is fine, and fits on the cluster of cluster.yaml.\n"
    )
    assert allot("check", "large.yaml", "--cluster", "cluster.yaml").code == 1


@pytest.mark.usefixtures("folder")
def test_the_configured_fleet_is_the_default(allot: Allot) -> None:
    Path("allotment.toml").write_text('[check]\nfleet = "t4-4x-pcie"\n')
    assert allot("check", "large.yaml").code == 1
    assert allot("check", "large.yaml", "--fleet", "dgx-a100-40gb").code == 0
    assert allot("check", "large.yaml", "--isolated").code == 0


@pytest.mark.usefixtures("folder")
def test_unknown_hardware_is_bad_input(allot: Allot) -> None:
    ran = allot("check", "large.yaml", "--fleet", "dgx-a100-40g")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean dgx-a100-40gb?" in ran.err


@pytest.mark.usefixtures("folder")
def test_live_cluster_is_selected_by_context(live: Allot, lab: allotment.Lab) -> None:
    kubeconfig = str(lab.kubeconfig)
    ran = live("check", "small.yaml", "--kubeconfig", kubeconfig)
    assert ran[:2] == (0, "The object in 1 file is fine, and fits on the cluster of the current context.\n")
    assert "P501" in live("check", "large.yaml", "--kubeconfig", kubeconfig).out
    both = live("check", "small.yaml", "--kubeconfig", kubeconfig, "--fleet", "t4-4x-pcie")
    assert (both.code, both.out) == (2, "")


@pytest.mark.usefixtures("folder")
def test_missing_namespace_is_created_next(live: Allot, lab: allotment.Lab) -> None:
    Path("small.yaml").write_text(SMALL.replace("name: training", "name: training\n  namespace: absent"))
    ran = live("check", "small.yaml", "--kubeconfig", str(lab.kubeconfig), "-n", "absent")
    assert ran.code == 1
    assert 'M419 namespace "absent" does not exist in the cluster' in ran.out
    assert ran.out.splitlines()[-1].endswith(" create namespace absent")
