"""GPUs and their virtual functions for virtual machines: passed through by PCI address (VFIO).

While a function is bound to ``vfio-pci``, it has no KFD and no sysfs files of the GPU driver. So devices are published
from PCI data and the figures of the model, which are the same before, during and after use by a virtual machine.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.fleet.amd.devices import capacities
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import AMD_VIRTUAL_FUNCTIONS, MAX_VIRTUAL_FUNCTIONS, VirtualMachines
from allotment.fleet.profiles import MIB, accelerators
from allotment.fleet.splitting import MAX_ADVANCED_DEVICES, MAX_COUNTER_SETS
from allotment.model.quantity import Quantity
from allotment.model.resource import Counter, CounterSet, Device, DeviceAttribute, DeviceCounterConsumption

VENDOR: Final = "0x1002"

#: First of the generated IOMMU groups; every function of a profile has its own group.
_FIRST_GROUP: Final = 20

_SLOTS: Final = "vf-slots"
_ALONE: Final = "devices"


class Function(NamedTuple):
    """A PCI function that a virtual machine can have: a GPU, or a virtual function of one.

    ``device_id``: the PCI device id of the function. ``model``: the PCI device id of its GPU. ``group``: IOMMU group.
    ``parent``: the address of its GPU, empty for a GPU itself. ``slots``: maximum virtual functions of the GPU;
    ``share``: the current number. ``driver``: the bound kernel driver, empty for none.
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
    """Return the devices of a node and their counter sets. ``functions``: by the number in their device names.

    A GPU consumes all slots of its virtual functions, a virtual function one. Functions of one IOMMU group can only be
    passed through together, so an allocated function excludes the others for all other claims.
    """
    sizes = Count(function.group for function in functions.values())
    gpus = {function.parent or function.pci: function.slots for function in functions.values() if function.slots}
    counters = [CounterSet(slots_of(pci), {_SLOTS: _counter(slots)}) for pci, slots in gpus.items()]
    counters += [CounterSet(group_of(group), {_ALONE: _counter(1)}) for group, size in sizes.items() if size > 1]
    devices = tuple(_device(number, function, sizes[function.group] > 1) for number, function in functions.items())
    return tuple(_packed_groups(devices)), tuple(counters)


def _packed_groups(devices: Iterable[Device]) -> Iterator[tuple[Device, ...]]:
    """Pack devices into few groups within a slice's limits, counters included (as Kubernetes 1.34 requires)."""
    clusters: list[tuple[list[Device], set[str]]] = []
    for device in devices:
        members, sets = [device], {consumed.counter_set for consumed in device.consumes_counters}
        for other in [each for each in clusters if each[1] & sets]:
            clusters.remove(other)
            members, sets = other[0] + members, other[1] | sets
        clusters.append((members, sets))
    group: list[Device] = []
    used: set[str] = set()
    for members, sets in clusters:
        if group and (len(group) + len(members) > MAX_ADVANCED_DEVICES or len(used | sets) > MAX_COUNTER_SETS):
            yield tuple(group)
            group, used = [], set()
        group, used = group + members, used | sets
    if group:
        yield tuple(group)


def name_of(number: int) -> str:
    """Return the device name, such as ``gpu-vfio-0``."""
    return f"gpu-vfio-{number}"


def slots_of(pci: str) -> str:
    """Return the name of the counter set of a GPU's virtual functions.

    >>> slots_of("0000:0a:00.0")
    'pf-0000-0a-00-0-counter-set'
    """
    return f"pf-{pci.replace(':', '-').replace('.', '-')}-counter-set"


def group_of(group: int) -> str:
    """Return the name of the counter set of an IOMMU group with several functions."""
    return f"iommu-group-{group}-counter-set"


def functions_of(machine: Hardware, mode: VirtualMachines) -> tuple[Function, ...]:
    """Return the functions of a machine from its profile, by PCI address."""
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
    return tuple(function._replace(group=_FIRST_GROUP + number) for number, function in enumerate(found))


def virtual_address(pci: str, number: int) -> str:
    """Return the PCI address of a virtual function in a profile: on the bus after the GPU's.

    >>> virtual_address("0000:05:00.0", 3)
    '0000:06:00.3'
    """
    domain, bus, rest = pci.split(":")
    return f"{domain}:{int(bus, 16) + 1:02x}:{rest.partition('.')[0]}.{number}"


def _counter(value: int) -> Counter:
    return Counter(value=Quantity.of_int(value))


def _device(number: int, function: Function, alone: bool) -> Device:
    attributes = {
        "deviceID": DeviceAttribute(string=function.device_id),
        "iommuGroup": DeviceAttribute(string=str(function.group)),
        "isVF": DeviceAttribute(bool_=bool(function.parent)),
        "pciAddr": DeviceAttribute(string=function.pci),
        "productName": DeviceAttribute(string=function.product),
        "type": DeviceAttribute(string="vfio"),
        "vendorID": DeviceAttribute(string=VENDOR),
        "resource.kubernetes.io/pciBusID": DeviceAttribute(string=function.pci),
    }
    if function.numa is not None:
        attributes["numaNode"] = DeviceAttribute(int_=function.numa)
    if function.pcie_root is not None:
        attributes["resource.kubernetes.io/pcieRoot"] = DeviceAttribute(string=function.pcie_root)
    consumed = []
    if function.slots:
        slots = _counter(1 if function.parent else function.slots)
        consumed.append(
            DeviceCounterConsumption(counter_set=slots_of(function.parent or function.pci), counters={_SLOTS: slots})
        )
    if alone:
        counters = {_ALONE: _counter(1)}
        consumed.append(DeviceCounterConsumption(counter_set=group_of(function.group), counters=counters))
    model = next((m for m in accelerators().values() if m.vendor == "amd" and m.pci_device == function.model), None)
    return Device(
        name=name_of(number),
        attributes=dict(sorted(attributes.items())),
        capacity=capacities(
            model.compute_units // function.share,
            model.simd_units // function.share,
            model.memory_mib * MIB // function.share,
        )
        if model is not None
        else {},
        consumes_counters=tuple(consumed),
    )
