"""GPUs whose MIG layout is undecided: the whole GPU and all MIG devices of all layouts, for planning.

No driver publishes this. A planner uses it before a machine exists: for the devices that pods get here, a static layout
with exactly these devices exists. So each device is as it will be published then, and shared counters limit the
allocated devices to what one GPU can be partitioned into.
"""

from __future__ import annotations

from msgspec.structs import replace

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_uuid
from allotment.fleet.mig import DIMENSIONS, placements
from allotment.fleet.nvidia.gpu import Gpu, gpus_of
from allotment.fleet.nvidia.gpu_devices import whole_gpu
from allotment.fleet.nvidia.mig_devices import (
    common_attributes,
    counter_set,
    divisible_gpu,
    existing_mig_device,
    piece_name,
    possible_mig_devices,
)
from allotment.fleet.nvidia.published_devices import FixedMigDevice, Offering
from allotment.fleet.profiles import Mig
from allotment.model.resource import Device


def undecided_layout_devices(machine: Hardware, node: str) -> Offering:
    """Return MIG devices and whole GPUs of a machine. Smaller devices come first, from the end of the GPU, so that
    larger ones still fit afterwards."""
    gpus = sorted(gpus_of(machine, node), key=lambda gpu: gpu.pci)
    groups: list[tuple[Device, ...]] = []
    counters = []
    for gpu in gpus:
        if gpu.mig is None:
            groups.append((whole_gpu(gpu),))
            continue
        counters.append(counter_set(gpu, gpu.mig))
        groups.append((*_pieces(gpu, gpu.mig, node), _whole(gpu, gpu.mig)))
    return Offering(tuple(groups), tuple(counters))


def _whole(gpu: Gpu, mig: Mig) -> Device:
    return replace(whole_gpu(gpu), consumes_counters=divisible_gpu(gpu, mig).consumes_counters)


def _pieces(gpu: Gpu, mig: Mig, node: str) -> list[Device]:
    taken = {device.name: device.consumes_counters for device in possible_mig_devices(gpu, mig)}
    found: list[Device] = []
    attributes = common_attributes(gpu)
    for piece in sorted(placements(mig), key=lambda piece: (piece.profile.size, _weight(piece.profile), -piece.start)):
        name = piece_name(gpu, piece.profile, piece.start)
        made = FixedMigDevice(piece.profile.gi_id, piece.start, f"MIG-{name_uuid(node + name)}")
        device = existing_mig_device(gpu, mig, made, attributes)
        assert device is not None
        found.append(replace(device, consumes_counters=taken[name]))
    return found


def _weight(profile: object) -> tuple[int, ...]:
    return tuple(int(getattr(profile, field)) for field, _, _ in DIMENSIONS)
