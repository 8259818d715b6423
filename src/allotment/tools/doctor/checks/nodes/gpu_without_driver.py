"""Nodes that have accelerators, of which no driver has published one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.vendors import VENDORS, plugged, sign_of
from allotment.tools.doctor.wording import about, remedy


def find(case: Case) -> Iterable[Sign]:
    """By vendor; where a device plugin hands the accelerators out instead, that is only told."""
    for vendor in VENDORS:
        alone: defaultdict[bool, list[str]] = defaultdict(list)
        shown: dict[bool, str] = {}
        for name, node in case.nodes.items():
            if vendor.driver in case.drivers_on.get(name, ()):
                continue
            if sign := sign_of(node, vendor):
                served = bool(plugged(node, vendor))
                alone[served].append(name)
                shown.setdefault(served, sign)
        for served, names in sorted(alone.items()):
            have = "has" if len(names) == 1 else "have"
            seen = f"{about('node', names)} {have} {vendor.name} GPUs ({shown[served]})"
            if served:
                text = f"{seen}, which a device plugin hands out; {vendor.driver} publishes none of them for claims"
                yield Sign.of("node", names, text, severity="note")
                continue
            help_ = remedy(
                f"Look for the driver's pod there, and at its log; to install the driver, see {vendor.install}.",
                f"kubectl get pods -A -o wide --field-selector spec.nodeName={names[0]}",
            )
            text = f"{seen}, and no ResourceSlice of {vendor.driver}: no claim can get them"
            yield Sign.of("node", names, text, help_)


CHECK = Check(
    code="D201",
    severity="warning",
    summary="a node has GPUs, and their DRA driver publishes none of them",
    why="Claims are allocated from ResourceSlices only. GPUs are known by labels of node-feature-discovery, of the"
    " vendor's operator or of the cloud, and by what a device plugin offers. Where a device plugin does, this is a"
    " note: the GPUs are used, only not by claims.",
    find=find,
    needs=("nodes", "resourceslices"),
)
