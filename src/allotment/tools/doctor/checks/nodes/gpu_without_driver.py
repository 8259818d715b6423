"""Nodes with accelerators that no driver publishes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.vendors import VENDORS, accelerator_evidence, plugin_resources
from allotment.tools.doctor.wording import named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Nodes by vendor; a note if a device plugin allocates the accelerators instead."""
    for vendor in VENDORS:
        alone: defaultdict[bool, list[str]] = defaultdict(list)
        shown: dict[bool, str] = {}
        for name, node in cluster.nodes.items():
            if vendor.driver in cluster.drivers_on.get(name, ()):
                continue
            if sign := accelerator_evidence(node, vendor):
                served = bool(plugin_resources(node, vendor))
                alone[served].append(name)
                shown.setdefault(served, sign)
        for served, names in sorted(alone.items()):
            have = "has" if len(names) == 1 else "have"
            seen = f"{named('node', names)} {have} {vendor.name} GPUs ({shown[served]})"
            if served:
                text = f"{seen}, which a device plugin allocates; {vendor.driver} publishes none of them for claims"
                yield Symptom.of("node", names, text, severity="note")
                continue
            help_ = remedy(
                f"Check the driver's pod on the node and its log; to install the driver, see {vendor.install}.",
                f"kubectl get pods -A -o wide --field-selector spec.nodeName={names[0]}",
            )
            text = f"{seen}, but {vendor.driver} publishes no ResourceSlices: claims cannot use the GPUs"
            yield Symptom.of("node", names, text, help_)


CHECK = ClusterCheck(
    code="D201",
    severity="warning",
    summary="a node has GPUs that the vendor's DRA driver does not publish",
    why="Claims are allocated only from ResourceSlices. GPUs are detected by the labels that Node Feature Discovery, "
    "the vendor's operator or the cloud provider sets, and by the extended resources of a device plugin. If a device "
    "plugin allocates the GPUs, this is only a note: they are used, but not through claims.",
    find=find,
    needs=("nodes", "resourceslices"),
)
