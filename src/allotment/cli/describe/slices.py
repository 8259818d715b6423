"""Describes ResourceSlices: a table of their devices, with common attributes shown once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.cli.describe.claims import node_of
from allotment.cli.describe.page import NONE, Page, full
from allotment.model.trees import Tree
from allotment.phrases import counted


def resource_slice(page: Page, tree: Tree) -> None:
    """Describe a ResourceSlice: its nodes, common attributes, and devices."""
    page.head(tree, namespaced=False)
    spec = tree.get("spec") or {}
    pool = spec.get("pool") or {}
    page.field(0, "Created", full(tree["metadata"].get("creationTimestamp")))
    page.controller(tree)
    page.field(0, "Driver", spec.get("driver", ""))
    total = pool.get("resourceSliceCount", 1)
    page.field(0, "Pool", f"{pool.get('name', '')} (generation {pool.get('generation', 0)}, {counted(total, 'slice')})")
    page.field(0, "Node", _where(spec))
    _add_counters(page, spec.get("sharedCounters") or ())
    devices = [{**entry, **(entry.get("basic") or {})} for entry in spec.get("devices") or ()]
    common = _common(devices)
    if common:
        page.line(0, "All devices:")
        for name, value in common.items():
            page.line(1, f"{name}:", value)
    page.line(0, "Devices:", *([] if devices else [NONE]))
    for device in devices:
        page.line(1, f"{device.get('name')}:")
        for name, value in _facts(device).items():
            if name not in common:
                page.line(2, f"{name}:", value)


def _where(spec: Tree) -> str:
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    if spec.get("allNodes"):
        return "all nodes"
    if spec.get("perDeviceNodeSelection"):
        return "by device"
    return node_of({"nodeSelector": spec["nodeSelector"]}) if spec.get("nodeSelector") else NONE


def _add_counters(page: Page, sets: Sequence[Tree]) -> None:
    if not sets:
        return
    page.line(0, "Shared Counters:")
    for counter_set in sets:
        counters = sorted((counter_set.get("counters") or {}).items())
        page.line(1, f"{counter_set.get('name')}:", ", ".join(f"{name} {c.get('value')}" for name, c in counters))


def _common(devices: Sequence[Tree]) -> dict[str, str]:
    """Return the properties that all devices share."""
    if len(devices) < 2:
        return {}
    first, *rest = [_facts(device) for device in devices]
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in rest)}


def _facts(device: Tree) -> dict[str, str]:
    """Return all properties of a device, by name."""
    facts: dict[str, str] = {}
    for name, attribute in sorted((device.get("attributes") or {}).items()):
        facts[name] = ", ".join(_value(value) for value in attribute.values())
    for name, capacity in sorted((device.get("capacity") or {}).items()):
        facts[f"{name} (capacity)"] = str(capacity.get("value", "") if isinstance(capacity, dict) else capacity)
    for use in device.get("consumesCounters") or ():
        counters = sorted((use.get("counters") or {}).items())
        amounts = ", ".join(f"{name} {counter.get('value')}" for name, counter in counters)
        facts[f"consumes from {use.get('counterSet')}"] = amounts
    for taint in device.get("taints") or ():
        value = f"={taint['value']}" if taint.get("value") else ""
        facts[f"taint {taint.get('key')}{value}"] = str(taint.get("effect", ""))
    if device.get("nodeName"):
        facts["node"] = str(device["nodeName"])
    if device.get("allowMultipleAllocations"):
        facts["shared"] = "by several claims"
    return facts


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)
