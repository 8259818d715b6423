"""Drivers over simulated hardware for a real kubelet: container variables, and state that survives the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cdi.spec import ContainerEdits
from allotment.drivers.driver import AllocatedClaim, AllocatedDevice, PreparedClaim, SimulatedDriver
from allotment.drivers.simulation import VARIABLE, SimulatedHardwareDriver, state_folder
from allotment.drivers.vendors import host_simulation
from allotment.fleet import parse_fleet
from allotment.model.quantity import Quantity
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import config

NODE = "n1"
#: The edits that are possible on any host.
VARIABLES_ONLY = {"env"}


def driver(form: str, state: Path) -> SimulatedHardwareDriver:
    """Return the driver of a node with this hardware, after discovery."""
    simulation = host_simulation(parse_fleet([f"{NODE}={form}"])[0], state)
    idle.run(simulation.discover())
    assert isinstance(simulation, SimulatedHardwareDriver)
    return simulation


def prepared(
    of: SimulatedHardwareDriver, *device: AllocatedDevice, uid: str = "c1"
) -> tuple[dict[str, object], PreparedClaim]:
    claim = AllocatedClaim(uid, "default", uid, device)
    plan = of.plan(claim)
    return plan, idle.run(of.prepare(claim, plan))


def changed(edits: ContainerEdits) -> set[str]:
    return {field for field in edits.__struct_fields__ if getattr(edits, field)}


@pytest.mark.parametrize(
    ("form", "device"),
    [
        ("8xa100-40gb", AllocatedDevice("gpu", NODE, "gpu-0")),
        ("8xa100-40gb/dynamic-mig", AllocatedDevice("gpu", NODE, "gpu-0-mig-1g5gb-19-0")),
        ("8xa100-40gb/vfio", AllocatedDevice("gpu", NODE, "gpu-vfio-0")),
        (
            "8xa100-40gb/shared",
            AllocatedDevice("gpu", NODE, "gpu-0", share_id="s", consumed_capacity={"memory": Quantity.parse("10Gi")}),
        ),
        (
            "8xa100-40gb",
            AllocatedDevice("gpu", NODE, "gpu-1", config("GpuConfig", sharing={"strategy": "MPS", "mpsConfig": {}})),
        ),
        ("mi300x-8x-oam", AllocatedDevice("gpu", NODE, "gpu-1-128")),
        ("mi300x-8x-oam/vfio", AllocatedDevice("gpu", NODE, "gpu-vfio-0")),
    ],
)
def test_containers_get_only_variables(form: str, device: AllocatedDevice, tmp_path: Path) -> None:
    _, result = prepared(driver(form, tmp_path), device)
    (ready,) = result.devices.values()
    assert changed(ready.edits) == changed(result.edits) == VARIABLES_ONLY
    assert any(variable.startswith(f"{VARIABLE}=") and variable.endswith(f" {form}") for variable in result.edits.env)
    name = device.device.upper().replace("-", "_")
    assert f"{VARIABLE}_N1_{name}=n1/{device.device}" in ready.edits.env


def test_two_devices_of_a_container_have_separate_variables(tmp_path: Path) -> None:
    simulated = driver("8xa100-40gb", tmp_path)
    _, result = prepared(simulated, AllocatedDevice("gpu", NODE, "gpu-0"), AllocatedDevice("gpu", NODE, "gpu-1"))
    names = [variable.partition("=")[0] for ready in result.devices.values() for variable in ready.edits.env]
    assert len(set(names)) == len(names) == 2


def test_the_simulated_hardware_is_named(tmp_path: Path) -> None:
    simulated = driver("8xa100-40gb/dynamic-mig", tmp_path)
    assert isinstance(simulated, SimulatedDriver)
    assert (simulated.name, simulated.simulated_hardware) == ("gpu.nvidia.com", "8xa100-40gb/dynamic-mig")


def test_a_mig_device_survives_a_restart_of_the_driver(tmp_path: Path) -> None:
    form, device = "8xa100-40gb/dynamic-mig", AllocatedDevice("gpu", NODE, "gpu-0-mig-1g5gb-19-0")
    plan, result = prepared(driver(form, tmp_path), device)
    (before,) = result.devices.values()
    after = driver(form, tmp_path)
    idle.run(after.ensure_running(plan))  # it still exists
    claim = AllocatedClaim("c1", "default", "c1", (device,))
    (again,) = idle.run(after.prepare(claim, plan)).devices.values()
    assert before.status_data is not None
    assert before.status_data["uuid"]
    assert again.status_data == before.status_data
    idle.run(after.unprepare(plan))
    _, other = prepared(after, AllocatedDevice("gpu", NODE, "gpu-0-mig-7g40gb-0-0"))
    assert other.devices


def test_gpu_partitions_survive_a_restart_of_the_driver(tmp_path: Path) -> None:
    form = "mi300x-8x-oam/auto"
    pools = idle.run(driver(form, tmp_path).discover())
    name = next(device.name for group in pools[0].groups for device in group if "cpx" in device.name)
    device = AllocatedDevice("gpu", NODE, name, share_id="s", consumed_capacity={"partitions": Quantity.parse("1")})
    plan, result = prepared(driver(form, tmp_path), device)
    after = driver(form, tmp_path)
    after.restore([plan])
    claim = AllocatedClaim("c1", "default", "c1", (device,))
    assert idle.run(after.prepare(claim, plan)).devices.keys() == result.devices.keys()
    content = (tmp_path / "hardware.json").read_text()
    assert '"cpx"' in content
    idle.run(after.unprepare(plan))
    assert '"cpx"' not in (tmp_path / "hardware.json").read_text()


def test_a_gpu_of_a_virtual_machine_stays_bound(tmp_path: Path) -> None:
    form, device = "mi300x-8x-oam/vfio", AllocatedDevice("gpu", NODE, "gpu-vfio-0")
    plan, _ = prepared(driver(form, tmp_path), device)
    after = driver(form, tmp_path)
    after.restore([plan])
    assert "vfio-pci" in (tmp_path / "hardware.json").read_text()
    idle.run(after.unprepare(plan))
    assert '"vfio-pci"' not in (tmp_path / "hardware.json").read_text().partition('"overrides"')[0]


def test_hardware_is_reset_after_a_reboot_or_another_choice(tmp_path: Path) -> None:
    first = state_folder(tmp_path, "boot-1", "8xa100-40gb")
    first.mkdir()
    assert state_folder(tmp_path, "boot-1", "8xa100-40gb") == first
    assert state_folder(tmp_path, "boot-1", "4xt4") != first
    assert first.exists()  # a process that is about to be replaced may still use it
    assert state_folder(tmp_path, "boot-2", "8xa100-40gb") != first
    assert not first.exists()
