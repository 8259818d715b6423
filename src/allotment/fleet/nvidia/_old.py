"""Devices as the NVIDIA driver (``gpu.nvidia.com``) publishes them.

Names carry the minor number of ``/dev/nvidiaN``; MIG devices add profile, profile id and place. Attributes are in
alphabetical order, as a server returns them. UUIDs are made up, but stable: derived from node and PCI address.
"""

from __future__ import annotations

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_uuid
from allotment.fleet.mig import DIMENSIONS, Piece, mig_of, pieces, totals
from allotment.fleet.modes import DynamicMig, Full, StaticMig
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
)

DRIVER = "gpu.nvidia.com"
_ONE = Quantity.of_int(1)


def semver(text: str) -> str:
    """A driver's dotted number as the three-part semver that it is published as.

    >>> semver("580.105.08"), semver("12.4")
    ('580.105.8', '12.4.0')
    """
    numbers = [str(int(part)) for part in text.split(".")]
    return ".".join([*numbers, "0", "0"][:3])


def gpu_uuid(node: str, pci: str) -> str:
    """The made-up UUID of the GPU at a PCI address of a node."""
    return f"GPU-{name_uuid(f'{node}/{pci}')}"


def whole_gpus(machine: Hardware, node: str) -> tuple[Device, ...]:
    """One device per GPU, in the server's order of publication."""
    return tuple(_whole(machine, node, gpu) for gpu in machine.order)


def static_mig(machine: Hardware, node: str, mode: StaticMig) -> tuple[Device, ...]:
    """The pieces of every cut GPU, and the other GPUs whole, by GPU."""
    devices: list[Device] = []
    for gpu, layout in enumerate(mode.layouts):
        devices.extend(_fixed_piece(machine, node, gpu, piece) for piece in layout)
        if not layout:
            devices.append(_whole(machine, node, gpu))
    return tuple(devices)


def counter_sets(machine: Hardware) -> tuple[CounterSet, ...]:
    """What each GPU shares among its possible MIG devices (KEP-4815)."""
    return tuple(
        CounterSet(name=_counter_set(gpu), counters=_whole_consumption(machine)) for gpu in range(len(machine.slots))
    )


def dynamic_mig(machine: Hardware, node: str) -> tuple[tuple[Device, ...], ...]:
    """Per GPU, every MIG device that could be made, by name.

    The whole GPU comes first where MIG can be switched without a reset (Hopper and newer). On Ampere the mode is
    fixed at start-up, and with MIG on the whole GPU is not on offer.
    """
    mig = mig_of(machine.accelerator)
    tables = []
    for gpu in range(len(machine.slots)):
        devices = sorted(
            (_possible_piece(machine, node, gpu, piece) for piece in pieces(mig)), key=lambda device: device.name
        )
        tables.append((*(() if mig.reset_to_toggle else (_divisible(machine, node, gpu),)), *devices))
    return tuple(tables)


def devices_of(machine: Hardware, node: str, mode: Full | StaticMig | DynamicMig) -> tuple[tuple[Device, ...], ...]:
    """The devices of a node in groups that should share a slice."""
    match mode:
        case Full():
            return (whole_gpus(machine, node),)
        case StaticMig():
            return (static_mig(machine, node, mode),)
        case DynamicMig():
            return dynamic_mig(machine, node)


# --- one device ---------------------------------------------------------------------------------------------------


def _counter_set(gpu: int) -> str:
    return f"gpu-{gpu}-counter-set"


def _attributes(machine: Hardware, gpu: int, own: dict[str, str]) -> dict[str, DeviceAttribute]:
    model, slot = machine.accelerator, machine.slots[gpu]
    values = {
        "architecture": DeviceAttribute(string=model.architecture),
        "brand": DeviceAttribute(string=model.brand),
        "cudaComputeCapability": DeviceAttribute(version=semver(model.compute_capability)),
        "cudaDriverVersion": DeviceAttribute(version=semver(model.cuda_driver_version)),
        "driverVersion": DeviceAttribute(version=semver(model.driver_version)),
        "productName": DeviceAttribute(string=model.product),
        "resource.kubernetes.io/numaNode": DeviceAttribute(int_=slot.numa),
        "resource.kubernetes.io/pciBusID": DeviceAttribute(string=slot.pci),
        "resource.kubernetes.io/pcieRoot": DeviceAttribute(string=slot.pcie_root),
        **{name: DeviceAttribute(string=value) for name, value in own.items()},
    }
    return dict(sorted(values.items()))


def _whole_attributes(machine: Hardware, node: str, gpu: int) -> dict[str, DeviceAttribute]:
    return _attributes(machine, gpu, {"type": "gpu", "uuid": gpu_uuid(node, machine.slots[gpu].pci)})


def _whole(machine: Hardware, node: str, gpu: int) -> Device:
    memory = DeviceCapacity(value=Quantity.binary(machine.accelerator.memory_mib * MIB))
    return Device(name=f"gpu-{gpu}", attributes=_whole_attributes(machine, node, gpu), capacity={"memory": memory})


def _divisible(machine: Hardware, node: str, gpu: int) -> Device:
    """A whole GPU that consumes everything its pieces could; its memory is then the largest profile's."""
    counters = _whole_consumption(machine)
    return Device(
        name=f"gpu-{gpu}",
        attributes=_whole_attributes(machine, node, gpu),
        capacity={capacity: DeviceCapacity(value=counters[counter].value) for _, capacity, counter in DIMENSIONS},
        consumes_counters=(DeviceCounterConsumption(counter_set=_counter_set(gpu), counters=counters),),
    )


def _amount(field: str, number: int) -> Quantity:
    return Quantity.binary(number * MIB) if field == "memory_mib" else Quantity.of_int(number)


def _whole_consumption(machine: Hardware) -> dict[str, Counter]:
    mig = mig_of(machine.accelerator)
    total = totals(mig)
    counters = {counter: Counter(value=_amount(field, total[field])) for field, _, counter in DIMENSIONS}
    return counters | {f"memory-slice-{n}": Counter(value=_ONE) for n in range(mig.memory_slices)}


def _piece_name(gpu: int, piece: Piece) -> str:
    # The id tells 1g.24gb+me from 1g.24gb-me, which read the same once the name is a DNS label.
    profile = piece.profile.name.replace(".", "").replace("+", "-")
    return f"gpu-{gpu}-mig-{profile}-{piece.profile.gi_id}-{piece.start}"


def _piece_attributes(machine: Hardware, node: str, gpu: int, piece: Piece) -> dict[str, str]:
    parent = gpu_uuid(node, machine.slots[gpu].pci)
    return {"type": "mig", "parentUUID": parent, "profile": piece.profile.name}


def _piece_capacity(piece: Piece) -> dict[str, DeviceCapacity]:
    return {
        capacity: DeviceCapacity(value=_amount(field, getattr(piece.profile, field)))
        for field, capacity, _ in DIMENSIONS
    }


def _fixed_piece(machine: Hardware, node: str, gpu: int, piece: Piece) -> Device:
    name = _piece_name(gpu, piece)
    own = _piece_attributes(machine, node, gpu, piece) | {"uuid": f"MIG-{name_uuid(node + name)}"}
    slices = {f"memorySlice{n}": DeviceCapacity(value=_ONE) for n in piece.slices}
    return Device(name=name, attributes=_attributes(machine, gpu, own), capacity=_piece_capacity(piece) | slices)


def _possible_piece(machine: Hardware, node: str, gpu: int, piece: Piece) -> Device:
    """No UUID before it exists, and no memory-slice capacities: a selector must not be able to ask for a place."""
    counters = {counter: Counter(value=_amount(f, getattr(piece.profile, f))) for f, _, counter in DIMENSIONS}
    counters |= {f"memory-slice-{n}": Counter(value=_ONE) for n in piece.slices}
    return Device(
        name=_piece_name(gpu, piece),
        attributes=_attributes(machine, gpu, _piece_attributes(machine, node, gpu, piece)),
        capacity=_piece_capacity(piece),
        consumes_counters=(DeviceCounterConsumption(counter_set=_counter_set(gpu), counters=counters),),
    )
