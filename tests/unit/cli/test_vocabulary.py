"""The text output of ``allot vocabulary``."""

from __future__ import annotations

import json

import pytest
import yaml

from allotment.vocabulary import drivers, vendors
from tests.unit.cli.conftest import Allot


def test_without_arguments_drivers_and_releases_are_listed(allot: Allot) -> None:
    ran = allot("vocabulary")
    assert ran.code == 0
    assert all(driver in ran.out for driver in drivers())
    assert "25.3 … 0.5-dev" in ran.out
    data = json.loads(allot("vocabulary", "-o", "json").out)
    assert [entry["driver"] for entry in data["drivers"]] == list(drivers())


def test_vendor_selects_its_drivers(allot: Allot) -> None:
    out = allot("vocabulary", "nvidia").out
    assert out.startswith("gpu.nvidia.com: NVIDIA GPUs\n")
    assert "\ncompute-domain.nvidia.com: " in out


def test_driver_is_printed_with_its_vocabulary(allot: Allot) -> None:
    out = allot("vocabulary", "gpu.nvidia.com").out
    for text in (
        '\nATTRIBUTES, in selectors as device.attributes["gpu.nvidia.com"].NAME\n',
        "\n  uuid  <string> on gpu, vfio, some mig\n",
        "\n  memorySlice0…11  <quantity> on some mig\n",
        "\n  gpu.nvidia.com  extended resource nvidia.com/gpu\n",
        "\n  MPSSupport  off by default\n",
        "\n    sharing.timeSlicingConfig.interval <string>: Default, Long, Medium, Short\n",
        "\n    - attribute pcieBusID, now resource.kubernetes.io/pciBusID\n",
    ):
        assert text in out


def test_another_release(allot: Allot) -> None:
    out = allot("vocabulary", "gpu.amd.com", "--version", "v0").out
    assert "release 0.1 (Oct 2025); other known releases: 1.0, 1.1-dev\n" in out
    assert "\n  parentDeviceID  <string> on amdgpu-partition\n" in out
    assert "\n  computePartition" not in out


def test_earlier_name_shows_replacement(allot: Allot) -> None:
    out = allot("vocabulary", "amd", "deviceID").out
    assert "gpu.amd.com/deviceID  attribute <string>" in out
    assert "gpu.amd.com/deviceID  earlier name" in out
    assert "use resource.kubernetes.io/pciBusID" in out


def test_name_is_printed_with_an_example(allot: Allot) -> None:
    out = allot("vocabulary", "nvidia", "memory").out
    assert out.startswith("gpu.nvidia.com/memory  capacity <quantity> on gpu, mig\n")
    assert 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0' in out
    assert "other names that contain 'memory': gpu.nvidia.com/memorySlice0…11, " in out


def test_unknown_name_has_suggestion(allot: Allot) -> None:
    out = allot("vocabulary", "nvidia.com", "model").out
    assert out.startswith("model  no such name\n    use gpu.nvidia.com/productName\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("nvidla",), "unknown driver 'nvidla': expected a vendor (nvidia, amd, intel"),
        (("nvidia", "productNam3"), "contains 'productNam3'\n  did you mean productName"),
        (("nvidia", "--version", "24"), "gpu.nvidia.com has no release 24: expected one of 25.3, 25.8"),
    ],
    ids=["driver", "name", "release"],
)
def test_unknown_name_suggests_similar_ones(allot: Allot, words: tuple[str, ...], error: str) -> None:
    ran = allot("vocabulary", *words)
    assert ran.code == 2
    assert ran.out == ""
    assert error in ran.err


@pytest.mark.parametrize("vendor", vendors())
def test_only_commands_exceed_the_terminal_width(allot: Allot, vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = allot("vocabulary", vendor).out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_structured_output(allot: Allot) -> None:
    (driver,) = json.loads(allot("vocabulary", "gpu.nvidia.com", "-o", "json").out)["drivers"]
    assert {entry["name"] for entry in driver["classes"]} == {"gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"}
    assert driver["parameters"][0]["kind"] == "GpuConfig"
    assert driver["changes"][0]["release"] == "25.8"
    found = yaml.safe_load(allot("vocabulary", "nvidia", "profile", "-o", "yaml").out)["found"]
    assert found[0]["name"] == "gpu.nvidia.com/profile"
    assert found[0]["sort"] == "attribute"
    assert driver["changes"][0]["changes"][0].keys() >= {"sort", "name", "how"}
