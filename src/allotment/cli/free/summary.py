"""Summarizes devices by node, by groups of equal nodes, or by product.

If the table would be long, nodes with the same
devices in the same states share a row; the rows with most free devices are first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.tools.free import STATES, DeviceReport, FreeReport, NodeReport

ANY_NODE: Final = "<any>"
#: Maximum number of rows without a summary.
SCREEN: Final = 20


class Table(NamedTuple):
    """A table, and a note about it."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def name(node: NodeReport) -> str:
    """Return the node's name in tables."""
    return node.node or ANY_NODE


def kind(device: DeviceReport) -> str:
    """Return a short name of a device's product."""
    return (device.kind or device.driver).removeprefix("NVIDIA ")


def summed(report: FreeReport, by: str | None = None) -> Table:
    """Count devices by state, per "node" or "product", or in the shortest form."""
    states = [state for state in STATES if state in ("free", "in-use") or report.count(state)]
    if by == "product":
        return _by_product(report, states)
    table = _by_node(report, states)
    return table if by is not None or len(table.rows) <= SCREEN else _equal_nodes(report, states)


def _counts(node: NodeReport) -> dict[str, Counter[str]]:
    """Count states by kind of device."""
    found: dict[str, Counter[str]] = {}
    for device in node.devices:
        found.setdefault(kind(device), Counter())[device.state] += 1
    return found


def _numbers(count: Counter[str], states: Sequence[str]) -> list[str]:
    return [str(count.total()), *(str(count[state]) for state in states)]


def _headers(states: Sequence[str]) -> list[str]:
    return ["TOTAL", *(state.upper() for state in states)]


def _by_node(report: FreeReport, states: Sequence[str]) -> Table:
    rows = [
        [name(node), kind_, *_numbers(count, states)] for node in report.nodes for kind_, count in _counts(node).items()
    ]
    return Table(["NODE", "KIND", *_headers(states)], rows)


def _equal_nodes(report: FreeReport, states: Sequence[str]) -> Table:
    """Group nodes with the same number of devices of each kind and state; most free devices first."""
    groups: dict[object, tuple[list[str], dict[str, Counter[str]]]] = {}
    hardware: dict[object, int] = {}
    for node in report.nodes:
        counts = _counts(node)
        if counts:
            has = (bool(node.node), *sorted((kind_, count.total()) for kind_, count in counts.items()))
            hardware.setdefault(has, len(hardware))
            signature = (hardware[has], frozenset((kind_, frozenset(count.items())) for kind_, count in counts.items()))
            groups.setdefault(signature, ([], counts))[0].append(name(node))

    def turn(group: tuple[object, tuple[list[str], dict[str, Counter[str]]]]) -> tuple[int, int]:
        key, (_, counts) = group
        assert isinstance(key, tuple)
        return key[0], -sum(count["free"] for count in counts.values())

    rows = [
        [str(len(nodes)), nodes[0] if len(nodes) == 1 else f"{nodes[0]} …", kind_, *_numbers(count, states)]
        for _, (nodes, counts) in sorted(groups.items(), key=turn)
        for kind_, count in counts.items()
    ]
    note = "Identical nodes share a row, with counts per node (--by node: one row per node)."
    return Table(["NODES", "NODE", "KIND", *_headers(states)], rows, note)


def _by_product(report: FreeReport, states: Sequence[str]) -> Table:
    sums: dict[str, Counter[str]] = {}
    nodes: Counter[str] = Counter()
    most: dict[str, tuple[int, str]] = {}
    for node in report.nodes:
        for kind_, count in _counts(node).items():
            sums.setdefault(kind_, Counter()).update(count)
            nodes[kind_] += 1
            if count["free"] > most.get(kind_, (0, ""))[0]:
                most[kind_] = (count["free"], name(node))
    rows = [
        [
            kind_,
            str(nodes[kind_]),
            *_numbers(count, states),
            f"{most[kind_][0]} on {most[kind_][1]}" if kind_ in most else "0",
        ]
        for kind_, count in sums.items()
    ]
    return Table(["KIND", "NODES", *_headers(states), "MOST FREE"], rows)


def by_namespace(report: FreeReport) -> Table:
    """Count devices in use by the namespaces of their claims; most devices first."""
    claims: dict[str, set[str]] = {}
    pods: dict[str, set[str]] = {}
    devices: Counter[str] = Counter()
    for node in report.nodes:
        for device in node.devices:
            for holder in device.holders:
                namespace = holder.claim.rpartition("/")[0]
                claims.setdefault(namespace, set()).add(holder.claim)
                pods.setdefault(namespace, set()).update(holder.consumers)
            devices.update({holder.claim.rpartition("/")[0] for holder in device.holders})
    rows = [
        [namespace, str(len(claims[namespace])), str(len(pods[namespace])), str(count)]
        for namespace, count in sorted(devices.items(), key=lambda found: (-found[1], found[0]))
    ]
    return Table(["NAMESPACE", "CLAIMS", "PODS", "DEVICES"], rows)
