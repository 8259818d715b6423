"""Known servers and accelerators, and the ResourceSlices that they publish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from allotment import fleet as known
from allotment.api.objects.releases import release
from allotment.fleet import Accelerator, FleetMachine, Hardware
from allotment.model import DEFAULT_RELEASE
from allotment.model.meta import Object
from allotment.model.trees import manifest_of


def fleet() -> dict[str, Any]:
    """Return all known servers and accelerators.

    The keys: ``servers``, ``accelerators``; for each, ``hardware`` returns the same.
    """
    return {
        "servers": [_server_data(known.hardware(name)) for name in known.servers()],
        "accelerators": [_accelerator_data(accelerator) for accelerator in known.accelerators().values()],
    }


def hardware(name: str) -> dict[str, Any]:
    """Return the properties of a server or accelerator. Raises FleetError.

    The keys of a server: ``id``, ``title``, ``accelerator``, ``gpus``, ``nvSwitches``, ``unverified``, ``cpu``,
    ``socketOfNuma``, ``nvlinkMatrix``, ``nics``, ``nvlink``, ``order``. The keys of an accelerator: ``id``,
    ``aliases``, ``vendor``, ``product``, ``architecture``, ``formFactor``, ``memoryMiB``, ``memoryType``,
    ``pciDevice``, ``pcie``, ``powerW``, ``driverVersion``, ``memoryBound``, ``computeUnits``, ``simdUnits``,
    ``family``, ``gfx``, ``unverified``, ``xgmi``, ``partitions``, ``brand``, ``cudaDriverVersion``,
    ``computeCapability``, ``multiprocessors``, ``cudaCores``, ``nvlink``, ``mig``, ``minPowerW``.
    """
    machine = known.hardware(name)
    return _server_data(machine) if machine.server else _accelerator_data(machine.accelerator)


def slices(*machines: str, kube: str = DEFAULT_RELEASE, everything: bool = False) -> dict[str, Any]:
    """Return the ResourceSlices of machines, such as ``"dgx-a100-40gb:2"``, as a List. Raises FleetError.

    ``everything``: also the nodes and DeviceClasses, so that the List is a complete cluster snapshot.
    """
    objects = published_objects(machines_of(machines), release(kube), everything=everything)
    return {"apiVersion": "v1", "kind": "List", "items": [manifest_of(value) for value in objects]}


def machines_of(specifications: Sequence[str]) -> tuple[FleetMachine, ...]:
    """Return the machines of specifications. Raises FleetError."""
    machines = known.parse_fleet(list(specifications))
    # A single machine given by its hardware alone keeps the plain name.
    if len(specifications) == 1 and (name := specifications[0]) in known.servers():
        return (FleetMachine(name, machines[0].hardware, machines[0].mode),)
    return machines


def published_objects(machines: Iterable[FleetMachine], kube: str, *, everything: bool) -> list[Object]:
    """Return the slices of machines; ``everything``: after their nodes and classes."""
    machines = tuple(machines)
    if everything:
        cluster = known.cluster_of(machines, kube)
        return [*cluster.nodes, *cluster.classes, *cluster.slices]
    return [value for each in machines for value in known.slices_of(each.hardware, each.mode, each.node, kube)]


def _server_data(machine: Hardware) -> dict[str, Any]:
    data: dict[str, Any] = _plain(machine.server)
    data["gpus"] = [{"pci": slot.pci, "numaNode": slot.numa, "pcieRoot": slot.pcie_root} for slot in machine.slots]
    data["nics"] = [dict(zip(("name", "relation", "nearGpus"), nic, strict=True)) for nic in data["nics"]]
    return {key: value for key, value in data.items() if value not in ("", (), [], None)}


def _accelerator_data(accelerator: Accelerator) -> dict[str, Any]:
    data: dict[str, Any] = _plain(accelerator)
    if accelerator.mig:
        data["mig"]["profiles"] = [
            dict(zip(_camel(profile.__struct_fields__), row, strict=True))
            for profile, row in zip(accelerator.mig.profiles, data["mig"]["profiles"], strict=True)
        ]
    data["partitions"] = [
        dict(zip(_camel(partition.__struct_fields__), row, strict=True))
        for partition, row in zip(accelerator.partitions, data["partitions"], strict=True)
    ]
    return {key: value for key, value in data.items() if value not in ("", 0, (), [], None)}


def _plain(value: object) -> dict[str, Any]:
    # Via JSON, because msgspec then converts tuples to lists.
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return data


def _camel(names: tuple[str, ...]) -> list[str]:
    words = [name.split("_") for name in names]
    return [first + "".join("MiB" if word == "mib" else word.title() for word in rest) for first, *rest in words]
