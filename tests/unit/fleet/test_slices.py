"""Generated slices, compared with ones that a real API server accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import parse_mode
from allotment.fleet.profiles import servers
from allotment.fleet.slices import slices_of
from allotment.fleet.splitting import MAX_ADVANCED_DEVICES, MAX_DEVICES
from allotment.model.resource import ResourceSlice

RECORDED = [
    ("nvidia-dgx-a100-full-gpus", "dgx-a100-40gb", None, "", "node-a100"),
    ("nvidia-a100-1gpu-dynamic-mig", "dgx-a100-40gb", 1, "dynamic-mig", "node-a100-mig"),
    ("nvidia-h100-2gpu-dynamic-mig", "hgx-h100-generic", 2, "dynamic-mig", "node-h100-mig"),
    (
        "nvidia-dgx-a100-static-mig-mixed",
        "dgx-a100-40gb",
        None,
        "static-mig=1g.5gb:7/3g.20gb+2g.10gb+1g.5gb",
        "node-a100-static",
    ),
    ("amd-mi300x-spx-v0", "mi300x-8x-oam", None, "spx@v0", "node-mi300x"),
    ("amd-mi300x-spx-v1", "mi300x-8x-oam", None, "spx@v1", "node-mi300x-v1"),
    ("amd-mi300x-cpx-v0", "mi300x-8x-oam", None, "cpx@v0", "node-mi300x-cpx"),
]


def plain(value: ResourceSlice) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


@pytest.mark.parametrize(("file", "name", "gpus", "mode", "node"), RECORDED, ids=[row[0] for row in RECORDED])
def test_generated_slices_equal_the_recorded_ones(
    shared: Callable[[str], Path], file: str, name: str, gpus: int | None, mode: str, node: str
) -> None:
    text = shared(f"manifests/slices/{file}.yaml").read_text()
    wanted = [
        {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
        for document in yaml.safe_load_all(text)
    ]
    machine = hardware(name, gpus)
    assert [plain(s) for s in slices_of(machine, parse_mode(mode, machine), node)] == wanted


def every_mode(name: str) -> list[str]:
    machine = hardware(name)
    if machine.accelerator.vendor == "amd":
        modes = [f"{p.compute}-{p.memory}" for p in machine.accelerator.partitions]
        return [*(f"{mode}@{version}" for mode in modes for version in ("v0", "v1")), "auto", "vfio", "vfio=8"]
    mig = machine.accelerator.mig
    return ["full", *(["dynamic-mig", f"static-mig={mig.profiles[0].name}/full"] if mig else [])]


@pytest.mark.parametrize("server", servers())
@pytest.mark.parametrize("kube", ["1.34", "1.36"])
def test_slices_of_every_server_and_mode_are_within_the_api_limits(server: str, kube: str) -> None:
    for mode in every_mode(server):
        machine = hardware(server)
        slices = slices_of(machine, parse_mode(mode, machine), "n", kube)
        names = [device.name for s in slices for device in s.spec.devices or ()]
        sets = {counters.name: counters.counters for s in slices for counters in s.spec.shared_counters or ()}
        assert len(names) == len(set(names)) >= len(machine.slots)
        assert all(s.spec.pool.resource_slice_count == len(slices) for s in slices)
        assert [s.metadata.name for s in slices] == sorted(s.metadata.name for s in slices)
        for s in slices:
            assert len(s.spec.shared_counters or ()) <= 8
            assert all(len(counters.counters) <= 32 for counters in s.spec.shared_counters or ())
            counting = [device for device in s.spec.devices or () if device.consumes_counters]
            assert len(s.spec.devices or ()) <= (MAX_ADVANCED_DEVICES if counting else MAX_DEVICES)
            if kube != "1.34":
                assert not (s.spec.devices and s.spec.shared_counters)
            for device in s.spec.devices or ():
                assert len(device.attributes) + len(device.capacity) <= 32
                for consumed in device.consumes_counters:
                    # No device consumes more than its GPU has.
                    for counter, amount in consumed.counters.items():
                        assert amount.value <= sets[consumed.counter_set][counter].value


def test_servers_publish_topology() -> None:
    machine = hardware("dgx-a100-40gb")
    (only,) = slices_of(machine, parse_mode("", machine), "n")
    roots = [device.attributes["resource.kubernetes.io/pcieRoot"].string for device in only.spec.devices or ()]
    assert [roots.count(root) for root in dict.fromkeys(roots)] == [2, 2, 2, 2]
    numa = [device.attributes["resource.kubernetes.io/numaNode"].int_ for device in only.spec.devices or ()]
    assert numa == [3, 3, 1, 1, 7, 7, 5, 5]


def test_a_server_publishes_in_its_own_order() -> None:
    machine = hardware("hgx-h100-aws-p5")
    (only,) = slices_of(machine, parse_mode("", machine), "n")
    assert [d.name for d in only.spec.devices or ()] == [f"gpu-{n}" for n in (3, 4, 5, 6, 7, 0, 1, 2)]


def test_b200_counters_allow_seven_mig_devices_on_one_gpu() -> None:
    # The driver's own rule (largest profile) would publish one decoder, and a second MIG device would never fit.
    machine = hardware("b200")
    counters, devices = slices_of(machine, parse_mode("dynamic-mig", machine), "n")
    (shared_set,) = counters.spec.shared_counters or ()
    smallest = next(d for d in devices.spec.devices or () if "1g23gb-19" in d.name)
    for name, amount in smallest.consumes_counters[0].counters.items():
        if not name.startswith("memory-slice-"):
            assert 7 * amount.value.value() <= shared_set.counters[name].value.value()


def test_an_amd_gpu_without_partition_modes_has_no_partition_profile() -> None:
    machine = hardware("mi250x", gpus=2)
    (only,) = slices_of(machine, parse_mode("", machine), "n")
    assert all("partitionProfile" not in device.attributes for device in only.spec.devices or ())
    assert len(only.spec.devices or ()) == 2


def test_an_unknown_release_is_rejected() -> None:
    machine = hardware("t4")
    with pytest.raises(FleetError, match=r"expected one of 1\.34, .*found '1\.2'"):
        slices_of(machine, parse_mode("", machine), "n", "1.2")
