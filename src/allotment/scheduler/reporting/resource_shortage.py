"""Explains which resources other than devices a pod lacks on its nodes, with requested and available amounts.

Kubernetes counts nodes by reason; to fix the pod, people need to see the nearest node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.engine.diagnosis.value_distance import name_distance
from allotment.explanation.cause_key import CauseKey
from allotment.explanation.messages import Report, diagnosis_report
from allotment.explanation.node_accounts import Shortage, shortage_rows, with_shortages
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.model.quantity import Quantity
from allotment.node_fit.filters.node_eligibility import untolerated
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements
from allotment.scheduler.extended_resources import pod_value
from allotment.scheduler.pods import QueuedPod

#: Names listed before the rest is only counted.
_NAMES = 3

RefusedNodes = list[tuple[CachedNode, Refusal]]


class NodesRefused(NamedTuple):
    """A kind of refusal: the cause and text of `Refusal`, and the line about the nodes that it concerns."""

    cause: str
    text: str
    line: str

    @property
    def report(self) -> Report:
        """The report if this is the main cause."""
        return Report((self.line,), CauseKey("", f"{self.cause}: {self.text}"))


def kinds_of_refusals(
    demand: PodRequirements, refused: Iterable[tuple[CachedNode, Refusal]]
) -> list[NodesRefused]:  # fmt: skip
    """Return the kinds of refusals, those that are nearest to fitting first."""
    by_cause: dict[tuple[str, str], RefusedNodes] = {}
    for machine, refusal in refused:
        for text in refusal.texts:
            by_cause.setdefault((refusal.cause, text), []).append((machine, refusal))
    found: list[tuple[int, int, str, NodesRefused]] = []
    for (cause, text), nodes in by_cause.items():
        line = _line(demand, cause, text, nodes)
        found.append((_RANK.get(cause, 9), -len(nodes), line, NodesRefused(cause, text, line)))
    return [kind for *_, kind in sorted(found)]


def device_shortages(demand: PodRequirements, refused: RefusedNodes) -> dict[str, Shortage]:
    """Return what nodes lack for devices that use their cpu, memory or huge pages, by name."""
    found: dict[str, Shortage] = {}
    for machine, refusal in refused:
        for name, requested in refusal.requests:
            free = machine.free.get(name, 0)
            if requested > free and machine.name not in found:
                by_devices = requested - demand.requests.get(name, 0)
                found[machine.name] = Shortage(name, requested, by_devices, free, machine.allocatable.get(name, 0))
    return found


def device_shortage_report(pod: QueuedPod, shortages: Mapping[str, Shortage]) -> Report:
    """Return the report of ``allot explain`` for these nodes."""
    value = pod_value(pod.tree)
    rows = shortage_rows(value, template_of(value, owner_of(value)), shortages)
    return diagnosis_report(str(pod.key), with_shortages(None, rows))


#: Order of causes, nearest to fitting first.
_RANK: Mapping[str, int] = {
    "resources": 0, "device-resources": 0, "ports": 1, "spread": 2, "neighbours": 3, "nominated": 4,
    "volume-in-use": 5, "volume-limits": 5, "volumes": 5, "unschedulable": 6, "taint": 7, "affinity": 8, "name": 9,
}  # fmt: skip


def _line(demand: PodRequirements, cause: str, text: str, refused: RefusedNodes) -> str:
    machines = [machine for machine, _ in refused]
    where = summarize_names(machine.name for machine in machines)
    if text.startswith("Insufficient "):
        return _shortage(demand, text.removeprefix("Insufficient "), refused, where)
    if cause == "resources":
        best = machines[0]
        return f"pods: {where} cannot run more pods ({len(best.pods)} of {best.pods_allowed} on {best.name})"
    if cause == "taint":
        taint = untolerated(demand, machines[0])
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            return f"taint {taint.key}{value}:{taint.effect} on {where} is not tolerated"
    if cause == "affinity":
        return _unmatched(demand, machines, where)
    return f"{text}: {where}"


def _shortage(demand: PodRequirements, resource: str, refused: RefusedNodes, where: str) -> str:
    """Return the requested and the available amount on the node where the least is missing."""

    def missing(node: tuple[CachedNode, Refusal]) -> int:
        return _requested(demand, resource, node[1]) - node[0].free.get(resource, 0)

    best, refusal = min(refused, key=missing)
    requested, own = _requested(demand, resource, refusal), demand.requests.get(resource, 0)
    line = f"{resource}: {_amount(resource, requested)} requested"
    if requested != own:
        line += f", {_amount(resource, requested - own)} of it by devices"
    free, whole = best.free.get(resource, 0), best.allocatable.get(resource, 0)
    if not whole:
        return f"{line}; none available on {where}"
    most = f"{best.name} has {_amount(resource, max(free, 0))} of {_amount(resource, whole)} free"
    most += f", the most among {where}" if len(refused) > 1 else ""
    return f"{line}; {most}"


def _requested(demand: PodRequirements, resource: str, refusal: Refusal) -> int:
    return dict(refusal.requests).get(resource, demand.requests.get(resource, 0))


def _unmatched(demand: PodRequirements, machines: list[CachedNode], where: str) -> str:
    if not demand.node_selector:
        return f"the pod's node affinity excludes {where}"

    def missing(machine: CachedNode) -> list[tuple[str, str]]:
        return [(k, v) for k, v in demand.node_selector if machine.facts.labels.get(k) != v]

    def distance(machine: CachedNode) -> tuple[int, float]:
        unmet, labels = missing(machine), machine.facts.labels
        return len(unmet), sum(name_distance(value, labels.get(key, "")) for key, value in unmet)

    nearest = min(machines, key=distance)
    lacks = missing(nearest)
    if not lacks:
        return f"the pod's node affinity excludes {where}"
    key, value = lacks[0]
    has = nearest.facts.labels.get(key)
    difference = f"{nearest.name} has {key}={has}" if has is not None else f"{nearest.name} has no label {key}"
    return f"nodeSelector {key}={value} matches none of {where}; {difference}"


def summarize_names(names: Iterable[str]) -> str:
    """Join some names, and the number of all if there are more.

    >>> summarize_names(["a", "b", "c", "d"])
    '4 nodes (a, b, c, …)'
    """
    listed = list(names)
    if len(listed) <= _NAMES:
        return ", ".join(listed)
    return f"{len(listed)} nodes ({', '.join(listed[:_NAMES])}, …)"


def _amount(resource: str, n: int) -> str:
    if resource == "cpu":
        return str(Quantity(n, -3, True, "DecimalSI"))
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return str(Quantity.binary(n))
    return str(n)
