"""``allot claim`` as a user runs it: the manifest, patches, questions, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from allotment import Lab
from tests.unit.cli.conftest import Allot

APP = """\
# the model server
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm
  namespace: ml
spec:
  replicas: 3
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: server   # serves
        image: "vllm:1"
      - name: log
        image: busybox
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "llm.yaml"
    path.write_text(APP)
    return path


def test_a_template_for_replicas(allot: Allot, app: Path) -> None:
    result = allot("claim", "--memory", "80GB", "--for", "deploy/llm", "-f", str(app), "--container", "server")
    assert result.code == 0
    kept = [line for line in APP.splitlines() if line not in result.out.splitlines()]
    assert kept == []  # comments and layout
    workload, template = yaml.safe_load_all(result.out)
    assert template["metadata"] == {"name": "llm-gpu", "namespace": "ml"}
    spec = workload["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "llm-gpu"}]
    assert [c.get("resources") for c in spec["containers"]] == [{"claims": [{"name": "gpu"}]}, None]
    assert "ResourceClaimTemplate llm-gpu for container server of Deployment llm: each pod gets" in result.err


def test_a_claim_for_sharing(allot: Allot, app: Path) -> None:
    result = allot("claim", "--share", "--for", "llm", "-f", str(app), "--container", "server,log", "-q")
    workload, claim = yaml.safe_load_all(result.out)
    assert (claim["kind"], claim["metadata"]["name"]) == ("ResourceClaim", "llm-shared-gpu")
    assert workload["spec"]["template"]["spec"]["resourceClaims"][0]["resourceClaimName"] == "llm-shared-gpu"
    assert result.err == ""


def test_a_patch_for_kubectl(allot: Allot, app: Path) -> None:
    result = allot("claim", "--gpus", "2", "--for", "llm", "-f", str(app), "--container", "log", "--patch")
    spec = json.loads(result.out)["spec"]["template"]["spec"]
    assert spec["containers"] == [{"name": "log", "resources": {"claims": [{"name": "gpu"}]}}]
    assert "kubectl patch deployment llm -n ml --type strategic" in result.err


def test_a_patch_of_a_third_party_kind_is_a_json_patch(allot: Allot, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    worker = "{replicas: 2, template: {spec: {containers: [{name: pytorch, image: i}]}}}"
    tree = f"metadata: {{name: train}}\nspec: {{pytorchReplicaSpecs: {{Worker: {worker}}}}}\n"
    job.write_text(f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n{tree}")
    result = allot("claim", "--gpus", "1", "--for", "train", "-f", str(job), "--patch")
    operations = json.loads(result.out)
    where = "/spec/pytorchReplicaSpecs/Worker/template/spec"
    assert [operation["path"] for operation in operations] == [
        f"{where}/containers/0/resources",
        f"{where}/resourceClaims",
    ]


def test_in_place_changes_only_the_file(allot: Allot, app: Path) -> None:
    result = allot("claim", "--gpus", "1", "--for", "llm", "-f", str(app), "--container", "log", "--in-place")
    assert (result.code, result.out) == (0, "")
    assert app.read_text().startswith("# the model server")
    again = allot("claim", "--gpus", "1", "--for", "llm", "-f", str(app), "--container", "log", "--in-place")
    assert again.code == 2
    assert "llm-gpu" in again.err


def test_second_claim_of_a_container_needs_a_name(allot: Allot, app: Path) -> None:
    words = ("claim", "--for", "llm", "-f", str(app), "--container", "log", "--in-place")
    allot(*words, "--gpus", "1", "--model", "T4")
    once = app.read_text()
    other = allot(*words, "--share", "--model", "T4")
    assert (other.code, other.out, app.read_text()) == (2, "", once)
    assert "container log of Deployment llm has a claim already: gpu, of ResourceClaimTemplate llm-gpu" in other.err
    assert "choose its name" in other.err
    assert allot(*words, "--gpus", "1", "--name", "more").code == 0
    workload = next(iter(yaml.safe_load_all(app.read_text())))
    entries = workload["spec"]["template"]["spec"]["resourceClaims"]
    assert [entry["resourceClaimTemplateName"] for entry in entries] == ["llm-gpu", "more"]


def test_new_objects_have_new_names(allot: Allot, app: Path) -> None:
    words = ("claim", "--gpus", "1", "--for", "llm", "-f", str(app), "--in-place")
    assert allot(*words, "--container", "log").code == 0
    again = allot(*words, "--container", "server")
    assert again.code == 2
    assert "ResourceClaimTemplate llm-gpu exists already at" in again.err


def test_an_extended_resource_needs_a_class_only_for_conditions(allot: Allot, app: Path) -> None:
    plain = allot("claim", "--extended", "--for", "llm", "-f", str(app), "--container", "log", "-q")
    (workload,) = yaml.safe_load_all(plain.out)
    container = workload["spec"]["template"]["spec"]["containers"][1]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    chosen = allot("claim", "--extended", "--memory", "80GB", "-q")
    assert yaml.safe_load(chosen.out)["spec"]["extendedResourceName"] == "nvidia.com/gpu-80gb"


def test_each_condition_has_a_comment(allot: Allot) -> None:
    result = allot("claim", "--memory", "80GB")
    assert "# 80 GB or more: those of 80 GB publish 79.6 to 80Gi; the next smaller size is 48 GB" in result.out
    assert "#" not in allot("claim", "--memory", "80GB", "--quiet").out


def test_hardware_without_the_devices(allot: Allot) -> None:
    lacking = allot("claim", "--memory", "80GB", "--fleet", "8xa100-40gb")
    assert (lacking.code, lacking.out) == (1, "")
    assert "the given hardware has no GPU with 80 GB or more" in lacking.err
    few = allot("claim", "--gpus", "9", "--fleet", "hgx-h100-generic")
    assert (few.code, few.out) == (1, "")
    assert "9 devices requested; the node has 8" in few.err


def test_slices_among_the_files_are_the_hardware(allot: Allot, tmp_path: Path) -> None:
    slices = tmp_path / "slices.yaml"
    slices.write_text(allot("fleet", "slices", "t4").out)
    result = allot("claim", "--model", "T4", "-f", str(slices))
    assert 'productName == "Tesla T4"' in result.out
    assert allot("claim", "--model", "H100", "-f", str(slices)).code == 1


def test_a_running_cluster_is_the_hardware(allot: Allot, lab: Lab) -> None:
    fits = allot("claim", "--model", "T4", "--gpus", "4", "--kubeconfig", str(lab.kubeconfig))
    assert 'productName == "Tesla T4"' in fits.out, fits.err
    refused = allot("claim", "--model", "H100", "--kubeconfig", str(lab.kubeconfig))
    assert (refused.code, refused.out) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "nothing requested"),
        (["--gpus", "0"], "expected 1 to 32 devices"),
        (["--gpus", "1", "--same-switch"], "--same-switch: requires several devices"),
        (["--mig", "large"], "--mig: expected a profile or a size, found 'large'"),
        (["--share", "10Gi", "--kube-version", "1.35"], "requires feature gate DRAConsumableCapacity"),
        (["--extended", "--kube-version", "1.34"], "requires feature gate DRAExtendedResource"),
        (["--extended", "--vendor", "any"], "--extended: expected one vendor"),
        (["--share", "10Gi", "--vendor", "amd"], "AMD's driver does not divide"),
        (["--gpus", "1", "--name", "A_b"], "--name: expected lower-case letters"),
        (["--gpus", "1", "--patch"], "--patch: requires --for"),
        (["--gpus", "1", "--for", "deploy/llm"], "requires its manifest"),
        (["--gpus", "1", "--for", "deploy/lm", "-f", "llm.yaml"], "--for: deploy/lm not found in the manifests"),
        (["--gpus", "1", "--for", "deploy/llm", "-f", "llm.yaml"], "expected one container, but it has server and log"),
        (["--gpus", "1", "--for", "llm", "--container", "x", "-f", "llm.yaml"], "llm has containers server and log"),
    ],
)
def test_invalid_input(
    allot: Allot, app: Path, arguments: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(app.parent)
    result = allot("claim", *arguments)
    assert (result.code, result.out) == (2, "")
    assert problem in " ".join(result.err.split())
    assert app.read_text() == APP


def test_a_request_to_a_device_plugin_is_not_doubled(allot: Allot, app: Path) -> None:
    app.write_text(APP.replace("image: busybox", "image: b\n        resources: {limits: {nvidia.com/gpu: 1}}"))
    result = allot("claim", "--gpus", "1", "--for", "llm", "-f", str(app), "--container", "log")
    assert result.code == 2
    assert "requests nvidia.com/gpu already" in result.err
    assert "allot migrate" in result.err


def test_questions_on_a_terminal(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["9", "2", "2", "2"])
    monkeypatch.setattr("allotment.cli.claim.command._is_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    result = allot("claim", "--fleet", "2xl4,dgx-a100-40gb")
    assert "  2  NVIDIA L4, 24 GB" in result.out
    assert "expected a number from 1 to 3, found '9'" in result.out
    assert 'productName == "NVIDIA L4"' in result.out


def test_show(allot: Allot, app: Path, tmp_path: Path) -> None:
    written = tmp_path / "written.yaml"
    written.write_text(allot("claim", "--gpus", "2", "--for", "llm", "-f", str(app), "--container", "log").out)
    shown = allot("claim", "show", str(written))
    sentence = "2 NVIDIA GPUs, for container log of Deployment llm (a new claim for each pod)"
    assert shown.out == f"ResourceClaimTemplate llm-gpu: {sentence}\n"
    data = json.loads(allot("claim", "show", str(written), "-o", "json").out)
    assert data == [{"kind": "ResourceClaimTemplate", "name": "llm-gpu", "sentence": sentence}]
    assert allot("claim", "show", str(app)).code == 2
