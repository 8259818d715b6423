"""The admission plugin PodTopologyLabels (from 1.35 on): pods get the zone and the region of their node as labels."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.kind import Write
from allotment.model.trees import Tree

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def with_topology_labels(metadata: Tree, node: str, write: Write) -> Tree:
    """The metadata of a pod or Binding with the labels of a node; the same metadata if the node has none."""
    if not node or not write.features.since("1.35") or "PodTopologyLabels" in write.disabled_plugins:
        return metadata
    entry = write.reader.get("nodes", "", node)
    labels: Tree = (entry.tree["metadata"].get("labels") or {}) if entry is not None else {}
    copied = {name: labels[name] for name in _LABELS if name in labels}
    return {**metadata, "labels": {**(metadata.get("labels") or {}), **copied}} if copied else metadata
