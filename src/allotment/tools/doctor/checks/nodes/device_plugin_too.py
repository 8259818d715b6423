"""GPUs that a device plugin and a DRA driver both hand out."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.vendors import VENDORS, plugged
from allotment.tools.doctor.wording import about, remedy


def find(case: Case) -> Iterable[Sign]:
    """By vendor, all nodes together."""
    publishing = {(f.slice.spec.node_name, f.slice.spec.driver) for f in case.devices.values()}
    for vendor in VENDORS:
        both = {
            name: offered
            for name, node in case.nodes.items()
            if (name, vendor.driver) in publishing and (offered := plugged(node, vendor))
        }
        if not both:
            continue
        names = list(both)
        resource = both[names[0]][0]
        classes = [
            name for name, one in case.classes.items()
            if (one.spec.extended_resource_name or "").startswith(vendor.resources)
        ]  # fmt: skip
        verb = "has" if len(names) == 1 else "have"
        text = (
            f"{about('node', names)} {verb} allocatable {resource} from a device plugin and ResourceSlices of"
            f" {vendor.driver}: two pods may be given the same GPU"
        )
        if classes:
            text += (
                f" (the extendedResourceName of DeviceClass {classes[0]} is not meant: it adds nothing to allocatable)"
            )
        label = "nvidia.com/gpu.deploy.device-plugin=false" if vendor.name == "NVIDIA" else ""
        help_ = remedy(
            "Let one of the two hand out the GPUs of a node: keep the device plugin off nodes with the DRA driver (pods"
            " that use its resource wait for other nodes then), or the other way round."
            + (" With NVIDIA's GPU operator:" if label else ""),
            *([f"kubectl label node {names[0]} {label}"] if label else ()),
        )
        yield Sign.of("node", names, text, help_)


CHECK = Check(
    code="D206",
    severity="error",
    summary="a device plugin and a DRA driver hand out the same GPUs",
    why="Neither knows what the other gives away: two pods get one GPU, and the second fails, or slows down the first."
    " A DeviceClass with extendedResourceName is something else: pods ask for `nvidia.com/gpu` and get a claim, the"
    " node's allocatable shows none (KEP-5004).",
    find=find,
    needs=("nodes", "resourceslices"),
)
