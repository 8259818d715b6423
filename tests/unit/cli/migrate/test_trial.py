"""``allot migrate`` on hardware: the table of before and after, the pre-flight, the runbook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Allot
from tests.unit.cli.migrate.test_migrate import GPU, POD

SNAPSHOT = """\
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {nvidia.com/gpu.product: Tesla-T4, nvidia.com/gpu.count: "1", nvidia.com/gpu.memory: "15360"}
status:
  allocatable: {nvidia.com/gpu: "1"}
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(GPU)
    return path


def test_before_and_after_in_a_table(allot: Allot, app: Path) -> None:
    ran = allot("migrate", str(app), "--fleet", "t4")
    assert ran.code == 0
    assert "The pod that fit before still fits, on the same kind of device." in ran.out
    lines = ran.out.splitlines()
    head = next(n for n, line in enumerate(lines) if line.split() == ["WORKLOAD", "PODS", "BEFORE", "AFTER"])
    assert lines[head + 1].split() == ["Pod", "default/a", "1", "1", "Tesla", "T4", "the", "same"]


def test_a_pod_that_no_longer_fits_exits_with_1(allot: Allot, app: Path, tmp_path: Path) -> None:
    """With MIG strategy single, partitions have the resource name of GPUs; a claim for a GPU requests a whole one."""
    pieces = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
    (tmp_path / "cluster.yaml").write_text(SNAPSHOT.replace("Tesla-T4", pieces).replace('gpu: "1"', 'gpu: "7"'))
    app.write_text(POD.format(name="a", resource="nvidia.com/gpu").replace("gpu.product: Tesla-T4 ", "gpu.count: '1' "))
    ran = allot("migrate", str(app), "--strategy", "class", "--cluster", str(tmp_path / "cluster.yaml"))
    assert ran.code == 1
    assert "Of 1 pod that fit before, 1 is pending after the migration." in ran.out
    assert "its pod fit before and no longer does" in ran.out


def test_hardware_without_a_previous_fit_is_not_a_regression(allot: Allot, app: Path) -> None:
    ran = allot("migrate", str(app), "--fleet", "l4")
    assert ran.code == 0
    assert "Even before the migration, no pod fits on these nodes" in ran.out


def test_a_snapshot_with_device_plugins(allot: Allot, app: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(SNAPSHOT)
    ran = allot("migrate", str(app), "--cluster", str(tmp_path / "cluster.yaml"))
    assert ran.code == 0
    assert "No driver publishes slices for n1 yet" in ran.out
    assert "to do: double allocation. The device plugin runs on n1" in ran.out
    assert "    helm upgrade -i dra-driver-nvidia-gpu \\\n" in ran.out


def test_json_has_the_trial_and_the_checks(allot: Allot, app: Path) -> None:
    data = json.loads(allot("migrate", str(app), "--fleet", "t4", "--output", "json").out)
    sections = data["sections"]
    assert list(sections) == ["Before and after", "Pre-flight", "Roll-back"]
    (compared,) = sections["Before and after"]["data"]["workloads"]
    assert (compared["fitted"], compared["fit"], compared["lost"]) == (1, 1, [])
    checks = sections["Pre-flight"]["data"]["checks"]
    assert {"ok", "cannot tell"} <= {check["state"] for check in checks}
    assert sections["Roll-back"]["data"]["steps"]


def test_the_directory_contains_a_runbook(allot: Allot, app: Path, tmp_path: Path) -> None:
    ran = allot("migrate", str(app), "-d", str(tmp_path / "new"), "--fleet", "t4")
    assert ran.code == 0
    page = (tmp_path / "new" / "README.md").read_text()
    assert page.startswith("# Migration from the device plugin to claims\n")
    assert "| Pod default/a | 1 | 1 Tesla T4 | the same |" in page
    assert "kubectl apply -f rollback/app.yaml.before" in page


def test_lines_fit_a_terminal_of_80_columns(allot: Allot, app: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(SNAPSHOT)
    out = allot("migrate", str(app), "--cluster", str(tmp_path / "cluster.yaml")).out
    whole = (str(tmp_path), "device.")  # what is to be copied is not cut
    assert [line for line in out.splitlines() if len(line) > 80 and not any(word in line for word in whole)] == []
