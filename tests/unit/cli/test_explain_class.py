"""``allot explain`` of DeviceClasses alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Allot

FLEET = ("--fleet", "t4:2,mig=2xa100-40gb/static-mig=full/1g.5gb:7")


@pytest.fixture
def selecting(tmp_path: Path) -> Path:
    return tmp_path / "class.yaml"


def class_(file: Path, expression: str, name: str = "mine") -> str:
    with file.open("a") as stream:
        stream.write(
            f"---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {{name: {name}}}\n"
            f"spec: {{selectors: [{{cel: {{expression: {json.dumps(expression)}}}}}]}}\n"
        )
    return str(file)


def test_selected_devices_are_counted_by_node(allot: Allot, selecting: Path) -> None:
    file = class_(selecting, "device.attributes['gpu.nvidia.com'].architecture == 'Ampere'")
    ran = allot("explain", "-f", file, *FLEET)
    assert ran.code == 0
    assert ran.out == (
        "DeviceClass mine selects 8 of 10 devices\n"
        "  mig: all 8 (NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-40GB 1g.5gb)\n"
        "  t4-1, t4-2: none of 1 on each\n"
    )
    assert "gpu-0, gpu-1-mig" in allot("explain", "-f", file, *FLEET, "-o", "wide").out.replace("\n    ", " ")


def test_class_without_devices_has_reason(allot: Allot, selecting: Path) -> None:
    file = class_(selecting, "device.attributes['gpu.nvidia.com'].architecture == 'Hopper'")
    class_(selecting, "device.driver == 'gpu.nvidia.com'", "all")
    ran = allot("explain", "-f", file, *FLEET)
    assert ran.code == 1
    first, second, step = ran.out.split("\n\n")
    assert step == f"next: allot free {' '.join(FLEET)}\n"
    assert first.startswith("DeviceClass mine selects none of 10 devices\n  no device has architecture")
    assert "(class-matches-nothing)" in first
    assert second.startswith("DeviceClass all selects 10 of 10 devices\n")
    data = json.loads(allot("explain", "-f", file, *FLEET, "-o", "json").out)
    assert [
        (device_class["name"], device_class["matched"], device_class["devices"]) for device_class in data["classes"]
    ] == [("mine", 0, 10), ("all", 10, 10)]
    assert data["classes"][0]["reason"]["code"] == "class-matches-nothing"
    assert "reason" not in data["classes"][1]


def test_selector_error_on_some_devices_is_reported(allot: Allot, selecting: Path) -> None:
    file = class_(selecting, "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'")
    ran = allot("explain", "-f", file, "--fleet", "mig=2xa100-40gb/static-mig=full/1g.5gb:7")
    assert ran.code == 0
    assert "DeviceClass mine selects 7 of 8 devices\n" in ran.out
    assert "on mig Kubernetes aborts: selector 0, device gpu-0: no such key: profile" in ran.out


def test_no_answer_without_device_information(allot: Allot, selecting: Path) -> None:
    ran = allot("explain", "-f", class_(selecting, "true"))
    assert ran.code == 2
    assert "the input contains no ResourceSlices: cannot evaluate DeviceClass mine" in ran.err


def test_slices_without_claims_suggest_another_command(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "slices.yaml"
    file.write_text(allot("fleet", "slices", "t4").out)
    ran = allot("explain", "-f", str(file))
    assert ran.code == 2
    assert "nothing to explain: no pod, workload or claim in these files\n  allot free -f FILE" in ran.err
