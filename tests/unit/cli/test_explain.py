"""The output of ``explain``: exit codes, evaluated and skipped objects, and the printed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allotment.lab.state import Register, Status
from allotment.reference.packaged_examples import find_example
from tests.unit.cli.conftest import Allot

POD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {deviceClassName: gpu.nvidia.com}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      resourceClaims:
      - {name: gpu, resourceClaimTemplateName: one-gpu}
      containers:
      - name: c
        image: registry.example/web:1
        resources: {claims: [{name: gpu}]}
"""

SNAPSHOT_PODS = """\
---
apiVersion: v1
kind: Pod
metadata: {name: running, namespace: default}
spec:
  nodeName: t4-1
  resourceClaims: [{name: gpu, resourceClaimName: held}]
  containers: [{name: c, image: i}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting, namespace: default}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: wanted}]
  containers: [{name: c, image: i}]
status: {phase: Pending}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: held}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
status:
  allocation:
    devices: {results: [{request: g, driver: gpu.nvidia.com, pool: t4-1, device: gpu-0}]}
  reservedFor: [{resource: pods, name: running, uid: u}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: wanted}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    file = tmp_path / "app.yaml"
    file.write_text(POD)
    return str(file)


@pytest.fixture
def snapshot(allot: Allot, tmp_path: Path) -> str:
    file = tmp_path / "snapshot.yaml"
    file.write_text(allot("fleet", "slices", "t4:1", "--all").out + SNAPSHOT_PODS)
    return str(file)


def test_every_replica_takes_a_device(allot: Allot, app: str) -> None:
    ran = allot("explain", "-f", app, "--fleet", "3xt4")
    assert ran.code == 0
    assert all(f"gpu: gpu-{n} (Tesla T4)" in ran.out for n in range(3))


def test_template_without_pod_is_evaluated_with_a_generated_pod(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(POD.partition("---")[0])
    ran = allot("explain", "-f", str(file), "--fleet", "t4")
    assert ran.code == 0
    assert "Pod default/any-pod-with-one-gpu fits on node t4-1" in ran.out
    assert "no pod uses the template" in ran.out


def test_unsatisfiable_request_exits_with_1(allot: Allot, app: str) -> None:
    ran = allot("explain", "-f", app, "--fleet", "2xt4")
    assert ran.code == 1
    assert "does not fit" in ran.out


def test_json_contains_the_result(allot: Allot, app: str) -> None:
    data = json.loads(allot("explain", "-f", app, "--fleet", "2xt4", "-o", "json").out)
    assert data["fits"] is False
    assert [answer["outcome"] for answer in data["answers"]] == ["fits", "fits", "refused"]


def test_named_pod_is_explained_while_others_keep_devices(allot: Allot, app: str) -> None:
    for words in (["web-2", "-f", app], ["pod/web-2", "-f", app], ["-f", app, "web-2"], ["default/web-2", "-f", app]):
        ran = allot("explain", *words, "--fleet", "3xt4")
        assert ran.code == 0
        assert "gpu-2 (Tesla T4)" in ran.out
        assert "gpu-1" not in ran.out
    assert allot("explain", "deployment/web", "-f", app, "--fleet", "3xt4").out.count("fits on node") == 3


def test_an_unknown_name_is_an_error(allot: Allot, app: str) -> None:
    ran = allot("explain", "wab-2", "-f", app, "--fleet", "3xt4")
    assert ran.code == 2
    assert "pod or claim not found: 'wab-2'" in ran.err
    assert "did you mean web-2?" in ran.err


def test_the_namespace_option_applies_to_objects_without_one(allot: Allot, app: str) -> None:
    assert "Pod ml/web-0 fits" in allot("explain", "-f", app, "--fleet", "3xt4", "-n", "ml").out


def test_running_pods_are_not_evaluated_but_keep_their_devices(allot: Allot, snapshot: str, app: str) -> None:
    ran = allot("explain", "--cluster", snapshot)
    assert ran.code == 1
    assert "running" not in ran.out.splitlines()[0]
    assert "Pod default/waiting does not fit" in ran.out
    assert "(devices-in-use)" in ran.out
    # With manifests of ``-f``, pending pods of the cluster neither takes devices nor is answered.
    with_manifests = allot("explain", "-f", app, "--cluster", snapshot)
    assert with_manifests.code == 1
    assert "waiting" not in with_manifests.out


def test_manifests_to_replace_come_with_the_change_to_make_in_files(allot: Allot) -> None:
    cluster = str(Path(__file__).parents[2] / "corpus" / "class-missing.yaml")
    shown = allot("explain", "--cluster", cluster)
    ran = allot("explain", "pod/trainer", "-n", "ml", "--cluster", cluster, "-o", "manifests")
    assert ran.code == 0
    assert "kind: ResourceClaimTemplate" in ran.out
    note = (
        "note: make the same change in the manifest, or the next kubectl apply reverts it or fails: deviceClassName: "
        "gpu.nvidia.com in ResourceClaimTemplate mig-gpu-1g"
    )
    assert note in " ".join(ran.err.split())
    assert note in " ".join(shown.out.split())


def test_a_pod_that_waits_for_something_else_has_no_manifests_to_replace(allot: Allot, tmp_path: Path) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ml", "uid": "u"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }  # fmt: skip
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps(pod))
    ran = allot("explain", "pod/p", "-n", "ml", "--cluster", str(snapshot), "-o", "manifests")
    assert ran.code == 1
    assert "no change of devices helps Pod ml/p: last message of the scheduler: 0/1 nodes are available" in (
        " ".join(ran.err.split())
    )


def test_an_existing_claim_keeps_its_allocation(allot: Allot, snapshot: str, tmp_path: Path) -> None:
    file = tmp_path / "second.yaml"
    file.write_text(
        SNAPSHOT_PODS.split("---\n")[3].partition("status:")[0]
        + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: second}\nspec:\n"
        "  resourceClaims: [{name: gpu, resourceClaimName: held}]\n  containers: [{name: c, image: i}]\n"
    )
    ran = allot("explain", "-f", str(file), "--cluster", snapshot)
    assert ran.code == 0, ran.out
    assert "Pod default/second fits on node t4-1" in ran.out
    assert "already allocated" in ran.out


def test_missing_cluster_has_hint(allot: Allot, app: str) -> None:
    ran = allot("explain", "-f", app)
    assert ran.code == 1
    assert "add --cluster FILE or --fleet SPEC" in ran.out


def test_two_names_are_an_error(allot: Allot) -> None:
    ran = allot("explain", "a", "b", "--fleet", "t4")
    assert (ran.code, ran.out) == (2, "")
    assert "expected one name, found a b" in ran.err


def test_nothing_to_explain_is_an_error(allot: Allot) -> None:
    ran = allot("explain", "--fleet", "t4")
    assert ran.code == 2
    assert "no pod, workload or claim is waiting" in ran.err


def test_output_is_deterministic(allot: Allot) -> None:
    example = find_example("mig-pair").path
    runs = {allot("explain", "-f", example, "--fleet", "2xh100/dynamic-mig", "-o", "wide").out for _ in range(2)}
    assert len(runs) == 1


def test_an_argument_after_the_fleet_is_a_pod(allot: Allot, app: str) -> None:
    assert "web-1 fits" in (ran := allot("explain", "-f", app, "--fleet", "3xt4", "pod/web-1")).out
    assert "web-0" not in ran.out
    assert "did you mean t4-4x-pcie?" in allot("explain", "-f", app, "--fleet", "t4", "t4-4-pcie").err


def test_unknown_claim_request_of_a_container_is_reported(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(POD.replace("[{name: gpu}]", "[{name: gpu, request: gpus}]"))
    ran = allot("explain", "-f", str(file), "--fleet", "3xt4")
    assert ran.code == 0
    words = " ".join(ran.out.split())
    assert (
        "note: container c of Deployment default/web refers to request gpus, which template one-gpu does not have"
        in words
    )
    assert "(its requests: gpu); Kubernetes starts the container without a device" in words
    file.write_text(POD.replace("[{name: gpu}]", "[{name: gpu, request: gpu}]"))
    assert "note" not in allot("explain", "-f", str(file), "--fleet", "3xt4").out


def test_template_of_another_namespace_gets_no_generated_pod(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(POD.replace("{name: one-gpu}", "{name: one-gpu, namespace: other}"))
    ran = allot("explain", "-f", str(file), "--fleet", "3xt4")
    assert ran.code == 1
    assert ran.out.startswith("0 of 3 pods fit;")
    assert "any-pod-with" not in ran.out


def test_an_unknown_kind_is_not_explained(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")
    ran = allot("explain", "-f", str(file), "--fleet", "t4")
    assert ran.code == 2
    assert "no pod, workload or claim in these files" in ran.err


def test_the_claim_generated_for_a_pending_pod_is_not_evaluated_separately(allot: Allot, tmp_path: Path) -> None:
    """In the output of ``kubectl get`` the pod's status names the claim generated from its template."""
    snapshot = tmp_path / "snapshot.yaml"
    pod = """---
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: default, uid: p}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
status: {phase: Pending, resourceClaimStatuses: [{name: gpu, resourceClaimName: big-gpu-x7x}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: big-gpu-x7x
  namespace: default
  uid: c
  ownerReferences: [{apiVersion: v1, kind: Pod, name: big, uid: p, controller: true}]
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}]}}
"""
    hardware = allot("fleet", "slices", "2xt4", "--all").out
    snapshot.write_text(hardware + "---\n" + POD.partition("---")[0] + pod)
    ran = allot("explain", "--cluster", str(snapshot))
    assert ran.code == 0
    assert ran.out == (
        "Pod default/big fits on node 2xt4-1\n"
        "  claim default/big-gpu-x7x (template one-gpu)\n"
        "    gpu: gpu-0, gpu-1 (Tesla T4), gpu.nvidia.com\n"
    )


def test_missing_class_is_reported_before_node_reasons(allot: Allot, tmp_path: Path) -> None:
    """Kubernetes fails on the class before it evaluates any node."""
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {}}}\nspec: {{devices: {{requests: "
    request = "[{{name: r, exactly: {{deviceClassName: {}}}}}]}}}}\n---\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  resourceClaims:\n"
    pod += "  - {name: a, resourceClaimName: a}\n  - {name: b, resourceClaimName: b}\n"
    pod += "  containers: [{name: c, image: i}]\n"
    file = tmp_path / "app.yaml"
    file.write_text((claim + request).format("a", "gpu.nvidia.com") + (claim + request).format("b", "gone") + pod)
    ran = allot("explain", "-f", str(file), "--fleet", "t4,mig=a100-40gb/dynamic-mig")
    assert ran.code == 1
    assert 'Pod default/p does not fit: DeviceClass "gone" does not exist.' in ran.out
    assert "class-matches-nothing" not in ran.out


def test_nodes_with_too_few_devices_are_sorted_by_size_with_free_devices(allot: Allot, tmp_path: Path) -> None:
    hardware = allot("fleet", "slices", "t4-4x-pcie,dgx-a100-40gb", "--all").out
    held = SNAPSHOT_PODS.split("---\n")[3].replace("pool: t4-1", "pool: dgx-a100-40gb-1")
    (tmp_path / "cluster.yaml").write_text(f"{hardware}---\n{held}")
    wanted = SNAPSHOT_PODS.split("---\n")[4].replace("nvidia.com}", "nvidia.com, count: 16}")
    (tmp_path / "many.yaml").write_text(wanted)
    ran = allot("explain", "-f", str(tmp_path / "many.yaml"), "--cluster", str(tmp_path / "cluster.yaml"))
    assert "does not fit: 16 devices requested; the node has 8\n" in ran.out
    assert "to make it fit on dgx-a100-40gb-1: request 7 devices instead of 16\n" in ran.out


@pytest.mark.parametrize(
    ("written", "right", "unit"),
    [("30GB", "30G", "GB"), ("30 GiB", "30Gi", "GiB"), ("30g", "30G", "g"), ("30720mi", "30720Mi", "mi")],
)
def test_an_unknown_unit_is_corrected(allot: Allot, tmp_path: Path, written: str, right: str, unit: str) -> None:
    condition = f"device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('{written}'))"
    selectors = f'gpu.nvidia.com, selectors: [{{cel: {{expression: "{condition}"}}}}]}}'
    wanted = SNAPSHOT_PODS.split("---\n")[4].replace("gpu.nvidia.com}", selectors)
    (tmp_path / "large.yaml").write_text(wanted)
    ran = allot("explain", "-f", str(tmp_path / "large.yaml"), "--fleet", "dgx-a100-40gb")
    assert "(selector-fails)" in ran.out
    assert f"write {right}: Kubernetes has no unit {unit} " in " ".join(ran.out.split())
    assert f"memory.isGreaterThan(quantity('{right}'))\n" in ran.out


def test_a_running_lab_that_was_not_used_is_noted(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, config = tmp_path / "app.yaml", tmp_path / "config"
    file.write_text(POD)
    config.write_text(json.dumps({"contexts": [{"name": "allotment", "context": {}}]}))
    assert "running lab" not in allot("explain", "-f", str(file)).out
    lab = Status("default", 1, "https://l:2", "allotment", str(tmp_path / "own"), "2026-01-01T00:00:00Z", "0")
    with Register().hold("default"):
        Register().write(lab)
        note = "note: the input contains no ResourceSlices, and the running lab was not used: add"
        assert f"{note} --kubeconfig {tmp_path / 'own'}" in " ".join(allot("explain", "-f", str(file)).out.split())
        monkeypatch.setenv("KUBECONFIG", str(config))
        out = allot("explain", "-f", str(file)).out
        assert f"{note} --context allotment" in " ".join(out.split())
        assert f"next: allot explain -f {file} --context allotment\n" in out
        assert "running lab" not in allot("explain", "-f", str(file), "--fleet", "t4").out


def test_a_running_cluster_is_not_combined_with_hardware(allot: Allot) -> None:
    for option, value in (("--fleet", "t4"), ("--cluster", "snapshot.yaml")):
        ran = allot("explain", option, value, "--context", "production")
        assert ran.code == 2
        assert "--context: not allowed with --cluster or --fleet" in ran.err
