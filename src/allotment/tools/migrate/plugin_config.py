"""How a device plugin hands out GPUs several times: what its config maps and the nodes' labels say.

NVIDIA's plugin reads a file with ``sharing.timeSlicing`` or ``sharing.mps``, which people keep in a ConfigMap under any
key; feature discovery repeats it as labels of the nodes. GKE has labels of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, selects
from allotment.model.core import Node
from allotment.model.loading import Document, load_text
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.tools.migrate.plugin_requests import Sharing, Strategy, Term
from allotment.tools.migrate.target import Target
from allotment.tools.views import items, mapping, text

_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "time-slicing": "time-slicing",
    "time-sharing": "time-slicing",
    "mps": "mps",
}
REPLICAS_LABELS: Final = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")
STRATEGY_LABELS: Final = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")

_SINGLE_MIG: Final = re.compile(r".+-MIG-([1-9][0-9]*g\.[0-9]+gb(?:\.me|\+me)?)(?:-SHARED)?")


def configured(documents: Iterable[Document]) -> dict[str, Sharing]:
    """Sharing by the name of the resource that pods ask for, from the plugin's config maps among the documents.

    Where several configs say different things (one per kind of node), the first holds.
    """
    found: dict[str, Sharing] = {}
    for document in documents:
        if document.kind != "ConfigMap" or document.api_version != "v1":
            continue
        for value in mapping(document.tree.get("data")).values():
            if "sharing" in text(value):
                for inner in load_text(text(value)).documents:
                    for name, sharing in _in_config(inner.tree, f"ConfigMap {document.name}"):
                        found.setdefault(name, sharing)
    return found


def _in_config(config: Mapping[str, Any], told_by: str) -> Iterable[tuple[str, Sharing]]:
    sharing = mapping(config.get("sharing"))
    ways: tuple[tuple[str, Strategy], ...] = (("timeSlicing", "time-slicing"), ("mps", "mps"))
    for field, strategy in ways:
        way = mapping(sharing.get(field))
        for _, resource in items(way.get("resources")):
            name, replicas = text(resource.get("name")), resource.get("replicas")
            if not name or not isinstance(replicas, int) or replicas < 2:
                continue
            name = name if "/" in name else f"nvidia.com/{name}"
            renamed = text(resource.get("rename"))
            shown = renamed or (f"{name}.shared" if way.get("renameByDefault") is True else name)
            yield shown, Sharing(strategy=strategy, replicas=replicas, told_by=told_by)


def selected(terms: Iterable[Term]) -> Sharing | None:
    """Sharing that a workload's own selectors name; None where they name none."""
    strategy: Strategy = ""
    replicas, told_by = 0, ""
    for term in terms:
        if term.operator not in ("In", "Gt", "Exists"):
            continue
        value = term.values[0] if len(term.values) == 1 else ""
        if term.key in STRATEGY_LABELS and value in _STRATEGIES:
            strategy, told_by = _STRATEGIES[value], told_by or f"label {term.key}"
        elif term.key in REPLICAS_LABELS and term.operator == "In" and value.isdecimal() and int(value) > 1:
            replicas, told_by = int(value), f"label {term.key}"
        elif term.key == "nvidia.com/gpu.product" and term.values and all(v.endswith("-SHARED") for v in term.values):
            told_by = told_by or f"label {term.key}"
    return Sharing(strategy=strategy, replicas=replicas, told_by=told_by) if told_by else None


def single_profile(product: str) -> str:
    """The MIG profile in a product's name, where every GPU of the node is cut alike (strategy ``single``), or empty.

    >>> single_profile("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED"), single_profile("Tesla-T4")
    ('1g.5gb+me', '')
    """
    found = _SINGLE_MIG.fullmatch(product)
    return found[1].replace(".me", "+me") if found else ""


def cut_on_nodes(target: Target, terms: Iterable[Term]) -> str:
    """The profile that ``nvidia.com/gpu`` stands for on all nodes of the cluster that a pod may use; empty if none."""
    found = {
        single_profile(node.metadata.labels.get("nvidia.com/gpu.product", ""))
        for node in target.nodes
        if "nvidia.com/gpu" in node.status.allocatable and _is_allowed(node, tuple(terms))
    }
    return found.pop() if len(found) == 1 else ""


def _is_allowed(node: Node, terms: tuple[Term, ...]) -> bool:
    demands = tuple(NodeSelectorRequirement(key=one.key, operator=one.operator, values=one.values) for one in terms)
    if not demands:
        return True
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=demands),))
    try:
        return selects(selector, NodeFacts(node.metadata.name, node.metadata.labels))
    except UnusableNodeSelector:
        return False


def on_nodes(target: Target) -> Sharing | None:
    """Sharing that the labels of the cluster's GPU nodes agree on; None where they do not, or say nothing."""
    found: set[Sharing] = set()
    for node in target.nodes:
        labels = node.metadata.labels
        replicas = next((labels[key] for key in REPLICAS_LABELS if key in labels), "")
        if not replicas and "nvidia.com/gpu.count" not in labels:
            continue
        written = next((labels[key] for key in STRATEGY_LABELS if key in labels), "")
        strategy: Strategy = _STRATEGIES.get(written, "")
        number = int(replicas) if replicas.isdecimal() else 0
        told_by = "labels of the nodes"
        found.add(Sharing(strategy=strategy, replicas=number if number > 1 else 0, told_by=told_by))
    only = found.pop() if len(found) == 1 else None
    return only if only is not None and only.replicas else None
