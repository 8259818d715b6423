"""A claim that Allotment's scheduler set aside is shown as unused; the device belongs to another claim."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from allotment.api.bound_pods import answer_of_claim
from allotment.cli.describe import claims
from allotment.cli.describe.page import Page
from allotment.model.resource import ResourceClaim
from allotment.model.trees import Tree, read_value
from tests.unit.cli.conftest import Allot

KEPT = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: kept, namespace: ml}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
status:
  allocation: {devices: {results: [{request: g, driver: gpu.nvidia.com, pool: a, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: train, uid: u}]
---
"""
CONTESTED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: contested, namespace: ml, labels: {allotment.dev/contested: "true"}}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
status:
  allocation: {devices: {results: [{request: g, driver: gpu.nvidia.com, pool: a, device: gpu-0}]}}
---
"""
PENDING = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: late, namespace: ml}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


@pytest.fixture
def devices(allot: Allot) -> str:
    return allot("fleet", "slices", "a=1xt4", "--all").out + "---\n"


def test_free_lists_holder_and_contested_claim(allot: Allot, tmp_path: Path, devices: str) -> None:
    file = tmp_path / "snapshot.yaml"
    file.write_text(devices + KEPT + CONTESTED)
    lines = allot("free", "--cluster", str(file)).out.splitlines()
    assert "a      gpu-0     ml/kept        train" in lines
    assert "a      gpu-0     ml/contested   (contested, unused)" in lines
    (device,) = [
        line for line in allot("free", "--cluster", str(file), "-o", "wide").out.splitlines() if "gpu-0" in line
    ]
    assert "train,(contested, unused)" in device


@pytest.mark.parametrize(
    ("held", "expected"),
    [(KEPT + CONTESTED, "claim ml/kept (pod train)"), (CONTESTED, "claim ml/contested (contested, unused)")],
)
def test_explain_names_the_holder_of_the_device(
    allot: Allot, tmp_path: Path, devices: str, held: str, expected: str
) -> None:
    cluster, manifest = tmp_path / "snapshot.yaml", tmp_path / "claim.yaml"
    cluster.write_text(devices + held)
    manifest.write_text(PENDING)
    ran = allot("explain", "-f", str(manifest), "--cluster", str(cluster))
    assert ran.code == 1
    assert f"in use by {expected}" in " ".join(ran.out.split())


def _claim() -> Tree:
    result = {"request": "g", "driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0"}
    return {
        "metadata": {"name": "contested", "namespace": "ml", "labels": {"allotment.dev/contested": "true"}},
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def test_explain_reports_the_set_aside_claim() -> None:
    (note,) = answer_of_claim(read_value(_claim(), ResourceClaim), ()).notes
    assert note == (
        "the claim was set aside, because another scheduler also allocated its devices; it is deleted when the devices"
        " are free"
    )


def test_describe_shows_its_state() -> None:
    page = Page(datetime(2026, 1, 1, tzinfo=UTC))
    claims.claim(page, _claim())
    assert "State: allocated (contested, unused)" in " ".join(page.text().split())
