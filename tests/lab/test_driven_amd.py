"""AMD's GPUs on a lab's nodes: handed to virtual machines, and ill."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.model.trees import Tree
from tests.lab.driven import break_down, claim_files, published, run, statuses
from tests.lab.manifests import story
from tests.lab.stage import stage
from tests.lab.test_device_metadata import pod, template


@pytest.mark.parametrize(("mode", "virtual"), [("vfio", False), ("vfio=8", True)])
def test_an_amd_gpu_for_a_virtual_machine_is_in_its_container(mode: str, virtual: bool) -> None:
    async def tell() -> None:
        async with stage(fleet=(f"mi300x=mi300x-8x-oam/{mode}",)) as on:
            attributes = "device.attributes['gpu.amd.com']"
            selector = f"{attributes}.type == 'vfio' && {attributes}.isVF == {str(virtual).lower()}"
            parameters = {
                "apiVersion": "gpu.resource.amd.com/v1alpha1",
                "kind": "VfioDeviceConfig",
                "iommu": {"backendPolicy": "LegacyOnly"},
            }
            config = [{"opaque": {"driver": "gpu.amd.com", "parameters": parameters}}]
            await on.create(template("guest", "gpu.amd.com", selector, config=config))
            await on.create(pod("machine", "guest", "sleep", "60"))
            (machine,) = await on.running("default", 1)
            (entry,) = await statuses(on, machine)
            assert (await run(on, machine, "ls", "/dev/vfio")).split() == [entry["data"]["iommuGroup"], "vfio"]
            assert "kfd" not in await run(on, machine, "ls", "/dev")
            assert claim_files(on, "mi300x")

    story(tell)


def test_a_gpu_with_memory_errors_is_tainted_until_it_is_well() -> None:
    def tainted(slices: Sequence[Tree]) -> dict[str, list[str]]:
        devices = [device for one in slices for device in one["spec"].get("devices") or ()]
        return {
            d["name"]: [f"{t['key']}={t.get('value', '')}" for t in d["taints"]] for d in devices if d.get("taints")
        }

    async def tell() -> None:
        async with stage(fleet=("mi300x=mi300x-8x-oam",)) as on:
            await break_down(on, "mi300x", "gpu-1=ras,gpu-2=lost")
            slices = await published(on, "mi300x", lambda slices: len(tainted(slices)) == 2)
            assert tainted(slices) == {"gpu-9-136": ["gpu.amd.com/ras=umc"], "gpu-17-144": ["gpu.amd.com/gpu-lost="]}
            await break_down(on, "mi300x", None)
            await published(on, "mi300x", lambda slices: not tainted(slices))

    story(tell)
