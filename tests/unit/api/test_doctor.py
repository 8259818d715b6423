"""``doctor`` of snapshots, hardware and running clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import allotment
from allotment import Cluster, InputError, InvalidManifests
from allotment.cli.main import main
from tests.unit.cli.test_doctor import TYPO


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    with allotment.Lab(fleet="2xt4", speed=50) as lab:
        yield lab


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    file = tmp_path / "snapshot.yaml"
    file.write_text(TYPO)
    return str(file)


def test_the_command_prints_the_same(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--cluster", snapshot, "-o", "json"]) == 1
    report = allotment.doctor(Cluster.snapshot(snapshot))
    assert report.to_dict() == json.loads(capsys.readouterr().out)
    assert report.has_errors
    assert report.next in {line.strip().removeprefix("$ ") for line in report.findings[0].remedy.splitlines()}


def test_checks_are_selected_by_code() -> None:
    report = allotment.doctor(Cluster.snapshot(TYPO), select=["D603"])
    assert [finding.code for finding in report.findings] == ["D603"]
    assert [check.code for check in report.checks] == ["D603"]
    assert allotment.doctor(Cluster.snapshot(TYPO), select="D1").findings == ()
    with pytest.raises(InputError, match="select: unknown check 'X'"):
        allotment.doctor(Cluster.snapshot(TYPO), select=["x"])


def test_objects_that_cannot_be_decoded_are_notes() -> None:
    odd = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": {"containers": "none"}}
    report = allotment.doctor(Cluster.snapshot(TYPO, odd))
    assert report.notes[0].startswith("ignored: Pod odd: Expected `array`")
    assert report.has_errors


def test_invalid_snapshots_are_rejected() -> None:
    with pytest.raises(InvalidManifests, match="Pod typo is defined twice"):
        allotment.doctor(Cluster.snapshot(TYPO, TYPO))
    with pytest.raises(InputError, match="no Kubernetes objects in the snapshot"):
        allotment.doctor(Cluster.snapshot("# nothing\n"))


def test_described_hardware_is_healthy() -> None:
    report = allotment.doctor(Cluster.fleet("2xt4"))
    assert not report.has_errors
    assert report.verdict.endswith("in 1 node, 2 devices, 0 claims and 0 pods.")


def test_a_running_cluster_is_examined_with_its_server(
    lab: allotment.Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("allotment.api.doctor.time.sleep", waited.append)
    pool = {"name": "ghost", "generation": 1, "resourceSliceCount": 1}
    gone = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "ghost"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "ghost", "pool": pool, "devices": [{"name": "gpu-0"}]},
    }  # fmt: skip
    lab.apply([TYPO, gone])
    report = allotment.doctor(Cluster.lab(lab))
    assert {"D203", "D603"} <= {finding.code for finding in report.findings}
    assert report.snapshot.version
    assert waited == [2.0]
    assert main(["doctor", "--kubeconfig", str(lab.kubeconfig), "-o", "json"]) == 1
    assert report.to_dict() == json.loads(capsys.readouterr().out)


def test_a_release_has_no_problems_to_find() -> None:
    with pytest.raises(InputError, match=r"^cluster: expected a cluster with objects"):
        allotment.doctor(Cluster(kube="1.36"))
