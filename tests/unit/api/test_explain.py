"""``explain`` of manifests, snapshots and running clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import allotment
from allotment import Cluster, InputError, InvalidManifests
from allotment.api.explain_classes import explain_classes
from allotment.model import DEFAULT_RELEASE
from allotment.model.releases import release_table
from allotment.model.server_facts import API_VERSION, KIND
from tests.unit.cli.test_explain import POD

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.yaml"
    file.write_text(POD)
    return file


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    with allotment.Lab(fleet="2xt4", speed=50) as lab:
        yield lab


def test_pods_are_tried_on_described_hardware(app: Path) -> None:
    explanation = allotment.explain(app, Cluster.fleet("2xt4"))
    assert not explanation.fits
    assert [answer.outcome for answer in explanation.answers] == ["fits", "fits", "refused"]
    assert explanation.to_dict()["fits"] is False
    assert "unread" not in explanation.to_dict()
    assert allotment.explain(str(app), Cluster.fleet("3xt4")).fits


@pytest.mark.parametrize("name", ["web", "deploy/web", "default/web"])
def test_an_object_is_selected_by_its_name(app: Path, name: str) -> None:
    other = POD.partition("---\n")[2].replace("web", "other")
    found = allotment.explain([app, other], Cluster.fleet("t4"), name=name)
    assert {answer.owner for answer in found.answers} == {"Deployment default/web"}


def test_the_next_step_is_the_command_that_was_tried(app: Path) -> None:
    app.write_text(POD.replace("deviceClassName: gpu.nvidia.com", "deviceClassName: gpu.nvidia.co"))
    refused = allotment.explain(app, Cluster.fleet("3xt4")).answers[0]
    assert refused.next == f"allot check {app} --fleet 3xt4 --fix"
    in_release = allotment.explain(app, Cluster.fleet("3xt4", kube="1.35"), namespace="ml").answers[0]
    assert in_release.next == f"allot check {app} --fleet 3xt4 --kube-version 1.35 -n ml --fix"


def test_a_text_cannot_be_read_again_by_a_command(app: Path) -> None:
    assert allotment.explain(app, Cluster.fleet("t4")).answers[-1].next.startswith("allot ")
    assert allotment.explain(POD, Cluster.fleet("t4")).answers[-1].next == ""


def test_an_invalid_configuration_of_check_does_not_prevent_an_answer(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "allotment.toml").write_text("[check]\nselect = ['X999']\n")
    answer = allotment.explain(app, Cluster.fleet("t4")).answers[-1]
    assert not answer.fits
    assert " check " not in answer.next


def test_objects_alone_are_the_cluster(app: Path) -> None:
    slices = Cluster.fleet("3xt4").read().cluster
    assert not allotment.explain(app).fits
    assert allotment.explain([app, *(dict(_tree(value)) for value in slices)]).fits


def _tree(value: object) -> dict[str, object]:
    from allotment.model.meta import Object
    from allotment.model.trees import manifest_of

    assert isinstance(value, Object)
    return manifest_of(value)


@pytest.mark.parametrize("name", ["deploy/web", "deployments/web"])
def test_a_workload_is_selected_by_every_name_of_its_kind(name: str) -> None:
    answers = allotment.explain(POD, Cluster.fleet("t4"), name=name).answers
    assert {answer.owner for answer in answers} == {"Deployment default/web"}


def test_nothing_to_explain_is_an_error_without_options() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with pytest.raises(InputError, match="no pod, workload or claim in these manifests") as raised:
        allotment.explain(config, Cluster.fleet("t4"))
    assert "--" not in str(raised.value) + raised.value.hint
    with pytest.raises(InputError, match="pod or claim not found: 'weg'") as unknown:
        allotment.explain(POD, Cluster.fleet("t4"), name="weg")
    assert unknown.value.hint == "did you mean web?"


def test_no_objects_are_not_those_of_the_cluster() -> None:
    cluster = Cluster.snapshot(CLAIM)
    assert [answer.name for answer in allotment.explain(cluster=cluster).answers] == ["default/gpu"]
    with pytest.raises(InputError, match=r"^objects: no Kubernetes objects; omit it for the objects of the cluster$"):
        allotment.explain([], cluster)


def test_gates_are_those_of_the_release_of_the_snapshot() -> None:
    facts = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "server"}, "version": "v1.34.1"}
    removed = min(release_table("1.34").gates.keys() - release_table(DEFAULT_RELEASE).gates.keys())
    cluster = Cluster.snapshot(facts, CLAIM, gates={removed: True})
    assert len(allotment.explain(cluster=cluster).answers) == 1


def test_all_problems_of_the_manifests_are_raised() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspek: {}\n---\nkind: [\n"
    with pytest.raises(InvalidManifests) as raised:
        allotment.explain(text, Cluster.fleet("t4"))
    assert len(raised.value.problems) == 2
    assert "<text>:4:1" in str(raised.value)


def test_pending_pods_of_a_running_cluster_are_explained(lab: allotment.Lab) -> None:
    cluster = Cluster.lab(lab)
    assert allotment.explain(cluster=cluster).answers == ()
    lab.apply(POD)
    lab.wait("deployment/web", until=lambda tree: tree.get("status", {}).get("readyReplicas") == 2)
    found = allotment.explain(cluster=cluster)
    assert [answer.outcome for answer in found.answers] == ["refused"]
    every = allotment.explain(cluster=cluster, name="deploy/web")
    assert [answer.bound for answer in every.answers] == [False, True, True]
    pod = every.answers[1].name.partition("/")[2]
    assert allotment.explain(cluster=cluster, name=f"pod/{pod}", namespace="default").fits
    assert not allotment.explain(POD.replace("web", "more"), cluster).fits
    with pytest.raises(InputError, match="no pod 'missing'"):
        allotment.explain(cluster=cluster, name="pod/missing")


def test_classes_are_explained_by_what_they_select() -> None:
    selecting = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "mine"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }
    found = explain_classes(selecting, Cluster.fleet("2xt4"))
    assert (found.select, found.next, found.classes[0].matched) == (True, "", 2)
    selecting["spec"] = {"selectors": [{"cel": {"expression": "device.driver == 'gpu.amd.com'"}}]}
    none = explain_classes(selecting, Cluster.fleet("2xt4")).to_dict()
    assert none["classes"][0]["reason"]["code"] == "driver-missing"
    with pytest.raises(InputError, match="contains no ResourceSlices"):
        explain_classes(selecting)
    with pytest.raises(InputError, match="contains no DeviceClass"):
        explain_classes(POD, Cluster.fleet("t4"))


def test_files_are_explained_without_the_client_and_the_lab(app: Path) -> None:
    script = (
        "import sys, allotment\n"
        f"allotment.explain({str(app)!r}, allotment.Cluster.fleet('t4'))\n"
        "names = ('aiohttp', 'argparse', 'asyncio', 'allotment.lab', 'allotment.cluster.remote', 'allotment.cli')\n"
        "print([name for name in sys.modules if name in names])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []
