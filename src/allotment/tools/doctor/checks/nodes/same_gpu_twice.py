"""One piece of hardware that is published twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.model.resource import Device
from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import remedy, unique

_PCI: Final = "PCI address"
#: Attributes whose value tells one piece of hardware of a node from all others, whoever publishes it.
_IDENTITIES: Final = {
    "resource.kubernetes.io/pciBusID": _PCI, "pcieBusID": _PCI, "pciAddr": _PCI, "pciAddress": _PCI, "uuid": "UUID",
}  # fmt: skip


def find(case: Case) -> Iterable[Sign]:
    """By the pools that publish the same things; partitions of one pool are what they should be."""
    holders: dict[tuple[str, str, str], list[DeviceID]] = {}
    for id, found in case.devices.items():
        node = found.slice.spec.node_name or found.device.node_name
        if node:
            for what, value in _identities(found.device):
                holders.setdefault((node, what, value), []).append(id)
    alike: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    first: dict[tuple[str, ...], list[DeviceID]] = {}
    for key, ids in holders.items():
        pools = unique(str(PoolID(id.driver, id.pool)) for id in ids)
        if len(pools) > 1:
            drivers = tuple(sorted({id.driver for id in ids}))
            alike.setdefault(drivers, []).append(key)
            first.setdefault(drivers, ids)
    for drivers, keys in alike.items():
        nodes = unique(node for node, _, _ in keys)
        node, what, value = keys[0]
        who = first_few([f"{id.device} of {id.driver} (pool {id.pool})" for id in first[drivers]])
        hardware = counted(len(unique(f"{n} {v}" for n, w, v in keys if w == what)), "piece")
        text = f"{hardware} of hardware on {counted(len(nodes), 'node')} published more than once: on {node} {what}"
        text += f" {value} is {who}"
        words = "Each is allocated by itself, so two claims get one piece of hardware. "
        words += (
            f"Let one of the drivers have it: {' or '.join(drivers)}."
            if len(drivers) > 1
            else "Delete the slices of the pool that the driver does not use any more; it publishes anew what it needs."
        )
        look = f"kubectl get resourceslices --field-selector spec.nodeName={node}"
        yield Sign.of("node", nodes, text, remedy(words, look))


def _identities(device: Device) -> Iterator[tuple[str, str]]:
    for name, attribute in device.attributes.items():
        what = _IDENTITIES.get(name) or _IDENTITIES.get(name.rpartition("/")[2])
        if what is not None and attribute.string:
            # A PCI domain is written with four digits by some, with eight by others.
            value = attribute.string.lower()
            yield what, value[-len("0000:00:00.0") :] if what == _PCI else value


CHECK = Check(
    code="D207",
    severity="error",
    summary="two drivers, or two pools, publish the same GPU",
    why="Schedulers know devices by driver, pool and name, and nothing of the hardware behind them. Known by the PCI"
    " address and the UUID that drivers publish; partitions of one GPU in one pool share these rightly.",
    find=find,
    needs=("resourceslices",),
)
