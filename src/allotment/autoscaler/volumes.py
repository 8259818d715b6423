"""Where pods can go by their volumes: one that is in some zone brings its pod there, so machines are bought there.

Volumes that are still to be made are no obstacle: where their pod goes, they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

from msgspec.structs import replace

from allotment.cluster.cache import Cache, Item
from allotment.model.core import Affinity, NodeAffinity, Pod
from allotment.model.selection import NodeSelector, NodeSelectorTerm
from allotment.model.trees import to_value


class Reach(NamedTuple):
    """``nodes``: each must admit the node. ``missing``: what is not there, in words; then the pod can go nowhere."""

    nodes: tuple[NodeSelector, ...] = ()
    missing: str = ""


def reach_of(pod: Item[Any], volumes: Cache[Any], claims: Cache[Any]) -> Reach:
    """From where a pod's volumes can be used."""
    found: list[NodeSelector] = []
    for volume in pod.spec.get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        claim = claims.item(pod.namespace, name)
        if claim is None:
            return Reach(missing=f'its PersistentVolumeClaim "{name}" does not exist')
        bound = volumes.item("", claim.spec.get("volumeName") or "")
        required = ((bound.spec if bound is not None else {}).get("nodeAffinity") or {}).get("required")
        if required:
            found.append(to_value(required, NodeSelector))
    return Reach(tuple(found))


def within_reach(pod: Pod, nodes: Iterable[NodeSelector]) -> Pod:
    """The pod with the reach of its volumes among what it asks of a node.

    >>> from allotment.model.selection import NodeSelectorRequirement
    >>> zone = NodeSelectorRequirement(key="zone", operator="In", values=("a",))
    >>> here = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(zone,)),))
    >>> affinity = within_reach(Pod(), [here]).spec.affinity
    >>> affinity.node_affinity.required_during_scheduling_ignored_during_execution == here
    True
    """
    affinity = pod.spec.affinity or Affinity()
    of_nodes = affinity.node_affinity or NodeAffinity()
    asked = of_nodes.required_during_scheduling_ignored_during_execution
    for selector in nodes:
        asked = selector if asked is None else _both(asked, selector)
    of_nodes = replace(of_nodes, required_during_scheduling_ignored_during_execution=asked)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=of_nodes)))


def with_reaches(values: Iterable[Any], reaches: Mapping[str, Reach]) -> list[Any]:
    """Objects, with the pods (uid) among them that have such volumes asking for their reach."""
    return [
        within_reach(value, reaches[value.metadata.uid].nodes)
        if isinstance(value, Pod) and value.metadata.uid in reaches
        else value
        for value in values
    ]


def _both(one: NodeSelector, other: NodeSelector) -> NodeSelector:
    """What both admit: terms are alternatives, so each of one with each of the other."""
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=(*a.match_expressions, *b.match_expressions),
                match_fields=(*a.match_fields, *b.match_fields),
            )
            for a, b in product(one.node_selector_terms, other.node_selector_terms)
        )
    )
