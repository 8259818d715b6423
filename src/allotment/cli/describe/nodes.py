"""Nodes: what they have, which pods are on them, and how much is asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from allotment.cli.describe.page import NONE, Page, full
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.tools.free import NodeReport

_ROLE = "node-role.kubernetes.io/"


def node(page: Page, tree: Tree, pods: Sequence[Tree], devices: NodeReport | None) -> None:
    """A node, the pods on it, and its devices."""
    metadata, spec, status = tree["metadata"], tree.get("spec") or {}, tree.get("status") or {}
    labels = metadata.get("labels") or {}
    page.field(0, "Name", metadata.get("name", ""))
    roles = sorted(name.removeprefix(_ROLE) for name in labels if name.startswith(_ROLE))
    page.field(0, "Roles", ",".join(roles) or NONE)
    page.mapping(0, "Labels", labels)
    page.annotations(tree)
    page.field(0, "CreationTimestamp", full(metadata.get("creationTimestamp")))
    page.several(0, "Taints", (taint(one) for one in spec.get("taints") or ()))
    page.field(0, "Unschedulable", "true" if spec.get("unschedulable") else "false")
    page.conditions(tree, wide=True)
    page.line(0, "Addresses:")
    for one in status.get("addresses") or ():
        page.field(1, str(one.get("type")), one.get("address"))
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
    live = [one for one in pods if (one.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    _add_pods(page, live, status.get("allocatable") or {})


def taint(one: Tree) -> str:
    """``key=value:Effect``."""
    value = f"={one['value']}" if one.get("value") else ""
    return f"{one.get('key')}{value}:{one.get('effect')}"


def _add_devices(page: Page, report: NodeReport | None) -> None:
    """The devices that its drivers publish, which kubectl does not show."""
    if report is None or not report.devices:
        page.line(0, "Devices:", NONE)
        return
    free = sum(device.state == "free" for device in report.devices)
    page.field(0, "Devices", f"({free} of {len(report.devices)} free)")
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
    amounts = {"requests": "Requests", "limits": "Limits"}
    headers = [f"{what} {word}" for what in ("CPU", "Memory") for word in amounts.values()]
    rows = []
    for one in pods:
        cells = [
            _share(_total([one], kind, name), allocatable.get(name)) for name in ("cpu", "memory") for kind in amounts
        ]
        metadata = one["metadata"]
        age = page.age(metadata.get("creationTimestamp"))
        rows.append([metadata.get("namespace", ""), metadata["name"], *cells, age])
    page.table(1, ["Namespace", "Name", *headers, "Age"], rows)
    page.line(0, "Allocated resources:")
    names = ["cpu", "memory", *sorted(name for name in allocatable if name not in ("cpu", "memory", "pods"))]
    page.table(
        1,
        ["Resource", *amounts.values()],
        [[name, *(_share(_total(pods, kind, name), allocatable.get(name)) for kind in amounts)] for name in names],
    )


def _total(pods: Iterable[Tree], kind: str, name: str) -> Quantity:
    """What the pods ask for: the containers together, or one that runs before them if it asks for more."""
    total = Quantity.ZERO
    for one in pods:
        spec = one.get("spec") or {}
        own, first = Quantity.ZERO, Quantity.ZERO
        for container in spec.get("containers") or ():
            own = own.add(_amount(container, kind, name))
        for container in spec.get("initContainers") or ():
            amount = _amount(container, kind, name)
            if container.get("restartPolicy") == "Always":
                own = own.add(amount)
            else:
                first = max(first, amount)
        total = total.add(max(own, first))
    return total


def _amount(container: Tree, kind: str, name: str) -> Quantity:
    text = ((container.get("resources") or {}).get(kind) or {}).get(name)
    return Quantity.parse(str(text)) if text is not None else Quantity.ZERO


def _share(amount: Quantity, of: Any) -> str:
    whole = Quantity.parse(str(of)) if of is not None else Quantity.ZERO
    percent = int(amount.nano * 100 / whole.nano) if whole.sign() > 0 else 0
    return f"{amount} ({percent}%)"
