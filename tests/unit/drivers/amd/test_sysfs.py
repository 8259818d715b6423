"""GPUs read from the kernel's files: all facts of a machine, and irregularities of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.drivers.amd import sysfs
from allotment.drivers.amd.kernel_files import HostFiles
from allotment.drivers.amd.simulated.hardware import SimulatedFiles
from allotment.drivers.amd.simulated.sysfs_tree import write_tree
from allotment.fleet import hardware, parse_mode, servers
from allotment.fleet.amd import Gpu, devices_of_gpus, gpus_of
from allotment.model.quantity import Quantity

MI300X = hardware("mi300x-8x-oam")


def gpus(mode: str = "", name: str = "mi300x-8x-oam", count: int | None = None) -> tuple[Gpu, ...]:
    machine = hardware(name, count)
    return gpus_of(machine, "n", parse_mode(mode, machine))


def machines() -> list[tuple[str, str]]:
    names = [name for name in (*servers(), "mi250x", "mi325x", "mi355x") if hardware(name).accelerator.vendor == "amd"]
    cases = []
    for name in names:
        partitions = hardware(name).accelerator.partitions
        cases += [(name, f"{setting.compute}-{setting.memory}") for setting in partitions] or [(name, "")]
    return cases


@pytest.mark.parametrize(("name", "mode"), machines())
def test_every_profile_is_read_back_from_its_files(name: str, mode: str, tmp_path: Path) -> None:
    machine = hardware(name)
    model = machine.accelerator
    facts = gpus_of(machine, "n", parse_mode(mode, machine))
    dies = max((profile.per_gpu for profile in model.partitions), default=1)
    write_tree(facts, tmp_path, model.gfx, dies)
    assert sysfs.gpus(HostFiles(tmp_path)) == facts
    assert sysfs.gpus(SimulatedFiles(facts, model.gfx, dies)) == facts


def test_without_the_module_there_are_no_gpus(tmp_path: Path) -> None:
    assert sysfs.gpus(HostFiles(tmp_path)) == ()


def test_gpus_with_one_location_in_different_domains_have_separate_partitions(tmp_path: Path) -> None:
    first = gpus("cpx", count=1)[0]
    parts = tuple(part._replace(card=part.card + 8, render=part.render + 8) for part in first.parts)
    second = first._replace(pci="0001" + first.pci[4:], parts=parts, unique_id="7")
    write_tree((first, second), tmp_path)
    assert [gpu.parts for gpu in sysfs.gpus(HostFiles(tmp_path))] == [first.parts, second.parts]


def test_partitions_of_newer_kernels_have_a_dot_in_their_names(tmp_path: Path) -> None:
    (facts,) = gpus("dpx", count=1)
    write_tree([facts], tmp_path)
    platform = tmp_path / sysfs.PLATFORM
    (platform / "amdgpu_xcp_0").rename(platform / "amdgpu_xcp.0")
    assert len(sysfs.gpus(HostFiles(tmp_path))[0].parts) == 2


def test_a_gpu_without_partition_files_is_published_whole(tmp_path: Path) -> None:
    (facts,) = gpus(name="mi250x", count=1)
    write_tree([facts], tmp_path, "gfx90a")
    (gpu,) = sysfs.gpus(HostFiles(tmp_path))
    (device,) = devices_of_gpus([gpu], "v1")
    assert device.attributes["type"].string == "amdgpu"
    assert "partitionProfile" not in device.attributes


@pytest.mark.parametrize(
    ("text", "published"),
    [("6.19.14.31400000", "6.19.14"), ("", "0.0.0"), ("6.8", "6.8.0"), ("6.10.05-rc1", "6.10.5"), ("next", "0.0.0")],
)
def test_the_module_version_is_converted_to_a_semantic_version(tmp_path: Path, text: str, published: str) -> None:
    (facts,) = gpus(count=1)
    write_tree([facts._replace(driver_version=text)], tmp_path)
    discovered = sysfs.gpus(HostFiles(tmp_path))
    (old,), (device,) = devices_of_gpus(discovered, "v0"), devices_of_gpus(discovered, "v1")
    assert old.attributes["driverVersion"].version == device.attributes["driverVersion"].version == published
    assert device.attributes["driverVersionFull"].string == (text or "0.0.0")


def test_unknown_memory_is_not_published(tmp_path: Path) -> None:
    (facts,) = gpus(count=1)
    write_tree([facts._replace(parts=(facts.parts[0]._replace(memory_bytes=None),))], tmp_path)
    (device,) = devices_of_gpus(sysfs.gpus(HostFiles(tmp_path)), "v1")
    assert device.capacity["memory"].value == Quantity.of_int(0)


def test_unknown_numa_node_and_pcie_root_are_not_published(tmp_path: Path) -> None:
    (facts,) = gpus(count=1)
    write_tree([facts._replace(numa=None, pcie_root=None)], tmp_path)
    (gpu,) = sysfs.gpus(HostFiles(tmp_path))
    assert (gpu.numa, gpu.pcie_root) == (None, None)
    (device,) = devices_of_gpus([gpu], "v1")
    assert not {"numaNode", "resource.kubernetes.io/pcieRoot"} & device.attributes.keys()


def test_a_card_without_a_name_is_identified_by_its_device_id(tmp_path: Path) -> None:
    (facts,) = gpus(count=1)
    write_tree([facts._replace(product="")], tmp_path)
    assert sysfs.gpus(HostFiles(tmp_path))[0].product == "AMD_Instinct_MI300X_OAM"


def test_a_gpu_without_a_compute_node_has_no_compute_units(tmp_path: Path) -> None:
    (facts,) = gpus(count=1)
    write_tree([facts], tmp_path)
    (tmp_path / sysfs.TOPOLOGY / "1" / "properties").unlink()
    (gpu,) = sysfs.gpus(HostFiles(tmp_path))
    assert [part.compute_units for part in gpu.parts] == [0]


def test_unused_partition_devices_are_ignored(tmp_path: Path) -> None:
    (facts,) = gpus("cpx", count=1)
    write_tree([facts], tmp_path)
    for node in range(2, 9):
        (tmp_path / sysfs.TOPOLOGY / str(node) / "properties").write_text("simd_count 0\n")
    assert len(sysfs.gpus(HostFiles(tmp_path))[0].parts) == 1


def test_settings_of_an_unknown_model_are_read_from_the_kernel(tmp_path: Path) -> None:
    (facts,) = gpus(count=1)
    write_tree([facts._replace(device_id="0x9999")], tmp_path, dies=6)
    settings = sysfs.gpus(HostFiles(tmp_path))[0].settings
    assert [(setting.compute, setting.memory, setting.parts) for setting in settings] == [
        ("spx", "nps1", 1), ("dpx", "nps1", 2), ("qpx", "nps1", 4), ("cpx", "nps1", 6),
    ]  # fmt: skip
