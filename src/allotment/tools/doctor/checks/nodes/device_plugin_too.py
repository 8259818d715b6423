"""GPUs that both a device plugin and a DRA driver allocate."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.vendors import VENDORS, plugin_resources
from allotment.tools.doctor.wording import named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """One symptom per vendor for all such nodes."""
    publishing = {(f.slice.spec.node_name, f.slice.spec.driver) for f in cluster.devices.values()}
    for vendor in VENDORS:
        both = {
            name: offered
            for name, node in cluster.nodes.items()
            if (name, vendor.driver) in publishing and (offered := plugin_resources(node, vendor))
        }
        if not both:
            continue
        names = list(both)
        resource = both[names[0]][0]
        classes = [
            name for name, class_ in cluster.classes.items()
            if (class_.spec.extended_resource_name or "").startswith(vendor.resources)
        ]  # fmt: skip
        verb = "has" if len(names) == 1 else "have"
        text = (
            f"{named('node', names)} {verb} both allocatable {resource} from a device plugin and ResourceSlices of"
            f" {vendor.driver}: two pods may get the same GPU"
        )
        if classes:
            text += (
                f" (extendedResourceName of DeviceClass {classes[0]} is not the cause, because it does not add "
                "allocatable resources)"
            )
        label = "nvidia.com/gpu.deploy.device-plugin=false" if vendor.name == "NVIDIA" else ""
        help_ = remedy(
            "Let only one of the two manage the GPUs of a node: exclude the device plugin from nodes with the DRA"
            " driver (pods that use its resource then need other nodes), or vice versa."
            + (" With NVIDIA's GPU operator:" if label else ""),
            *([f"kubectl label node {names[0]} {label}"] if label else ()),
        )
        yield Symptom.of("node", names, text, help_)


CHECK = ClusterCheck(
    code="D206",
    severity="error",
    summary="a device plugin and a DRA driver allocate the same GPUs",
    why="Neither knows the other's allocations: two pods may get the same GPU, and the second pod then fails or "
    "slows down the first. A DeviceClass with extendedResourceName is different: pods that request `nvidia.com/gpu` "
    "get a claim, and status.allocatable of the node does not contain the resource (KEP-5004).",
    find=find,
    needs=("nodes", "resourceslices"),
)
