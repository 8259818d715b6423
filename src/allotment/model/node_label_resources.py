"""Labels that feature discovery sets on nodes with GPUs, written as resources of a container.

``nvidia.com/gpu.memory`` describes the cards of a node. No node has a resource of this name, so a pod that requests it
stays pending.
"""

from __future__ import annotations

import re
from typing import Final

from allotment.model.quantity import Quantity
from allotment.model.written_amounts import intended_amount

#: The labels of NVIDIA's GPU feature discovery and AMD's node labeller. nvidia.com/gpu.shared is a resource.
_LABEL: Final = re.compile(r"(nvidia\.com/(gpu\.(?!shared$)|mig\.|mps\.|cuda\.)|amd\.com/gpu\.)[a-z0-9.-]+")
_MEMORY_LABELS: Final = ("nvidia.com/gpu.memory", "amd.com/gpu.vram")


def is_node_label(resource: str) -> bool:
    """Whether the name of a resource is that of a label of nodes.

    >>> [is_node_label(f"nvidia.com/{name}") for name in ("gpu.memory", "gpu", "gpu.shared", "mig-1g.5gb")]
    [True, False, False, False]
    """
    return _LABEL.fullmatch(resource) is not None


def is_memory_label(resource: str) -> bool:
    """Whether the label describes the memory of a node's GPUs."""
    return resource in _MEMORY_LABELS


def node_label_meaning(resource: str) -> str:
    """The meaning of the name, and how the property is requested instead, as a part of a sentence."""
    how = "memory" if is_memory_label(resource) else "a property of a GPU"
    return f"a label of nodes, not a resource: {how} is requested by a claim"


def requested_memory(resource: str, amount: object) -> str:
    """The memory that an amount of a label's name means, as a quantity; empty for other labels and unclear amounts.

    >>> requested_memory("nvidia.com/gpu.memory", "80Gi"), requested_memory("nvidia.com/gpu.memory", 24576)
    ('80Gi', '24576Mi')
    """
    if not is_memory_label(resource):
        return ""
    intended = intended_amount(str(amount))
    if intended.isdecimal():  # the unit of the label nvidia.com/gpu.memory
        return f"{intended}Mi" if resource == "nvidia.com/gpu.memory" else ""
    return str(Quantity.parse(intended)) if intended else ""
