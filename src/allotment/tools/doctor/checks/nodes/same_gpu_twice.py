"""Hardware that is published more than once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.model.resource import Device
from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import remedy, unique

_PCI: Final = "PCI address"
#: Attributes that identify a piece of hardware on a node, independent of the driver.
_IDENTITIES: Final = {
    "resource.kubernetes.io/pciBusID": _PCI, "pcieBusID": _PCI, "pciAddr": _PCI, "pciAddress": _PCI, "uuid": "UUID",
}  # fmt: skip


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Hardware that several pools publish, by their drivers; partitions in one pool are correct."""
    holders: dict[tuple[str, str, str], list[DeviceID]] = {}
    for id, found in cluster.devices.items():
        node = found.slice.spec.node_name or found.device.node_name
        if node:
            for identity, value in _identities(found.device):
                holders.setdefault((node, identity, value), []).append(id)
    groups: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    first: dict[tuple[str, ...], list[DeviceID]] = {}
    for key, ids in holders.items():
        pools = unique(str(PoolID(id.driver, id.pool)) for id in ids)
        if len(pools) > 1:
            drivers = tuple(sorted({id.driver for id in ids}))
            groups.setdefault(drivers, []).append(key)
            first.setdefault(drivers, ids)
    for drivers, keys in groups.items():
        nodes = unique(node for node, _, _ in keys)
        node, identity, value = keys[0]
        devices = first_few([f"{id.device} of {id.driver} (pool {id.pool})" for id in first[drivers]])
        pieces = len(unique(f"{n} {v}" for n, w, v in keys if w == identity))
        text = (
            f"{counted(pieces, 'piece')} of hardware on {counted(len(nodes), 'node')} {'is' if pieces == 1 else 'are'}"
        )
        text += f" published more than once: on {node}, {identity} {value} belongs to {devices}"
        words = "These devices are allocated independently, so two claims may get the same hardware. "
        words += (
            f"Let only one of the drivers publish it: {' or '.join(drivers)}."
            if len(drivers) > 1
            else (
                "Delete the slices of the pool that the driver no longer uses; it republishes the slices that it needs."
            )
        )
        look = f"kubectl get resourceslices --field-selector spec.nodeName={node}"
        yield Symptom.of("node", nodes, text, remedy(words, look))


def _identities(device: Device) -> Iterator[tuple[str, str]]:
    for name, attribute in device.attributes.items():
        identity = _IDENTITIES.get(name) or _IDENTITIES.get(name.rpartition("/")[2])
        if identity is not None and attribute.string:
            # Drivers write a PCI domain with four or eight digits.
            value = attribute.string.lower()
            yield identity, value[-len("0000:00:00.0") :] if identity == _PCI else value


CHECK = ClusterCheck(
    code="D207",
    severity="error",
    summary="two drivers, or two pools, publish the same GPU",
    why="Schedulers identify devices by driver, pool and name, and do not know which hardware a device represents. "
    "Duplicates are detected by the PCI address and the UUID that drivers publish; partitions of one GPU "
    "may share these values if they are in the same pool.",
    find=find,
    needs=("resourceslices",),
)
