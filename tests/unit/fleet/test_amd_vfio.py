"""AMD's GPUs and virtual functions for virtual machines: names, counters, and the syntax of their mode."""

from __future__ import annotations

import pytest

from allotment.fleet import FleetError, hardware, parse_mode, slices_of
from allotment.fleet.amd import functions_of, passed_through
from allotment.fleet.amd.vfio import Function
from allotment.fleet.modes import VirtualMachines
from allotment.model.resource import Device


def published(mode: str, name: str = "mi300x-8x-oam") -> dict[str, Device]:
    machine = hardware(name)
    slices = slices_of(machine, parse_mode(mode, machine), "n")
    return {device.name: device for slice_ in slices for device in slice_.spec.devices or ()}


def values(device: Device) -> dict[str, object]:
    return {
        name: next(value for value in (attribute.string, attribute.int_, attribute.bool_) if value is not None)
        for name, attribute in device.attributes.items()
    }


def consumed(device: Device) -> dict[str, str]:
    return {
        f"{use.counter_set}/{name}": str(c.value)
        for use in device.consumes_counters
        for name, c in use.counters.items()
    }


def test_a_gpu_for_virtual_machines_has_the_attributes_of_the_vendors_driver() -> None:
    devices = published("vfio")
    assert list(devices) == [f"gpu-vfio-{number}" for number in range(8)]
    assert values(devices["gpu-vfio-1"]) == {
        "deviceID": "0x74a1",
        "iommuGroup": "21",
        "isVF": False,
        "numaNode": 0,
        "pciAddr": "0000:26:00.0",
        "productName": "AMD_Instinct_MI300X_OAM",
        "resource.kubernetes.io/pciBusID": "0000:26:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:20",
        "type": "vfio",
        "vendorID": "0x1002",
    }
    assert {name: str(capacity.value) for name, capacity in devices["gpu-vfio-1"].capacity.items()} == {
        "computeUnits": "304", "memory": "196592Mi", "simdUnits": "1216",
    }  # fmt: skip


def test_virtual_functions_share_their_gpu_s_slots_and_capacity() -> None:
    devices = published("vfio=4")
    assert len(devices) == 32
    device = devices["gpu-vfio-5"]
    assert (values(device)["isVF"], values(device)["deviceID"], values(device)["pciAddr"]) == (
        True,
        "0x74b5",
        "0000:27:00.1",
    )
    assert consumed(device) == {"pf-0000-26-00-0-counter-set/vf-slots": "1"}
    assert str(device.capacity["computeUnits"].value) == "76"
    # A whole GPU uses all slots.
    assert consumed(published("vfio")["gpu-vfio-1"]) == {"pf-0000-26-00-0-counter-set/vf-slots": "8"}


def test_a_model_without_virtual_functions_has_no_counters() -> None:
    assert all(not device.consumes_counters for device in published("vfio", "mi250x").values())


def test_functions_of_one_iommu_group_exclude_each_other() -> None:
    machine = hardware("mi250x", 4)
    functions = functions_of(machine, VirtualMachines())
    found = [function._replace(group=group) for function, group in zip(functions, (3, 3, 4, 5), strict=True)]
    groups, counters = passed_through(dict(enumerate(found)))
    assert [counter_set.name for counter_set in counters] == ["iommu-group-3-counter-set"]
    assert [consumed(device) for group in groups for device in group] == [
        {"iommu-group-3-counter-set/devices": "1"}, {"iommu-group-3-counter-set/devices": "1"}, {}, {},
    ]  # fmt: skip


def test_devices_and_their_counters_stay_together_and_within_a_slice() -> None:
    def function(number: int) -> Function:
        return Function(f"0000:{number:02x}:00.0", "0x74a1", "0x74a1", "x", number // 2, slots=8)

    groups, counters = passed_through({number: function(number) for number in range(20)})
    assert len(counters) == 30
    homes: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        sets = {use.counter_set for device in group for use in device.consumes_counters}
        assert len(sets) <= 8
        for name in sets:
            homes.setdefault(name, set()).add(index)
    assert all(len(indexes) == 1 for indexes in homes.values())
    assert sum(map(len, groups)) == 20


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("vfio@v0", "mi300x", "2025 does not support virtual machines"),
        ("vfio=9", "mi300x", "from 1 to 8, found '9'"),
        ("vfio=", "mi300x", "from 1 to 8, found ''"),
        ("vfio=2", "mi250x", "does not support virtual functions"),
        ("vfi", "mi300x", "unknown mode"),
    ],
)
def test_an_invalid_mode_is_rejected(text: str, name: str, words: str) -> None:
    with pytest.raises(FleetError, match=words):
        parse_mode(text, hardware(name))
