"""AMD's GPUs on a lab's nodes: passed to virtual machines, and with memory errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.model.trees import Tree
from tests.lab.driver_nodes import claim_specs, device_statuses, exec_in_pod, inject_faults, wait_for_slices
from tests.lab.harness import lab_harness
from tests.lab.manifests import run_scenario
from tests.lab.test_device_metadata import pod, template


@pytest.mark.parametrize(("mode", "virtual"), [("vfio", False), ("vfio=8", True)])
def test_an_amd_gpu_for_a_virtual_machine_is_in_its_container(mode: str, virtual: bool) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=(f"mi300x=mi300x-8x-oam/{mode}",)) as lab:
            attributes = "device.attributes['gpu.amd.com']"
            selector = f"{attributes}.type == 'vfio' && {attributes}.isVF == {str(virtual).lower()}"
            parameters = {
                "apiVersion": "gpu.resource.amd.com/v1alpha1",
                "kind": "VfioDeviceConfig",
                "iommu": {"backendPolicy": "LegacyOnly"},
            }
            config = [{"opaque": {"driver": "gpu.amd.com", "parameters": parameters}}]
            await lab.create(template("guest", "gpu.amd.com", selector, config=config))
            await lab.create(pod("machine", "guest", "sleep", "60"))
            (machine,) = await lab.running("default", 1)
            (entry,) = await device_statuses(lab, machine)
            assert (await exec_in_pod(lab, machine, "ls", "/dev/vfio")).split() == [entry["data"]["iommuGroup"], "vfio"]
            assert "kfd" not in await exec_in_pod(lab, machine, "ls", "/dev")
            assert claim_specs(lab, "mi300x")

    run_scenario(scenario)


def test_a_gpu_with_memory_errors_is_tainted_until_it_is_repaired() -> None:
    def tainted(slices: Sequence[Tree]) -> dict[str, list[str]]:
        devices = [device for slice_ in slices for device in slice_["spec"].get("devices") or ()]
        return {
            d["name"]: [f"{t['key']}={t.get('value', '')}" for t in d["taints"]] for d in devices if d.get("taints")
        }

    async def scenario() -> None:
        async with lab_harness(fleet=("mi300x=mi300x-8x-oam",)) as lab:
            await inject_faults(lab, "mi300x", "gpu-1=ras,gpu-2=lost")
            slices = await wait_for_slices(lab, "mi300x", lambda slices: len(tainted(slices)) == 2)
            assert tainted(slices) == {"gpu-9-136": ["gpu.amd.com/ras=umc"], "gpu-17-144": ["gpu.amd.com/gpu-lost="]}
            await inject_faults(lab, "mi300x", None)
            await wait_for_slices(lab, "mi300x", lambda slices: not tainted(slices))

    run_scenario(scenario)
