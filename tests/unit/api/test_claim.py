"""``claim`` and ``describe_claims``: manifests, patches and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

import allotment
from allotment import Cluster, InputError, LackingDevices
from allotment.api.claim import Vendor
from allotment.cli.arguments.claim import VENDORS
from allotment.cli.main import main
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.trees import manifest_of

APP = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: ml}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - {name: server, image: vllm}
      - {name: log, image: busybox}
"""


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--gpus", "2"], {"gpus": 2}),
        (["--memory", "80GB", "--same-switch", "--gpus", "2"], {"memory": "80GB", "same_switch": True, "gpus": 2}),
        (["--mig", "10GB"], {"mig": "10GB"}),
        (["--share"], {"share": ""}),
        (["--extended", "--model", "T4"], {"extended": True, "model": "T4"}),
        (["--all", "--fleet", "2xt4"], {"all_devices": True, "cluster": Cluster.fleet("2xt4")}),
    ],
)
def test_the_command_prints_the_same(
    words: list[str], options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claim", *words, "-o", "json"]) == 0
    assert allotment.claim(**options).to_dict() == json.loads(capsys.readouterr().out)


def test_a_workload_gets_the_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "llm.yaml"
    file.write_text(APP)
    found = allotment.claim(workload="deploy/llm", containers=["server"], objects=file)
    assert [tree["kind"] for tree in found.objects] == ["Deployment", "ResourceClaimTemplate"]
    assert found.objects[1]["metadata"] == {"name": "llm-gpu", "namespace": "ml"}
    (note,) = found.notes
    assert note.startswith("ResourceClaimTemplate llm-gpu for container server of Deployment llm: each pod gets a new")
    words = ["claim", "--gpus", "1", "--for", "deploy/llm", "--container", "server", "-f", str(file)]
    assert main([*words, "-o", "json"]) == 0
    assert found.to_dict() == json.loads(capsys.readouterr().out)
    assert main([*words, "--patch", "-o", "json"]) == 0
    assert found.patch == json.loads(capsys.readouterr().out)
    assert found.patch_type == "strategic"
    assert file.read_text() == APP


def test_without_a_workload_there_is_no_patch() -> None:
    found = allotment.claim()
    assert (found.patch, found.patch_type) == (None, "")
    assert found.usage[0].startswith("resourceClaims:")


def test_slices_among_the_objects_describe_the_hardware() -> None:
    slices = allotment.reference.slices("2xt4")
    assert "Tesla T4" in allotment.claim(model="T4", objects=slices).text
    with pytest.raises(InputError, match="has no GPU of model H100"):
        allotment.claim(model="H100", objects=slices)


def test_the_cluster_may_lack_the_devices() -> None:
    with pytest.raises(LackingDevices, match="3 devices requested; the node has 1"):
        allotment.claim(gpus=3, cluster=Cluster.fleet("t4"))


@pytest.mark.parametrize("waiting", [3, 16])
def test_claims_of_others_that_wait_for_devices_do_not_matter(waiting: int) -> None:
    machine = cluster_of(parse_fleet(["t4-4x-pcie"]), "1.36")
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": waiting}
    other = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "other", "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }  # fmt: skip
    trees = [manifest_of(value) for value in (*machine.nodes, *machine.slices, *machine.classes)]
    cluster = Cluster.snapshot(trees, other)
    for options in ({}, {"workload": "llm", "containers": "server", "objects": APP}, {"extended": True}):
        found = allotment.claim(gpus=2, cluster=cluster, **options)
        assert not found.waits_for
    with pytest.raises(LackingDevices, match="5 devices requested; the node has 4"):
        allotment.claim(gpus=5, cluster=cluster)


@pytest.mark.parametrize("what", ["cordoned", "tainted", "devices tainted", "in use"])
def test_a_claim_for_devices_that_are_not_available_at_present_is_written(what: str) -> None:
    machine = cluster_of(parse_fleet(["t4"]), "1.36")
    objects = [manifest_of(value) for value in (*machine.nodes, *machine.slices, *machine.classes)]
    for tree in objects:
        if tree["kind"] == "Node" and what == "cordoned":
            tree["spec"] = {"unschedulable": True}
        if tree["kind"] == "Node" and what == "tainted":
            tree["spec"] = {"taints": [{"key": "maintenance", "value": "planned", "effect": "NoSchedule"}]}
        for device in tree.get("spec", {}).get("devices", ()) if what == "devices tainted" else ():
            device["taints"] = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    if what == "in use":
        (resource_slice,) = machine.slices
        result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": resource_slice.spec.pool.name}
        devices = [{**result, "device": device.name} for device in resource_slice.spec.devices or ()]
        objects.append({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "busy", "namespace": "ml"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
            "status": {"allocation": {"devices": {"results": devices}}},
        })  # fmt: skip
    found = allotment.claim(memory="16GB", cluster=Cluster.snapshot(yaml.safe_dump_all(objects)))
    assert "kind: ResourceClaimTemplate" in found.text
    assert found.waits_for
    assert found.notes[-1] == f"the claim cannot be allocated at present: {found.waits_for}"
    with pytest.raises(LackingDevices):
        allotment.claim(memory="80GB", cluster=Cluster.snapshot(yaml.safe_dump_all(objects)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": 0}, "gpus: expected 1 to 32 devices"),
        ({"memory": "80"}, "memory: expected a unit after 80"),
        ({"mig": "large"}, "mig: expected a profile or a size, found 'large'"),
        ({"mig": "", "partition": ""}, "mig: not allowed with partition"),
        ({"share": "3/2"}, "share: expected less than a whole device"),
        ({"same_switch": True}, "same_switch: requires several devices"),
        ({"share": "1Gi", "cluster": Cluster(kube="1.35")}, "share: requires feature gate DRAConsumableCapacity"),
        ({"vendor": "acme"}, "vendor: expected one of nvidia, amd, any, example, found 'acme'"),
        ({"name": "A_b"}, "name: expected lower-case letters"),
        ({"containers": ["a"]}, "containers: requires a workload"),
        ({"workload": "llm"}, "workload: llm requires its manifest"),
        ({"workload": "lm", "objects": APP}, "workload: lm not found in the manifests"),
        ({"workload": "llm", "objects": APP}, "workload: llm: expected one container, but it has server and log"),
        (
            {"workload": "llm", "containers": ["x"], "objects": APP},
            "containers: llm has containers server and log, not x",
        ),
        (
            {"workload": "llm", "containers": "main", "objects": APP},
            "containers: llm has containers server and log, not main",
        ),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        allotment.claim(**options)
    assert str(raised.value).startswith(message)


def test_claims_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "claim.yaml"
    file.write_text(allotment.claim(gpus=2).text)
    found = allotment.describe_claims(file)
    assert main(["claim", "show", str(file), "-o", "json"]) == 0
    assert [each.to_dict() for each in found] == json.loads(capsys.readouterr().out)
    assert found[0].sentence.startswith("2 NVIDIA GPUs")
    with pytest.raises(InputError, match="no ResourceClaim or ResourceClaimTemplate"):
        allotment.describe_claims(APP)


def test_the_option_of_the_command_has_the_same_vendors() -> None:
    assert get_args(Vendor) == ("", *VENDORS)
