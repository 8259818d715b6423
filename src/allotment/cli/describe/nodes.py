"""Describes nodes: capacity, devices, pods, and the sum of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.cli.describe.page import NONE, Page, full
from allotment.model.pod_resources import pod_limits, pod_requests, sum_amounts
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.tools.free import NodeReport

_ROLE = "node-role.kubernetes.io/"


def node(page: Page, tree: Tree, pods: Sequence[Tree], devices: NodeReport | None) -> None:
    """Describe a node with its pods and devices."""
    metadata, spec, status = tree["metadata"], tree.get("spec") or {}, tree.get("status") or {}
    labels = metadata.get("labels") or {}
    page.field(0, "Name", metadata.get("name", ""))
    roles = sorted(name.removeprefix(_ROLE) for name in labels if name.startswith(_ROLE))
    page.field(0, "Roles", ",".join(roles) or NONE)
    page.mapping(0, "Labels", labels)
    page.annotations(tree)
    page.field(0, "CreationTimestamp", full(metadata.get("creationTimestamp")))
    page.several(0, "Taints", (taint(entry) for entry in spec.get("taints") or ()))
    page.field(0, "Unschedulable", "true" if spec.get("unschedulable") else "false")
    page.conditions(tree, wide=True)
    page.line(0, "Addresses:")
    for entry in status.get("addresses") or ():
        page.field(1, str(entry.get("type")), entry.get("address"))
    for label, key in (("Capacity", "capacity"), ("Allocatable", "allocatable")):
        page.line(0, f"{label}:")
        for name, amount in sorted((status.get(key) or {}).items()):
            page.field(1, name, amount)
    info = status.get("nodeInfo") or {}
    page.line(0, "System Info:")
    for label, key in (
        ("Kernel Version", "kernelVersion"), ("OS Image", "osImage"), ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"), ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
    ):  # fmt: skip
        page.field(1, label, info.get(key, ""))
    _add_devices(page, devices)
    live = [entry for entry in pods if (entry.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    _add_pods(page, live, status.get("allocatable") or {})


def taint(entry: Tree) -> str:
    """``key=value:Effect``."""
    value = f"={entry['value']}" if entry.get("value") else ""
    return f"{entry.get('key')}{value}:{entry.get('effect')}"


def _add_devices(page: Page, report: NodeReport | None) -> None:
    """Add the devices that drivers publish, which kubectl does not show."""
    if report is None or not report.devices:
        page.line(0, "Devices:", NONE)
        return
    free, closed = (sum(device.state == state for device in report.devices) for state in ("free", "unschedulable"))
    out_of_reach = f"; {closed} more on this unschedulable node: {report.unschedulable}" if closed else ""
    page.field(0, "Devices", f"({free} of {len(report.devices)} free{out_of_reach})")
    page.table(
        1,
        ["Device", "Kind", "State", "Claims", "Pods"],
        [
            [
                device.device, device.kind or NONE, device.state,
                ", ".join(holder.claim for holder in device.holders) or NONE,
                ", ".join(name for holder in device.holders for name in holder.consumers) or NONE,
            ]
            for device in report.devices
        ],
    )  # fmt: skip


def _add_pods(page: Page, pods: Sequence[Tree], allocatable: Tree) -> None:
    page.field(0, "Non-terminated Pods", f"({len(pods)} in total)")
    # Applies during a resize, as the scheduler counts it.
    each = [(pod_requests(spec, status), pod_limits(spec, status)) for spec, status in map(_parts, pods)]
    whole = (sum_amounts(requests for requests, _ in each), sum_amounts(limits for _, limits in each))
    kinds = ["Requests", "Limits"]
    rows = []
    for pod, amounts in zip(pods, each, strict=True):
        cells = [_share(kind.get(name), allocatable.get(name)) for name in ("cpu", "memory") for kind in amounts]
        metadata = pod["metadata"]
        age = page.age(metadata.get("creationTimestamp"))
        rows.append([metadata.get("namespace", ""), metadata["name"], *cells, age])
    headers = [f"{resource} {kind}" for resource in ("CPU", "Memory") for kind in kinds]
    page.table(1, ["Namespace", "Name", *headers, "Age"], rows)
    page.line(0, "Allocated resources:")
    names = ["cpu", "memory", *sorted(name for name in allocatable if name not in ("cpu", "memory", "pods"))]
    rows = [[name, *(_share(kind.get(name), allocatable.get(name)) for kind in whole)] for name in names]
    page.table(1, ["Resource", *kinds], rows)


def _parts(pod: Tree) -> tuple[Tree, Tree]:
    return pod.get("spec") or {}, pod.get("status") or {}


def _share(amount: Quantity | None, of: Any) -> str:
    amount = amount or Quantity.ZERO
    whole = Quantity.parse(str(of)) if of is not None else Quantity.ZERO
    percent = int(amount.nano * 100 / whole.nano) if whole.sign() > 0 else 0
    return f"{amount} ({percent}%)"
