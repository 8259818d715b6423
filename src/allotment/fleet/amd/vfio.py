"""GPUs and their virtual functions for virtual machines: handed over by PCI address (VFIO).

Once a function is bound to ``vfio-pci``, KFD and the GPU's own files are gone. So what is published is what PCI tells,
and for figures what is known of the model: it is the same before, while and after a virtual machine has the device.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.fleet.amd.devices import capacities
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import AMD_VIRTUAL_FUNCTIONS, MAX_VIRTUAL_FUNCTIONS, VirtualMachines
from allotment.fleet.profiles import MIB, accelerators
from allotment.fleet.splitting import MOST_ADVANCED_DEVICES, MOST_COUNTER_SETS
from allotment.model.quantity import Quantity
from allotment.model.resource import Counter, CounterSet, Device, DeviceAttribute, DeviceCounterConsumption

VENDOR: Final = "0x1002"

#: Of made-up IOMMU groups, which every function of a profile has to itself.
_FIRST_GROUP: Final = 20

_SLOTS: Final = "vf-slots"
_ALONE: Final = "devices"


class Function(NamedTuple):
    """A PCI function that a virtual machine can have: a GPU, or a virtual function of one.

    ``device_id``: its own. ``model``: the PCI device id of its GPU. ``group``: its IOMMU group. ``parent``: the address
    of its GPU, empty for a GPU itself. ``slots``: how many virtual functions the GPU can have; ``share``: among how
    many it is divided now. ``driver``: the kernel driver that has it, empty for none.
    """

    pci: str
    device_id: str
    model: str
    product: str
    group: int
    parent: str = ""
    slots: int = 0
    share: int = 1
    numa: int | None = None
    pcie_root: str | None = None
    driver: str = ""


def passed_through(functions: Mapping[int, Function]) -> tuple[tuple[tuple[Device, ...], ...], tuple[CounterSet, ...]]:
    """The devices of a node and the counters that they need. ``functions``: by the number that their names have.

    A GPU takes all slots of its virtual functions, each of these one. Functions of one IOMMU group can only be handed
    over together, so one claim has them all: whoever gets one keeps others from the rest.
    """
    sizes = Count(one.group for one in functions.values())
    gpus = {one.parent or one.pci: one.slots for one in functions.values() if one.slots}
    counters = [CounterSet(slots_of(pci), {_SLOTS: _counter(slots)}) for pci, slots in gpus.items()]
    counters += [CounterSet(group_of(group), {_ALONE: _counter(1)}) for group, size in sizes.items() if size > 1]
    devices = tuple(_device(number, one, sizes[one.group] > 1) for number, one in functions.items())
    return tuple(_packed_groups(devices)), tuple(counters)


def _packed_groups(devices: Iterable[Device]) -> Iterator[tuple[Device, ...]]:
    """As few groups as possible, each within a slice's limits with its counters (Kubernetes 1.34 has them together)."""
    clusters: list[tuple[list[Device], set[str]]] = []
    for device in devices:
        one, sets = [device], {consumed.counter_set for consumed in device.consumes_counters}
        for other in [each for each in clusters if each[1] & sets]:
            clusters.remove(other)
            one, sets = other[0] + one, other[1] | sets
        clusters.append((one, sets))
    group: list[Device] = []
    used: set[str] = set()
    for one, sets in clusters:
        if group and (len(group) + len(one) > MOST_ADVANCED_DEVICES or len(used | sets) > MOST_COUNTER_SETS):
            yield tuple(group)
            group, used = [], set()
        group, used = group + one, used | sets
    if group:
        yield tuple(group)


def name_of(number: int) -> str:
    """``gpu-vfio-0``."""
    return f"gpu-vfio-{number}"


def slots_of(pci: str) -> str:
    """The counter set of a GPU's virtual functions.

    >>> slots_of("0000:0a:00.0")
    'pf-0000-0a-00-0-counter-set'
    """
    return f"pf-{pci.replace(':', '-').replace('.', '-')}-counter-set"


def group_of(group: int) -> str:
    """The counter set of an IOMMU group that has several functions."""
    return f"iommu-group-{group}-counter-set"


def functions_of(machine: Hardware, mode: VirtualMachines) -> tuple[Function, ...]:
    """The functions of a machine from its profile, by PCI address."""
    model = machine.accelerator
    slots = MAX_VIRTUAL_FUNCTIONS if model.pci_device in AMD_VIRTUAL_FUNCTIONS else 0
    found = []
    for slot in sorted(machine.slots, key=lambda slot: slot.pci):
        whole = Function(
            pci=slot.pci, device_id=model.pci_device, model=model.pci_device, product=model.product,
            group=0, slots=slots, numa=slot.numa, pcie_root=slot.pcie_root, driver="amdgpu",
        )  # fmt: skip
        virtual = whole._replace(device_id=AMD_VIRTUAL_FUNCTIONS.get(model.pci_device, ""), parent=slot.pci, driver="")
        found += [
            virtual._replace(pci=virtual_address(slot.pci, number), share=mode.functions)
            for number in range(mode.functions)
        ] or [whole]
    return tuple(one._replace(group=_FIRST_GROUP + number) for number, one in enumerate(found))


def virtual_address(pci: str, number: int) -> str:
    """Where a virtual function of a GPU sits in a profile: on the next bus.

    >>> virtual_address("0000:05:00.0", 3)
    '0000:06:00.3'
    """
    domain, bus, rest = pci.split(":")
    return f"{domain}:{int(bus, 16) + 1:02x}:{rest.partition('.')[0]}.{number}"


def _counter(value: int) -> Counter:
    return Counter(value=Quantity.of_int(value))


def _device(number: int, one: Function, alone: bool) -> Device:
    attributes = {
        "deviceID": DeviceAttribute(string=one.device_id),
        "iommuGroup": DeviceAttribute(string=str(one.group)),
        "isVF": DeviceAttribute(bool_=bool(one.parent)),
        "pciAddr": DeviceAttribute(string=one.pci),
        "productName": DeviceAttribute(string=one.product),
        "type": DeviceAttribute(string="vfio"),
        "vendorID": DeviceAttribute(string=VENDOR),
        "resource.kubernetes.io/pciBusID": DeviceAttribute(string=one.pci),
    }
    if one.numa is not None:
        attributes["numaNode"] = DeviceAttribute(int_=one.numa)
    if one.pcie_root is not None:
        attributes["resource.kubernetes.io/pcieRoot"] = DeviceAttribute(string=one.pcie_root)
    consumed = []
    if one.slots:
        slots = _counter(1 if one.parent else one.slots)
        consumed.append(DeviceCounterConsumption(counter_set=slots_of(one.parent or one.pci), counters={_SLOTS: slots}))
    if alone:
        counters = {_ALONE: _counter(1)}
        consumed.append(DeviceCounterConsumption(counter_set=group_of(one.group), counters=counters))
    model = next((m for m in accelerators().values() if m.vendor == "amd" and m.pci_device == one.model), None)
    return Device(
        name=name_of(number),
        attributes=dict(sorted(attributes.items())),
        capacity=capacities(
            model.compute_units // one.share, model.simd_units // one.share, model.memory_mib * MIB // one.share
        )
        if model is not None
        else {},
        consumes_counters=tuple(consumed),
    )
