"""Reads how a device plugin shares GPUs, from its ConfigMaps and node labels.

NVIDIA's plugin reads a file with ``sharing.timeSlicing`` or ``sharing.mps``, usually kept in a ConfigMap under any key;
feature discovery publishes it as node labels. GKE has its own labels.
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


def sharing_from_configs(documents: Iterable[Document]) -> dict[str, Sharing]:
    """Sharing by the name of the requested resource, from the plugin's ConfigMaps among the documents.

    If several configs differ (one per kind of node), the first wins.
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


def _in_config(config: Mapping[str, Any], source: str) -> Iterable[tuple[str, Sharing]]:
    sharing = mapping(config.get("sharing"))
    sections: tuple[tuple[str, Strategy], ...] = (("timeSlicing", "time-slicing"), ("mps", "mps"))
    for field, strategy in sections:
        settings = mapping(sharing.get(field))
        for _, resource in items(settings.get("resources")):
            name, replicas = text(resource.get("name")), resource.get("replicas")
            if not name or not isinstance(replicas, int) or replicas < 2:
                continue
            name = name if "/" in name else f"nvidia.com/{name}"
            renamed = text(resource.get("rename"))
            shown = renamed or (f"{name}.shared" if settings.get("renameByDefault") is True else name)
            yield shown, Sharing(strategy=strategy, replicas=replicas, source=source)


def sharing_from_selectors(terms: Iterable[Term]) -> Sharing | None:
    """The sharing that a workload's own selectors require, or None."""
    strategy: Strategy = ""
    replicas, source = 0, ""
    for term in terms:
        if term.operator not in ("In", "Gt", "Exists"):
            continue
        value = term.values[0] if len(term.values) == 1 else ""
        if term.key in STRATEGY_LABELS and value in _STRATEGIES:
            strategy, source = _STRATEGIES[value], source or f"label {term.key}"
        elif term.key in REPLICAS_LABELS and term.operator == "In" and value.isdecimal() and int(value) > 1:
            replicas, source = int(value), f"label {term.key}"
        elif term.key == "nvidia.com/gpu.product" and term.values and all(v.endswith("-SHARED") for v in term.values):
            source = source or f"label {term.key}"
    return Sharing(strategy=strategy, replicas=replicas, source=source) if source else None


def single_profile(product: str) -> str:
    """The MIG profile in a product label if all GPUs of the node have one profile (strategy ``single``), or empty.

    >>> single_profile("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me-SHARED"), single_profile("Tesla-T4")
    ('1g.5gb+me', '')
    """
    found = _SINGLE_MIG.fullmatch(product)
    return found[1].replace(".me", "+me") if found else ""


def profile_of_nodes(target: Target, terms: Iterable[Term]) -> str:
    """The MIG profile of ``nvidia.com/gpu`` on all nodes of the cluster that a pod may use; empty if none."""
    found = {
        single_profile(node.metadata.labels.get("nvidia.com/gpu.product", ""))
        for node in target.nodes
        if "nvidia.com/gpu" in node.status.allocatable and _is_allowed(node, tuple(terms))
    }
    return found.pop() if len(found) == 1 else ""


def _is_allowed(node: Node, terms: tuple[Term, ...]) -> bool:
    demands = tuple(NodeSelectorRequirement(key=term.key, operator=term.operator, values=term.values) for term in terms)
    if not demands:
        return True
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=demands),))
    try:
        return selects(selector, NodeFacts(node.metadata.name, node.metadata.labels))
    except UnusableNodeSelector:
        return False


def sharing_of_nodes(target: Target) -> Sharing | None:
    """The sharing in the labels of the cluster's GPU nodes; None if they differ or have none."""
    found: set[Sharing] = set()
    for node in target.nodes:
        labels = node.metadata.labels
        replicas = next((labels[key] for key in REPLICAS_LABELS if key in labels), "")
        if not replicas and "nvidia.com/gpu.count" not in labels:
            continue
        written = next((labels[key] for key in STRATEGY_LABELS if key in labels), "")
        strategy: Strategy = _STRATEGIES.get(written, "")
        number = int(replicas) if replicas.isdecimal() else 0
        source = "labels of the nodes"
        found.add(Sharing(strategy=strategy, replicas=number if number > 1 else 0, source=source))
    only = found.pop() if len(found) == 1 else None
    return only if only is not None and only.replicas else None
