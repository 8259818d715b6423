"""Nodes that do not exist yet: an API server would take them, and so would a claim."""

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
USABLE = [one for one in catalog() if not one.unusable]
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"


def modes(instance: InstanceType) -> list[str]:
    """Every kind of mode, with arguments where it needs them."""
    model = instance.accelerator
    mig = model.mig if model else None
    arguments = {
        "static-mig": [f"={mig.profiles[0].name}:{mig.profiles[0].max_instances}"] if mig else [],
        "consumable-shares": ["=memory", "=unlimited", "=4"],
    }
    return ["", *(f"{kind}{argument}" for kind in modes_of(instance) for argument in arguments.get(kind, [""]))]


def devices(template: Template) -> list[Device]:
    return [device for one in template.slices for device in one.spec.devices or ()]


@pytest.mark.parametrize("instance", USABLE, ids=lambda one: one.key)
def test_an_api_server_takes_every_slice_in_every_mode(instance: InstanceType) -> None:
    for mode in modes(instance):
        template = template_of(instance, mode, "some-node")
        assert bool(template.slices) == bool(instance.gpus)
        assert {one.spec.node_name for one in template.slices} <= {"some-node"}
        assert {one.spec.pool.name for one in template.slices} <= {"some-node"}
        drivers = [one.spec.driver for one in template.slices]
        for one in template.slices:
            assert list(resource_slice(one, CONTEXT)) == []
            # With a count that is too high, the pool counts as incomplete and none of its devices.
            assert one.spec.pool.resource_slice_count == drivers.count(one.spec.driver)
        assert len({one.metadata.name for one in template.slices}) == len(template.slices)


@pytest.mark.parametrize("mode", ["", "static-mig=1g.5gb:7", "dynamic-mig", "shared", "consumable-shares=4"])
def test_devices_are_those_of_a_simulated_node_but_for_what_only_the_node_knows(sold: Type, mode: str) -> None:
    template = template_of(sold("aws/p4d.24xlarge"), mode, "n1")
    (machine,) = parse_fleet([f"n1={template.form}"])
    real = slices_of(machine.hardware, machine.mode, "n1")

    def known(device: Device) -> Device:
        kept = {name: value for name, value in device.attributes.items() if name not in template.runtime_only}
        return msgspec.structs.replace(device, attributes=kept)

    assert [one.metadata for one in template.slices] == [one.metadata for one in real]
    assert [one.spec.shared_counters for one in template.slices] == [one.spec.shared_counters for one in real]
    made = [device for one in real for device in one.spec.devices or ()]
    assert [known(device) for device in devices(template)] == [known(device) for device in made]
    assert [set(device.attributes) for device in devices(template)] == [set(device.attributes) for device in made]


def test_memory_is_the_driver_s(sold: Type) -> None:
    (gpu,) = devices(template_of(sold("aws/g4dn.xlarge"), "", "n"))
    assert str(gpu.capacity["memory"].value) == "15Gi"
    gpus = devices(template_of(sold("aws/p5.48xlarge"), "", "n"))
    assert {str(one.capacity["memory"].value) for one in gpus} == {"81559Mi"}


def test_equal_symbols_only_where_values_will_be_equal(sold: Type) -> None:
    """Nobody measured which GPUs of a p4d share a root; on a p5 each has one of its own."""
    template = template_of(sold("aws/p4d.24xlarge"), "static-mig=1g.5gb:7", "n")
    for name in (ROOT, "resource.kubernetes.io/pciBusID", "parentUUID", NUMA):
        assert name in template.runtime_only
        values = [device.attributes[name] for device in devices(template)]
        assert len(set(values)) == 8  # one for each GPU, which its seven pieces share
        assert values[0] == values[6] != values[7]
    assert len({device.attributes["uuid"] for device in devices(template)}) == 56
    assert template.unmeasured == {ROOT, NUMA}
    measured = template_of(sold("aws/p5.48xlarge"), "", "n")
    assert measured.form == "hgx-h100-aws-p5"
    assert measured.unmeasured == {NUMA}
    alone = template_of(sold("aws/g5.xlarge"), "", "n")
    assert alone.unmeasured == frozenset()


def test_what_amd_s_old_driver_numbered_is_not_known_and_what_the_new_one_calls_the_same_is(sold: Type) -> None:
    box = sold("azure/Standard_ND96isr_MI300X_v5")
    old, new = template_of(box, "spx@v0", "n"), template_of(box, "spx", "n")
    assert "deviceID" in old.runtime_only
    assert "deviceID" not in new.runtime_only
    model = accelerators()["amd-mi300x-192gb"].pci_device
    assert {one.attributes["deviceID"].string for one in devices(new)} == {model}


def test_the_node_has_the_labels_of_its_cloud_and_room_for_pods(sold: Type) -> None:
    one = sold("gcp/n1-standard-8+1xT4")
    node = template_of(one, "shared", "n7", zone="us-central1-c", capacity_type="spot").node
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
    assert one.room is not None
    assert node.status.allocatable["cpu"].nano == one.room.cpu_milli * 10**6
    assert str(node.status.allocatable["memory"]) == f"{one.room.memory_mib}Mi"
    assert str(node.status.allocatable["pods"]) == "110"
    assert str(node.status.capacity["cpu"]) == "8"


def test_a_node_without_gpus_has_no_slices(sold: Type) -> None:
    template = template_of(sold("aws/m6i.xlarge"), "", "n")
    assert (template.slices, template.form) == ((), "")
    assert "allotment.dev/hardware" not in template.node.metadata.annotations
    with pytest.raises(FleetError, match=r"aws/m6i\.xlarge has no whole GPUs: no mode 'shared'"):
        template_of(sold("aws/m6i.xlarge"), "shared", "n")


def test_a_layout_that_does_not_go_on_the_gpu_is_refused(sold: Type) -> None:
    with pytest.raises(FleetError, match="fits at most 7"):
        template_of(sold("aws/p4d.24xlarge"), "static-mig=1g.5gb:8", "n")
    with pytest.raises(FleetError, match="has no MIG"):
        template_of(sold("aws/g5.xlarge"), "dynamic-mig", "n")


def test_kubernetes_1_34_requires_counters_with_devices(sold: Type) -> None:
    one = template_of(sold("gcp/a2-highgpu-1g"), "dynamic-mig", "n", kube="1.34")
    assert [bool(each.spec.devices and each.spec.shared_counters) for each in one.slices] == [True]


def test_what_nodes_of_one_type_publish_is_made_once() -> None:
    for sold_one in USABLE:
        one, other = template_of(sold_one, "", "one"), template_of(sold_one, "", "other")
        assert all(
            mine.spec.devices is theirs.spec.devices for mine, theirs in zip(one.slices, other.slices, strict=True)
        )
