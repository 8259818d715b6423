"""Template nodes and slices of instance types: valid, and equal to those of real nodes."""

from __future__ import annotations

import msgspec
import pytest

from allotment.fleet import FleetError, accelerators, parse_fleet, slices_of
from allotment.fleet.catalog import InstanceType, Template, catalog, modes_of, template_of
from allotment.model.features import Features
from allotment.model.resource import Device
from allotment.model.validation import ValidationContext
from allotment.model.validation.slices import resource_slice
from tests.unit.fleet.catalog.conftest import Type

CONTEXT = ValidationContext(Features(kube="1.36"), lambda expression, stored: ())
USABLE = [instance for instance in catalog() if not instance.unusable]
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"


def modes(instance: InstanceType) -> list[str]:
    """Every mode, with arguments if required."""
    model = instance.accelerator
    mig = model.mig if model else None
    arguments = {
        "static-mig": [f"={mig.profiles[0].name}:{mig.profiles[0].max_instances}"] if mig else [],
        "consumable-shares": ["=memory", "=unlimited", "=4"],
    }
    return ["", *(f"{kind}{argument}" for kind in modes_of(instance) for argument in arguments.get(kind, [""]))]


def devices(template: Template) -> list[Device]:
    return [device for slice_ in template.slices for device in slice_.spec.devices or ()]


@pytest.mark.parametrize("instance", USABLE, ids=lambda instance: instance.key)
def test_slices_of_every_mode_are_valid(instance: InstanceType) -> None:
    for mode in modes(instance):
        template = template_of(instance, mode, "some-node")
        assert bool(template.slices) == bool(instance.gpus)
        assert {slice_.spec.node_name for slice_ in template.slices} <= {"some-node"}
        assert {slice_.spec.pool.name for slice_ in template.slices} <= {"some-node"}
        drivers = [slice_.spec.driver for slice_ in template.slices]
        for slice_ in template.slices:
            assert list(resource_slice(slice_, CONTEXT)) == []
            # With a count that is too high, the pool would be incomplete.
            assert slice_.spec.pool.resource_slice_count == drivers.count(slice_.spec.driver)
        assert len({slice_.metadata.name for slice_ in template.slices}) == len(template.slices)


@pytest.mark.parametrize("mode", ["", "static-mig=1g.5gb:7", "dynamic-mig", "shared", "consumable-shares=4"])
def test_devices_equal_those_of_a_simulated_node_except_for_runtime_attributes(sold: Type, mode: str) -> None:
    template = template_of(sold("aws/p4d.24xlarge"), mode, "n1")
    (machine,) = parse_fleet([f"n1={template.form}"])
    real = slices_of(machine.hardware, machine.mode, "n1")

    def known(device: Device) -> Device:
        kept = {name: value for name, value in device.attributes.items() if name not in template.runtime_only}
        return msgspec.structs.replace(device, attributes=kept)

    assert [slice_.metadata for slice_ in template.slices] == [slice_.metadata for slice_ in real]
    assert [slice_.spec.shared_counters for slice_ in template.slices] == [
        slice_.spec.shared_counters for slice_ in real
    ]
    made = [device for slice_ in real for device in slice_.spec.devices or ()]
    assert [known(device) for device in devices(template)] == [known(device) for device in made]
    assert [set(device.attributes) for device in devices(template)] == [set(device.attributes) for device in made]


def test_memory_is_the_figure_of_the_driver(sold: Type) -> None:
    (gpu,) = devices(template_of(sold("aws/g4dn.xlarge"), "", "n"))
    assert str(gpu.capacity["memory"].value) == "15Gi"
    gpus = devices(template_of(sold("aws/p5.48xlarge"), "", "n"))
    assert {str(device.capacity["memory"].value) for device in gpus} == {"81559Mi"}


def test_symbols_are_equal_only_for_equal_values(sold: Type) -> None:
    """It is unknown which GPUs of a p4d share a PCIe root; on a p5 each has a separate one."""
    template = template_of(sold("aws/p4d.24xlarge"), "static-mig=1g.5gb:7", "n")
    for name in (ROOT, "resource.kubernetes.io/pciBusID", "parentUUID", NUMA):
        assert name in template.runtime_only
        values = [device.attributes[name] for device in devices(template)]
        assert len(set(values)) == 8  # one for each GPU, shared by its seven MIG devices
        assert values[0] == values[6] != values[7]
    assert len({device.attributes["uuid"] for device in devices(template)}) == 56
    assert template.unmeasured == {ROOT, NUMA}
    measured = template_of(sold("aws/p5.48xlarge"), "", "n")
    assert measured.form == "hgx-h100-aws-p5"
    assert measured.unmeasured == {NUMA}
    alone = template_of(sold("aws/g5.xlarge"), "", "n")
    assert alone.unmeasured == frozenset()


def test_device_ids_of_the_old_amd_driver_are_unknown_and_of_the_new_one_known(sold: Type) -> None:
    box = sold("azure/Standard_ND96isr_MI300X_v5")
    old, new = template_of(box, "spx@v0", "n"), template_of(box, "spx", "n")
    assert "deviceID" in old.runtime_only
    assert "deviceID" not in new.runtime_only
    model = accelerators()["amd-mi300x-192gb"].pci_device
    assert {device.attributes["deviceID"].string for device in devices(new)} == {model}


def test_the_node_has_the_labels_of_its_cloud_and_room_for_pods(sold: Type) -> None:
    instance = sold("gcp/n1-standard-8+1xT4")
    node = template_of(instance, "shared", "n7", zone="us-central1-c", capacity_type="spot").node
    assert node.metadata.name == "n7"
    assert node.metadata.labels == {
        "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "karpenter.sh/capacity-type": "spot",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "n7",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "n1-standard-8",
        "nvidia.com/gpu.compute.major": "7",
        "nvidia.com/gpu.compute.minor": "5",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.family": "turing",
        "nvidia.com/gpu.memory": "15360",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "Tesla-T4",
        "topology.gke.io/zone": "us-central1-c",
        "topology.kubernetes.io/region": "us-central1",
        "topology.kubernetes.io/zone": "us-central1-c",
    }
    assert node.metadata.annotations == {"allotment.dev/simulated": "true", "allotment.dev/hardware": "t4/shared"}
    assert instance.room is not None
    assert node.status.allocatable["cpu"].nano == instance.room.cpu_milli * 10**6
    assert str(node.status.allocatable["memory"]) == f"{instance.room.memory_mib}Mi"
    assert str(node.status.allocatable["pods"]) == "110"
    assert str(node.status.capacity["cpu"]) == "8"


def test_a_node_without_gpus_has_no_slices(sold: Type) -> None:
    template = template_of(sold("aws/m6i.xlarge"), "", "n")
    assert (template.slices, template.form) == ((), "")
    assert "allotment.dev/hardware" not in template.node.metadata.annotations
    with pytest.raises(FleetError, match=r"aws/m6i\.xlarge has no whole GPUs, so mode 'shared' is not supported"):
        template_of(sold("aws/m6i.xlarge"), "shared", "n")


def test_a_layout_that_does_not_fit_the_gpu_is_rejected(sold: Type) -> None:
    with pytest.raises(FleetError, match="fits at most 7"):
        template_of(sold("aws/p4d.24xlarge"), "static-mig=1g.5gb:8", "n")
    with pytest.raises(FleetError, match="does not support MIG"):
        template_of(sold("aws/g5.xlarge"), "dynamic-mig", "n")


def test_kubernetes_1_34_requires_counters_with_devices(sold: Type) -> None:
    template = template_of(sold("gcp/a2-highgpu-1g"), "dynamic-mig", "n", kube="1.34")
    assert [bool(each.spec.devices and each.spec.shared_counters) for each in template.slices] == [True]


def test_devices_of_nodes_of_one_type_are_shared() -> None:
    for sold_one in USABLE:
        first, second = template_of(sold_one, "", "one"), template_of(sold_one, "", "other")
        assert all(a.spec.devices is b.spec.devices for a, b in zip(first.slices, second.slices, strict=True))
