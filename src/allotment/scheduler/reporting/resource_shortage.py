"""Explains which resources other than devices a pod lacks on its nodes, with requested and available amounts.

Kubernetes counts nodes by reason; to fix the pod, people need to see the nearest node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.model.quantity import Quantity
from allotment.node_fit.filters.node_eligibility import untolerated
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements

#: Names listed before the rest is only counted.
_NAMES = 3

RefusedNodes = list[tuple[CachedNode, Refusal]]


def shortage_lines(demand: PodRequirements, refused: Iterable[tuple[CachedNode, Refusal]]) -> list[str]:
    """Return one line for each kind of refusal, the causes that are nearest to fitting first."""
    by_cause: dict[tuple[str, str], RefusedNodes] = {}
    for machine, refusal in refused:
        for text in refusal.texts:
            by_cause.setdefault((refusal.cause, text), []).append((machine, refusal))
    found: list[tuple[int, int, str]] = []
    for (cause, text), nodes in by_cause.items():
        machines = [machine for machine, _ in nodes]
        found.append((_RANK.get(cause, 9), -len(nodes), _line(demand, cause, text, machines)))
    return [line for _, _, line in sorted(found)]


#: Order of causes, nearest to fitting first.
_RANK: Mapping[str, int] = {
    "resources": 0, "ports": 1, "spread": 2, "neighbours": 3, "nominated": 4, "unschedulable": 5, "taint": 6,
    "affinity": 7, "name": 8,
}  # fmt: skip


def _line(demand: PodRequirements, cause: str, text: str, machines: list[CachedNode]) -> str:
    where = summarize_names(machine.name for machine in machines)
    if cause == "resources" and text.startswith("Insufficient "):
        resource = text.removeprefix("Insufficient ")
        requested = demand.requests.get(resource, 0)
        best = max(machines, key=lambda m: m.free.get(resource, 0))
        free, whole = best.free.get(resource, 0), best.allocatable.get(resource, 0)
        if not whole:
            return f"{resource}: {_amount(resource, requested)} requested; none available on {where}"
        most = f"{best.name} has {_amount(resource, max(free, 0))} of {_amount(resource, whole)} free"
        most += f", the most among {where}" if len(machines) > 1 else ""
        return f"{resource}: {_amount(resource, requested)} requested; {most}"
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


def _unmatched(demand: PodRequirements, machines: list[CachedNode], where: str) -> str:
    if not demand.node_selector:
        return f"the pod's node affinity excludes {where}"

    def missing(machine: CachedNode) -> list[tuple[str, str]]:
        return [(k, v) for k, v in demand.node_selector if machine.facts.labels.get(k) != v]

    nearest = min(machines, key=lambda m: len(missing(m)))
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
