"""MIG devices created and destroyed through NVML, with failures of every step."""

from __future__ import annotations

import pytest

from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError
from tests.nvml.library import A100, H100, T4
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import run_on_host

PCI = "0000:07:00.0"

#: Profile ids of both models.
ONE, THREE, SEVEN = 19, 9, 0


def test_seven_small_mig_devices_fill_a_gpu(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)

    async def fill(hardware: Hardware) -> None:
        devices = [await hardware.create_mig(PCI, ONE, start) for start in range(7)]
        assert [(device.profile_id, device.start) for device in devices] == [(ONE, start) for start in range(7)]
        assert len({device.uuid for device in devices}) == 7
        assert await hardware.mig_devices(PCI) == tuple(devices)
        with pytest.raises(HardwareError, match=r"profile 9 at start 4: Insufficient Resources"):
            await hardware.create_mig(PCI, THREE, 4)
        for device in devices:
            await hardware.destroy_mig(PCI, ONE, device.start)
        assert await hardware.mig_devices(PCI) == ()

    run_on_host(host, fill)
    assert host.nvml.instances(0) == 0
    assert host.nvml.mig_mode(0)  # the driver does not disable MIG on Ampere


def test_creating_and_destroying_a_mig_device_are_idempotent(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)

    async def twice(hardware: Hardware) -> None:
        first = await hardware.create_mig(PCI, THREE, 4)
        assert await hardware.create_mig(PCI, THREE, 4) == first
        await hardware.destroy_mig(PCI, THREE, 4)
        await hardware.destroy_mig(PCI, THREE, 4)
        again = await hardware.create_mig(PCI, THREE, 4)
        assert again.uuid != first.uuid

    run_on_host(host, twice)
    assert host.nvml.instances(0) == 1


def test_a_compute_instance_that_fails_leaves_nothing(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)
    host.nvml.fail_compute(1)

    async def fail_then_make(hardware: Hardware) -> None:
        with pytest.raises(
            HardwareError,
            match="MIG device with profile 9 at start 0: cannot create its compute instance: Insufficient Resources",
        ):
            await hardware.create_mig(PCI, THREE, 0)
        assert host.nvml.instances(0) == 0
        assert (await hardware.create_mig(PCI, THREE, 0)).start == 0

    run_on_host(host, fail_then_make)


def test_a_failed_rollback_is_reported_and_cleaned_up_by_the_next_call(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)
    host.nvml.fail_compute(1)
    host.nvml.fail_destroy(1)

    async def fail_then_make(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match=r"the device cannot be destroyed either: .*In use by another client"):
            await hardware.create_mig(PCI, THREE, 0)
        assert host.nvml.instances(0) == 1
        assert await hardware.mig_devices(PCI) == ()
        assert (await hardware.create_mig(PCI, THREE, 0)).start == 0
        assert host.nvml.instances(0) == 1

    run_on_host(host, fail_then_make)


def test_an_incomplete_mig_device_of_a_killed_process_is_destroyed(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)
    host.nvml.fail_compute(1)
    host.nvml.fail_destroy(1)

    async def leave_half_and_destroy(hardware: Hardware) -> None:
        with pytest.raises(HardwareError):
            await hardware.create_mig(PCI, THREE, 0)
        await hardware.destroy_mig(PCI, THREE, 0)

    run_on_host(host, leave_half_and_destroy)
    assert host.nvml.instances(0) == 0


def test_mig_is_enabled_on_hopper_with_the_first_and_disabled_with_the_last(host: Machine) -> None:
    host.gpu(H100, 7, "GPU-a")

    async def create_and_destroy(hardware: Hardware) -> None:
        await hardware.create_mig(PCI, THREE, 0)
        await hardware.create_mig(PCI, ONE, 4)
        assert (await hardware.gpus())[0].mig_enabled
        await hardware.destroy_mig(PCI, THREE, 0)
        assert host.nvml.mig_mode(0)
        await hardware.destroy_mig(PCI, ONE, 4)
        assert not host.nvml.mig_mode(0)

    run_on_host(host, create_and_destroy)


def test_mig_is_disabled_unless_it_is_in_use(host: Machine) -> None:
    host.gpu(H100, 7, "GPU-a", mig=True)
    host.gpu(A100, 8, "GPU-b", mig=True)
    host.gpu(T4, 9, "GPU-c")

    async def leave(hardware: Hardware) -> None:
        await hardware.create_mig("0000:08:00.0", THREE, 0)
        with pytest.raises(HardwareError, match="the GPU has MIG devices"):
            await hardware.disable_mig("0000:08:00.0")
        await hardware.destroy_mig("0000:08:00.0", THREE, 0)
        with pytest.raises(HardwareError, match="the change requires a GPU reset"):
            await hardware.disable_mig("0000:08:00.0")
        for pci in (PCI, PCI, "0000:09:00.0"):
            await hardware.disable_mig(pci)
        assert not host.nvml.mig_mode(0)

    run_on_host(host, leave)


def test_a_failure_leaves_mig_disabled_on_hopper(host: Machine) -> None:
    host.gpu(H100, 7, "GPU-a")
    host.nvml.fail_compute(1)

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match="compute instance"):
            await hardware.create_mig(PCI, THREE, 0)

    run_on_host(host, fail)
    assert not host.nvml.mig_mode(0)
    assert host.nvml.instances(0) == 0


def test_ampere_with_mig_disabled_explains_the_fix(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(
            HardwareError, match=r"MIG is disabled, .* requires a GPU reset \(nvidia-smi -i 0000:07:00.0 -mig 1"
        ):
            await hardware.create_mig(PCI, ONE, 0)
        assert await hardware.mig_devices(PCI) == ()
        await hardware.destroy_mig(PCI, ONE, 0)

    run_on_host(host, fail)


def test_unknown_profiles_and_starts_are_rejected(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)
    host.gpu(T4, 8, "GPU-b")

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match="the GPU has no such profile"):
            await hardware.create_mig(PCI, 99, 0)
        with pytest.raises(HardwareError, match="the profile cannot be placed there"):
            await hardware.create_mig(PCI, THREE, 2)
        assert await hardware.mig_devices("0000:08:00.0") == ()
        with pytest.raises(GpuLost, match=r"0000:99:00\.0"):
            await hardware.create_mig("0000:99:00.0", ONE, 0)
        with pytest.raises(GpuLost):
            await hardware.destroy_mig("0000:99:00.0", ONE, 0)

    run_on_host(host, fail)


def test_an_old_driver_creates_mig_devices(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", mig=True)
    host.nvml.old_driver()
    assert run_on_host(host, lambda hardware: hardware.create_mig(PCI, SEVEN, 0)).gpu_instance == 0
    assert host.nvml.instances(0) == 1
