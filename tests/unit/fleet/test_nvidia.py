"""Facts of NVIDIA GPUs to devices, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.nvidia.nvml.facts import INSTANCE_PROFILES, profile_name
from allotment.fleet.hardware import hardware
from allotment.fleet.identity import name_uuid
from allotment.fleet.modes import ConsumableShares, DynamicMig, Full, NvidiaMode, Shared, StaticMig, Vfio, parse_mode
from allotment.fleet.nvidia import FixedMigDevice, Gpu, domain_devices, gpus_of, offering
from allotment.fleet.profiles import MIB, accelerators, servers
from allotment.fleet.slices import slices_of
from allotment.fleet.splitting import split
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from allotment.model.validation import admission
from tests.unit.model.validation.validating import CONTEXT, NOW, texts


def gpus(name: str, count: int | None = None, mode: NvidiaMode | None = None) -> tuple[Gpu, ...]:
    return gpus_of(hardware(name, count), "n", mode)


def names(groups: tuple[tuple[Device, ...], ...]) -> list[list[str]]:
    return [[device.name for device in group] for group in groups]


NVIDIA = [name for name in (*servers(), *accelerators()) if hardware(name).accelerator.vendor == "nvidia"]


# --- offered devices ------------------------------------------------------------------------------------------------


def test_ampere_with_mig_off_offers_the_whole_gpu_and_no_counters() -> None:
    off, on = gpus("a100-40gb", 2)
    groups, counters = offering((off, on._replace(mig_enabled=True)), DynamicMig())
    assert [len(group) for group in groups] == [1, 25]
    assert groups[0][0].name == "gpu-0"
    assert not groups[0][0].consumes_counters
    assert all(device.name.startswith("gpu-1-mig-") for device in groups[1])
    assert [counter_set.name for counter_set in counters] == ["gpu-1-counter-set"]


def test_hopper_offers_whole_gpus_and_mig_devices_with_mig_on_or_off() -> None:
    (off,) = gpus("h100")
    assert offering((off,), DynamicMig()) == offering((off._replace(mig_enabled=True),), DynamicMig())
    ((whole, *pieces),), _ = offering((off,), DynamicMig())
    assert (whole.name, len(pieces)) == ("gpu-0", 25)


def test_gpus_without_mig_are_published_whole_next_to_partitioned_ones() -> None:
    (t4,) = gpus("t4")
    (h100,) = gpus("h100")
    machine = (h100, t4._replace(pci="0000:00:05.0", minor=1))
    groups, counters = offering(machine, DynamicMig())
    assert names(groups)[1] == ["gpu-1"]
    assert len(counters) == 1


def test_a_gpu_in_mig_mode_publishes_only_existing_mig_devices() -> None:
    off, on = gpus("a100-40gb", 2)
    on = on._replace(mig_enabled=True)
    made = {
        on.pci: [
            FixedMigDevice(9, 4, "MIG-b"),
            FixedMigDevice(19, 0, "MIG-a"),
            FixedMigDevice(99, 0, "MIG-of-a-profile-nobody-knows"),
        ]
    }
    for mode in (Full(), StaticMig(((), ()))):
        ((whole, *pieces),), counters = offering((off, on), mode, made)
        assert [whole.name, *(piece.name for piece in pieces)] == [
            "gpu-0",
            "gpu-1-mig-3g20gb-9-4",
            "gpu-1-mig-1g5gb-19-0",
        ]
        assert pieces[0].attributes["uuid"].string == "MIG-b"
        assert [name for name in pieces[0].capacity if name.startswith("memorySlice")] == [
            f"memorySlice{n}" for n in (4, 5, 6, 7)
        ]
        assert not counters
    assert offering((on,), Full(), {}).groups == ((),)


def test_removing_a_gpu_removes_its_devices_and_counters() -> None:
    all_of_them = gpus("hgx-h100-generic", 3)
    left = tuple(gpu for gpu in all_of_them if gpu.minor != 1)
    before, after = offering(all_of_them, DynamicMig()), offering(left, DynamicMig())
    assert after.groups == (before.groups[0], before.groups[2])
    assert after.counters == (before.counters[0], before.counters[2])


def test_gpus_are_ordered_by_address_in_mig_modes() -> None:
    found = tuple(reversed(gpus("h100", 3)))
    assert names(offering(found, Full()).groups) == [["gpu-2", "gpu-1", "gpu-0"]]
    assert [group[0] for group in names(offering(found, DynamicMig()).groups)] == ["gpu-0", "gpu-1", "gpu-2"]
    assert names(offering(found, Vfio()).groups) == [["gpu-vfio-0", "gpu-vfio-1", "gpu-vfio-2"]]


def test_a_gpu_bound_to_vfio_is_published_only_for_virtual_machines() -> None:
    bound, free = gpus("h100", 2)
    bound = bound._replace(vfio_bound=True)
    for mode in (Full(), DynamicMig(), Shared(), ConsumableShares(2)):
        groups, _ = offering((bound, free), mode)
        assert {
            device.attributes["resource.kubernetes.io/pciBusID"].string for group in groups for device in group
        } == {free.pci}
    assert names(offering((bound, free), Vfio()).groups) == [["gpu-vfio-0", "gpu-vfio-1"]]


def test_without_gpus_there_are_no_devices() -> None:
    for mode in (Full(), DynamicMig(), StaticMig(()), Vfio(), Shared(), ConsumableShares("memory")):
        groups, counters = offering((), mode)
        assert not any(groups)
        assert not counters


# --- attributes of devices ------------------------------------------------------------------------------------------


def test_unknown_values_are_omitted() -> None:
    (gpu,) = gpus("h100")
    bare = gpu._replace(numa=None, pcie_root=None, memory_bytes=None, driver_version="", brand="", pci="00000000:1:0.0")
    (((device,),), _) = offering((bare,), Full())
    assert sorted(device.attributes) == [
        "architecture", "cudaComputeCapability", "cudaDriverVersion", "productName", "type", "uuid",
    ]  # fmt: skip
    assert device.capacity == {}


def test_additional_facts_are_published() -> None:
    (gpu,) = gpus("h100")
    published = gpu._replace(
        addressing_mode="HMM", product="x" * 100, driver_version="580.105.08", cuda_driver_version="13.0"
    )
    (((device,),), _) = offering((published,), Full())
    assert device.attributes["addressingMode"].string == "HMM"
    assert len(device.attributes["productName"].string or "") == 64
    assert device.attributes["driverVersion"].version == "580.105.8"
    assert device.attributes["cudaDriverVersion"].version == "13.0.0"


@given(
    st.text(max_size=80),
    st.text(alphabet="0123456789.-a", max_size=20),
    st.text(alphabet="0123456789abcdef:.", max_size=14),
)
def test_any_driver_output_gives_a_valid_slice(words: str, number: str, pci: str) -> None:
    (gpu,) = gpus("a30")
    odd = gpu._replace(
        product=words, brand=words, architecture=words, addressing_mode=words, pcie_root=words, device_id=words,
        uuid=words, driver_version=number, cuda_driver_version=number, compute_capability=number, pci=pci,
    )  # fmt: skip
    for mode in (Full(), DynamicMig(), Vfio(), Shared()):
        groups, counters = offering((odd._replace(mig_enabled=True),), mode)
        for part in split(groups, counters, Features("1.36")):
            spec = ResourceSliceSpec(
                driver="gpu.nvidia.com", node_name="n", pool=ResourcePool("n", 1, 1), devices=part.devices or None,
                shared_counters=part.counters or None,
            )  # fmt: skip
            slice_ = ResourceSlice(metadata=ObjectMeta(name="n"), spec=spec)
            assert texts(admission.create(slice_, CONTEXT, version="v1", now=NOW).errors) == []


def test_the_identity_of_a_vfio_device_does_not_need_nvml() -> None:
    first, second = gpus("dgx-a100-40gb", 2)
    ((device, other),), counters = offering((first._replace(iommu_fd=True), second), Vfio())
    published = {
        name: next(value for value in msgspec.to_builtins(attribute).values())
        for name, attribute in device.attributes.items()
    }
    assert published == {
        "deviceID": "0x20b0",
        "iommuFDEnabled": True,
        "productName": "NVIDIA A100-SXM4-40GB",
        "resource.kubernetes.io/numaNode": 3,
        "resource.kubernetes.io/pciBusID": "0000:07:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "type": "vfio",
        "uuid": name_uuid("0000:07:00.0"),
        "vendorID": "0x10de",
    }
    assert str(device.capacity["addressableMemory"].value) == "64Gi"
    assert other.attributes["iommuFDEnabled"].bool_ is False
    assert not counters


# --- shared GPUs ----------------------------------------------------------------------------------------------------


def test_a_shared_gpu_allocates_memory_in_mebibytes_and_all_of_it_by_default() -> None:
    (gpu,) = gpus("h100")
    (((device,),), _) = offering((gpu,), Shared())
    memory = device.capacity["memory"]
    assert device.allow_multiple_allocations
    assert (device.attributes["type"].string, device.attributes["sharing"].string) == ("gpu", "MPS")
    assert memory.request_policy is not None
    assert memory.request_policy.valid_range is not None
    valid = memory.request_policy.valid_range
    assert [str(q) for q in (memory.value, memory.request_policy.default, valid.min, valid.max, valid.step)] == [
        "81559Mi", "81559Mi", "1Mi", "81559Mi", "1Mi",
    ]  # fmt: skip


def test_memory_that_cannot_be_limited_is_not_shared() -> None:
    (gpu,) = gpus("h100")
    (((device,),), _) = offering((gpu._replace(memory_bytes=None),), Shared())
    assert device.allow_multiple_allocations is None


@pytest.mark.parametrize(
    ("shares", "memory", "count"), [("memory", "81559Mi", None), ("unlimited", "0", None), (4, "0", "4")]
)
def test_counted_shares_are_of_memory_or_of_a_number(shares: str, memory: str, count: str | None) -> None:
    machine = hardware("h100")
    mode = parse_mode(f"consumable-shares={shares}", machine)
    assert isinstance(mode, ConsumableShares)
    odd = gpus("h100")[0]._replace(memory_bytes=81559 * MIB + 5)
    (((device,),), _) = offering((odd,), mode)
    policy = device.capacity["memory"].request_policy
    assert policy is not None
    assert str(policy.default) == memory
    assert str(device.capacity["memory"].value) == "81559Mi"
    assert "sharing" not in device.attributes
    assert (str(device.capacity["shares"].value) if "shares" in device.capacity else None) == count


@pytest.mark.parametrize("name", NVIDIA)
def test_slices_of_every_mode_pass_the_validation_of_the_api(name: str) -> None:
    machine = hardware(name)
    modes = ["full", "vfio", "shared", "consumable-shares=memory", "consumable-shares=unlimited", "consumable-shares=3"]
    modes += ["dynamic-mig"] if machine.accelerator.mig else []
    for mode in modes:
        for slice_ in slices_of(machine, parse_mode(mode, machine), "n"):
            assert texts(admission.create(slice_, CONTEXT, version="v1", now=NOW).errors) == []


# --- validation and profiles ----------------------------------------------------------------------------------------


def test_compute_domain_devices_equal_the_recorded_ones(shared: Callable[[str], Path]) -> None:
    recorded = yaml.safe_load(shared("manifests/slices/nvidia-compute-domain.yaml").read_text())
    assert list(msgspec.to_builtins(domain_devices())) == recorded["spec"]["devices"]


@pytest.mark.parametrize("name", [model.id for model in accelerators().values() if model.mig])
def test_computed_profile_names_are_those_of_the_tables(name: str) -> None:
    accelerator = accelerators()[name]
    assert accelerator.mig is not None
    for profile in accelerator.mig.profiles:
        slices, suffix = int(profile.name[0]), profile.name.partition("gb")[2]
        numbers = [n for n, kind in enumerate(INSTANCE_PROFILES) if (kind.slices, kind.suffix) == (slices, suffix)]
        assert numbers
        for number in numbers:
            assert profile_name(number, slices, profile.memory_mib, accelerator.memory_mib * MIB) == profile.name


def test_an_unknown_profile_number_has_a_generic_name() -> None:
    assert profile_name(len(INSTANCE_PROFILES), 2, 9856, 40960 * MIB) == "2g.10gb"
