"""Names of Karpenter's node classes: ``GROUP/KIND/NAME``."""

from __future__ import annotations

from allotment.errors import InputError
from allotment.fleet.catalog.export.karpenter import NodeClass


def parse_node_class(text: str) -> NodeClass:
    """Parse a node class. Raises InputError."""
    parts = text.split("/")
    if len(parts) != 3 or not all(parts):
        example = "for example karpenter.k8s.aws/EC2NodeClass/gpu"
        raise InputError(f"expected GROUP/KIND/NAME, found {text!r}", example, argument="node_class")
    return NodeClass(*parts)
