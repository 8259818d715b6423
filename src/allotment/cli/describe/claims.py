"""Describes claims, claim templates and DeviceClasses."""

from __future__ import annotations

from typing import Any

from allotment.cli.describe.generic import add_fields
from allotment.cli.describe.page import NONE, Page, full
from allotment.model.contested_claims import DESCRIPTION, is_contested_tree
from allotment.model.trees import Tree


def claim(page: Page, tree: Tree) -> None:
    """Describe a ResourceClaim: state, requests, allocation, consumers."""
    page.head(tree)
    page.field(0, "Created", full(tree["metadata"].get("creationTimestamp")))
    if deleted := tree["metadata"].get("deletionTimestamp"):
        page.field(0, "Deleting", f"since {full(deleted)}")
    page.controller(tree)
    status = tree.get("status") or {}
    allocation = status.get("allocation")
    used = status.get("reservedFor") or ()
    page.field(0, "State", _state(tree, bool(allocation), bool(used)))
    add_spec(page, 0, (tree.get("spec") or {}).get("devices") or {})
    if allocation:
        add_allocation(page, allocation, status.get("devices") or ())
    page.several(0, "Reserved For", (f"{user.get('resource')}/{user.get('name')}" for user in used))
    page.conditions(tree, wide=True)


def _state(tree: Tree, allocated: bool, used: bool) -> str:
    if not allocated:
        return "pending"
    if is_contested_tree(tree):
        return f"allocated ({DESCRIPTION})"
    return "allocated, reserved" if used else "allocated"


def template(page: Page, tree: Tree) -> None:
    """Describe a ResourceClaimTemplate: the claim that each pod gets."""
    page.head(tree)
    page.field(0, "Created", full(tree["metadata"].get("creationTimestamp")))
    spec = tree.get("spec") or {}
    labels = (spec.get("metadata") or {}).get("labels")
    if labels:
        page.mapping(0, "Labels of its claims", labels)
    add_spec(page, 0, (spec.get("spec") or {}).get("devices") or {})


def device_class(page: Page, tree: Tree) -> None:
    """Describe a DeviceClass: selectors and configuration."""
    page.head(tree, namespaced=False)
    page.field(0, "Created", full(tree["metadata"].get("creationTimestamp")))
    spec = tree.get("spec") or {}
    page.field(0, "Extended Resource", spec.get("extendedResourceName") or NONE)
    page.several(0, "Selectors", _expressions(spec.get("selectors")))
    _add_config(page, 0, spec.get("config"))


def add_spec(page: Page, depth: int, devices: Tree) -> None:
    """Add requests, constraints and configuration."""
    page.line(depth, "Requests:", *([] if devices.get("requests") else [NONE]))
    for request in devices.get("requests") or ():
        page.line(depth + 1, f"{request.get('name')}:")
        alternatives = request.get("firstAvailable")
        if alternatives:
            page.line(depth + 2, "First of:")
            for entry in alternatives:
                page.line(depth + 3, f"{entry.get('name')}:")
                _add_request(page, depth + 4, entry)
        else:
            _add_request(page, depth + 2, request.get("exactly") or request)
    constraints = devices.get("constraints") or ()
    if constraints:
        page.line(depth, "Constraints:")
        for entry in constraints:
            kind = "matchAttribute" if "matchAttribute" in entry else "distinctAttribute"
            among = ", ".join(entry.get("requests") or ()) or "all requests"
            page.line(depth + 1, f"{kind} {entry.get(kind)}", f"({among})")
    _add_config(page, depth, devices.get("config"))


def _add_request(page: Page, depth: int, request: Tree) -> None:
    page.field(depth, "Device Class", request.get("deviceClassName", ""))
    every = request.get("allocationMode") == "All"
    page.field(depth, "Devices", "all" if every else request.get("count", 1))
    if request.get("selectors"):
        page.several(depth, "Selectors", _expressions(request["selectors"]))
    if requested := (request.get("capacity") or {}).get("requests"):
        page.mapping(depth, "Capacity", requested)
    if request.get("tolerations"):
        page.several(depth, "Tolerations", (_toleration(item) for item in request["tolerations"]))
    if request.get("adminAccess"):
        page.field(depth, "Admin Access", "yes")


def _expressions(selectors: Any) -> list[str]:
    """Add CEL expressions, keeping their lines."""
    texts = [str((selector.get("cel") or {}).get("expression", "")).strip() for selector in selectors or ()]
    return [line for text in texts for line in text.split("\n")]


def _toleration(tree: Tree) -> str:
    value = f"={tree['value']}" if tree.get("value") else ""
    effect = f":{tree['effect']}" if tree.get("effect") else ""
    exists = " op=Exists" if tree.get("operator") == "Exists" else ""
    return f"{tree.get('key') or ''}{value}{effect}{exists}"


def _add_config(page: Page, depth: int, entries: Any) -> None:
    if not entries:
        return
    page.line(depth, "Configuration:")
    for entry in entries:
        opaque = entry.get("opaque") or {}
        among = ", ".join(entry.get("requests") or ()) or "all requests"
        page.line(depth + 1, f"{opaque.get('driver', '')} ({among}):")
        parameters = opaque.get("parameters")
        if isinstance(parameters, dict):
            add_fields(page, depth + 2, parameters)


def add_allocation(page: Page, allocation: Tree, statuses: Any) -> None:
    """Add the allocated devices of a claim, and the nodes that can use them."""
    page.field(0, "Node", node_of(allocation))
    results = (allocation.get("devices") or {}).get("results") or ()
    page.line(0, "Devices:", *([] if results else [NONE]))
    if results:
        shared = any(entry.get("consumedCapacity") for entry in results)
        page.table(
            1,
            ["Request", "Device", "Driver", "Pool", *(["Share"] if shared else [])],
            [
                [
                    str(entry.get("request", "")), str(entry.get("device", "")), str(entry.get("driver", "")),
                    str(entry.get("pool", "")), *([_share(entry)] if shared else []),
                ]
                for entry in results
            ],
        )  # fmt: skip
    for entry in statuses:
        listed = entry.get("conditions") or ()
        conditions = ", ".join(f"{c.get('type')}={c.get('status')} {c.get('message', '')}".strip() for c in listed)
        page.line(1, f"{entry.get('device')} of {entry.get('driver')}:", conditions or NONE)


def _share(result: Tree) -> str:
    shares = [f"{amount} of {name}" for name, amount in sorted((result.get("consumedCapacity") or {}).items())]
    return ", ".join(shares) or NONE


def node_of(allocation: Tree) -> str:
    """Return the nodes of a claim's devices in short form."""
    selector = allocation.get("nodeSelector")
    if not selector:
        return "any"
    parts = []
    for term in selector.get("nodeSelectorTerms") or ():
        needs = [*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ())]
        words = [_requirement(need) for need in needs]
        parts.append(" and ".join(words))
    return " or ".join(parts)


def _requirement(need: Tree) -> str:
    values = ", ".join(map(str, need.get("values") or ()))
    if need.get("key") == "metadata.name" and need.get("operator") == "In":
        return values
    return f"{need.get('key')} {need.get('operator')} {values}".strip()
