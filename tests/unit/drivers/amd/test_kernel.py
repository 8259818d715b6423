"""The kernel's files of a host: in a folder, with a fake modprobe."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from allotment.drivers.amd import sysfs
from allotment.drivers.amd.hardware import HardwareError
from allotment.drivers.amd.kernel import KernelHardware, reload_module
from allotment.drivers.amd.kernel_files import HostFiles
from allotment.drivers.amd.simulated.sysfs_tree import write_tree
from allotment.fleet import hardware, parse_mode
from allotment.fleet.amd import Gpu, gpus_of
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock

PCI = "0000:05:00.0"


def facts(mode: str = "", count: int = 2) -> tuple[Gpu, ...]:
    machine = hardware("mi300x-8x-oam", count)
    return gpus_of(machine, "n", parse_mode(mode, machine))


def kernel(root: Path, mode: str = "") -> KernelHardware:
    write_tree(facts(mode), root, dies=8)
    return KernelHardware(HostFiles(root), IdleClock(1000))


def test_device_files_have_numbers_and_groups(tmp_path: Path) -> None:
    async def main() -> None:
        node = kernel(tmp_path)
        gpu, _ = await node.gpus()
        files = await node.device_files(gpu.parts[0])
        assert [(file.path, file.major, file.minor) for file in files] == [
            ("/dev/kfd", 511, 0), ("/dev/dri/card1", 226, 1), ("/dev/dri/renderD128", 226, 128),
        ]  # fmt: skip
        assert {file.group for file in files} == {tmp_path.stat().st_gid}
        # None are returned until udev has created all of them.
        (tmp_path / "dev/dri/renderD128").unlink()
        assert await node.device_files(gpu.parts[0]) == ()

    idle.run(main())


def test_modes_are_written_as_the_kernel_spells_them(tmp_path: Path) -> None:
    async def main() -> None:
        reloads = []

        async def reload() -> None:
            reloads.append(1)

        write_tree(facts(), tmp_path, dies=8)
        node = KernelHardware(HostFiles(tmp_path), IdleClock(), reload=reload)
        await node.set_compute_partition(PCI, "cpx")
        assert (tmp_path / sysfs.GPUS / PCI / "current_compute_partition").read_text() == "CPX"
        await node.set_memory_partition("nps4")
        for gpu in await node.gpus():
            assert (tmp_path / sysfs.GPUS / gpu.pci / "current_memory_partition").read_text() == "NPS4"
        assert reloads == [1]

    idle.run(main())


def test_kernel_errors_name_the_gpu_and_the_mode(tmp_path: Path) -> None:
    async def main() -> None:
        node = kernel(tmp_path)
        with pytest.raises(
            HardwareError, match=r"GPU 0000:99:00\.0: cannot set compute partition mode CPX: No such file"
        ):
            await node.set_compute_partition("0000:99:00.0", "cpx")

    idle.run(main())


def test_added_and_removed_gpus_are_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        node = kernel(tmp_path)
        change = asyncio.ensure_future(anext(aiter(node.changes())))
        await asyncio.sleep(0.03)
        assert not change.done()
        (tmp_path / sysfs.GPUS / PCI).unlink()
        await asyncio.wait_for(change, 5)
        assert len(await node.gpus()) == 1

    idle.run(main())


def test_the_module_is_reloaded_with_modprobe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "modprobe"
    tool.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\nif [ -e {tmp_path}/busy ]; then echo busy >&2; exit 1; fi\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def main() -> None:
        await reload_module()
        assert (tmp_path / "calls").read_text().splitlines() == ["-r amdgpu", "amdgpu"]
        (tmp_path / "busy").touch()
        with pytest.raises(HardwareError, match="modprobe -r amdgpu: busy"):
            await reload_module()
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        with pytest.raises(HardwareError, match="modprobe: No such file"):
            await reload_module()

    asyncio.run(main())
