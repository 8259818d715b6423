"""Drivers that publish no devices on nodes with GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.vendors import VENDORS, accelerator_evidence
from allotment.tools.doctor.wording import named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Such nodes by vendor."""
    with_devices = {(found.slice.spec.driver, found.slice.spec.node_name) for found in cluster.devices.values()}
    for vendor in VENDORS:
        empty = [
            name
            for name, node in cluster.nodes.items()
            if vendor.driver in cluster.drivers_on.get(name, ())
            and (vendor.driver, name) not in with_devices
            and accelerator_evidence(node, vendor)
        ]
        if empty:
            have = "has" if len(empty) == 1 else "have"
            text = f"{named('node', empty)} {have} {vendor.name} GPUs, but {vendor.driver} publishes no device there"
            words = "The driver runs but finds no devices: check its log and the vendor's kernel driver on the node."
            look = f"kubectl get pods -A -o wide --field-selector spec.nodeName={empty[0]}"
            yield Symptom.of("node", empty, text, remedy(words, look))


CHECK = ClusterCheck(
    code="D304",
    severity="error",
    summary="a driver publishes no device on a node that has GPUs",
    why="The driver's pod runs but does not find the hardware, for example because the kernel driver is not loaded, "
    "its library is missing, or the devices are bound to another driver (vfio-pci).",
    find=find,
    needs=("nodes", "resourceslices"),
)
