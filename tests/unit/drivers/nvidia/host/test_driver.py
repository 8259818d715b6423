"""The driver on the hardware of a real host, down to NVML's calls."""

from __future__ import annotations

from allotment.drivers.driver import AllocatedClaim, AllocatedDevice
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.hardware import Hardware
from allotment.fleet.modes import DynamicMig, Shared
from allotment.model.quantity import Quantity
from tests.nvml.library import A100, H100
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import run_on_host


def test_a_mig_device_is_created_for_a_claim_and_destroyed_after_it(host: Machine) -> None:
    host.gpu(H100, 7, "GPU-a")
    host.capability(0, "gi1", 12)
    host.capability(0, "gi1/ci0", 13)

    async def prepare_and_undo(hardware: Hardware) -> None:
        driver = NvidiaDriver(hardware, DynamicMig())
        ((group,), (counters,), *_) = (await driver.discover())[0][:2]
        device = next(published.name for published in group if published.name == "gpu-0-mig-3g40gb-9-4")
        assert counters.name == "gpu-0-counter-set"
        claim = AllocatedClaim("uid", "default", "c", (AllocatedDevice("r", "n", device),))
        plan = driver.plan(claim)
        assert host.nvml.instances(0) == 0
        prepared = await driver.prepare(claim, plan)
        assert host.nvml.instances(0) == 1
        (ready,) = prepared.devices.values()
        assert [node.path for node in ready.edits.device_nodes] == [
            "/dev/nvidia0",
            "/dev/nvidia-caps/nvidia-cap12",
            "/dev/nvidia-caps/nvidia-cap13",
        ]
        assert await driver.prepare(claim, plan) == prepared
        await driver.unprepare(plan)
        await driver.unprepare(plan)

    run_on_host(host, prepare_and_undo)
    assert host.nvml.instances(0) == 0
    assert not host.nvml.mig_mode(0)


def test_the_memory_of_a_claim_is_limited_by_a_daemon(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")

    async def prepare_and_undo(hardware: Hardware) -> None:
        driver = NvidiaDriver(hardware, Shared())
        await driver.discover()
        consumed = {"memory": Quantity.parse("10Gi")}
        claim = AllocatedClaim(
            "uid", "default", "c", (AllocatedDevice("r", "n", "gpu-0", share_id="s1", consumed_capacity=consumed),)
        )
        plan = driver.plan(claim)
        prepared = await driver.prepare(claim, plan)
        assert len(await hardware.mps_daemons()) == 1
        (ready,) = prepared.devices.values()
        assert "command set_default_device_pinned_mem_limit GPU-a 10240M" in host.calls()
        assert ready.edits.env == ("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",)
        await driver.unprepare(plan)
        assert await hardware.mps_daemons() == frozenset()

    run_on_host(host, prepare_and_undo)
