"""Contested claims: claims that Allotment's scheduler gave up because another scheduler allocated the same devices.

The other claim owns the devices. The contested claim has no consumer and keeps its allocation, so that its devices do
not look free; it is deleted some time after the other claim has released them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from allotment.model.resource import ResourceClaim

#: The label of a contested claim; its value is ignored.
LABEL: Final = "allotment.dev/contested"
#: Describes a contested claim in messages.
DESCRIPTION: Final = "contested, unused"


def is_contested(claim: ResourceClaim | None) -> bool:
    """Whether a claim is contested; false for None."""
    return claim is not None and LABEL in claim.metadata.labels


def is_contested_tree(tree: dict[str, Any]) -> bool:
    """Whether a claim from an API server is contested.

    >>> is_contested_tree({"metadata": {"labels": {"allotment.dev/contested": "true"}}})
    True
    >>> is_contested_tree({"metadata": {"name": "train"}})
    False
    """
    return LABEL in (tree["metadata"].get("labels") or ())
